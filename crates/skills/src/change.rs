//! Changes to the library's folder: add, remove and bring back, enable and disable, import. Each is one rename at the
//! end, so that a crash leaves the old state or the new one; what is taken away goes to the trash.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::disk::{self, OWN_FOLDER, lock, sync_folder, trash_dir};
use crate::error::{Error, io};
use crate::front_matter;
use crate::library::Library;
use crate::parse::{AGENTS_KEY, CATEGORY_KEY, KEYWORDS_KEY, ORIGIN_KEY, Parsed, check_slug, parse};
use crate::problem::Problem;
use crate::skill::Skill;

/// Most files in one imported skill.
pub const MAX_IMPORT_FILES: usize = 500;
/// Most bytes in one imported skill.
pub const MAX_IMPORT_BYTES: u64 = 20 * 1024 * 1024;
const MAX_IMPORT_DEPTH: usize = 8;

/// A skill to be written, by its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// `[a-z0-9-]`, 1–64.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// `coding`, …; empty means general.
    pub category: String,
    /// Trigger words in any language.
    pub keywords: Vec<String>,
    /// Agents it is for; empty means all.
    pub agents: Vec<String>,
    /// Markdown.
    pub body: String,
    /// Who wrote it, if not a person: `evolved`.
    pub origin: String,
}

impl Draft {
    /// The SKILL.md in Agent Skills form.
    pub fn text(&self) -> String {
        let q = front_matter::quote;
        let mut text = format!("---\nname: {}\ndescription: {}\n", q(&self.name), q(&self.description));
        let category = if self.category.trim().is_empty() { crate::GENERAL } else { self.category.trim() };
        text.push_str(&format!("metadata:\n  {CATEGORY_KEY}: {}\n", q(category)));
        for (key, list) in [(KEYWORDS_KEY, &self.keywords), (AGENTS_KEY, &self.agents)] {
            if !list.is_empty() {
                text.push_str(&format!("  {key}: {}\n", q(&list.join(", "))));
            }
        }
        if !self.origin.is_empty() {
            text.push_str(&format!("  {ORIGIN_KEY}: {}\n", q(&self.origin)));
        }
        text.push_str(&format!("---\n\n{}\n", self.body.trim()));
        text
    }
}

/// Something in the trash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trashed {
    /// For [`Library::restore`].
    pub id: String,
    /// The skill's name.
    pub name: String,
    /// Where its folder was, relative to the library.
    pub from: PathBuf,
    /// When it was removed, in milliseconds since 1970.
    pub removed_ms: i64,
}

/// What an import brought in.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Imported {
    /// Names of the skills that are in the library now.
    pub names: Vec<String>,
    /// Replaced versions, which can be brought back.
    pub replaced: Vec<Trashed>,
    /// Folders that were not taken, and why.
    pub problems: Vec<Problem>,
}

impl Library {
    /// Writes a new skill. With `replace`, one of that name goes to the trash first.
    pub fn add(&self, draft: &Draft, replace: bool, now_ms: i64) -> Result<Arc<Skill>, Error> {
        self.add_text(&draft.name, &draft.text(), replace, now_ms)
    }

    /// Writes a new skill from a whole SKILL.md, byte for byte.
    pub fn add_text(&self, name: &str, text: &str, replace: bool, now_ms: i64) -> Result<Arc<Skill>, Error> {
        let folder = self.dir().join(checked(name, self.dir())?);
        accept(&folder, text.as_bytes(), name)?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let staged = Staged::new(self.dir(), name, now_ms)?;
        let path = staged.folder.join("SKILL.md");
        disk::write_atomic(&path, text.as_bytes()).map_err(io("writing", &path))?;
        self.put(&staged, name, replace, now_ms)?;
        self.reload();
        self.find(name)
    }

    /// Writes new content over a skill's SKILL.md; its folder's other files stay. The old folder's copy of the file
    /// goes to the trash.
    pub fn rewrite(&self, name: &str, text: &str, now_ms: i64) -> Result<Arc<Skill>, Error> {
        let skill = self.find(name)?;
        let folder = skill.path.parent().unwrap_or(self.dir()).to_owned();
        accept(&folder, text.as_bytes(), name)?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        self.swap_text(&skill, text.as_bytes(), now_ms)?;
        self.reload();
        self.find(name)
    }

