//! The skills folder as a living thing: reads it into a [`Bank`], reads it again when told, and keeps the last good
//! version of a skill active while its file is broken. Everybody else holds an `Arc<Library>` and takes snapshots.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::bank::Bank;
use crate::disk;
use crate::generation::Generations;
use crate::parse::parse;
use crate::problem::{Problem, Severity};
use crate::skill::{Origin, Skill, hex};

/// See the module.
#[derive(Debug)]
pub struct Library {
    dir: PathBuf,
    bank: ArcSwap<Bank>,
    state: Mutex<State>,
    /// The skills that are measured, and how likely each is to be held out of a turn.
    measured: ArcSwap<HashMap<String, f32>>,
    /// `None` until somebody keeps count.
    generations: ArcSwapOption<Generations>,
}

#[derive(Debug, Default)]
struct State {
    /// The skill each file had when it was last good.
    good: BTreeMap<PathBuf, Arc<Skill>>,
    disabled: HashSet<String>,
    problems: Vec<Problem>,
    /// Skills that the settings switch off.
    off: HashSet<String>,
}

/// What a reload changed, as names.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reloaded {
    /// Skills that are new.
    pub added: Vec<String>,
    /// Skills whose file has other bytes than before, or that were enabled or disabled.
    pub changed: Vec<String>,
    /// Skills that are gone.
    pub removed: Vec<String>,
    /// Whether the list of problems is another one.
    pub problems_changed: bool,
}

impl Reloaded {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty() && !self.problems_changed
    }
}

