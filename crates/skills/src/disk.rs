//! The library's folder on disk: which SKILL.md files there are, safe reads, atomic writes, and the bookkeeping under
//! `.metaclaw/` (disabled names, hashes of written built-ins, trash).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::parse::MAX_FILE_BYTES;
use crate::problem::Problem;

/// Folder, inside the library, for everything that is not a skill.
pub(crate) const OWN_FOLDER: &str = ".metaclaw";
/// A library with more is almost surely a wrong folder.
pub(crate) const MAX_SKILLS: usize = 10_000;
const MANIFEST: [&str; 2] = ["SKILL.md", "skill.md"];

/// The SKILL.md directly in `folder`, if any.
pub(crate) fn manifest(folder: &Path) -> Option<PathBuf> {
    MANIFEST.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// All SKILL.md files at `<dir>/<skill>/` and `<dir>/<group>/<skill>/`, sorted by path. A folder that is a skill is not
/// searched further; names that begin with a dot are skipped; links must stay inside `dir`.
pub(crate) fn discover(dir: &Path, problems: &mut Vec<Problem>) -> io::Result<Vec<PathBuf>> {
    let root = match fs::canonicalize(dir) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in folders(dir)? {
        if !stays_inside(&root, &folder, problems) {
            continue;
        }
        if let Some(path) = manifest(&folder) {
            keep(&root, path, &mut seen, &mut found, problems);
            continue;
        }
        // A link may stand for a skill, not for a group: it could lead back to the top.
        if folder.is_symlink() {
            continue;
        }
        let inner = match folders(&folder) {
            Ok(inner) => inner,
            Err(error) => {
                problems.push(Problem::error(&folder, format!("cannot be read: {error}"), "check its permissions"));
                continue;
            }
        };
        for folder in inner {
            if stays_inside(&root, &folder, problems)
                && let Some(path) = manifest(&folder)
            {
                keep(&root, path, &mut seen, &mut found, problems);
            }
        }
    }
    if found.len() > MAX_SKILLS {
        problems.push(Problem::error(
            dir,
            format!("has {} skills; the first {MAX_SKILLS} are used", found.len()),
            "check `skills.dir`",
        ));
        found.truncate(MAX_SKILLS);
    }
    Ok(found)
}

/// What is the library's in its folder: the folder of each skill, and that of the bookkeeping. Other files are somebody else's.
///
/// # Errors
/// The folder is there and cannot be read.
pub fn belongings(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let skills = discover(dir, &mut Vec::new())?;
    let mut folders: Vec<PathBuf> = skills.iter().filter_map(|file| file.parent()).map(Path::to_path_buf).collect();
    folders.extend(Some(dir.join(OWN_FOLDER)).filter(|own| own.is_dir()));
    Ok(folders)
}

fn folders(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') && entry.path().is_dir() {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

fn stays_inside(root: &Path, path: &Path, problems: &mut Vec<Problem>) -> bool {
    match fs::canonicalize(path) {
        Ok(real) if real.starts_with(root) => true,
        Ok(_) => {
            problems.push(Problem::error(
                path,
                "is a link that leads out of the skills folder",
                "copy the skill in with `metaclaw skills add`",
            ));
            false
        }
        Err(error) => {
            problems.push(Problem::error(path, format!("cannot be read: {error}"), "check the link or permissions"));
            false
        }
    }
}

fn keep(
    root: &Path,
    path: PathBuf,
    seen: &mut BTreeSet<PathBuf>,
    found: &mut Vec<PathBuf>,
    problems: &mut Vec<Problem>,
) {
    if !stays_inside(root, &path, problems) {
        return;
    }
    // Two links to one file are one skill.
    if fs::canonicalize(&path).is_ok_and(|real| seen.insert(real)) {
        found.push(path);
    }
}

/// Reads at most one byte more than is allowed, so that a huge file costs nothing and is still refused.
pub(crate) fn read_capped(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces `path` in one step: a reader sees the old bytes or the new ones, also after a power cut.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temp = folder.join(format!(".{name}.{}.{number}.tmp", std::process::id()));
    let written = (|| {
        let mut file = File::create(&temp)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temp, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written?;
    sync_folder(folder);
    Ok(())
}

/// Makes renames in `folder` durable. Not every system can; what it cannot is no error.
pub(crate) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Held while the folder is changed, so that a command and a running service do not mix their changes.
pub(crate) fn lock(dir: &Path) -> io::Result<File> {
    let own = dir.join(OWN_FOLDER);
    fs::create_dir_all(&own)?;
    let file = File::options().create(true).truncate(false).write(true).open(own.join("lock"))?;
    file.lock()?;
    Ok(file)
}

pub(crate) fn trash_dir(dir: &Path) -> PathBuf {
    dir.join(OWN_FOLDER).join("trash")
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Disabled {
    names: BTreeSet<String>,
}

fn disabled_path(dir: &Path) -> PathBuf {
    dir.join(OWN_FOLDER).join("disabled.json")
}

/// The names the user has switched off.
pub(crate) fn read_disabled(dir: &Path) -> io::Result<HashSet<String>> {
    Ok(read_json::<Disabled>(&disabled_path(dir))?.unwrap_or_default().names.into_iter().collect())
}

pub(crate) fn write_disabled(dir: &Path, names: &HashSet<String>) -> io::Result<()> {
    write_json(&disabled_path(dir), &Disabled { names: names.iter().cloned().collect() })
}

/// Which built-ins were written, and the hash of what was written.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Written {
    pub hashes: BTreeMap<String, String>,
}

fn written_path(dir: &Path) -> PathBuf {
    dir.join(OWN_FOLDER).join("builtin.json")
}

pub(crate) fn read_written(dir: &Path) -> io::Result<Written> {
    Ok(read_json(&written_path(dir))?.unwrap_or_default())
}

pub(crate) fn write_written(dir: &Path, written: &Written) -> io::Result<()> {
    write_json(&written_path(dir), written)
}

pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write_atomic(path, &bytes)
}