    /// The same over the text with this hash only: whatever else stands in the file by now is somebody's work.
    pub fn rewrite_over(&self, name: &str, over: u128, text: &str, now_ms: i64) -> Result<Arc<Skill>, Error> {
        let skill = self.find(name)?;
        let folder = skill.path.parent().unwrap_or(self.dir()).to_owned();
        accept(&folder, text.as_bytes(), name)?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let there = fs::read(&skill.path).map_err(io("reading", &skill.path))?;
        if xxhash_rust::xxh3::xxh3_128(&there) != over {
            return Err(Error::Changed { name: name.to_owned(), path: skill.path.clone() });
        }
        self.swap_text(&skill, text.as_bytes(), now_ms)?;
        self.reload();
        self.find(name)
    }

    /// Moves a skill's folder to the trash.
    pub fn remove(&self, name: &str, now_ms: i64) -> Result<Trashed, Error> {
        let skill = self.find(name)?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let trashed = self.to_trash(&skill, now_ms)?;
        self.reload();
        Ok(trashed)
    }

    /// The same for the text with this hash only.
    pub fn remove_text(&self, name: &str, text: u128, now_ms: i64) -> Result<(), Error> {
        let skill = self.find(name)?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let there = fs::read(&skill.path).map_err(io("reading", &skill.path))?;
        if xxhash_rust::xxh3::xxh3_128(&there) != text {
            return Err(Error::Changed { name: name.to_owned(), path: skill.path.clone() });
        }
        self.to_trash(&skill, now_ms)?;
        self.reload();
        Ok(())
    }

    /// Brings a removed or replaced skill back to where it was. With `replace`, what is there now goes to the trash.
    pub fn restore(&self, id: &str, replace: bool, now_ms: i64) -> Result<Arc<Skill>, Error> {
        let found = self.trash()?.into_iter().find(|t| t.id == id);
        let trashed = found.ok_or_else(|| Error::NotInTrash { id: id.to_owned() })?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let entry = trash_dir(self.dir()).join(&trashed.id);
        let target = self.dir().join(&trashed.from);
        if let Some(skill) = self.snapshot().get(&trashed.name) {
            if !replace {
                return Err(Error::Exists { name: trashed.name, path: skill.path.clone() });
            }
            self.to_trash(skill, now_ms)?;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(io("making", parent))?;
        }
        fs::rename(entry.join("skill"), &target).map_err(io("bringing back", &target))?;
        sync_folder(target.parent().unwrap_or(self.dir()));
        fs::remove_dir_all(&entry).map_err(io("clearing", &entry))?;
        self.reload();
        self.find(&trashed.name)
    }

    /// Brings the file back that [`Self::rewrite`] wrote over; the folder's other files stay as they are. What stands in
    /// the file now goes to the trash.
    pub fn restore_text(&self, id: &str, now_ms: i64) -> Result<(), Error> {
        let trashed =
            self.trash()?.into_iter().find(|t| t.id == id).ok_or_else(|| Error::NotInTrash { id: id.to_owned() })?;
        let skill = self.find(&trashed.name)?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let entry = trash_dir(self.dir()).join(&trashed.id);
        let copy = entry.join("skill").join("SKILL.md");
        let old = fs::read(&copy).map_err(io("reading", &copy))?;
        self.swap_text(&skill, &old, now_ms)?;
        fs::remove_dir_all(&entry).map_err(io("clearing", &entry))?;
        self.reload();
        Ok(())
    }

    /// Writes `text` over a skill's file after a copy of it is in the trash.
    fn swap_text(&self, skill: &Skill, text: &[u8], now_ms: i64) -> Result<(), Error> {
        let old = fs::read(&skill.path).map_err(io("reading", &skill.path))?;
        let trashed = self.new_trash(skill, now_ms)?;
        let copy = trash_dir(self.dir()).join(&trashed.id).join("skill").join("SKILL.md");
        disk::write_atomic(&copy, &old).map_err(io("writing", &copy))?;
        disk::write_atomic(&skill.path, text).map_err(io("writing", &skill.path))
    }

