//! What goes when MetaClaw is removed from a machine: models it fetched, and what a running service and the desktop app
//! leave, its entry for the login too. The user's own words (settings, turns, memories, skills) go only when that was asked
//! for. Whose a file is is decided by its whole name, of a folder only what MetaClaw puts into it is taken, and everything
//! else stays.

use std::io;
use std::path::{Path, PathBuf};

use config::Home;
use models::{OFFERS, Shelf};
use serde::Serialize;

use crate::lock::{HomeLock, LockError};

/// What MetaClaw keeps in `cache/`, all of which it can make again.
pub(crate) const CACHE: [&str; 2] = [crate::meanings::VECTORS, crate::meanings::NEW_VECTORS];
/// Endings of the names of the journal's files, behind `metaclaw.db`.
const JOURNAL: [&str; 7] = ["", "-wal", "-shm", "-journal", "-spool", "-rejected", ".lock"];
/// Files of the settings and of the log of skills: themselves, and what a change that was broken off leaves.
const SETTINGS: [&str; 5] =
    ["config.yaml", "config.yaml.lock", "config.yaml.tmp", "skills-log.jsonl", "skills-log.jsonl.tmp"];

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of it, or of what is known in it; 0 for what is not MetaClaw's.
    pub bytes: u64,
    #[serde(skip)]
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    File,
    /// A folder of which these files are MetaClaw's. It goes with them if nothing else is in it.
    These(Vec<PathBuf>),
    /// A folder that was made with everything in it.
    Whole,
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
    /// Folders that go if nothing is left in them, the inner ones first.
    #[serde(skip)]
    folders: Vec<PathBuf>,
    /// Where models are.
    #[serde(skip)]
    shelves: Vec<PathBuf>,
}

/// Why not everything that was to go is gone.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Somebody uses the home. Nothing was removed.
    #[error(transparent)]
    Used(#[from] LockError),
    /// A model is being fetched. Nothing was removed.
    #[error("{id} is being fetched{}", pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Fetching {
        /// The model.
        id: &'static str,
        /// Who fetches it, where it has told.
        pid: Option<u32>,
    },
    /// Some files are still there; the others are gone.
    #[error("{}", left.iter().map(|(path, error)| format!("{} stays: {error}", path.display())).collect::<Vec<_>>().join("; "))]
    Left {
        /// Each with what the system said.
        left: Vec<(PathBuf, io::Error)>,
    },
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
    let numbered = |begin: &str, end: &str| {
        let number = name.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let services = ["control.sock", "control.token", "service.lock", ".writable", "metaclaw.log", "window.json"]
        .contains(&name)
        || numbered("metaclaw_", ".pid")
        || numbered("metaclaw.log.", "")
        || numbered("start.", ".err");
    let users =
        SETTINGS.contains(&name) || name.strip_prefix("metaclaw.db").is_some_and(|ending| JOURNAL.contains(&ending));
    match (services, users) {
        (true, _) => Whose::Services,
        (_, true) => Whose::Users,
        _ => Whose::Strangers,
    }
}

/// A backup from before a migration: `before-v2-0001.db`, or what is left of making one.
fn is_backup(name: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().is_ok();
    name.strip_prefix("before-v")
        .and_then(|rest| rest.strip_suffix(".db").or_else(|| rest.strip_suffix(".partial")))
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(version, nth)| number(version) && number(nth))
}

/// Whether an entry for the login is the desktop app's own.
fn starts_the_app(entry: &Path) -> bool {
    let text = std::fs::read_to_string(entry).unwrap_or_default();
    text.lines().any(|line| line.starts_with("Exec=") && line.contains("metaclaw-app"))
}

