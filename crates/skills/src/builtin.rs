//! The skills that come with the product. Written to the library's folder on first run; from then on they are the
//! user's files: what they edited or removed stays so, what they left alone is kept up to date.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::disk::{self, Written};
use crate::error::{Error, io};
use crate::parse::parse;
use crate::skill::hex;

macro_rules! bank {
    ($($name:literal)*) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("../bank/", $name, "/SKILL.md")) }),*]
    };
}

/// One built-in skill.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Its name, also its folder's.
    pub name: &'static str,
    /// The whole SKILL.md.
    pub text: &'static str,
}

static BANK: &[Builtin] = include!("bank_list.rs");

/// All built-in skills, by name.
pub fn builtin() -> &'static [Builtin] {
    BANK
}

/// What [`install_builtin`] did, as names.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct InstallReport {
    /// Written for the first time.
    pub installed: Vec<String>,
    /// Untouched older versions that were replaced.
    pub updated: Vec<String>,
    /// Already as they should be.
    pub unchanged: Vec<String>,
    /// The user has edited them, or has a skill of that name: left alone.
    pub kept: Vec<String>,
    /// The user has removed them: not brought back.
    pub removed: Vec<String>,
}

/// Writes the built-in skills into `dir`. May be called at every start: it costs one small read per skill.
pub fn install_builtin(dir: &Path) -> Result<InstallReport, Error> {
    install(dir, BANK)
}

pub(crate) fn install(dir: &Path, bank: &[Builtin]) -> Result<InstallReport, Error> {
    let _lock = disk::lock(dir).map_err(io("locking", dir))?;
    let mut written = disk::read_written(dir).map_err(io("reading the list of built-in skills of", dir))?;
    let mut report = InstallReport::default();
    let mut changed = false;
    let mut taken = None;
    for skill in bank {
        let name = skill.name.to_owned();
        let folder = dir.join(skill.name);
        let path = folder.join("SKILL.md");
        let now = hex(xxh3_128(skill.text.as_bytes()));
        let before = written.hashes.get(skill.name);
        match std::fs::symlink_metadata(&folder) {
            Err(_) if before.is_some() => report.removed.push(name),
            // A skill of that name may stand in another folder.
            Err(_) if taken.get_or_insert_with(|| names(dir)).contains(&name) => report.kept.push(name),
            Err(_) => {
                disk::write_atomic(&path, skill.text.as_bytes()).map_err(io("writing", &path))?;
                changed |= written.hashes.insert(name.clone(), now).is_none();
                report.installed.push(name);
            }
            Ok(meta) if !meta.is_dir() || is_link(&path) => report.kept.push(name),
            Ok(_) => match disk::read_capped(&path).map(|bytes| hex(xxh3_128(&bytes))) {
                Ok(found) if found == now => {
                    changed |= written.hashes.insert(name.clone(), now.clone()) != Some(now);
                    report.unchanged.push(name);
                }
                Ok(found) if before == Some(&found) => {
                    disk::write_atomic(&path, skill.text.as_bytes()).map_err(io("writing", &path))?;
                    written.hashes.insert(name.clone(), now);
                    changed = true;
                    report.updated.push(name);
                }
                _ => report.kept.push(name),
            },
        }
    }
    if changed {
        save(dir, &written)?;
    }
    Ok(report)
}

/// The names of the skills that are in the library.
fn names(dir: &Path) -> BTreeSet<String> {
    let found = disk::discover(dir, &mut Vec::new()).unwrap_or_default();
    let read = |path: PathBuf| parse(&path, &disk::read_capped(&path).ok()?).skill.map(|skill| skill.name);
    found.into_iter().filter_map(read).collect()
}

fn save(dir: &Path, written: &Written) -> Result<(), Error> {
    disk::write_written(dir, written).map_err(io("writing the list of built-in skills of", dir))
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|m| m.file_type().is_symlink())
}
