//! The log file: one line per event, secrets masked, rotated by size so that it never fills a disk. `tail` reads it
//! back for `metaclaw logs` and the window.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::redact::redact;

/// What the log obeys while it runs: secrets to mask, the level, sizes. The engine fills it from the config.
#[derive(Clone, Debug)]
pub struct LogControl(Arc<Control>);

#[derive(Debug)]
struct Control {
    secrets: ArcSwap<Vec<String>>,
    max_bytes: AtomicU64,
    keep: AtomicU32,
    level: Option<reload::Handle<EnvFilter, Registry>>,
}

impl Default for LogControl {
    fn default() -> Self {
        Self::new(None)
    }
}

impl LogControl {
    fn new(level: Option<reload::Handle<EnvFilter, Registry>>) -> Self {
        Self(Arc::new(Control {
            secrets: ArcSwap::default(),
            max_bytes: AtomicU64::new(10 << 20),
            keep: AtomicU32::new(5),
            level,
        }))
    }

    /// Starts the log of this process: everything to `file`, and warnings to standard error if `warn` is set. May be
    /// called once per process; a second call leaves the first log as it is.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn start(file: &Path, warn: bool) -> std::io::Result<Self> {
        let (filter, handle) = reload::Layer::new(filter("info"));
        let control = Self::new(Some(handle));
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_target(false)
            .with_writer(LogWriter::file(file, control.clone())?)
            .with_filter(filter);
        let warnings = warn.then(|| {
            tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_target(false)
                .without_time()
                .with_writer(LogWriter::stderr(control.clone()))
                .with_filter(LevelFilter::WARN)
        });
        // A second start within one process keeps the first subscriber.
        let _ = Registry::default().with(lines).with(warnings).try_init();
        Ok(control)
    }

    /// Replaces the values to mask.
    pub fn mask(&self, values: Vec<String>) {
        self.0.secrets.store(Arc::new(values));
    }

    /// Sets the level by its name: error, warn, info, debug or trace.
    pub fn level(&self, name: &str) {
        if let Some(handle) = &self.0.level {
            let _ = handle.reload(filter(name));
        }
    }

    /// Sets the size at which a file is closed, in MB, and how many closed ones are kept.
    pub fn sizes(&self, max_mb: u32, keep: u32) {
        self.0.max_bytes.store(u64::from(max_mb) << 20, Ordering::Relaxed);
        self.0.keep.store(keep, Ordering::Relaxed);
    }
}

/// The rooms, by their crates' names behind `metaclaw_`; `app` is the desktop shell.
const OURS: [&str; 13] = [
    "app", "builtin", "cli", "config", "dialect", "embed", "engine", "memory", "models", "proxy", "skills", "store",
    "text",
];

/// Our own lines at the level asked for; libraries only when something is wrong.
fn filter(level: &str) -> EnvFilter {
    let mut rules = String::from("warn");
    for name in OURS {
        rules.push_str(&format!(",metaclaw_{name}={level}"));
    }
    EnvFilter::new(rules)
}

/// A `tracing` writer that masks secrets and writes to a rotating file, or to standard error when it has no file.
#[derive(Clone, Debug)]
pub struct LogWriter {
    sink: Arc<Mutex<Sink>>,
    control: LogControl,
}

#[derive(Debug)]
enum Sink {
    File { path: PathBuf, file: File, size: u64 },
    Stderr,
}

