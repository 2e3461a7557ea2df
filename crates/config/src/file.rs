//! The file on disk: one writer at a time, all or nothing, for the user's eyes only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::edit::{Change, Edit, edit_text};
use crate::home::close_to_others;
use crate::load::{LARGEST, parse, read_regular, read_text};
use crate::{ConfigError, EditError};

/// Sets one key. See [`apply`].
pub fn set(path: &Path, key: &str, value: &str) -> Result<Change, EditError> {
    one(path, Edit::Set { key: key.to_owned(), value: value.to_owned() })
}

/// Takes one key out, so that its default holds. See [`apply`].
pub fn unset(path: &Path, key: &str) -> Result<Change, EditError> {
    one(path, Edit::Unset { key: key.to_owned() })
}

fn one(path: &Path, edit: Edit) -> Result<Change, EditError> {
    let key = edit.key().to_owned();
    apply(path, &[edit])?.pop().ok_or(EditError::UnknownKey { key, suggestion: None })
}

/// The value of a key: from the file or its default; of secrets only whether they are set. `None` = no such key.
pub fn get(path: &Path, key: &str) -> Result<Option<Value>, ConfigError> {
    let loaded = match read_text(path) {
        Ok(text) => parse(&text, path)?,
        Err(ConfigError::Missing { .. }) => crate::Loaded::default(),
        Err(error) => return Err(error),
    };
    Ok(loaded.config.get(key))
}

/// Makes all edits or none. Comments, order, unknown keys and blank lines stay as they are. A file that is no YAML is
/// not written over; a file that does not exist is begun.
pub fn apply(path: &Path, edits: &[Edit]) -> Result<Vec<Change>, EditError> {
    let path = target(path);
    let io_error = |source| EditError::Io { file: path.clone(), source };
    let _lock = Lock::take(&path).map_err(io_error)?;
    let before = match read_text(&path) {
        Ok(text) => Some(text),
        Err(ConfigError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let (after, changes) = edit_text(before.as_deref().unwrap_or_default(), &path, edits)?;
    if changes.iter().any(|change| change.written) {
        replace(&path, before.as_deref(), &after)?;
    }
    Ok(changes)
}

/// Writes a new file. One that is there already is left alone: `AlreadyExists`.
pub fn create(path: &Path, text: &str) -> Result<(), EditError> {
    let path = target(path);
    let io_error = |source| EditError::Io { file: path.clone(), source };
    parse(text, &path)?;
    let _lock = Lock::take(&path).map_err(io_error)?;
    if path.symlink_metadata().is_ok() {
        return Err(io_error(io::ErrorKind::AlreadyExists.into()));
    }
    replace(&path, None, text)
}

/// The file itself, where the path is a link to it.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Writes beside the file, syncs, and renames over it; `before` is what must still stand there.
fn replace(path: &Path, before: Option<&str>, after: &str) -> Result<(), EditError> {
    let io_error = |source| EditError::Io { file: path.to_path_buf(), source };
    let beside = beside(path, "tmp");
    // Whoever left this behind is gone: we hold the lock.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
        _ => {}
    }
    let written = write_new(&beside, after).and_then(|()| {
        // An editor that knows nothing of our lock may have saved in the meantime.
        let unchanged = match (read_regular(path, LARGEST), before) {
            (Ok(now), Some(before)) => now == before.as_bytes(),
            (Err(error), None) => error.kind() == io::ErrorKind::NotFound,
            (Err(error), Some(_)) => return Err(error),
            (Ok(_), None) => false,
        };
        if unchanged { fs::rename(&beside, path).map(|()| true) } else { Ok(false) }
    });
    match written {
        Ok(true) => {
            sync_dir(path);
            Ok(())
        }
        Ok(false) => {
            let _ = fs::remove_file(&beside);
            Err(EditError::Changed { file: path.to_path_buf() })
        }
        Err(error) => {
            let _ = fs::remove_file(&beside);
            Err(io_error(error))
        }
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn private(_options: &mut OpenOptions) {}

/// The rename itself must survive a power cut; where folders cannot be synced, the system does it in its own time.
fn sync_dir(path: &Path) {
    if let Some(dir) = path.parent()
        && let Ok(dir) = File::open(dir)
    {
        let _ = dir.sync_all();
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map(std::ffi::OsStr::to_os_string).unwrap_or_default();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

/// Held while the file is read, changed and written; the app and the command line may do so at the same time.
struct Lock {
    _file: File,
}

impl Lock {
    fn take(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
            fs::create_dir_all(dir)?;
            close_to_others(dir, 0o700)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(false);
        private(&mut options);
        let file = options.open(beside(path, "lock"))?;
        file.lock()?;
        Ok(Self { _file: file })
    }
}
