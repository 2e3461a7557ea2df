//! Skills out and in, as a folder of skill folders or as a zip of one. What comes in is held until a person has said yes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::change::{MAX_IMPORT_BYTES, MAX_IMPORT_FILES};
use crate::disk::{self, OWN_FOLDER};
use crate::error::{Error, io as failed};
use crate::library::Library;
use crate::problem::Problem;
use crate::skill::{Origin, Skill};

/// Most files and bytes of one zip.
const ZIP_FILES: usize = 10 * MAX_IMPORT_FILES;
const ZIP_BYTES: u64 = 10 * MAX_IMPORT_BYTES;

/// Where a folder of skills lies; one that was unpacked for it is gone when this is dropped.
pub(crate) struct Source {
    pub(crate) folder: PathBuf,
    unpacked: bool,
}

impl Drop for Source {
    fn drop(&mut self) {
        if self.unpacked {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Skills, each with the folder it is in.
type Found = Vec<(Skill, PathBuf)>;

impl Library {
    /// Copies skills to `to`: a zip if its name ends so, else a folder. Without names, all but the built-in ones as they came.
    pub fn export(&self, names: &[String], to: &Path) -> Result<Vec<String>, Error> {
        let bank = self.snapshot();
        let mut skills: Vec<&Skill> = Vec::new();
        for name in names {
            let found = bank.get(name).ok_or_else(|| Error::NotFound { name: name.clone(), hint: None })?;
            skills.push(found);
        }
        if names.is_empty() {
            skills.extend(bank.skills().iter().filter(|s| s.origin != Origin::Builtin).map(|skill| &**skill));
        }
        if to.symlink_metadata().is_ok() {
            return Err(Error::Exists { name: to.display().to_string(), path: to.to_owned() });
        }
        if is_zip(to) {
            let temp = to.with_extension("zip.tmp");
            let written = zip_of(&skills, &temp).and_then(|()| fs::rename(&temp, to));
            if written.is_err() {
                let _ = fs::remove_file(&temp);
            }
            written.map_err(failed("writing", to))?;
        } else {
            for skill in &skills {
                let from = skill.path.parent().unwrap_or(self.dir());
                crate::change::copy_whole(from, &to.join(&skill.name))?;
            }
        }
        Ok(skills.iter().map(|skill| skill.name.clone()).collect())
    }

    /// The folder of what is to be imported, unpacked if it is a zip.
    pub(crate) fn source(&self, path: &Path, now_ms: i64) -> Result<Source, Error> {
        let refused = |why: &str| Error::Import { path: path.to_owned(), why: why.to_owned() };
        if path.is_dir() {
            return Ok(Source { folder: path.to_owned(), unpacked: false });
        }
        if !is_zip(path) {
            return Err(refused("it is neither a folder nor a zip"));
        }
        let folder =
            self.dir().join(OWN_FOLDER).join("staging").join(format!("import-{now_ms}-{}", std::process::id()));
        let source = Source { folder: folder.clone(), unpacked: true };
        let file = File::open(path).map_err(failed("reading", path))?;
        let mut archive = ZipArchive::new(file).map_err(|error| refused(&format!("it is no zip: {error}")))?;
        if archive.len() > ZIP_FILES {
            return Err(refused(&format!("it has more than {ZIP_FILES} files")));
        }
        let mut left = ZIP_BYTES;
        for at in 0..archive.len() {
            let mut entry = archive.by_index(at).map_err(|error| refused(&format!("it cannot be read: {error}")))?;
            // A name that leads out of the folder, and a link, are not made.
            let Some(name) = entry.enclosed_name() else { return Err(refused("a file in it leads out of its folder")) };
            if entry.is_symlink() {
                return Err(refused("there is a link in it"));
            }
            let target = folder.join(name);
            if entry.is_dir() {
                fs::create_dir_all(&target).map_err(failed("making", &target))?;
                continue;
            }
            let parent = target.parent().unwrap_or(&folder);
            fs::create_dir_all(parent).map_err(failed("making", parent))?;
            let mut out = File::create(&target).map_err(failed("writing", &target))?;
            let copied = io::copy(&mut (&mut entry).take(left.saturating_add(1)), &mut out);
            let copied = copied.map_err(failed("unpacking", path))?;
            left = left.checked_sub(copied).ok_or_else(|| refused(&format!("it has more than {ZIP_BYTES} bytes")))?;
        }
        Ok(source)
    }

    /// The skills in a folder: each with its own folder, and what is wrong with those that cannot be read.
    pub(crate) fn found_in(&self, folder: &Path) -> Result<(Found, Vec<Problem>), Error> {
        let mut problems = Vec::new();
        let files = match disk::manifest(folder) {
            Some(file) => vec![file],
            None => disk::discover(folder, &mut problems).map_err(failed("reading", folder))?,
        };
        let mut found = Vec::new();
        for file in files {
            let parsed = crate::parse(&file, &disk::read_capped(&file).map_err(failed("reading", &file))?);
            match parsed.skill {
                Some(skill) => found.push((skill, file.parent().unwrap_or(folder).to_owned())),
                None => problems.extend(parsed.problems.into_iter().filter(Problem::is_error)),
            }
        }
        if found.is_empty() && problems.is_empty() {
            let why = "there is no SKILL.md in it or in its folders".to_owned();
            return Err(Error::Import { path: folder.to_owned(), why });
        }
        Ok((found, problems))
    }

    /// Keeps a folder aside until a person has said yes to it.
    pub(crate) fn hold(&self, folder: &Path, hash: &str) -> Result<(), Error> {
        let held = self.held(hash);
        let _ = fs::remove_dir_all(&held);
        crate::change::copy_whole(folder, &held)
    }

    /// A folder that was kept aside is not wanted.
    pub(crate) fn let_go_of(&self, hash: &str) -> Result<(), Error> {
        match fs::remove_dir_all(self.held(hash)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("removing", &self.held(hash))(error)),
            _ => Ok(()),
        }
    }

    /// Keeps it under another text of its SKILL.md.
    pub(crate) fn hold_as(&self, before: &str, after: &str) -> Result<(), Error> {
        let (from, to) = (self.held(before), self.held(after));
        if from == to || !from.is_dir() {
            return Ok(());
        }
        let _ = fs::remove_dir_all(&to);
        fs::rename(&from, &to).map_err(failed("moving", &from))
    }

    /// The files beside a held SKILL.md, with their sizes, for people; of many, the first ones.
    pub(crate) fn files_beside(&self, hash: &str) -> Vec<String> {
        const SHOWN: usize = 20;
        let folder = self.held(hash);
        let mut files = Vec::new();
        list_files(&folder, &folder, &mut files);
        files.retain(|(name, _)| name != "SKILL.md");
        files.sort();
        let more = files.len().saturating_sub(SHOWN);
        let shown = files.into_iter().take(SHOWN).map(|(name, size)| format!("{name} ({size} bytes)"));
        shown.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }

    /// Where the folder with this text of a SKILL.md is kept.
    pub(crate) fn held(&self, hash: &str) -> PathBuf {
        self.dir().join(OWN_FOLDER).join("imports").join(hash)
    }
}

fn list_files(root: &Path, folder: &Path, files: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => list_files(root, &path, files),
            Ok(meta) => {
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
                files.push((name.chars().filter(|c| !c.is_control()).collect(), meta.len()));
            }
            Err(_) => {}
        }
    }
}

fn is_zip(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("zip"))
}

fn zip_of(skills: &[&Skill], to: &Path) -> io::Result<()> {
    let mut zip = ZipWriter::new(File::create(to)?);
    for skill in skills {
        let folder = skill.path.parent().unwrap_or(Path::new("."));
        add(&mut zip, folder, &skill.name, 0)?;
    }
    zip.finish().map_err(io::Error::other)?.sync_all()
}

fn add(zip: &mut ZipWriter<File>, folder: &Path, name: &str, depth: usize) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (kind, file) = (entry.file_type()?, entry.file_name());
        let Some(file) = file.to_str().filter(|file| !file.starts_with('.')) else { continue };
        let inner = format!("{name}/{file}");
        if kind.is_dir() && depth < 8 {
            add(zip, &entry.path(), &inner, depth + 1)?;
        } else if kind.is_file() {
            zip.start_file(inner, SimpleFileOptions::default()).map_err(io::Error::other)?;
            let mut bytes = Vec::new();
            File::open(entry.path())?.take(MAX_IMPORT_BYTES).read_to_end(&mut bytes)?;
            zip.write_all(&bytes)?;
        }
    }
    Ok(())
}