impl LogWriter {
    /// Appends to `path`, creating it readable by its owner only.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn file(path: &Path, control: LogControl) -> std::io::Result<Self> {
        let file = open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { sink: Arc::new(Mutex::new(Sink::File { path: path.to_path_buf(), file, size })), control })
    }

    /// Writes to standard error.
    #[must_use]
    pub fn stderr(control: LogControl) -> Self {
        Self { sink: Arc::new(Mutex::new(Sink::Stderr)), control }
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = redact(&text, &self.control.0.secrets.load());
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *sink {
            Sink::Stderr => std::io::stderr().write_all(line.as_bytes())?,
            Sink::File { path, file, size } => {
                if *size >= self.control.0.max_bytes.load(Ordering::Relaxed) {
                    rotate(path, self.control.0.keep.load(Ordering::Relaxed));
                    *file = open(path)?;
                    *size = 0;
                }
                file.write_all(line.as_bytes())?;
                *size += line.len() as u64;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// A rotation that fails leaves the file where it is; logging goes on.
fn rotate(path: &Path, keep: u32) {
    if keep == 0 {
        let _ = std::fs::remove_file(path);
        return;
    }
    for number in (1..keep).rev() {
        let _ = std::fs::rename(numbered(path, number), numbered(path, number + 1));
    }
    let _ = std::fs::rename(path, numbered(path, 1));
}

/// A piece of the log and where to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Whole lines, oldest first.
    pub lines: Vec<String>,
    /// Offset behind the last line given; pass it to [`since`] to follow.
    pub next: u64,
}

/// The last `count` lines. A log that does not exist yet is empty.
///
/// # Errors
/// The file cannot be read.
pub fn tail(path: &Path, count: usize) -> std::io::Result<Tail> {
    const BLOCK: u64 = 64 * 1024;
    let Some(mut file) = existing(path)? else { return Ok(Tail { lines: Vec::new(), next: 0 }) };
    let end = file.metadata()?.len();
    let (mut start, mut bytes) = (end, Vec::new());
    while start > 0 && bytes.iter().filter(|byte| **byte == b'\n').count() <= count {
        let from = start.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(start - from).unwrap_or_default()];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block)?;
        block.append(&mut bytes);
        (bytes, start) = (block, from);
    }
    let mut tail = whole_lines(&bytes, start);
    let extra = tail.lines.len().saturating_sub(count);
    tail.lines.drain(..extra);
    Ok(tail)
}

/// Lines written after `offset`. A file that became shorter was rotated and is read from its beginning.
///
/// # Errors
/// The file cannot be read.
pub fn since(path: &Path, offset: u64) -> std::io::Result<Tail> {
    const LIMIT: u64 = 1024 * 1024;
    let Some(mut file) = existing(path)? else { return Ok(Tail { lines: Vec::new(), next: 0 }) };
    let from = if file.metadata()?.len() < offset { 0 } else { offset };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(whole_lines(&bytes, from))
}

fn existing(path: &Path) -> std::io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn whole_lines(bytes: &[u8], start: u64) -> Tail {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = String::from_utf8_lossy(&bytes[..end]).lines().map(str::to_owned).collect();
    Tail { lines, next: start + end as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_room_is_one_of_ours() {
        let rooms = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        for room in rooms.map(|room| room.unwrap().file_name()) {
            assert!(OURS.contains(&room.to_str().unwrap()), "{room:?}");
        }
    }

    #[test]
    fn the_log_masks_secrets_and_can_be_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metaclaw.log");
        let control = LogControl::default();
        let mut log = LogWriter::file(&path, control.clone()).unwrap();
        control.mask(vec!["correct horse".into()]);
        log.write_all(b"one\ntwo correct horse\n").unwrap();
        let first = tail(&path, 1).unwrap();
        assert_eq!(first.lines, ["two [secret]"]);
        log.write_all(b"three\nunfinished").unwrap();
        let more = since(&path, first.next).unwrap();
        assert_eq!(more.lines, ["three"]);
        assert_eq!(since(&path, more.next).unwrap().lines, Vec::<String>::new());
    }

    #[test]
    fn a_full_log_is_rotated_and_old_ones_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l");
        let control = LogControl::default();
        control.sizes(1, 2);
        let mut log = LogWriter::file(&path, control).unwrap();
        let line = vec![b'x'; 512 * 1024];
        for _ in 0..12 {
            log.write_all(&line).unwrap();
        }
        assert!(numbered(&path, 2).exists() && !numbered(&path, 3).exists());
        assert!(std::fs::metadata(&path).unwrap().len() <= 1 << 20);
    }

    #[test]
    fn a_missing_log_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(tail(&dir.path().join("none"), 5).unwrap().lines, Vec::<String>::new());
    }
}