impl Library {
    /// Reads the folder. One that does not exist is an empty library; what cannot be read is in [`Self::problems`].
    pub fn open(dir: impl Into<PathBuf>) -> Self {
        let library = Self {
            dir: dir.into(),
            bank: ArcSwap::default(),
            state: Mutex::default(),
            measured: ArcSwap::default(),
            generations: ArcSwapOption::empty(),
        };
        library.reload();
        library
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The skills as of the last reload. Cheap; hold it for one turn, not for longer.
    pub fn snapshot(&self) -> Arc<Bank> {
        self.bank.load_full()
    }

    /// What is wrong in the folder as of the last reload, by file.
    pub fn problems(&self) -> Vec<Problem> {
        self.lock().problems.clone()
    }

    /// Reads the folder again. Blocking: a few milliseconds for some hundred skills.
    pub fn reload(&self) -> Reloaded {
        let mut state = self.lock();
        let next = read(&self.dir, &state);
        let old = self.bank.load_full();
        let skills = distinct(&next);
        let mut report = Reloaded { problems_changed: skills.1 != state.problems, ..Reloaded::default() };
        let bank = Bank::new(skills.0, next.disabled.clone());
        for skill in bank.skills() {
            match old.get(&skill.name) {
                None => report.added.push(skill.name.clone()),
                Some(before)
                    if before.content_hash != skill.content_hash
                        || before.origin != skill.origin
                        || before.path != skill.path
                        || old.is_enabled(&skill.name) != bank.is_enabled(&skill.name) =>
                {
                    report.changed.push(skill.name.clone());
                }
                Some(_) => {}
            }
        }
        let gone = old.skills().iter().filter(|s| bank.get(&s.name).is_none());
        report.removed.extend(gone.map(|s| s.name.clone()));
        if !report.is_empty() {
            let bank = Arc::new(bank);
            self.bank.store(Arc::clone(&bank));
            // Last: a turn that is stamped with the new number has the new skills.
            self.count(&bank, &state.off);
        }
        *state = State { problems: skills.1, off: std::mem::take(&mut state.off), ..next };
        report
    }

    /// The skills that are measured, and how likely each is to be held out of a turn that it fits.
    pub fn measured(&self) -> Arc<HashMap<String, f32>> {
        self.measured.load_full()
    }

    /// Says which skills are measured.
    pub fn measure(&self, shares: HashMap<String, f32>) {
        self.measured.store(Arc::new(shares));
    }

    /// The numbers of the sets of skills; `None` while nobody keeps count.
    pub fn generations(&self) -> Option<Arc<Generations>> {
        self.generations.load_full()
    }

    /// Keeps count from here on, beginning with what was kept. `off` are skills that the settings switch off.
    pub fn begin_count(&self, kept: &Generations, off: HashSet<String>) {
        let mut state = self.lock();
        self.generations.store(Some(Arc::new(kept.after(&self.bank.load(), &off))));
        state.off = off;
    }

    /// The settings switch other skills off than before.
    pub fn switch_off(&self, off: HashSet<String>) {
        let mut state = self.lock();
        if state.off != off {
            self.count(&self.bank.load_full(), &off);
            state.off = off;
        }
    }

    fn count(&self, bank: &Bank, off: &HashSet<String>) {
        if let Some(before) = self.generations.load_full() {
            self.generations.store(Some(Arc::new(before.after(bank, off))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folder's content now; where a file is broken, what it was before.
fn read(dir: &Path, before: &State) -> State {
    let mut problems = Vec::new();
    let disabled = disk::read_disabled(dir).unwrap_or_else(|error| {
        problems.push(Problem::error(
            &dir.join(disk::OWN_FOLDER).join("disabled.json"),
            format!("cannot be read: {error}"),
            "the list of disabled skills stays as it was; delete the file to enable all",
        ));
        before.disabled.clone()
    });
    let paths = match disk::discover(dir, &mut problems) {
        Ok(paths) => paths,
        Err(error) => {
            let fix = "check its permissions; the skills read before stay active";
            problems.push(Problem::error(dir, format!("the skills folder cannot be read: {error}"), fix));
            return State { good: before.good.clone(), disabled, problems, off: HashSet::new() };
        }
    };
    let written = disk::read_written(dir).unwrap_or_default();
    let mut good = BTreeMap::new();
    for path in paths {
        let parsed = match disk::read_capped(&path) {
            Ok(bytes) => parse(&path, &bytes),
            Err(error) => {
                let problem = Problem::error(&path, format!("cannot be read: {error}"), "check its permissions");
                crate::Parsed { skill: None, problems: vec![problem] }
            }
        };
        let last_good = before.good.get(&path);
        problems.extend(parsed.problems.into_iter().map(|mut problem| {
            if problem.is_error() && last_good.is_some() {
                problem.fix = format!("{}; until then the version from before stays active", problem.fix);
            }
            problem
        }));
        match parsed.skill {
            Some(mut skill) => {
                skill.origin = match written.hashes.get(&skill.name) {
                    Some(hash) if *hash == hex(skill.content_hash) => Origin::Builtin,
                    Some(_) => Origin::BuiltinEdited,
                    None => Origin::User,
                };
                // An unchanged skill keeps its allocation, and with it whatever is cached by it.
                let same = last_good.filter(|old| ***old == skill).cloned();
                good.insert(path, same.unwrap_or_else(|| Arc::new(skill)));
            }
            None => {
                if let Some(old) = last_good {
                    good.insert(path, Arc::clone(old));
                }
            }
        }
    }
    State { good, disabled, problems, off: HashSet::new() }
}

/// Of skills with one name, the user's own, then the first by path; the others become problems.
fn distinct(state: &State) -> (Vec<Arc<Skill>>, Vec<Problem>) {
    let mut problems = state.problems.clone();
    let mut first: BTreeMap<&str, &Arc<Skill>> = BTreeMap::new();
    let mut all: Vec<_> = state.good.iter().collect();
    all.sort_by_key(|(_, skill)| skill.origin == Origin::Builtin);
    for (path, skill) in all {
        if let Some(other) = first.get(skill.name.as_str()) {
            if skill.origin == Origin::Builtin && other.origin != Origin::Builtin {
                problems.push(Problem {
                    line: None,
                    severity: Severity::Note,
                    ..Problem::error(
                        path,
                        format!("is not used: your own skill `{}` is {}", skill.name, other.path.display()),
                        "remove this built-in one, or give yours another name to have both",
                    )
                });
                continue;
            }
            problems.push(Problem {
                line: None,
                severity: Severity::Error,
                ..Problem::error(
                    path,
                    format!("the name `{}` is taken by {}", skill.name, other.path.display()),
                    "give one of them another name and folder",
                )
            });
        } else {
            first.insert(&skill.name, skill);
        }
    }
    problems.sort_by(|a, b| a.file.cmp(&b.file).then(a.line.cmp(&b.line)).then(a.message.cmp(&b.message)));
    (first.into_values().cloned().collect(), problems)
}
