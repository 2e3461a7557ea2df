//! Reading config.yaml: text → tree → typed settings, with everything that is wrong or odd named by line and key.
//! Out: `Loaded` for the engine, the command line and the settings page.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::base_url::BaseUrl;
use crate::preset::{preset, presets};
use crate::secret::{LocalSecrets, Secrets};
use crate::suggest::nearest;
use crate::table::{Key, Row, is_section, keys, row, rows};
use crate::value::{Setting, Wrong};
use crate::yaml::{Body, Document, Node, Style};
use crate::{Config, ConfigError, Kind, Problem, Secret, Warning};

/// The settings of a file, and what there is to say about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// The settings: what the file says over the defaults.
    pub config: Config,
    /// What is odd but not wrong, in the order of the file.
    pub warnings: Vec<Warning>,
    /// Where each key that the file sets stands in it. A key that is not here has its default.
    pub sources: BTreeMap<&'static str, Source>,
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Line in the file, from 1.
    pub line: usize,
    /// The old name under which it stands there.
    pub alias: Option<&'static str>,
}

/// One row of `config show` and of the settings page.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    /// The key, with its kind, default, text and effect.
    #[serde(flatten)]
    pub key: &'static Key,
    /// Its value; of secrets only whether they are set, or their reference.
    pub value: Value,
    /// Where it stands in the file; `None` = the default holds.
    pub source: Option<Source>,
}

/// Reads a file; `env:` and `file:` references are fetched.
pub fn load(path: &Path) -> Result<Loaded, ConfigError> {
    let base = path.parent().unwrap_or_else(|| Path::new("."));
    load_with(path, &LocalSecrets::of_process(base))
}

/// Reads a file, with the given way to fetch secrets.
pub fn load_with(path: &Path, secrets: &dyn Secrets) -> Result<Loaded, ConfigError> {
    let text = read_text(path)?;
    let mut loaded = parse(&text, path)?;
    loaded.fetch_secrets(secrets, path)?;
    Ok(loaded)
}

/// More than any settings file has; a log that was put in its place is not read into memory.
pub(crate) const LARGEST: u64 = 4 << 20;

/// The bytes of a regular file of at most `largest` bytes. Pipes and devices may never end, or never begin.
pub(crate) fn read_regular(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Asked before it is opened: opening a pipe waits for its other end.
    if !fs::metadata(path)?.is_file() {
        return refused("it is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(largest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return refused(format!("it is larger than {} KB, which no such file is", largest >> 10));
    }
    Ok(bytes)
}

/// The text of a settings file, as UTF-8: a regular file of at most 4 MB.
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    match read_regular(path, LARGEST) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
            ConfigError::Syntax {
                file: path.to_path_buf(),
                line,
                column: 1,
                message: "this is no UTF-8 text; save the file as UTF-8".to_owned(),
            }
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ConfigError::Missing { file: path.to_path_buf() }),
        Err(source) => Err(ConfigError::Unreadable { file: path.to_path_buf(), source }),
    }
}

/// Reads a text. `file` is only for messages. References to secrets stay as they are.
pub fn parse(text: &str, file: &Path) -> Result<Loaded, ConfigError> {
    let document = Document::parse(text).map_err(|error| ConfigError::Syntax {
        file: file.to_path_buf(),
        line: error.line,
        column: error.column,
        message: error.message,
    })?;
    let reading = read_document(&document);
    if reading.problems.is_empty() {
        Ok(reading.loaded)
    } else {
        Err(ConfigError::Invalid { file: file.to_path_buf(), problems: reading.problems })
    }
}

/// Everything that can be read, beside everything that is wrong.
pub(crate) struct Reading {
    pub(crate) loaded: Loaded,
    pub(crate) problems: Vec<Problem>,
}

pub(crate) fn read_document(document: &Document) -> Reading {
    let mut reader = Reader::default();
    match &document.root.body {
        Body::Null => {}
        Body::Mapping { .. } => reader.section(&document.root, ""),
        _ => reader.problems.push(Problem {
            line: document.root.line,
            column: document.root.column,
            key: "the file".to_owned(),
            found: document.root.describe().to_owned(),
            allowed: "lines of the form key: value".to_owned(),
        }),
    }
    reader.aliases();
    reader.together();
    let Reader { mut loaded, mut problems, .. } = reader;
    problems.sort_by_key(|problem| (problem.line, problem.column));
    loaded.warnings.sort_by_key(|warning| warning.line);
    Reading { loaded, problems }
}

