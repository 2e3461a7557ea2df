//! What of the home goes when MetaClaw is removed from a machine: models it fetched, and what a running service and the
//! desktop app leave, its entry for the login too. The user's own words (settings, turns, memories, skills) go only when
//! that was asked for, and what is not MetaClaw's never.

use std::io;
use std::path::{Path, PathBuf};

use config::Home;
use models::{OFFERS, Shelf};
use serde::Serialize;

use crate::lock::{HomeLock, LockError};

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of it, and of what is in it.
    pub bytes: u64,
}

/// What goes and what stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What goes.
    pub goes: Vec<Found>,
    /// The user's own words, which stay.
    pub stays: Vec<Found>,
    /// What MetaClaw has not put here; it stays in any case.
    pub foreign: Vec<Found>,
    /// Folders that go if nothing is left in them.
    #[serde(skip)]
    folders: Vec<PathBuf>,
}

/// Whose a file of the home is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// A running service's or the desktop app's: they make it again.
    Services,
    /// The user's.
    Users,
    Strangers,
}

fn whose(name: &str) -> Whose {
    let of = |begin: &str, end: &str| name.strip_prefix(begin).is_some_and(|rest| rest.ends_with(end));
    let services = ["control.sock", "control.token", "service.lock", ".writable", "cache"].contains(&name)
        || ["window", "window.json"].contains(&name)
        || of("metaclaw_", ".pid")
        || name.starts_with("metaclaw.log")
        || of("start.", ".err");
    let users = ["skills", "trash", "backups"].contains(&name)
        || name.starts_with("metaclaw.db")
        || name.starts_with("config.yaml")
        || name.starts_with("skills-log.jsonl")
        || of("before-v", ".db");
    match (services, users) {
        (true, _) => Whose::Services,
        (_, true) => Whose::Users,
        _ => Whose::Strangers,
    }
}

/// Looks what is here. `everything`: the user's own words go too.
///
/// # Errors
/// A folder is there and cannot be read.
pub fn plan(home: &Home, everything: bool) -> io::Result<Plan> {
    let mut plan = Plan::default();
    // With a config that cannot be read, models are looked for where they are by default.
    let config = config::load(&home.config_path()).map(|loaded| loaded.config).unwrap_or_default();
    let models = home.resolve(&config.builtin.dir);
    let fetched = Shelf::new(models.clone());
    let fetched: Vec<PathBuf> = OFFERS.iter().flat_map(|offer| fetched.paths(offer)).collect();
    for path in entries(&models)? {
        let list = if fetched.contains(&path) { &mut plan.goes } else { &mut plan.foreign };
        list.push(found(path));
    }
    plan.folders.push(models.clone());
    for path in entries(home.dir())?.into_iter().filter(|path| *path != models) {
        let list = match path.file_name().and_then(|name| name.to_str()).map(whose) {
            Some(Whose::Services) => &mut plan.goes,
            Some(Whose::Users) if everything => &mut plan.goes,
            Some(Whose::Users) => &mut plan.stays,
            Some(Whose::Strangers) | None => &mut plan.foreign,
        };
        list.push(found(path));
    }
    plan.folders.push(home.dir().to_path_buf());
    plan.goes.extend(home.login_entry().filter(|entry| starts_the_app(entry)).map(found));
    Ok(plan)
}

/// Whether an entry for the login is the desktop app's own.
fn starts_the_app(entry: &Path) -> bool {
    let text = std::fs::read_to_string(entry).unwrap_or_default();
    text.lines().any(|line| line.starts_with("Exec=") && line.contains("metaclaw-app"))
}

/// Removes what goes, while nobody else uses the home. Returns the bytes that became free.
///
/// # Errors
/// A service runs, or a file cannot be removed.
pub fn remove(home: &Home, plan: &Plan) -> Result<u64, LockError> {
    let lock = if home.dir().is_dir() { Some(HomeLock::take(&home.lock_path())?) } else { None };
    let mut freed = 0;
    for Found { path, bytes } in &plan.goes {
        let removed = match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => freed += bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(LockError::Io { path: path.clone(), source }),
        }
    }
    drop(lock);
    let _ = std::fs::remove_file(home.lock_path());
    // A folder with something in it stays.
    for folder in &plan.folders {
        let _ = std::fs::remove_dir(folder);
    }
    Ok(freed)
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn found(path: PathBuf) -> Found {
    Found { bytes: weight(&path), path }
}

/// Bytes of a file, or of all that is in a folder; links are not followed.
fn weight(path: &Path) -> u64 {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => entries(path).unwrap_or_default().iter().map(|path| weight(path)).sum(),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        for name in ["control.sock", "metaclaw_30000.pid", "metaclaw.log", "metaclaw.log.1", "start.77.err", "cache"] {
            assert_eq!(whose(name), Whose::Services, "{name}");
        }
        for name in ["window", "window.json"] {
            assert_eq!(whose(name), Whose::Services, "{name}, the desktop app's");
        }
        for name in ["config.yaml", "metaclaw.db-wal", "metaclaw.db-spool", "skills", "trash", "before-v2-0001.db"] {
            assert_eq!(whose(name), Whose::Users, "{name}");
        }
        for name in ["letter.odt", "metaclaw", "records", "config", "windows"] {
            assert_eq!(whose(name), Whose::Strangers, "{name}");
        }
    }
}
