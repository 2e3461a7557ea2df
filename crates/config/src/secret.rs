//! Keys and tokens: kept out of every log, and by reference where the user wishes.
//! In: the text of a setting (`sk-…`, `env:NAME`, `file:PATH`, `keychain:NAME`). Out: the value, through `expose` only.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::load::read_regular;

/// More than any file has that holds a key.
const LARGEST_SECRET: u64 = 1 << 20;

/// A secret. Neither `Debug` nor `Display` shows it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    value: String,
    reference: Option<Reference>,
    problem: Option<String>,
}

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The system's keychain, by name.
    Keychain(String),
    /// A variable of the environment.
    Env(String),
    /// The first line of a file.
    File(String),
}

impl Reference {
    /// `keychain:NAME`, `env:NAME` or `file:PATH`; anything else is a plain value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':')?;
        let rest = rest.trim().to_owned();
        if rest.is_empty() {
            return None;
        }
        match scheme {
            "keychain" => Some(Self::Keychain(rest)),
            "env" => Some(Self::Env(rest)),
            "file" => Some(Self::File(rest)),
            _ => None,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keychain(name) => write!(f, "keychain:{name}"),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
        }
    }
}

impl Secret {
    /// From the text of a setting. A reference stays unresolved (and empty) until `resolve`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = text.trim();
        match Reference::parse(text) {
            Some(reference) => Self { value: String::new(), reference: Some(reference), problem: None },
            None => Self { value: text.to_owned(), reference: None, problem: None },
        }
    }

    /// A value as it is, even if it looks like a reference.
    #[must_use]
    pub fn plain(value: &str) -> Self {
        Self { value: value.to_owned(), reference: None, problem: None }
    }

    /// The value itself; empty if there is none.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.value
    }

    /// No value (also: a reference that leads nowhere; see `problem`).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Something was configured, whether or not it could be resolved.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.value.is_empty() || self.reference.is_some()
    }

    /// Where it is kept, if not in the file itself.
    #[must_use]
    pub fn reference(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }

    /// Why the reference leads nowhere.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Fetches what the reference names. Returns the problem, if there is one.
    pub(crate) fn resolve(&mut self, secrets: &dyn Secrets) -> Option<&str> {
        let reference = self.reference.as_ref()?;
        match secrets.get(reference) {
            Ok(value) if value.trim().is_empty() => self.problem = Some(format!("{reference} is empty")),
            Ok(value) => {
                value.trim().clone_into(&mut self.value);
                self.problem = None;
            }
            Err(why) => self.problem = Some(format!("{reference} cannot be read: {why}")),
        }
        self.problem.as_deref()
    }

    /// What may be shown: the reference, `(set)`, or nothing.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.reference {
            Some(reference) => reference.to_string(),
            None if self.value.is_empty() => String::new(),
            None => "(set)".to_owned(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.shown())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Resolves references to secrets.
pub trait Secrets {
    /// The secret behind a reference, or why there is none (without any secret in the text).
    fn get(&self, reference: &Reference) -> Result<String, String>;
}

/// The built-in resolver: environment and files. Keychain names need the system's keychain, which a caller adds.
pub struct LocalSecrets<V> {
    var: V,
    base: PathBuf,
}

impl<V: Fn(&str) -> Option<String>> LocalSecrets<V> {
    /// `var` looks a variable up; relative `file:` paths stand in `base`; `~` is the variable `HOME`.
    pub fn new(var: V, base: &Path) -> Self {
        Self { var, base: base.to_path_buf() }
    }
}

impl LocalSecrets<fn(&str) -> Option<String>> {
    /// Reads the process environment.
    #[must_use]
    pub fn of_process(base: &Path) -> Self {
        Self::new(|name| std::env::var(name).ok(), base)
    }
}

impl<V: Fn(&str) -> Option<String>> Secrets for LocalSecrets<V> {
    fn get(&self, reference: &Reference) -> Result<String, String> {
        match reference {
            Reference::Env(name) => (self.var)(name).ok_or_else(|| "the variable is not set".to_owned()),
            Reference::File(path) => {
                let path = match (path.strip_prefix("~/"), (self.var)("HOME")) {
                    (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
                    _ => self.base.join(path),
                };
                let bytes = read_regular(&path, LARGEST_SECRET).map_err(|error| match error.kind() {
                    std::io::ErrorKind::InvalidInput => error.to_string(),
                    kind => kind.to_string(),
                })?;
                let text = String::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())?;
                Ok(text.lines().next().unwrap_or_default().trim().to_owned())
            }
            Reference::Keychain(_) => Err("no keychain is available to this program".to_owned()),
        }
    }
}

/// Headers whose values may be secrets.
pub type SecretMap = BTreeMap<String, Secret>;

/// A new key for the proxy: `mc-` and 32 letters, digits, `-` or `_`, from 24 random bytes.
#[must_use]
pub fn generate_key(random: &[u8; 24]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut key = String::from("mc-");
    for three in random.chunks_exact(3) {
        let bits = (u32::from(three[0]) << 16) | (u32::from(three[1]) << 8) | u32::from(three[2]);
        for shift in [18, 12, 6, 0] {
            key.push(char::from(LETTERS[((bits >> shift) & 63) as usize]));
        }
    }
    key
}

/// Whether a text looks like a key or token, so that it is not repeated in a message.
pub(crate) fn looks_secret(text: &str) -> bool {
    let long_token = text.len() >= 24 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    long_token || ["sk-", "mc-", "ghp_", "AIza", "Bearer "].iter().any(|prefix| text.starts_with(prefix))
}