/// What an import of old memories leaves when it is killed: `import-` and 32 hexadecimal digits.
fn is_import(name: &str) -> bool {
    name.strip_prefix("import-").is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Looks what is here. `everything`: the user's own words go too.
///
/// # Errors
/// A folder is there and cannot be read.
pub fn plan(home: &Home, everything: bool) -> io::Result<Plan> {
    let mut plan = Plan::default();
    let (mut models, mut skills) = (vec![home.dir().join("models")], vec![home.skills_dir()]);
    for path in configs(home) {
        // With one that cannot be read, things are looked for where they are by default.
        if let Ok(loaded) = config::load(&path) {
            models.push(home.resolve(&loaded.config.builtin.dir));
            skills.push(home.resolve(&loaded.config.skills.dir));
        }
    }
    let (models, skills) = (distinct(models), distinct(skills));
    for dir in &models {
        plan.models(home, dir)?;
    }
    for dir in &skills {
        plan.skills(home, dir, everything, &models)?;
    }
    let apart: Vec<&PathBuf> = models.iter().chain(&skills).collect();
    plan.home(home, everything, &apart)?;
    plan.goes.extend(home.login_entry().filter(|entry| starts_the_app(entry)).map(file));
    // Single files first: there are many skills.
    for list in [&mut plan.goes, &mut plan.stays] {
        list.sort_by_key(|found| found.what == What::Whole);
    }
    plan.shelves = models;
    Ok(plan)
}

impl Plan {
    fn add(&mut self, users: bool, everything: bool, found: Found) {
        let list = if users && !everything { &mut self.stays } else { &mut self.goes };
        list.push(found);
    }

    fn foreign(&mut self, path: PathBuf) {
        self.foreign.push(Found { path, bytes: 0, what: What::File });
    }

    /// A folder of which some files are known.
    fn folder(&mut self, folder: PathBuf, files: Vec<PathBuf>, apart: &[&PathBuf]) -> io::Result<Option<Found>> {
        let files: Vec<PathBuf> = files.into_iter().filter(|file| is_file(file)).collect();
        for path in entries(&folder)? {
            if !files.contains(&path) && !apart.iter().any(|dir| dir.starts_with(&path)) {
                self.foreign(path);
            }
        }
        let bytes = files.iter().map(|file| weight(file)).sum();
        if files.is_empty() {
            self.folders.push(folder);
            return Ok(None);
        }
        Ok(Some(Found { path: folder, bytes, what: What::These(files) }))
    }

    fn models(&mut self, home: &Home, dir: &Path) -> io::Result<()> {
        let shelf = Shelf::new(dir.to_path_buf());
        let mut known = Vec::new();
        for offer in OFFERS {
            for (place, files) in shelf.all_of(offer) {
                if is_file(&place) {
                    self.goes.push(file(place.clone()));
                } else if place.is_dir() && !place.is_symlink() {
                    let found = self.folder(place.clone(), files, &[])?;
                    self.goes.extend(found);
                }
                known.push(place);
            }
            let lock = shelf.lock(offer.id);
            if is_file(&lock) {
                self.goes.push(file(lock.clone()));
            }
            known.push(lock);
        }
        // Of a folder elsewhere only models are of interest: it may be anything, up to the whole disk.
        let others = match inside(dir, home.dir()) {
            true => entries(dir)?,
            false => shelf.kept()?.into_iter().map(|kept| kept.file).collect(),
        };
        others.into_iter().filter(|path| !known.contains(path)).for_each(|path| self.foreign(path));
        if inside(dir, home.dir()) || self.goes.iter().any(|found| found.path.starts_with(dir)) {
            self.folders.push(dir.to_path_buf());
        }
        Ok(())
    }

    fn skills(&mut self, home: &Home, dir: &Path, everything: bool, models: &[PathBuf]) -> io::Result<()> {
        let belongings = skills::belongings(dir)?;
        if !inside(dir, home.dir()) {
            // Other programs may read a folder outside of the home.
            if !belongings.is_empty() {
                self.stays.push(Found { path: dir.to_path_buf(), bytes: weigh(&belongings), what: What::File });
            }
            return Ok(());
        }
        let holds_models = |path: &Path| models.iter().any(|models| real(models).starts_with(real(path)));
        let (kept, taken): (Vec<_>, Vec<_>) = belongings.into_iter().partition(|path| holds_models(path));
        for path in &taken {
            let what = if path.is_dir() && !path.is_symlink() { What::Whole } else { What::File };
            self.add(true, everything, Found { bytes: weight(path), path: path.clone(), what });
            // A skill may be in a folder of a group.
            if let Some(group) = path.parent().filter(|parent| *parent != dir) {
                self.folders.push(group.to_path_buf());
            }
        }
        for path in kept {
            self.foreign(path);
        }
        for path in entries(dir)? {
            let is_apart = models.contains(&path) || taken.iter().any(|taken| taken.starts_with(&path));
            if !is_apart && !self.foreign.iter().any(|found| found.path == path) {
                self.foreign(path);
            }
        }
        if everything {
            self.folders.push(dir.to_path_buf());
        }
        Ok(())
    }

    /// The files of the home itself; the folders `apart` were looked through before.
    fn home(&mut self, home: &Home, everything: bool, apart: &[&PathBuf]) -> io::Result<()> {
        if apart.iter().any(|dir| dir.as_path() == home.dir()) {
            // Whoever keeps models or skills in the home itself has had its strangers listed already.
            self.foreign.retain(|found| found.path.parent() != Some(home.dir()));
        }
        for path in entries(home.dir())? {
            let within = |dir: &&PathBuf| dir.starts_with(&path);
            let taken = self.goes.iter().chain(&self.stays).any(|found| found.path.starts_with(&path));
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_folder = path.is_dir() && !path.is_symlink();
            match (whose(name), is_folder) {
                (Whose::Services, false) => self.add(false, everything, file(path)),
                (Whose::Users, false) => self.add(true, everything, file(path)),
                (_, true) if name == "cache" => {
                    let files = CACHE.iter().map(|name| path.join(name)).collect();
                    let found = self.folder(path, files, apart)?;
                    self.goes.extend(found);
                }
                (_, true) if name == "backups" => {
                    let is_one =
                        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is_backup);
                    let files = entries(&path)?.into_iter().filter(is_one).collect();
                    if let Some(found) = self.folder(path, files, apart)? {
                        self.add(true, everything, found);
                    }
                }
                // What the web view keeps, or an import.
                (_, true) if (name == "window" || is_import(name)) && !apart.iter().any(within) => {
                    self.add(false, everything, Found { bytes: weight(&path), path, what: What::Whole });
                }
                // Something in it was told of, or it was looked through.
                _ if taken || apart.iter().any(within) => {
                    if is_folder && !apart.contains(&&path) {
                        self.folders.push(path);
                    }
                }
                _ => self.foreign(path),
            }
        }
        self.folders.push(home.dir().to_path_buf());
        Ok(())
    }
}