#[derive(Default)]
struct Reader {
    loaded: Loaded,
    problems: Vec<Problem>,
    /// Values under old names: read after those under the names of today.
    old: Vec<(&'static Row, &'static str, Node, usize)>,
}

impl Reader {
    fn section(&mut self, node: &Node, prefix: &str) {
        let entries = node.entries();
        for (index, entry) in entries.iter().enumerate() {
            let Some(name) = entry.key.text() else {
                self.problems.push(Problem {
                    line: entry.key.line,
                    column: entry.key.column,
                    key: prefix.trim_end_matches('.').to_owned(),
                    found: format!("{} as a name", entry.key.describe()),
                    allowed: "plain names".to_owned(),
                });
                continue;
            };
            let path = format!("{prefix}{name}");
            let line = entry.key.line;
            if let Some(again) = entries[index + 1..].iter().find(|later| later.key.text() == Some(name)) {
                self.warn(line, &path, format!("stands again in line {}, and that one counts", again.key.line), None);
                continue;
            }
            if let Some(row) = row(&path) {
                self.key(row, &path, &entry.value, line);
            } else if is_section(&path) {
                match &entry.value.body {
                    Body::Mapping { .. } => self.section(&entry.value, &format!("{path}.")),
                    Body::Null => {}
                    _ => self.problems.push(Problem {
                        line: entry.value.line,
                        column: entry.value.column,
                        key: path,
                        found: entry.value.describe().to_owned(),
                        allowed: "a section: indented lines of the form key: value".to_owned(),
                    }),
                }
            } else {
                let suggestion = nearest(&path).map(|key| format!("did you mean {key}?"));
                self.warn(line, &path, "there is no such key; it is kept and does nothing".to_owned(), suggestion);
            }
        }
    }

    fn key(&mut self, row: &'static Row, path: &str, value: &Node, line: usize) {
        // A key without a value is a key that is not set; so is an empty text where an empty text means nothing.
        let text =
            matches!(row.key.kind, Kind::Text | Kind::Secret | Kind::Url | Kind::List | Kind::Map | Kind::SecretMap);
        let empty = !text && value.text().is_some_and(|text| text.trim().is_empty());
        if value.is_null() || empty {
            return;
        }
        match row.key.aliases.iter().copied().find(|alias| *alias == path) {
            Some(alias) => self.old.push((row, alias, value.clone(), line)),
            None => self.take(row, None, value, line),
        }
    }

    fn take(&mut self, row: &'static Row, alias: Option<&'static str>, value: &Node, line: usize) {
        match (row.read)(&mut self.loaded.config, value, &row.key.kind) {
            Ok(()) => {
                self.loaded.sources.insert(row.key.path, Source { line, alias });
            }
            Err(wrong) => {
                let key = alias.unwrap_or(row.key.path);
                let Wrong { line, column, found, allowed } = wrong;
                self.problems.push(Problem { line, column, key: key.to_owned(), found, allowed });
            }
        }
    }

    /// An old name counts where the name of today says nothing.
    fn aliases(&mut self) {
        for (row, alias, value, line) in std::mem::take(&mut self.old) {
            let said = self.loaded.sources.contains_key(row.key.path)
                && (row.show)(&self.loaded.config) != Value::String(String::new());
            let empty = value.text().is_some_and(|text| text.trim().is_empty());
            if !said && !empty {
                self.take(row, Some(alias), &value, line);
            } else if said && !empty {
                let message = format!("is an old name of {}, which is set too and counts", row.key.path);
                self.warn(line, alias, message, Some("remove the old one".to_owned()));
            }
        }
    }

    /// What only shows when keys are seen together.
    fn together(&mut self) {
        self.provider("llm.provider", "llm.api_base");
        self.provider("llm.fallback.provider", "llm.fallback.api_base");
        self.old_hosts();
        let config = &self.loaded.config;
        let mut found: Vec<(&'static str, &'static str, String, Option<String>)> = Vec::new();
        if !config.configure_openclaw && config.claw_type != crate::ClawType::None {
            found.push((
                "configure_openclaw",
                "configure_openclaw",
                match self.line_of("claw_type") {
                    0 => "is the old form of claw_type: none".to_owned(),
                    _ => "is the old form of claw_type: none; claw_type, which is there as well, counts".to_owned(),
                },
                Some("remove it, and set claw_type".to_owned()),
            ));
        }
        if config.proxy.session_idle_minutes == 0 {
            found.push((
                "proxy.session_idle_minutes",
                "proxy.session_idle_minutes",
                "sessions end only when the agent says so".to_owned(),
                None,
            ));
        }
        let idle = u64::from(config.proxy.idle_timeout_seconds);
        if idle <= u64::from(config.proxy.keepalive_seconds) {
            found.push((
                "proxy.keepalive_seconds",
                "proxy.keepalive_seconds",
                "is not shorter than proxy.idle_timeout_seconds, so no sign of life is ever sent".to_owned(),
                None,
            ));
        }
        // Who has written the new form means it.
        if !config.configure_openclaw && self.line_of("claw_type") == 0 {
            self.loaded.config.claw_type = crate::ClawType::None;
        }
        for (source, key, message, suggestion) in found {
            let line = self.line_of(source);
            if line > 0 {
                self.warn(line, key, message, suggestion);
            }
        }
    }

