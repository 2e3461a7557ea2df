//! Changes of the skill library, each written down so that the last one can be taken back: `skills-log.jsonl` in the
//! home, one line per change. The skills themselves are changed by the library, atomically and with a trash.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{Code, Problem, SkillChange, SkillLogEntry};
use crate::core::{Core, sentence};

/// How many changes are remembered.
const REMEMBERED: usize = 500;

/// How a change is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Back {
    /// Write the file back that an edit wrote over.
    Text { restore: String },
    /// Remove what was new, bring back what was replaced or removed.
    Skills { remove: Vec<String>, restore: Vec<String> },
    /// Switch a skill the other way.
    Switch { name: String, on: bool },
    /// By a command of its own, since it decides over more than files.
    Command { command: String },
}

/// A change as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    at_ms: i64,
    message: String,
    names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    back: Option<Back>,
}

impl Core {
    /// Copies a skill folder, or a folder of them, into the library.
    pub(crate) fn import_skills(&self, path: &Path, replace: bool) -> Result<SkillChange, Problem> {
        if !path.exists() {
            return Err(Problem::not_found(format!("{} does not exist.", path.display())));
        }
        if path.is_file() {
            return self.add_file(path, replace);
        }
        let done = self.library().import(path, replace, self.clock().now_ms()).map_err(|e| problem(&e))?;
        if done.names.is_empty() {
            let why: Vec<String> = done.problems.iter().map(ToString::to_string).collect();
            return Err(Problem::invalid(format!("No skill was added from {}.", path.display())).hint(why.join("\n")));
        }
        let replaced: Vec<&str> = done.replaced.iter().map(|trashed| trashed.name.as_str()).collect();
        let back = Back::Skills {
            remove: done.names.iter().filter(|name| !replaced.contains(&name.as_str())).cloned().collect(),
            restore: done.replaced.iter().map(|trashed| trashed.id.clone()).collect(),
        };
        let mut message = format!("Added {}.", done.names.join(", "));
        if !replaced.is_empty() {
            message = format!("Added {}; replaced {}.", done.names.join(", "), replaced.join(", "));
        }
        if let Some(first) = done.problems.iter().find(|problem| problem.is_error()) {
            message.push_str(&format!(" Not taken: {first}."));
        }
        self.note(message, done.names, Some(back))
    }