    /// What can be brought back, newest first.
    pub fn trash(&self) -> Result<Vec<Trashed>, Error> {
        let dir = trash_dir(self.dir());
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io("reading", &dir)(error)),
        };
        let mut all: Vec<Trashed> = entries
            .filter_map(Result::ok)
            .filter(|e| e.path().join("skill").is_dir())
            .filter_map(|e| disk::read_json::<Trashed>(&e.path().join("entry.json")).ok().flatten())
            .filter(|t| is_plain(&t.from) && is_plain(Path::new(&t.id)))
            .collect();
        all.sort_by(|a, b| b.removed_ms.cmp(&a.removed_ms).then_with(|| b.id.cmp(&a.id)));
        Ok(all)
    }

    /// Deletes what has been in the trash since before `until_ms`, for good. Returns how many.
    pub fn empty_trash(&self, until_ms: i64) -> Result<usize, Error> {
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let old: Vec<_> = self.trash()?.into_iter().filter(|t| t.removed_ms < until_ms).collect();
        for trashed in &old {
            let entry = trash_dir(self.dir()).join(&trashed.id);
            fs::remove_dir_all(&entry).map_err(io("deleting", &entry))?;
        }
        Ok(old.len())
    }

    /// Lets search find the skill again. `false` when it was enabled already.
    pub fn enable(&self, name: &str) -> Result<bool, Error> {
        self.switch(name, true)
    }

    /// Keeps the skill but hides it from search. `false` when it was disabled already.
    pub fn disable(&self, name: &str) -> Result<bool, Error> {
        self.switch(name, false)
    }

    fn switch(&self, name: &str, on: bool) -> Result<bool, Error> {
        self.find(name)?;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        let mut names = disk::read_disabled(self.dir()).map_err(io("reading the disabled skills of", self.dir()))?;
        let changed = if on { names.remove(name) } else { names.insert(name.to_owned()) };
        if changed {
            disk::write_disabled(self.dir(), &names).map_err(io("writing the disabled skills of", self.dir()))?;
            self.reload();
        }
        Ok(changed)
    }

    /// Copies a skill folder, or every skill of a folder of skills, into the library. Links are not followed.
    pub fn import(&self, source: &Path, replace: bool, now_ms: i64) -> Result<Imported, Error> {
        let refused = |why: &str| Error::Import { path: source.to_owned(), why: why.to_owned() };
        if !source.is_dir() {
            return Err(refused("it is not a folder; give the folder that holds SKILL.md"));
        }
        let mut report = Imported::default();
        let folders: Vec<PathBuf> = if disk::manifest(source).is_some() {
            vec![source.to_owned()]
        } else {
            let found = disk::discover(source, &mut report.problems).map_err(io("reading", source))?;
            found.iter().filter_map(|p| p.parent().map(Path::to_owned)).collect()
        };
        if folders.is_empty() {
            return Err(refused("there is no SKILL.md in it or in its folders"));
        }
        let single = folders.len() == 1;
        let _lock = lock(self.dir()).map_err(io("locking", self.dir()))?;
        for folder in folders {
            match self.import_one(&folder, replace, now_ms) {
                Ok((name, replaced)) => {
                    report.names.push(name);
                    report.replaced.extend(replaced);
                }
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) if single => return Err(error),
                Err(Error::Invalid { problems }) => report.problems.extend(problems),
                Err(error) => report.problems.push(Problem::error(&folder, error.to_string(), "")),
            }
        }
        self.reload();
        Ok(report)
    }

    fn import_one(&self, folder: &Path, replace: bool, now_ms: i64) -> Result<(String, Option<Trashed>), Error> {
        let path = disk::manifest(folder).unwrap_or_else(|| folder.join("SKILL.md"));
        let parsed = parse(&path, &disk::read_capped(&path).map_err(io("reading", &path))?);
        let Some(skill) = parsed.skill else { return Err(Error::Invalid { problems: parsed.problems }) };
        let name = checked(&skill.name, folder)?.to_owned();
        let staged = Staged::new(self.dir(), &name, now_ms)?;
        let mut left = Allowance { files: MAX_IMPORT_FILES, bytes: MAX_IMPORT_BYTES };
        copy_folder(folder, &staged.folder, 0, &mut left)?;
        let replaced = self.put(&staged, &name, replace, now_ms)?;
        Ok((name, replaced))
    }

    /// Moves a staged folder to its place.
    fn put(&self, staged: &Staged, name: &str, replace: bool, now_ms: i64) -> Result<Option<Trashed>, Error> {
        let target = self.dir().join(name);
        let bank = self.snapshot();
        let mut replaced = None;
        if let Some(skill) = bank.get(name) {
            if !replace {
                return Err(Error::Exists { name: name.to_owned(), path: skill.path.clone() });
            }
            replaced = Some(self.to_trash(skill, now_ms)?);
        }
        if target.symlink_metadata().is_ok() {
            return Err(Error::Exists { name: name.to_owned(), path: target });
        }
        fs::rename(&staged.folder, &target).map_err(io("writing", &target))?;
        sync_folder(self.dir());
        Ok(replaced)
    }

    fn new_trash(&self, skill: &Skill, now_ms: i64) -> Result<Trashed, Error> {
        let dir = trash_dir(self.dir());
        let folder = skill.path.parent().unwrap_or(self.dir());
        let from = folder.strip_prefix(self.dir()).unwrap_or(Path::new(&skill.name)).to_owned();
        let id = (1..)
            .map(|n| if n == 1 { format!("{now_ms}-{}", skill.name) } else { format!("{now_ms}-{}-{n}", skill.name) })
            .find(|id| !dir.join(id).exists())
            .unwrap_or_default();
        let trashed = Trashed { id, name: skill.name.clone(), from, removed_ms: now_ms };
        let record = dir.join(&trashed.id).join("entry.json");
        disk::write_json(&record, &trashed).map_err(io("writing", &record))?;
        Ok(trashed)
    }

    fn to_trash(&self, skill: &Skill, now_ms: i64) -> Result<Trashed, Error> {
        let folder = skill.path.parent().unwrap_or(self.dir());
        let trashed = self.new_trash(skill, now_ms)?;
        let target = trash_dir(self.dir()).join(&trashed.id).join("skill");
        fs::rename(folder, &target).map_err(io("moving to the trash", folder))?;
        sync_folder(folder.parent().unwrap_or(self.dir()));
        Ok(trashed)
    }

    fn find(&self, name: &str) -> Result<Arc<Skill>, Error> {
        let bank = self.snapshot();
        bank.get(name).cloned().ok_or_else(|| Error::NotFound { name: name.to_owned(), hint: nearest(name, &bank) })
    }
}

