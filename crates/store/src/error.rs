//! What can go wrong in the store, in the caller's words: what, where, what to do.
//! Made from SQLite result codes and I/O errors; `proxy` and the control API map it to HTTP.

use std::path::{Path, PathBuf};

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A store error. `Clone`, because one failed commit answers many appenders.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No room left on the device (or the page limit of `Options::max_pages`). What was committed before is safe.
    #[error("the disk is full: nothing more can be written to {}; free some space, then try again", path.display())]
    DiskFull {
        /// The database file.
        path: PathBuf,
    },
    /// The file, its folder or its file system does not allow writing.
    #[error("{} cannot be written: {reason}; make the folder writable for this user or set METACLAW_HOME to one that is", path.display())]
    ReadOnly {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another process held the write lock longer than the busy timeout. The file is fine.
    #[error("{} is in use by another process; try again, or end that process", path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// SQLite found the file damaged. Nothing is repaired, renamed or replaced without being asked.
    #[error("{} is damaged ({reason}); stop MetaClaw, copy the file and its -wal aside, then run `sqlite3 FILE .recover` on the copy{}", path.display(), backups_hint(backups))]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What SQLite said, or which turn did not add up.
        reason: String,
        /// Backups made before earlier migrations, newest last.
        backups: Vec<PathBuf>,
    },
    /// The file was written by a newer version of MetaClaw.
    #[error("{} was written by a newer MetaClaw (schema {found}, this version knows {known}); install the newer version again", path.display())]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// Schema version of the file.
        found: i64,
        /// Newest schema version of this build.
        known: i64,
    },
    /// Opened read-only, but the file still has an older schema.
    #[error("{} has schema {found}, this version needs {known}; run `metaclaw start` once to migrate it", path.display())]
    OlderSchema {
        /// The database file.
        path: PathBuf,
        /// Schema version of the file.
        found: i64,
        /// Newest schema version of this build.
        known: i64,
    },
    /// A SQLite database, but of another program.
    #[error("{} is not a MetaClaw database (application id {found:#x}); move it away or set METACLAW_HOME", path.display())]
    Foreign {
        /// The database file.
        path: PathBuf,
        /// The `application_id` found.
        found: i64,
    },
    /// The file could not be opened at all.
    #[error("{} cannot be opened: {reason}", path.display())]
    CannotOpen {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// No such turn.
    #[error("there is no turn {0}")]
    NoSuchTurn(i64),
    /// The store has been shut down.
    #[error("the journal is closed")]
    Closed,
    /// The database refuses what was to be written; others may be written.
    #[error("{} does not take this: {message}", path.display())]
    Refused {
        /// The database file.
        path: PathBuf,
        /// SQLite's message with its extended code.
        message: String,
    },
    /// The disk or the system failed in a way that trying again may mend.
    #[error("{} cannot be read or written: {message}; look at the disk and its quota", path.display())]
    Io {
        /// The database file.
        path: PathBuf,
        /// SQLite's message with its extended code.
        message: String,
    },
    /// Anything else SQLite said.
    #[error("{}: {message}", path.display())]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// SQLite's message with its extended code.
        message: String,
    },
}

fn backups_hint(backups: &[PathBuf]) -> String {
    match backups.last() {
        Some(last) => format!(", or go back to the backup {}", last.display()),
        None => String::new(),
    }
}

impl Error {
    /// True if the database as a whole cannot be written just now; false if the fault may lie in what was to be written.
    pub(crate) fn is_of_the_database(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::NoSuchTurn(_))
    }

    /// From what sqlx said about the database at `path`.
    pub(crate) fn from_sqlx(path: &Path, error: &sqlx::Error) -> Self {
        let path = path.to_owned();
        match error {
            sqlx::Error::Database(db) => {
                let code = db.code().and_then(|c| c.parse::<i32>().ok()).unwrap_or(0);
                let reason = db.message().to_owned();
                // Primary result codes, https://sqlite.org/rescode.html.
                match code & 0xff {
                    5 | 6 => Self::Busy { path },
                    8 => Self::ReadOnly { path, reason },
                    10 => Self::Io { path, message: format!("{reason} (SQLite code {code})") },
                    11 | 26 => {
                        let backups = crate::migrate::backups_of(&path);
                        Self::Corrupt { path, reason, backups }
                    }
                    13 => Self::DiskFull { path },
                    14 => Self::CannotOpen { path, reason },
                    // Too big, a constraint, a wrong type, out of range: the fault of the row.
                    18 | 19 | 20 | 25 => Self::Refused { path, message: format!("{reason} (SQLite code {code})") },
                    _ => Self::Sqlite { path, message: format!("{reason} (SQLite code {code})") },
                }
            }
            sqlx::Error::PoolClosed => Self::Closed,
            sqlx::Error::PoolTimedOut => Self::Busy { path },
            sqlx::Error::Io(io) => Self::from_io(path, io),
            sqlx::Error::Encode(_) => Self::Refused { path, message: error.to_string() },
            other => Self::Sqlite { path, message: other.to_string() },
        }
    }

    /// From an I/O error on `path`.
    pub(crate) fn from_io(path: PathBuf, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        match error.kind() {
            K::PermissionDenied | K::ReadOnlyFilesystem => Self::ReadOnly { path, reason: error.to_string() },
            K::StorageFull | K::QuotaExceeded => Self::DiskFull { path },
            _ => Self::CannotOpen { path, reason: error.to_string() },
        }
    }
}
