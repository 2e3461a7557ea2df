//! What every door of the control API works on: the settings in force, the skill library, the journal, and the running
//! service if there is one. The same code serves a running engine and a command line that finds none.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use config::{Config, ConfigError, EditError, Home, Loaded};
use serde_json::Value;
use store::Store;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use crate::Clock;
use crate::api::{Code, ConfigFinding, Problem, findings};
use crate::files::{Files, config_now};
use crate::local::Local;
use crate::run::Run;
use crate::watch::{Mark, mark};

/// How a running service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// For good.
    Stop,
    /// To begin again with the same options.
    Restart,
}

/// What the command line says over the config file for one run.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--mode`
    pub mode: Option<config::Mode>,
    /// `--port`
    pub port: Option<u16>,
}

/// The settings in force, and how the file stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// The last good settings, with what the command line says over them.
    pub loaded: Loaded,
    /// Why the file, as it stands now, is not what is in force.
    pub problem: Option<String>,
    /// Everything wrong or odd in the file.
    pub findings: Vec<ConfigFinding>,
    /// Which version of the file this is. Taken before it was read: a later edit never passes unseen.
    pub mark: Mark,
    /// There is no file.
    pub missing: bool,
    /// The file says so little that it may be half saved; it is not in force yet.
    pub held: Option<Held>,
}

/// A version of the file that waits whether it stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    since: Instant,
    /// What it no longer says.
    pub lost: Vec<&'static str>,
}

/// How long a file that may be half saved must stay as it is to count.
const HOLD: Duration = Duration::from_secs(3);

impl Held {
    /// It has stayed as it is for long enough.
    pub(crate) fn is_over(&self) -> bool {
        self.since.elapsed() >= HOLD
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the config file no longer says {}: it may be half saved, so the settings of before stay in force; if it is \
             still so in {} seconds, it counts",
            self.lost.join(" and "),
            HOLD.as_secs()
        )
    }
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Core(pub(crate) Arc<Inner>);

/// Who hears what the user should know.
pub(crate) type Tell = Box<dyn Fn(&str) + Send + Sync>;

pub(crate) struct Inner {
    pub home: Home,
    pub config_path: PathBuf,
    pub overrides: Overrides,
    pub clock: Clock,
    pub log: PathBuf,
    pub reading: ArcSwap<Reading>,
    pub library: OnceLock<Arc<skills::Library>>,
    pub journal: OnceCell<Option<Store>>,
    pub local: Arc<Local>,
    /// The database opened for writing, where no service runs.
    pub writable: OnceCell<Store>,
    pub run: Option<Arc<Run>>,
    /// One reload or edit at a time.
    pub changing: Mutex<()>,
    pub files: Files,
    /// Hears, where no service runs, what the user should know beside the answer.
    pub tell: OnceLock<Tell>,
}

/// A question's vector, and what it is looked for in.
pub(crate) struct Asked {
    meant: memory::Meant,
    meaning: Arc<proxy::Meaning>,
    by: proxy::SkillsBy,
}

impl Core {
    /// Settings, library and journal without a service.
    pub(crate) fn cold(home: Home, config: Option<PathBuf>, clock: Clock) -> Self {
        let config_path = config.unwrap_or_else(|| home.config_path());
        let reading = match config_now(&config_path, |path| read(path, &Overrides::default())) {
            Ok(reading) => reading,
            Err(error) => failed(&error, Loaded::default()),
        };
        // Where the last run wrote it.
        let log = crate::lock::last(&home.lock_path()).and_then(|last| last.log).unwrap_or_else(|| home.log_path());
        let local = Arc::new(Local::new(&home, &reading.loaded.config, &clock));
        Self(Arc::new(Inner {
            home,
            config_path,
            overrides: Overrides::default(),
            clock,
            log,
            reading: ArcSwap::from_pointee(reading),
            library: OnceLock::new(),
            journal: OnceCell::new(),
            local,
            writable: OnceCell::new(),
            run: None,
            changing: Mutex::new(()),
            files: Files::default(),
            tell: OnceLock::new(),
        }))
    }

    pub(crate) fn home(&self) -> &Home {
        &self.0.home
    }

    pub(crate) fn config_path(&self) -> &Path {
        &self.0.config_path
    }

