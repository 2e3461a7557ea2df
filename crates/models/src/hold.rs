//! A lock that processes see: whoever fetches a model holds the file beside it, so that two never write into one part.
//! The system frees it when the process dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The held lock. Dropping it frees it and takes its file away.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    _file: File,
}

/// Takes the lock without waiting. `Err`: another has it, in the process that it told of.
pub(crate) fn hold(path: &Path) -> io::Result<Result<Held, Option<u32>>> {
    loop {
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut told = String::new();
                file.read_to_string(&mut told)?;
                return Ok(Err(told.trim().parse().ok()));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The one before may have taken the file away between opening and locking: then it locks nobody out.
        let is_there =
            std::fs::metadata(path).is_ok_and(|meta| file.metadata().is_ok_and(|own| own.ino() == meta.ino()));
        if is_there {
            file.set_len(0)?;
            file.write_all(std::process::id().to_string().as_bytes())?;
            return Ok(Ok(Held { path: path.to_path_buf(), _file: file }));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let held = hold(&path).unwrap().unwrap();
        assert_eq!(hold(&path).unwrap().unwrap_err(), Some(std::process::id()));
        drop(held);
        assert!(!path.exists());
        assert!(hold(&path).unwrap().is_ok());
    }
}