    /// A provider that is not known by name is one of the user's own, if its address is there.
    fn provider(&mut self, key: &'static str, base_key: &'static str) {
        let llm = &mut self.loaded.config.llm;
        let (provider, base) = if key == "llm.provider" {
            (&mut llm.provider, &llm.api_base)
        } else {
            (&mut llm.fallback.provider, &llm.fallback.api_base)
        };
        if provider.is_empty() {
            return;
        }
        if let Some(known) = preset(provider) {
            provider.clone_from(&known.id);
            return;
        }
        let found = std::mem::take(provider);
        let line = self.loaded.sources.get(key).map_or(0, |source| source.line);
        if base.is_empty() {
            self.problems.push(Problem {
                line,
                column: 1,
                key: key.to_owned(),
                found: format!("\"{}\"", found.chars().take(60).collect::<String>()),
                allowed: Kind::Provider.allowed(),
            });
        } else {
            "custom".clone_into(provider);
            let ids: Vec<&str> = presets().iter().map(|preset| preset.id.as_str()).collect();
            let near = crate::suggest::nearest_of(&found, &ids).map(|id| format!("did you mean {id}?"));
            let message = format!("no provider is known by this name; {base_key} is used as it is, as with custom");
            self.warn(line, key, message, near);
        }
    }

    fn old_hosts(&mut self) {
        let llm = &self.loaded.config.llm;
        let bases = [
            ("llm.api_base", llm.api_base.clone(), llm.provider.clone()),
            ("llm.fallback.api_base", llm.fallback.api_base.clone(), llm.fallback.provider.clone()),
        ];
        for (key, base, provider) in bases {
            let Ok(base) = BaseUrl::parse(&base) else { continue };
            if let Some(owner) = base.preset()
                && !provider.is_empty()
                && provider != "custom"
                && owner.id != provider
            {
                let line = self.line_of(key);
                let message = format!("this is the address of {}, not of {provider}; it is used as that", owner.label);
                self.warn(line, key, message, Some(format!("set the provider to {}, or remove the address", owner.id)));
            }
            let old = match (base.host(), base.path()) {
                ("api.minimax.chat", _) => Some((
                    "this host is MiniMax's old one and refuses the keys of today",
                    "use https://api.minimaxi.com/v1 with a key from minimaxi.com, or https://api.minimax.io/v1 with one from minimax.io",
                )),
                ("api.novita.ai", path) if path.starts_with("/v3") => {
                    Some(("this path is Novita's old one", "use https://api.novita.ai/openai"))
                }
                _ => None,
            };
            if let Some((message, suggestion)) = old {
                let line = self.line_of(key);
                self.warn(line, key, message.to_owned(), Some(suggestion.to_owned()));
            }
        }
    }

    fn line_of(&self, key: &str) -> usize {
        self.loaded.sources.get(key).map_or(0, |source| source.line)
    }

    fn warn(&mut self, line: usize, key: &str, message: String, suggestion: Option<String>) {
        self.loaded.warnings.push(Warning { line, key: key.to_owned(), message, suggestion });
    }
}

impl Loaded {
    /// Fetches what `keychain:`, `env:` and `file:` references name. One that leads nowhere is a warning, but for
    /// `proxy.api_key`: a port that should be locked must not stand open.
    pub fn fetch_secrets(&mut self, secrets: &dyn Secrets, file: &Path) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        for row in rows() {
            for secret in (row.secrets)(&mut self.config) {
                let Some(problem) = secret.resolve(secrets).map(str::to_owned) else { continue };
                let line = self.sources.get(row.key.path).map_or(0, |source| source.line);
                let key = row.key.path.to_owned();
                if row.key.path == "proxy.api_key" {
                    let allowed = "a reference that can be read, or the key itself".to_owned();
                    problems.push(Problem { line, column: 1, key, found: problem, allowed });
                } else {
                    self.warnings.push(Warning { line, key, message: problem, suggestion: None });
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid { file: file.to_path_buf(), problems }) }
    }