    pub(crate) fn files(&self) -> &Files {
        &self.0.files
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.0.log.clone()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn reading(&self) -> Arc<Reading> {
        self.0.reading.load_full()
    }

    /// The settings in force.
    pub(crate) fn config(&self) -> Config {
        self.0.reading.load().loaded.config.clone()
    }

    /// The settings in force and the findings about the file as it stands.
    pub(crate) fn read_config(&self) -> (Loaded, Vec<ConfigFinding>) {
        let reading = self.reading();
        (reading.loaded.clone(), reading.findings.clone())
    }

    /// The running service, or `not_running`.
    pub(crate) fn running(&self) -> Result<&Run, Problem> {
        self.0.run.as_deref().ok_or_else(|| {
            Problem::new(Code::NotRunning, "MetaClaw is not running.").hint("Start it with: metaclaw start --daemon")
        })
    }

    /// The journal; `None` while there is none yet. Without a service it is opened for reading only.
    pub(crate) async fn journal(&self) -> Result<Option<&Store>, Problem> {
        let open = || async {
            let path = self.0.home.db_path();
            if !path.exists() {
                return Ok(None);
            }
            let store = Store::open_read_only(&path, store::Options::default()).await?;
            if let (Some(error), Some(tell)) = (store.stalled(), self.0.tell.get()) {
                tell(&format!(
                    "Some turns are not shown: they stand beside the journal, which cannot be written ({error}). The next start takes them over."
                ));
            }
            Ok(Some(store))
        };
        Ok(self.0.journal.get_or_try_init(open).await.map_err(crate::api::store_problem)?.as_ref())
    }

    /// The model inside MetaClaw.
    pub(crate) fn local(&self) -> &Local {
        &self.0.local
    }

    /// The skill library, read on first use.
    pub(crate) fn library(&self) -> Arc<skills::Library> {
        Arc::clone(self.0.library.get_or_init(|| Arc::new(skills::Library::open(self.skills_dir()))))
    }

    pub(crate) fn skills_dir(&self) -> PathBuf {
        self.0.home.resolve(&self.0.reading.load().loaded.config.skills.dir)
    }

    /// Skills that the config switches off, beside those the library itself does.
    pub(crate) fn disabled(&self) -> HashSet<String> {
        self.0.reading.load().loaded.config.skills.disabled.iter().cloned().collect()
    }

    /// The skills that fit, under the limits of the settings.
    pub(crate) fn find_skills(&self, words: &str, agent: Option<&str>, question: Option<&Asked>) -> Vec<skills::Hit> {
        let settings = proxy::SkillSettings::from_config(&self.reading().loaded.config);
        let query = skills::Query { text: words, agent, disabled: Some(&settings.disabled) };
        let bank = self.library().snapshot();
        let Some(Asked { meant, meaning, by }) = question else { return bank.search(&query, &settings.limits) };
        let by = skills::ByMeaning {
            question: &meant.vector,
            meanings: &meaning.skills.load(),
            words: *by == proxy::SkillsBy::Both,
            floor: settings.limits.floor,
        };
        bank.search_by(&by, &query, &settings.limits)
    }

    /// What a person asks as a vector, where a turn with these words would be searched for by meaning.
    pub(crate) async fn question_vector(&self, words: &str) -> Option<Asked> {
        let meaning = self.running().ok()?.meanings.meaning.load_full()?;
        let by = meaning.skills_by?;
        if words.trim().is_empty() {
            return None;
        }
        let meant = meaning.by_hand(words).await.ok()?;
        Some(Asked { meant, meaning, by })
    }

    /// The plain value of a secret setting, for its owner.
    pub(crate) fn reveal(&self, key: &str) -> Result<Value, Problem> {
        let reading = self.reading();
        let config = &reading.loaded.config;
        let secret = match key {
            "llm.api_key" => &config.llm.api_key,
            "llm.fallback.api_key" => &config.llm.fallback.api_key,
            "proxy.api_key" => &config.proxy.api_key,
            "rl.api_key" => &config.rl.api_key,
            _ => {
                return Err(Problem::invalid(format!("{key} cannot be shown here."))
                    .hint(format!("It stands in {}.", self.0.config_path.display())));
            }
        };
        Ok(Value::String(secret.expose().to_owned()))
    }

    /// Makes changes in the config file, all or none, and puts them in force.
    pub(crate) async fn edit_config(&self, edits: &[(&str, Option<Value>)]) -> Result<Vec<config::Change>, Problem> {
        let named: Vec<&str> = edits.iter().map(|(key, _)| *key).collect();
        let edits: Vec<config::Edit> = edits
            .iter()
            .map(|(key, value)| match value {
                Some(value) => config::Edit::Set { key: (*key).to_owned(), value: typed_text(value) },
                None => config::Edit::Unset { key: (*key).to_owned() },
            })
            .collect();
        let path = self.0.config_path.clone();
        let changes = self.write_config(move || config::apply(&path, &edits)).await?;
        self.reload(&named).await;
        Ok(changes)
    }

    /// Writes the config file.
    pub(crate) async fn write_config<T: Send + 'static>(
        &self,
        write: impl FnOnce() -> Result<T, EditError> + Send + 'static,
    ) -> Result<T, Problem> {
        let written = self.0.files.ask(write).await.map_err(|silent| {
            Problem::new(Code::Unavailable, format!("{} cannot be written: {silent}.", self.0.config_path.display()))
                .hint("It may still be written when it answers. Look again: metaclaw config show --set")
        })?;
        written.map_err(|error| edit_problem(&error))
    }