    /// Takes one SKILL.md into the library. What lies beside it is not looked at: it may be anybody's download folder.
    fn add_file(&self, path: &Path, replace: bool) -> Result<SkillChange, Problem> {
        let named = path.file_name().is_some_and(|name| name == "SKILL.md" || name == "skill.md");
        if !named {
            return Err(Problem::invalid(format!("{} is no SKILL.md.", path.display()))
                .hint("Give a file of that name, or the folder that holds it."));
        }
        let unread = |error| crate::api::problem::io(&format!("{} cannot be read", path.display()), &error);
        let mut bytes = Vec::new();
        let longest = u64::try_from(skills::MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        std::fs::File::open(path).and_then(|file| file.take(longest).read_to_end(&mut bytes)).map_err(unread)?;
        let parsed = skills::parse(path, &bytes);
        if parsed.skill.is_none() {
            return Err(problem(&skills::Error::Invalid { problems: parsed.problems }));
        }
        self.write_skill(None, &String::from_utf8_lossy(&bytes), replace)
    }

    /// Writes a skill's whole text: a new one, or over the one named.
    pub(crate) fn write_skill(&self, name: Option<&str>, text: &str, replace: bool) -> Result<SkillChange, Problem> {
        let (library, now) = (self.library(), self.clock().now_ms());
        let Some(name) = name else {
            let parsed = skills::parse(Path::new("SKILL.md"), text.as_bytes());
            let Some(skill) = parsed.skill else {
                return Err(problem(&skills::Error::Invalid { problems: parsed.problems }));
            };
            let was_there = library.snapshot().get(&skill.name).is_some();
            library.add_text(&skill.name, text, replace, now).map_err(|e| problem(&e))?;
            let restore = self.newest_trash(&skill.name).filter(|_| was_there);
            let (verb, remove) =
                if restore.is_some() { ("Replaced", vec![]) } else { ("Added", vec![skill.name.clone()]) };
            let back = Back::Skills { remove, restore: restore.into_iter().collect() };
            let message = format!("{verb} {}.{}", skill.name, dangers(&skill));
            return self.note(message, vec![skill.name], Some(back));
        };
        let skill = library.rewrite(name, text, now).map_err(|e| problem(&e))?;
        let back = self.newest_trash(name).map(|restore| Back::Text { restore });
        self.note(format!("Changed {name}.{}", dangers(&skill)), vec![name.to_owned()], back)
    }

    /// Moves a skill to the trash.
    pub(crate) fn remove_skill(&self, name: &str) -> Result<SkillChange, Problem> {
        let trashed = self.library().remove(name, self.clock().now_ms()).map_err(|e| problem(&e))?;
        let back = Back::Skills { remove: vec![], restore: vec![trashed.id] };
        self.note(format!("Removed {name}."), vec![name.to_owned()], Some(back))
    }

    /// Lets a skill be used, or not.
    pub(crate) fn switch_skill(&self, name: &str, on: bool) -> Result<SkillChange, Problem> {
        if on && self.disabled().contains(name) {
            return Err(Problem::new(
                Code::Conflict,
                format!("{name} stays off: skills.disabled in the config names it."),
            )
            .hint("Take it out there: metaclaw config set skills.disabled LIST"));
        }
        let library = self.library();
        let changed = if on { library.enable(name) } else { library.disable(name) }.map_err(|e| problem(&e))?;
        let names = vec![name.to_owned()];
        let word = if on { "on" } else { "off" };
        if !changed {
            return Ok(SkillChange { names, message: format!("{name} was {word} already."), undo: false });
        }
        self.note(format!("Switched {name} {word}."), names, Some(Back::Switch { name: name.to_owned(), on: !on }))
    }

    /// Takes back the last change that can be. What was undone by hand meanwhile counts as taken back.
    pub(crate) fn undo_skill(&self) -> Result<SkillChange, Problem> {
        let mut entries = self.entries()?;
        let Some(last) = entries.iter().rposition(|entry| entry.back.is_some()) else {
            return Err(Problem::not_found("There is no change of the skills to take back."));
        };
        if let Some(Back::Command { command }) = &entries[last].back {
            let hint = format!("Take it back with: {command}. Say `undo` again for the change before it.");
            let message = format!("The last change was: {}", entries[last].message);
            entries[last].back = None;
            self.write_entries(&entries)?;
            return Err(Problem::new(Code::Conflict, message).hint(hint));
        }
        let (library, now) = (self.library(), self.clock().now_ms());
        let mut gone = Vec::new();
        let mut step = |done: Result<(), skills::Error>| match done {
            Ok(()) => Ok(()),
            Err(error @ (skills::Error::NotFound { .. } | skills::Error::NotInTrash { .. })) => {
                gone.push(sentence(&error));
                Ok(())
            }
            Err(error) => Err(problem(&error)),
        };
        match entries[last].back.take() {
            Some(Back::Skills { remove, restore }) => {
                for name in remove {
                    step(library.remove(&name, now).map(|_| ()))?;
                }
                for id in restore {
                    step(library.restore(&id, true, now).map(|_| ()))?;
                }
            }
            Some(Back::Text { restore }) => step(library.restore_text(&restore, now))?,
            Some(Back::Switch { name, on }) => {
                step(if on { library.enable(&name) } else { library.disable(&name) }.map(|_| ()))?;
            }
            Some(Back::Command { .. }) | None => {}
        }
        let mut message = format!("Taken back: {}", entries[last].message);
        if !gone.is_empty() {
            message.push_str(&format!(" Nothing was left to do for a part of it: {}", gone.join(" ")));
        }
        let names = entries[last].names.clone();
        entries.push(Entry { at_ms: now, message: message.clone(), names: names.clone(), back: None });
        self.write_entries(&entries)?;
        self.tell(&message, &names);
        Ok(SkillChange { names, message, undo: false })
    }

    /// Changes of the library, newest first.
    pub(crate) fn skill_log(&self, limit: usize) -> Result<Vec<SkillLogEntry>, Problem> {
        let shown = |entry: Entry| SkillLogEntry {
            at_ms: entry.at_ms,
            message: entry.message,
            names: entry.names,
            undo: entry.back.is_some(),
        };
        Ok(self.entries()?.into_iter().rev().take(limit).map(shown).collect())
    }

    /// Writes down a decision over a learned skill, and what takes it back.
    pub(crate) fn note_decision(&self, message: String, name: &str, command: Option<String>) -> Result<(), Problem> {
        let back = command.map(|command| Back::Command { command });
        self.note(message, vec![name.to_owned()], back).map(|_| ())
    }

    fn newest_trash(&self, name: &str) -> Option<String> {
        self.library().trash().ok()?.into_iter().find(|trashed| trashed.name == name).map(|trashed| trashed.id)
    }

    fn note(&self, message: String, names: Vec<String>, back: Option<Back>) -> Result<SkillChange, Problem> {
        let undo = back.is_some();
        let entry = Entry { at_ms: self.clock().now_ms(), message: message.clone(), names: names.clone(), back };
        let mut entries = self.entries()?;
        entries.push(entry);
        self.write_entries(&entries)?;
        self.tell(&message, &names);
        Ok(SkillChange { names, message, undo })
    }

    fn tell(&self, message: &str, names: &[String]) {
        tracing::info!("{message}");
        if let Ok(run) = self.running() {
            run.bus.keep("skills_changed", json!({ "message": message, "names": names }));
            run.evolution.changed();
        }
    }

    fn log_file(&self) -> PathBuf {
        self.home().dir().join("skills-log.jsonl")
    }

    /// The log, oldest first. A line that cannot be read is passed over.
    fn entries(&self) -> Result<Vec<Entry>, Problem> {
        let path = self.log_file();
        let file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(crate::api::problem::io(&format!("{} cannot be read", path.display()), &error)),
        };
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        Ok(lines.filter_map(|line| serde_json::from_str(&line).ok()).collect())
    }