/// Removes what goes, while nobody else uses the home or fetches a model. Returns the bytes that became free.
///
/// # Errors
/// See [`RemoveError`].
pub fn remove(home: &Home, plan: &Plan) -> Result<u64, RemoveError> {
    let lock = if home.dir().is_dir() { Some(HomeLock::take(&home.lock_path())?) } else { None };
    let mut held = Vec::new();
    for shelf in plan.shelves.iter().map(|dir| Shelf::new(dir.clone())) {
        for offer in OFFERS {
            let here = |path: &Path| path.symlink_metadata().is_ok();
            if !shelf.all_of(offer).iter().any(|(place, _)| here(place)) && !here(&shelf.lock(offer.id)) {
                continue;
            }
            let path = shelf.lock(offer.id);
            match shelf.hold(offer).map_err(|source| RemoveError::Left { left: vec![(path, source)] })? {
                Ok(lock) => held.push(lock),
                Err(pid) => return Err(RemoveError::Fetching { id: offer.id, pid }),
            }
        }
    }
    let (mut freed, mut left) = (0, Vec::new());
    let mut gone = |path: &Path, bytes: u64, removed: io::Result<()>| match removed {
        Ok(()) => freed += bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => left.push((path.to_path_buf(), error)),
    };
    for Found { path, bytes, what } in &plan.goes {
        match what {
            What::File => gone(path, *bytes, std::fs::remove_file(path)),
            What::Whole => gone(path, *bytes, std::fs::remove_dir_all(path)),
            What::These(files) => {
                for file in files {
                    let bytes = weight(file);
                    gone(file, bytes, std::fs::remove_file(file));
                }
                let _ = std::fs::remove_dir(path);
            }
        }
    }
    drop(held);
    let _ = std::fs::remove_file(home.lock_path());
    drop(lock);
    // A folder with something in it stays.
    for folder in &plan.folders {
        let empty = entries(folder).is_ok_and(|entries| entries.is_empty());
        let _ = match folder.is_symlink() {
            true if empty => std::fs::remove_file(folder),
            true => Ok(()),
            false => std::fs::remove_dir(folder),
        };
    }
    if left.is_empty() { Ok(freed) } else { Err(RemoveError::Left { left }) }
}

/// The settings of this home, and those that its service reads, or read last.
fn configs(home: &Home) -> Vec<PathBuf> {
    let lock = home.lock_path();
    let service = crate::lock::holder(&lock).flatten().or_else(|| crate::lock::last(&lock));
    [home.config_path()].into_iter().chain(service.map(|holder| holder.config)).collect()
}