/// Checks a SKILL.md, or a folder with one or with many, and says everything that the Agent Skills form does not allow
/// or that search will miss. Empty means spec-clean.
pub fn validate(path: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    let files = if path.is_file() {
        vec![path.to_owned()]
    } else if let Some(file) = disk::manifest(path) {
        vec![file]
    } else {
        match disk::discover(path, &mut problems) {
            Ok(files) => files,
            Err(error) => {
                problems.push(Problem::error(path, format!("cannot be read: {error}"), "check the path"));
                return problems;
            }
        }
    };
    if files.is_empty() && problems.is_empty() {
        problems.push(Problem::error(
            path,
            "there is no SKILL.md here",
            "give a SKILL.md, its folder, or a folder of such",
        ));
    }
    for file in files {
        // The folder's name counts, so `.` and relative paths are made whole.
        let whole = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        match disk::read_capped(&file) {
            Ok(bytes) => {
                let parsed = parse(&whole, &bytes);
                let lints = parsed.skill.map(|skill| crate::lint::lint(&skill, &crate::lint::Against::default()));
                problems.extend(parsed.problems.into_iter().map(|p| Problem { file: file.clone(), ..p }));
                problems.extend(lints.into_iter().flatten().map(|lint| lint.problem(&file)));
            }
            Err(error) => {
                problems.push(Problem::error(&file, format!("cannot be read: {error}"), "check its permissions"));
            }
        }
    }
    problems
}

/// `text` in Agent Skills form: a top-level `category` moves under `metadata`, values that need quotes get them. All
/// other bytes stay. `None` when there is nothing to do or it cannot be done line by line.
pub fn modernise(text: &str) -> Option<String> {
    let parsed = parse(Path::new("SKILL.md"), text.as_bytes());
    let skill = parsed.skill?;
    let mut new = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
    if parsed.problems.iter().any(|p| p.severity == crate::Severity::Warning && p.message.contains("needs quotes")) {
        new = front_matter::set(&new, "name", &skill.name).ok()?;
        new = front_matter::set(&new, "description", &skill.description).ok()?;
    }
    if skill.front_matter.contains_key("category") {
        new = front_matter::set_metadata(&new, CATEGORY_KEY, &skill.category).ok()??;
        new = front_matter::unset(&new, "category").ok()?;
    }
    let again = parse(Path::new("SKILL.md"), new.as_bytes()).skill?;
    let same = again.name == skill.name && again.description == skill.description && again.category == skill.category;
    (same && again.body == skill.body && new != text).then_some(new)
}