    /// Reads the config file again. An unusable file leaves everything as it was, and is told. `named` are the settings
    /// that somebody has just changed through us: that they are gone is meant.
    pub(crate) async fn reload(&self, named: &[&str]) {
        let _one = self.0.changing.lock().await;
        let overrides = self.0.overrides.clone();
        let look = move |path: &Path| Ok((mark(path), read(path, &overrides)));
        let (mark, read) = match self.0.files.config(&self.0.config_path, look).await {
            Ok(found) => found,
            Err(error) => (None, Err(error)),
        };
        let before = self.reading();
        let now = match read {
            Ok(reading) => self.hold(&before, reading, named),
            Err(error) => Reading { mark, ..failed(&error, before.loaded.clone()) },
        };
        let changed = now.loaded.config.changed(&before.loaded.config);
        self.0.reading.store(Arc::new(now.clone()));
        if let Some(run) = &self.0.run {
            run.config_read(&before, &now, &changed);
        }
    }

    /// A reading as it counts: one that lost what agents cannot be served without may be half saved, and counts in a running
    /// service only when it stays so.
    fn hold(&self, before: &Reading, now: Reading, named: &[&str]) -> Reading {
        let lost = lost(&before.loaded, &now.loaded, named);
        if lost.is_empty() || self.0.run.is_none() {
            return now;
        }
        let waiting = before.held.as_ref().filter(|_| before.mark == now.mark);
        let held = Held { since: waiting.map_or_else(Instant::now, |held| held.since), lost };
        if held.is_over() {
            tracing::warn!("the config file has stayed without {}; that counts now", held.lost.join(" and "));
            return now;
        }
        Reading { loaded: before.loaded.clone(), held: Some(held), ..now }
    }
}

/// What agents cannot be served without, or are asked for, that the file said before and says no longer.
fn lost(before: &Loaded, now: &Loaded, named: &[&str]) -> Vec<&'static str> {
    if named.is_empty() && now.sources.is_empty() && !before.sources.is_empty() {
        return vec!["anything"];
    }
    let (old, new) = (&before.config, &now.config);
    let mut lost = Vec::new();
    if !old.proxy.api_key.is_empty() && new.proxy.api_key.is_empty() && !named.contains(&"proxy.api_key") {
        lost.push("proxy.api_key");
    }
    if !named.iter().any(|key| key.starts_with("llm.")) {
        if !old.llm.api_key.is_empty() && new.llm.api_key.is_empty() {
            lost.push("llm.api_key");
        }
        if old.upstream().is_ok() && new.upstream().is_err() && lost.last() != Some(&"llm.api_key") {
            lost.push("which provider answers");
        }
    }
    lost
}

/// Reads the file and puts what the command line says over it.
pub(crate) fn read(path: &Path, overrides: &Overrides) -> Result<Reading, ConfigError> {
    let mark = mark(path);
    let read = config::load(path);
    let findings = findings(&read);
    let mut loaded = read?;
    over(&mut loaded, overrides);
    Ok(Reading { loaded, findings, mark, ..Reading::default() })
}

/// What the command line says counts more than the file. Both values were checked by the command line's grammar.
pub(crate) fn over(loaded: &mut Loaded, overrides: &Overrides) {
    if let Some(mode) = overrides.mode {
        loaded.config.mode = mode;
    }
    if let Some(port) = overrides.port {
        loaded.config.proxy.port = port;
    }
}

/// The settings stay as they were, and the reason is kept. A file that is not there yet is no fault.
pub(crate) fn failed(error: &ConfigError, loaded: Loaded) -> Reading {
    let problem = match error {
        ConfigError::Missing { .. } => None,
        other => Some(other.to_string()),
    };
    let findings = findings(&match error {
        ConfigError::Invalid { file, problems } => {
            Err(ConfigError::Invalid { file: file.clone(), problems: problems.clone() })
        }
        ConfigError::Syntax { file, line, column, message } => {
            Err(ConfigError::Syntax { file: file.clone(), line: *line, column: *column, message: message.clone() })
        }
        _ => Ok(Loaded::default()),
    });
    let missing = matches!(error, ConfigError::Missing { .. });
    Reading { loaded, problem, findings, missing, ..Reading::default() }
}

/// A JSON value as it would be typed on a command line.
pub(crate) fn typed_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub(crate) fn edit_problem(error: &EditError) -> Problem {
    match error {
        EditError::UnknownKey { .. } => {
            Problem::not_found(sentence(error)).hint("List the settings with: metaclaw config show")
        }
        EditError::NotAllowed(problem) => Problem::invalid(format!("{} cannot be {}.", problem.key, problem.found))
            .hint(format!("Allowed: {}", problem.allowed)),
        EditError::Broken(_) => Problem::invalid(sentence(error)).hint("See all of it: metaclaw config validate"),
        EditError::ByHand { .. } => Problem::invalid(sentence(error)).hint("Change it in an editor."),
        EditError::Changed { .. } => Problem::new(Code::Conflict, sentence(error)),
        EditError::Io { file, source } => {
            crate::api::problem::io(&format!("{} cannot be written", file.display()), source)
        }
    }
}

/// An error's text as a sentence: capital first, full stop last.
pub(crate) fn sentence(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let mut text = match letters.next() {
        Some(first) if first.is_lowercase() && !["metaclaw", "http"].iter().any(|name| text.starts_with(name)) => {
            first.to_uppercase().chain(letters).collect::<String>()
        }
        _ => text,
    };
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("home", &self.0.home)
            .field("running", &self.0.run.is_some())
            .finish_non_exhaustive()
    }
}