    fn write_entries(&self, entries: &[Entry]) -> Result<(), Problem> {
        let path = self.log_file();
        let fresh = path.with_extension("jsonl.tmp");
        let write = || -> std::io::Result<()> {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&fresh)?;
            for entry in &entries[entries.len().saturating_sub(REMEMBERED)..] {
                serde_json::to_writer(&mut file, entry)?;
                file.write_all(b"\n")?;
            }
            file.sync_all()?;
            std::fs::rename(&fresh, &path)
        };
        write().map_err(|error| crate::api::problem::io(&format!("{} cannot be written", path.display()), &error))
    }
}

/// What a person should know about a text of theirs that was taken all the same.
fn dangers(skill: &skills::Skill) -> String {
    let lints = skills::lint(skill, &skills::Against::default());
    let dangerous = lints.iter().filter(|lint| lint.flaw.is_dangerous());
    dangerous.map(|lint| format!(" Look at it again: {}.", lint.message)).collect()
}

pub(crate) fn problem(error: &skills::Error) -> Problem {
    let text = sentence(error);
    match error {
        skills::Error::NotFound { .. } | skills::Error::NotInTrash { .. } => {
            Problem::not_found(text).hint("List them with: metaclaw skills list")
        }
        skills::Error::Exists { .. } => {
            Problem::new(Code::Conflict, text).hint("Replace it with --replace; the old one can be brought back.")
        }
        skills::Error::Changed { .. } => Problem::new(Code::Conflict, text).hint("Look at it, and try again."),
        skills::Error::Invalid { .. } | skills::Error::Import { .. } => Problem::invalid(text),
        skills::Error::Io { source, .. } => crate::api::problem::io(text.trim_end_matches('.'), source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Home;
    use std::sync::Arc;

    const TEXT: &str =
        "---\nname: pack-a-box\ndescription: Packs a box. Use when a box must be packed.\n---\n\nPut it in.\n";

    fn core(dir: &Path) -> Core {
        Core::cold(Home::at(dir), None, Arc::new(proxy::SystemClock))
    }

    #[test]
    fn every_change_can_be_taken_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("skills")).unwrap();
        let core = core(dir.path());
        let names = |core: &Core| -> Vec<String> {
            core.library().snapshot().skills().iter().map(|skill| skill.name.clone()).collect()
        };
        core.write_skill(None, TEXT, false).unwrap();
        let beside = dir.path().join("skills/pack-a-box/references/sizes.md");
        std::fs::create_dir_all(beside.parent().unwrap()).unwrap();
        std::fs::write(&beside, "A4").unwrap();
        core.write_skill(Some("pack-a-box"), &TEXT.replace("Put it in.", "Put it in well."), true).unwrap();
        core.switch_skill("pack-a-box", false).unwrap();
        core.remove_skill("pack-a-box").unwrap();
        assert_eq!(names(&core), Vec::<String>::new());
        core.undo_skill().unwrap();
        assert_eq!(names(&core), ["pack-a-box"]);
        core.undo_skill().unwrap();
        assert!(core.library().snapshot().is_enabled("pack-a-box"));
        core.undo_skill().unwrap();
        assert_eq!(core.library().snapshot().get("pack-a-box").unwrap().body, "Put it in.");
        assert_eq!(std::fs::read_to_string(&beside).unwrap(), "A4", "an edit taken back leaves the other files alone");
        core.undo_skill().unwrap();
        assert_eq!(names(&core), Vec::<String>::new());
        assert_eq!(core.undo_skill().unwrap_err().code, Code::NotFound);
        assert_eq!(core.skill_log(100).unwrap().len(), 8);
    }

    #[test]
    fn a_change_that_was_undone_by_hand_does_not_block_the_ones_before_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("skills")).unwrap();
        let core = core(dir.path());
        core.write_skill(None, TEXT, false).unwrap();
        core.write_skill(None, &TEXT.replace("pack-a-box", "tie-a-knot"), false).unwrap();
        std::fs::remove_dir_all(dir.path().join("skills/tie-a-knot")).unwrap();
        core.library().reload();
        let done = core.undo_skill().unwrap();
        assert!(done.message.contains("tie-a-knot") && done.message.contains("Nothing was left to do"), "{done:?}");
        core.undo_skill().unwrap();
        assert_eq!(core.library().snapshot().len(), 0);
    }

    #[test]
    fn a_file_is_taken_alone_and_only_if_it_is_a_skill() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("skills")).unwrap();
        let downloads = dir.path().join("downloads");
        std::fs::create_dir_all(&downloads).unwrap();
        for (name, text) in [("SKILL.md", TEXT), ("passwords.txt", "secret"), ("notes.md", TEXT)] {
            std::fs::write(downloads.join(name), text).unwrap();
        }
        let core = core(dir.path());
        core.import_skills(&downloads.join("SKILL.md"), false).unwrap();
        let here: Vec<_> = std::fs::read_dir(dir.path().join("skills/pack-a-box")).unwrap().collect();
        assert_eq!(here.len(), 1, "{here:?}");
        assert_eq!(core.import_skills(&downloads.join("notes.md"), true).unwrap_err().code, Code::Invalid);
    }

    #[cfg(unix)]
    #[test]
    fn the_log_of_changes_is_the_owners() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("skills")).unwrap();
        let core = core(dir.path());
        core.write_skill(None, TEXT, false).unwrap();
        assert_eq!(std::fs::metadata(core.log_file()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_taken_name_and_a_missing_one_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("skills")).unwrap();
        let core = core(dir.path());
        core.write_skill(None, TEXT, false).unwrap();
        assert_eq!(core.write_skill(None, TEXT, false).unwrap_err().code, Code::Conflict);
        assert_eq!(core.remove_skill("nothing").unwrap_err().code, Code::NotFound);
        assert_eq!(core.write_skill(None, "no front matter", false).unwrap_err().code, Code::Invalid);
    }
}