fn accept(folder: &Path, bytes: &[u8], name: &str) -> Result<(), Error> {
    let path = folder.join("SKILL.md");
    let Parsed { skill, mut problems } = parse(&path, bytes);
    match skill {
        Some(skill) if skill.name == name => Ok(()),
        Some(skill) => {
            let message = format!("the text's name is `{}`, not `{name}`", skill.name);
            Err(Error::Invalid { problems: vec![Problem::error(&path, message, "use one name in both places")] })
        }
        None => {
            problems.retain(Problem::is_error);
            Err(Error::Invalid { problems })
        }
    }
}

fn checked<'a>(name: &'a str, at: &Path) -> Result<&'a str, Error> {
    check_slug(name).map_err(|why| Error::Invalid {
        problems: vec![Problem::error(
            at,
            format!("the name {name:?} {why}"),
            "use lower-case letters, digits and single hyphens, at most 64",
        )],
    })?;
    Ok(name)
}

fn is_plain(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|c| matches!(c, std::path::Component::Normal(_)))
}

/// A folder under `.metaclaw/staging` that is gone when this is dropped, unless it has been moved away.
struct Staged {
    folder: PathBuf,
}

impl Staged {
    fn new(dir: &Path, name: &str, now_ms: i64) -> Result<Self, Error> {
        let parent = dir.join(OWN_FOLDER).join("staging");
        let folder = parent.join(format!("{name}-{now_ms}-{}", std::process::id()));
        // Left over from a crash: the lock is ours, so nobody uses it.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(io("making", &folder))?;
        Ok(Self { folder })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Allowance {
    files: usize,
    bytes: u64,
}

/// Copies a skill's folder within the limits of an import. Links are not followed.
pub(crate) fn copy_whole(from: &Path, to: &Path) -> Result<(), Error> {
    copy_folder(from, to, 0, &mut Allowance { files: MAX_IMPORT_FILES, bytes: MAX_IMPORT_BYTES })
}

fn copy_folder(from: &Path, to: &Path, depth: usize, left: &mut Allowance) -> Result<(), Error> {
    let refused = |path: &Path, why: String| Error::Import { path: path.to_owned(), why };
    if depth > MAX_IMPORT_DEPTH {
        return Err(refused(from, format!("its folders are nested more than {MAX_IMPORT_DEPTH} deep")));
    }
    fs::create_dir_all(to).map_err(io("making", to))?;
    for entry in fs::read_dir(from).map_err(io("reading", from))? {
        let entry = entry.map_err(io("reading", from))?;
        let (path, name) = (entry.path(), entry.file_name());
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let kind = entry.file_type().map_err(io("reading", &path))?;
        if kind.is_symlink() {
            return Err(refused(&path, "it is a link; replace it by the file it points to".into()));
        }
        if kind.is_dir() {
            copy_folder(&path, &to.join(&name), depth + 1, left)?;
            continue;
        }
        if !kind.is_file() {
            return Err(refused(&path, "it is neither a file nor a folder; take it out".into()));
        }
        let bytes = entry.metadata().map_err(io("reading", &path))?.len();
        if left.files == 0 || bytes > left.bytes {
            return Err(refused(
                &path,
                format!("the skill has more than {MAX_IMPORT_FILES} files or {MAX_IMPORT_BYTES} bytes"),
            ));
        }
        // On a disk that tells them apart, one of them would be read and the other installed.
        let beside = || fs::read_dir(from).is_ok_and(|all| all.flatten().any(|one| one.file_name() == "SKILL.md"));
        if depth == 0 && name == "skill.md" && beside() {
            return Err(refused(&path, "there is a SKILL.md beside it; keep one of the two".into()));
        }
        left.files -= 1;
        left.bytes -= bytes;
        let name = if depth == 0 && name == "skill.md" { "SKILL.md".into() } else { name };
        let target = to.join(name);
        fs::copy(&path, &target).map_err(io("copying", &path))?;
        fs::File::open(&target).and_then(|f| f.sync_all()).map_err(io("writing", &target))?;
    }
    Ok(())
}

/// The existing name with the most character pairs in common, if they are many.
fn nearest(name: &str, bank: &crate::Bank) -> Option<String> {
    let pairs = |s: &str| s.as_bytes().windows(2).map(<[u8]>::to_vec).collect::<std::collections::BTreeSet<_>>();
    let asked = pairs(name);
    let score = |other: &str| {
        let other = pairs(other);
        2 * asked.intersection(&other).count() * 100 / (asked.len() + other.len()).max(1)
    };
    let best = bank.skills().iter().map(|s| (score(&s.name), &s.name)).max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1)));
    best.filter(|(score, _)| *score >= 50).map(|(_, name)| name.clone())
}