    /// Every key with its value and where it comes from, in the order of the table.
    #[must_use]
    pub fn show(&self) -> Vec<Shown> {
        let shown = |(row, key): (&Row, &'static Key)| Shown {
            key,
            value: (row.show)(&self.config),
            source: self.sources.get(key.path).cloned(),
        };
        rows().iter().zip(keys()).map(shown).collect()
    }

    /// Where the value of a key comes from; `None` = its default.
    #[must_use]
    pub fn source(&self, key: &str) -> Option<&Source> {
        row(key).and_then(|row| self.sources.get(row.key.path))
    }
}

impl Config {
    /// The value of a key as JSON; of secrets only whether they are set, or their reference.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        row(key).map(|row| (row.show)(self))
    }

    /// Changes a value in memory only, e.g. for `start --mode`. `text` is read as the file would be.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), Problem> {
        let Some(row) = row(key) else {
            return Err(Problem {
                line: 0,
                column: 0,
                key: key.to_owned(),
                found: "an unknown key".to_owned(),
                allowed: nearest(key).map_or_else(|| "see metaclaw config show".to_owned(), str::to_owned),
            });
        };
        if says_nothing(text, &row.key.kind) {
            (row.reset)(self);
            return Ok(());
        }
        let node = text_node(text, &row.key.kind);
        (row.read)(self, &node, &row.key.kind).map_err(|wrong| Problem {
            line: 0,
            column: 0,
            key: row.key.path.to_owned(),
            found: wrong.found,
            allowed: wrong.allowed,
        })
    }

    /// The keys whose values differ, for telling what a changed file changes.
    #[must_use]
    pub fn changed(&self, other: &Self) -> Vec<&'static str> {
        rows().iter().filter(|row| !(row.same)(self, other)).map(|row| row.key.path).collect()
    }
}

/// An empty text at a key where an empty text means nothing: its default holds.
fn says_nothing(text: &str, kind: &Kind) -> bool {
    let may_be_empty = matches!(kind, Kind::Text | Kind::Secret | Kind::Url | Kind::List | Kind::Map | Kind::SecretMap);
    !may_be_empty && text.trim().is_empty()
}

/// A value as typed on a command line: lists and maps may be written as in YAML; everything else is text.
pub(crate) fn text_node(text: &str, kind: &Kind) -> Node {
    let structured = match kind {
        Kind::List => text.trim_start().starts_with('['),
        Kind::Map | Kind::SecretMap => true,
        _ => false,
    };
    if structured && let Ok(document) = Document::parse(text) {
        return document.root;
    }
    // Plain, so that `1380` is understood as a time; an empty text stays a text.
    let body = Body::Scalar { text: text.to_owned(), style: Style::Plain };
    Node { span: 0..0, line: 0, column: 0, body, shared: false, decorated: false }
}

/// Whether a text may stand at a key, without touching any settings.
pub(crate) fn check(row: &Row, node: &Node) -> Result<Value, Problem> {
    let mut scratch = Config::default();
    let problem = |wrong: Wrong| Problem {
        line: 0,
        column: 0,
        key: row.key.path.to_owned(),
        found: wrong.found,
        allowed: wrong.allowed,
    };
    (row.read)(&mut scratch, node, &row.key.kind).map_err(problem)?;
    if matches!(row.key.kind, Kind::Provider)
        && let Some(text) = node.text()
        && !text.trim().is_empty()
        && preset(text).is_none()
    {
        return Err(problem(Wrong::new(node, &row.key.kind)));
    }
    // Secrets must be written as they are, not as they are shown.
    Ok(match row.key.kind {
        Kind::Secret => Value::String(node.text().unwrap_or_default().trim().to_owned()),
        Kind::SecretMap => {
            let entries = node.entries().iter().filter_map(|entry| {
                Some((entry.key.text()?.to_owned(), Value::String(entry.value.text()?.trim().to_owned())))
            });
            Value::Object(entries.collect())
        }
        _ => (row.show)(&scratch),
    })
}

/// Reads a secret that a caller got from the user, so that all of them are trimmed and checked alike.
pub(crate) fn is_secret_text(text: &str) -> bool {
    Secret::read(&text_node(text, &Kind::Secret), &Kind::Secret).is_ok()
}
