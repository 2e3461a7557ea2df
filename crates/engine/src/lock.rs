//! One service per home: an advisory file lock held for the life of the process, a note inside it that says who holds
//! it, and the `metaclaw_<port>.pid` file that older scripts read. The lock, not the number, decides who is alive.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Who runs the service of a home. Written by the service, read by the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Port the agents talk to.
    pub port: u16,
    /// When it started, RFC 3339 with the local offset's instant.
    pub since: jiff::Timestamp,
    /// Version of the program.
    pub version: String,
    /// The config file it reads.
    pub config: PathBuf,
    /// The log file it writes, if any.
    pub log: Option<PathBuf>,
    /// What its command line said over the config file.
    #[serde(default)]
    pub asked: Asked,
}

/// What the command line of a run said over the config file. A restart as another process says it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// `--mode`
    #[serde(default)]
    pub mode: Option<String>,
    /// `--port`
    #[serde(default)]
    pub port: Option<u16>,
    /// `--ui-port`
    #[serde(default)]
    pub ui_port: Option<u16>,
    /// `--log-file`, absent if it is the folder's own.
    #[serde(default)]
    pub log_file: Option<PathBuf>,
}

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it. The note is missing only in the moment between its lock and its bind.
    #[error("MetaClaw already runs in this home{}", .0.as_ref().map(|h| format!(": process {}, port {}, since {}", h.pid, h.port, crate::when(h.since))).unwrap_or_default())]
    Held(Option<Box<Holder>>),
    /// The file could not be opened or locked.
    #[error("cannot use the lock file {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The held lock. Dropping it frees the home and removes the pid file if it is still ours.
#[derive(Debug)]
pub struct HomeLock {
    file: File,
    path: PathBuf,
    pid_file: Option<(PathBuf, u32)>,
}

impl HomeLock {
    /// Takes the lock of `path` without waiting.
    ///
    /// # Errors
    /// [`LockError::Held`] names the holder; nothing of the holder's is touched.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let io = |source| LockError::Io { path: path.to_path_buf(), source };
        let mut file = open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {
                // The note of the last run ends here: from now on there is a holder who has not told yet who it is.
                file.set_len(0).map_err(io)?;
                Ok(Self { file, path: path.to_path_buf(), pid_file: None })
            }
            Err(TryLockError::WouldBlock) => Err(LockError::Held(read_note(&mut file).map(Box::new))),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }

    /// Says who holds the lock, and writes the pid file older tools look for.
    ///
    /// # Errors
    /// The file system's own.
    pub fn publish(&mut self, holder: &Holder, pid_file: &Path) -> Result<(), LockError> {
        let path = self.path.clone();
        let io = |source| LockError::Io { path: path.clone(), source };
        let note = serde_json::to_vec(holder).map_err(|error| io(std::io::Error::other(error)))?;
        self.file.set_len(0).map_err(io)?;
        self.file.rewind().map_err(io)?;
        self.file.write_all(&note).map_err(io)?;
        open(pid_file)
            .and_then(|mut file| {
                file.set_len(0)?;
                file.write_all(holder.pid.to_string().as_bytes())
            })
            .map_err(|source| LockError::Io { path: pid_file.to_path_buf(), source })?;
        self.pid_file = Some((pid_file.to_path_buf(), holder.pid));
        remove_stale(pid_file);
        Ok(())
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        if let Some((path, pid)) = self.pid_file.take()
            && std::fs::read_to_string(&path).is_ok_and(|text| text.trim() == pid.to_string())
        {
            let _ = std::fs::remove_file(&path);
        }
        // The note stays: it says where the log of the last run is.
        let _ = self.file.unlock();
    }
}

/// Pid files of runs that were killed. Whoever holds the lock knows that none of them lives, and a number may be
/// another program's by now.
fn remove_stale(ours: &Path) {
    let Some(entries) = ours.parent().and_then(|dir| std::fs::read_dir(dir).ok()) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let port = name.to_str().and_then(|name| name.strip_prefix("metaclaw_")?.strip_suffix(".pid"));
        if path != ours && port.is_some_and(|port| port.parse::<u16>().is_ok()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Who ran the service of this home last, if nobody does now.
#[must_use]
pub fn last(path: &Path) -> Option<Holder> {
    let mut file = File::open(path).ok()?;
    file.try_lock_shared().ok()?;
    read_note(&mut file)
}

/// Who runs the service of this home now: `None` when nobody does, `Some(None)` while one is just starting.
#[must_use]
pub fn holder(path: &Path) -> Option<Option<Holder>> {
    let mut file = File::open(path).ok()?;
    match file.try_lock_shared() {
        Ok(()) => None,
        Err(TryLockError::WouldBlock) => Some(read_note(&mut file)),
        Err(TryLockError::Error(_)) => None,
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

fn read_note(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(pid: u32) -> Holder {
        Holder {
            pid,
            port: 30000,
            since: jiff::Timestamp::UNIX_EPOCH,
            version: "0.1.0".into(),
            config: "/c".into(),
            log: None,
            asked: Asked::default(),
        }
    }

    #[test]
    fn a_second_taker_is_told_who_holds_the_lock_and_leaves_everything_intact() {
        let dir = tempfile::tempdir().unwrap();
        let (path, pid) = (dir.path().join("metaclaw.lock"), dir.path().join("metaclaw_30000.pid"));
        let mut first = HomeLock::take(&path).unwrap();
        first.publish(&note(4242), &pid).unwrap();
        let Err(LockError::Held(Some(holder))) = HomeLock::take(&path) else { panic!("the lock was given twice") };
        assert_eq!(*holder, note(4242));
        assert_eq!(std::fs::read_to_string(&pid).unwrap(), "4242");
        assert_eq!(super::holder(&path), Some(Some(note(4242))));
        drop(first);
        assert_eq!(super::holder(&path), None);
        assert!(!pid.exists());
        assert_eq!(last(&path), Some(note(4242)));
        let second = HomeLock::take(&path).unwrap();
        // Between its lock and its port nobody is named, and surely not the last one.
        assert_eq!((super::holder(&path), last(&path)), (Some(None), None));
        drop(second);
    }

    #[test]
    fn pid_files_of_killed_runs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let [old, mine, other] =
            ["metaclaw_39301.pid", "metaclaw_30000.pid", "metaclaw_mine.pid"].map(|n| dir.path().join(n));
        std::fs::write(&old, "77").unwrap();
        std::fs::write(&other, "78").unwrap();
        HomeLock::take(&dir.path().join("l")).unwrap().publish(&note(1), &mine).unwrap();
        assert!(!old.exists() && other.exists());
    }

    #[test]
    fn a_pid_file_that_is_no_longer_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, pid) = (dir.path().join("l"), dir.path().join("p"));
        let mut lock = HomeLock::take(&path).unwrap();
        lock.publish(&note(1), &pid).unwrap();
        std::fs::write(&pid, "2").unwrap();
        drop(lock);
        assert_eq!(std::fs::read_to_string(&pid).unwrap(), "2");
    }
}