/// Each folder once, whatever it is called.
fn distinct(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if !all.iter().any(|other| real(other) == real(&folder)) {
            all.push(folder);
        }
    }
    all
}

/// Where a path leads, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn inside(path: &Path, dir: &Path) -> bool {
    path.starts_with(dir) || real(path).starts_with(real(dir))
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Something that is no folder: a link is the link.
fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| !meta.is_dir())
}

fn file(path: PathBuf) -> Found {
    Found { bytes: weight(&path), path, what: What::File }
}

/// Bytes of a file, or of all that is in a folder; links are not followed.
fn weight(path: &Path) -> u64 {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => weigh(&entries(path).unwrap_or_default()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    }
}

fn weigh(paths: &[PathBuf]) -> u64 {
    paths.iter().map(|path| weight(path)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_whole_names() {
        for name in
            ["control.sock", "metaclaw_30000.pid", "metaclaw.log", "metaclaw.log.1", "start.77.err", "window.json"]
        {
            assert_eq!(whose(name), Whose::Services, "{name}");
        }
        for name in ["config.yaml", "metaclaw.db", "metaclaw.db-wal", "metaclaw.db-spool", "metaclaw.db.lock"] {
            assert_eq!(whose(name), Whose::Users, "{name}");
        }
        for name in [
            "letter.odt",
            "metaclaw",
            "records",
            "config",
            "metaclaw.logbook.odt",
            "metaclaw.log.",
            "metaclaw.log.old",
            "metaclaw.dbx",
            "config.yaml.mine",
            "start.now.err",
            "metaclaw_.pid",
            "before-v2-0001.db",
            "skills",
            "window.json.mine",
        ] {
            assert_eq!(whose(name), Whose::Strangers, "{name}");
        }
        assert!(is_backup("before-v2-0001.db") && is_backup("before-v12-0001.partial"));
        assert!(!is_backup("before-vacation.db") && !is_backup("before-v2-0001.db.zip"));
        assert!(is_import("import-0123456789abcdef0123456789abcdef") && !is_import("import-photos"));
    }

    /// Writes files below a folder and returns it as a home.
    fn home(dir: &Path, files: &[&str]) -> Home {
        for file in files {
            let path = dir.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, *file).unwrap();
        }
        Home::at(dir)
    }

    fn all(dir: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for path in entries(dir).unwrap() {
            match path.is_dir() {
                true => found.extend(
                    all(&path).into_iter().map(|name| format!("{}/{name}", path.file_name().unwrap().display())),
                ),
                false => found.push(path.file_name().unwrap().display().to_string()),
            }
        }
        found
    }

    #[test]
    fn a_home_with_other_things_in_it_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let strangers = [
            "backups/photos.tar",
            "cache/browser/keep.bin",
            "import-photos/p.jpg",
            "metaclaw.dbx",
            "metaclaw.logbook.odt",
            "models/all-minilm-l6-v2/notes.txt",
            "models/mine.gguf",
            "models/qwen3-0.6b.hub.part/other.bin",
            "skills/cv.odt",
            "skills/drafts/cv.odt",
            "trash/t",
        ];
        let home = home(dir.path(), &strangers);
        self::home(
            dir.path(),
            &[
                "cache/skill-vectors",
                "models/smollm2-135m-instruct.gguf",
                "models/qwen3-0.6b.hub.part/qwen3-0.6b.gguf",
                "metaclaw.log",
                "import-0123456789abcdef0123456789abcdef/old.db",
            ],
        );
        let users = [
            "backups/before-v2-0001.db",
            "config.yaml",
            "metaclaw.db",
            "skills/mine/SKILL.md",
            "skills/mine/more/table.csv",
            "skills/work/tidy/SKILL.md",
            "skills/.metaclaw/trash/1-x/entry.json",
        ];
        self::home(dir.path(), &users);
        std::fs::write(dir.path().join("config.yaml"), "").unwrap();
        let planned = plan(&home, false).unwrap();
        for path in planned.foreign.iter().map(|found| &found.path) {
            assert!(
                planned.goes.iter().chain(&planned.stays).all(|found| found.path != *path),
                "twice: {}",
                path.display()
            );
        }
        remove(&home, &planned).unwrap();
        let mut stay: Vec<_> = strangers.iter().chain(&users).map(|name| (*name).to_owned()).collect();
        stay.sort();
        let sorted = || {
            let mut names = all(dir.path());
            names.sort();
            names
        };
        assert_eq!(sorted(), stay);
        remove(&home, &plan(&home, true).unwrap()).unwrap();
        assert_eq!(sorted(), strangers);
    }

    #[test]
    fn models_and_skills_are_found_where_the_settings_have_them() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("disk");
        let home = home(
            &dir.path().join("home"),
            &[
                "cache/models/mine.gguf",
                "cache/models/smollm2-135m-instruct.gguf",
                "cache/skill-vectors",
                "models/qwen3-0.6b.gguf",
                "own/tidy/SKILL.md",
                "own/list.txt",
            ],
        );
        std::fs::write(
            home.config_path(),
            "builtin:\n  dir: ~/.metaclaw/cache/models\nskills:\n  dir: ~/.metaclaw/own\n",
        )
        .unwrap();
        let planned = plan(&home, true).unwrap();
        let shown: Vec<_> = planned
            .foreign
            .iter()
            .map(|found| found.path.strip_prefix(home.dir()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(shown, ["cache/models/mine.gguf", "own/list.txt"]);
        remove(&home, &planned).unwrap();
        assert_eq!(all(home.dir()), ["cache/models/mine.gguf", "own/list.txt"]);
        // Outside of the home: what was fetched goes, skills stay, and nobody looks further.
        self::home(&elsewhere, &["smollm2-135m-instruct.gguf", "other.txt", "tidy/SKILL.md"]);
        let text = format!("builtin:\n  dir: {0}\nskills:\n  dir: {0}\n", elsewhere.display());
        std::fs::write(home.config_path(), text).unwrap();
        let planned = plan(&home, true).unwrap();
        assert_eq!(planned.stays.iter().map(|found| &found.path).collect::<Vec<_>>(), [&elsewhere]);
        remove(&home, &planned).unwrap();
        assert_eq!(all(&elsewhere), ["other.txt", "tidy/SKILL.md"]);
    }

    #[test]
    fn the_home_itself_as_the_folder_for_models_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(dir.path(), &["smollm2-135m-instruct.gguf", "letter.odt", "metaclaw.db"]);
        std::fs::write(home.config_path(), "builtin:\n  dir: ~/.metaclaw\n").unwrap();
        let planned = plan(&home, false).unwrap();
        let names = |list: &[Found]| -> Vec<String> {
            list.iter().map(|found| found.path.file_name().unwrap().display().to_string()).collect()
        };
        assert_eq!(names(&planned.goes), ["smollm2-135m-instruct.gguf"]);
        assert_eq!(names(&planned.stays), ["config.yaml", "metaclaw.db"]);
        assert_eq!(names(&planned.foreign), ["letter.odt"]);
    }

    #[test]
    fn a_model_that_is_being_fetched_stays_and_everything_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(dir.path(), &["models/qwen3-0.6b.hub.part/qwen3-0.6b.gguf", "metaclaw.log"]);
        let shelf = Shelf::new(home.dir().join("models"));
        let held = shelf.hold(models::offer("qwen3-0.6b").unwrap()).unwrap().unwrap();
        let error = remove(&home, &plan(&home, false).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), format!("qwen3-0.6b is being fetched by process {}", std::process::id()));
        assert!(home.log_path().exists() && dir.path().join("models/qwen3-0.6b.hub.part/qwen3-0.6b.gguf").exists());
        drop(held);
        remove(&home, &plan(&home, false).unwrap()).unwrap();
        assert!(!home.dir().exists());
    }

    #[test]
    #[cfg(unix)]
    fn links_go_and_what_they_lead_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (home, disk) = (home(&dir.path().join("home"), &["metaclaw.log"]), dir.path().join("disk"));
        self::home(&disk, &["smollm2-135m-instruct.gguf", "letter.odt"]);
        std::os::unix::fs::symlink(disk.join("letter.odt"), home.dir().join("metaclaw.log.1")).unwrap();
        std::os::unix::fs::symlink(&disk, home.dir().join("cache")).unwrap();
        remove(&home, &plan(&home, true).unwrap()).unwrap();
        assert_eq!(entries(home.dir()).unwrap(), [home.dir().join("cache")]);
        assert_eq!(all(&disk), ["letter.odt", "smollm2-135m-instruct.gguf"]);
    }
}
