//! How one value is read from the file and shown again.
//! In: a node of the YAML tree and the kind of its key. Out: the typed value, or what was found and what is allowed.
//! Old files were read by a YAML 1.1 reader and "strings that look like" rules; both habits are understood here.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use crate::secret::looks_secret;
use crate::yaml::{Body, Document, Node, Style};
use crate::{Secret, presets};

/// What may stand at a key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Kind {
    /// true or false
    Bool,
    /// A whole number.
    Integer {
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
    },
    /// A number.
    Number {
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// Any text.
    Text,
    /// A key or token, or a reference to one.
    Secret,
    /// One of the words.
    Choice {
        /// The words.
        of: &'static [&'static str],
    },
    /// A provider: the id of a preset.
    Provider,
    /// A path; `~/.metaclaw` stands for the home folder.
    Path,
    /// An http or https address.
    Url,
    /// An IP address to listen on, or `localhost`.
    Address,
    /// A time of day, HH:MM.
    Time,
    /// A list of texts.
    List,
    /// Names with texts.
    Map,
    /// Names with secrets.
    SecretMap,
}

impl Kind {
    /// What may stand there, in words.
    #[must_use]
    pub fn allowed(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Integer { min, max } if *max == i64::MAX => format!("a whole number, {min} or more"),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max } if *max == f64::MAX => format!("a number, {min} or more"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Text => "a text".to_owned(),
            Self::Secret => "a key, or a reference: keychain:NAME, env:NAME, file:PATH".to_owned(),
            Self::Choice { of } => of.join(", "),
            Self::Provider => presets().iter().map(|preset| preset.id.as_str()).collect::<Vec<_>>().join(", "),
            Self::Path => "a path".to_owned(),
            Self::Url => "an http:// or https:// address".to_owned(),
            Self::Address => "an IP address such as 127.0.0.1, 0.0.0.0 or ::1, or localhost".to_owned(),
            Self::Time => "a time of day from 00:00 to 23:59, such as \"23:00\"".to_owned(),
            Self::List => "a list of texts, such as [a, b]".to_owned(),
            Self::Map => "names with values, such as {a: b}".to_owned(),
            Self::SecretMap => "header names with values, such as {X-Name: value}".to_owned(),
        }
    }
}

/// A value that may not stand where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) found: String,
    pub(crate) allowed: String,
}

impl Wrong {
    pub(crate) fn new(node: &Node, kind: &Kind) -> Self {
        let secret = matches!(kind, Kind::Secret | Kind::SecretMap);
        Self { line: node.line, column: node.column, found: found(node, secret), allowed: kind.allowed() }
    }

    fn saying(mut self, allowed: &str) -> Self {
        allowed.clone_into(&mut self.allowed);
        self
    }
}

fn found(node: &Node, secret: bool) -> String {
    match &node.body {
        Body::Scalar { text, .. } if secret || looks_secret(text) => {
            format!("a text of {} characters", text.chars().count())
        }
        Body::Scalar { text, .. } => {
            let short: String = text.chars().take(60).collect();
            if short.len() < text.len() { format!("\"{short}…\"") } else { format!("\"{short}\"") }
        }
        _ => node.describe().to_owned(),
    }
}

/// A type that a key can have.
pub(crate) trait Setting: Sized {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong>;
    /// The value as JSON; secrets only as `Secret::shown`.
    fn show(&self) -> Value;
}

fn scalar<'n>(node: &'n Node, kind: &Kind) -> Result<&'n str, Wrong> {
    node.text().ok_or_else(|| Wrong::new(node, kind))
}

impl Setting for bool {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
        match scalar(node, kind)?.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(Wrong::new(node, kind)),
        }
    }

    fn show(&self) -> Value {
        json!(self)
    }
}

/// A whole number as YAML 1.1 and 1.2 write it: `4`, `1_000`, `0x10`, `0o17`, and `4.0`.
fn whole(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || digits.ends_with('_') {
        return None;
    }
    let digits = digits.replace('_', "");
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        i64::from_str_radix(hex, 16).ok()?
    } else if let Some(octal) = digits.strip_prefix("0o") {
        i64::from_str_radix(octal, 8).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.") {
        // 0123 is octal to one reader and decimal to another: ask.
        return None;
    } else if let Some((whole, fraction)) = digits.split_once('.') {
        if !fraction.bytes().all(|b| b == b'0') {
            return None;
        }
        whole.parse().ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { -value } else { value })
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Setting for $int {
            fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
                let value = whole(scalar(node, kind)?).ok_or_else(|| Wrong::new(node, kind))?;
                if let Kind::Integer { min, max } = kind && !(*min..=*max).contains(&value) {
                    return Err(Wrong::new(node, kind));
                }
                Self::try_from(value).map_err(|_| Wrong::new(node, kind))
            }

            fn show(&self) -> Value {
                json!(self)
            }
        }
    )*};
}
integers!(u16, u32, u64, i64);

impl Setting for f64 {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
        let text = scalar(node, kind)?.trim().replace('_', "");
        let plain = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
        let value: Self = text.parse().ok().filter(|_| plain).ok_or_else(|| Wrong::new(node, kind))?;
        let inside = match kind {
            Kind::Number { min, max } => (*min..=*max).contains(&value),
            _ => true,
        };
        if value.is_finite() && inside { Ok(value) } else { Err(Wrong::new(node, kind)) }
    }

    fn show(&self) -> Value {
        json!(self)
    }
}

impl Setting for String {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
        let text = scalar(node, kind)?;
        match kind {
            Kind::Url => check_url(text.trim(), node, kind),
            Kind::Path | Kind::Provider => Ok(text.trim().to_owned()),
            Kind::Address => {
                let host = text.trim().trim_start_matches('[').trim_end_matches(']');
                let known = host == "*" || host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok();
                if known { Ok(host.to_owned()) } else { Err(Wrong::new(node, kind)) }
            }
            Kind::Choice { of } => {
                let word = text.trim().to_ascii_lowercase();
                if word.is_empty() || of.contains(&word.as_str()) { Ok(word) } else { Err(Wrong::new(node, kind)) }
            }
            // `mode: |` leaves a line break behind.
            _ => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    fn show(&self) -> Value {
        json!(self)
    }
}

fn check_url(text: &str, node: &Node, kind: &Kind) -> Result<String, Wrong> {
    if text.is_empty() {
        return Ok(String::new());
    }
    match crate::base_url::BaseUrl::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => {
            let mut wrong = Wrong::new(node, kind).saying(&why);
            if text.contains('@') {
                // What stands before the @ is a password.
                wrong.found = "an address with a name or password in it".to_owned();
            }
            Err(wrong)
        }
    }
}

impl Setting for Secret {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
        let text = scalar(node, kind)?.trim();
        if text.chars().any(char::is_control) {
            return Err(Wrong::new(node, kind).saying("a key on one line, without control characters"));
        }
        Ok(Self::new(text))
    }

    fn show(&self) -> Value {
        json!(self.shown())
    }
}

impl Setting for Vec<String> {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
        match &node.body {
            Body::Null => Ok(Self::new()),
            // A list in old files is often one text with commas.
            Body::Scalar { text, .. } if !text.trim_start().starts_with('[') => Ok(comma_list(text)),
            // A list in quotes is still one; what only begins like a list is a mistake.
            Body::Scalar { text, .. } => match Document::parse(text) {
                Ok(Document { root: Node { body: Body::Sequence { items, .. }, .. }, .. }) => items
                    .iter()
                    .map(|item| item.text().map(|text| text.trim().to_owned()).ok_or_else(|| Wrong::new(node, kind)))
                    .filter(|item| item.as_ref().map_or(true, |text| !text.is_empty()))
                    .collect(),
                _ => Err(Wrong::new(node, kind)),
            },
            Body::Sequence { items, .. } => items
                .iter()
                .map(|item| match item.text() {
                    Some(text) => Ok(text.trim().to_owned()),
                    None => Err(Wrong::new(item, kind)),
                })
                .filter(|item| item.as_ref().map_or(true, |text| !text.is_empty()))
                .collect(),
            Body::Mapping { .. } => Err(Wrong::new(node, kind)),
        }
    }

    fn show(&self) -> Value {
        json!(self)
    }
}

pub(crate) fn comma_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

impl<T: Setting + MapValue> Setting for BTreeMap<String, T> {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
        let entries = match &node.body {
            Body::Null => return Ok(Self::new()),
            Body::Mapping { entries, .. } => entries,
            _ => return Err(Wrong::new(node, kind)),
        };
        let mut map = Self::new();
        for entry in entries {
            let name = entry.key.text().ok_or_else(|| Wrong::new(&entry.key, kind))?;
            if !T::name_allowed(name) {
                return Err(Wrong::new(&entry.key, kind));
            }
            // A name without a value says nothing.
            if entry.value.text().is_some_and(|text| text.trim().is_empty()) {
                continue;
            }
            map.insert(name.to_owned(), T::read(&entry.value, &T::KIND)?);
        }
        Ok(map)
    }

    fn show(&self) -> Value {
        Value::Object(self.iter().map(|(name, value)| (name.clone(), value.show())).collect())
    }
}

/// What a map can hold.
pub(crate) trait MapValue {
    const KIND: Kind;
    fn name_allowed(name: &str) -> bool;
}

impl MapValue for String {
    const KIND: Kind = Kind::Text;
    fn name_allowed(name: &str) -> bool {
        !name.trim().is_empty()
    }
}

impl MapValue for Secret {
    const KIND: Kind = Kind::Secret;
    fn name_allowed(name: &str) -> bool {
        http::HeaderName::from_bytes(name.as_bytes()).is_ok()
    }
}

/// A time of day in minutes after midnight, 0 to 1439.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    /// From hours and minutes, if there is such a time.
    #[must_use]
    pub const fn new(hour: u16, minute: u16) -> Option<Self> {
        if hour < 24 && minute < 60 { Some(Self(hour * 60 + minute)) } else { None }
    }

    pub(crate) const fn at(hour: u16) -> Self {
        Self(hour * 60)
    }

    /// `H:MM` or `HH:MM`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (hour, minute) = text.trim().split_once(':')?;
        let digits = |part: &str, most: usize| part.len() <= most && part.bytes().all(|b| b.is_ascii_digit());
        if minute.len() != 2 || !digits(hour, 2) || !digits(minute, 2) {
            return None;
        }
        Self::new(hour.parse().ok()?, minute.parse().ok()?)
    }

    /// Minutes after midnight.
    #[must_use]
    pub const fn minutes(self) -> u16 {
        self.0
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl Setting for TimeOfDay {
    fn read(node: &Node, kind: &Kind) -> Result<Self, Wrong> {
        let text = scalar(node, kind)?;
        if let Some(time) = Self::parse(text) {
            return Ok(time);
        }
        // A YAML 1.1 writer turned an unquoted 23:00 into 1380, which is its minutes. Times before 01:00 were never
        // turned into numbers, so a smaller number is something else.
        let plain = matches!(node.body, Body::Scalar { style: Style::Plain, .. });
        match whole(text) {
            Some(minutes @ 60..=1439) if plain => u16::try_from(minutes).map(Self).map_err(|_| Wrong::new(node, kind)),
            _ => Err(Wrong::new(node, kind)),
        }
    }

    fn show(&self) -> Value {
        json!(self.to_string())
    }
}

/// Declares an enumeration of words, as it stands in the file.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal $(| $other:literal)* ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $doc])+ #[serde(rename = $word)] $variant, )+
        }

        impl $name {
            /// The words, as they stand in the file.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word, as it stands in the file.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// From a word in any case; old names are understood.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word.trim().to_ascii_lowercase().as_str() {
                    $( $word $(| $other)* => Some(Self::$variant), )+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                Self::from_word(word).ok_or_else(|| format!("allowed: {}", Self::WORDS.join(", ")))
            }
        }

        impl $crate::value::Setting for $name {
            fn read(node: &$crate::yaml::Node, kind: &$crate::Kind) -> Result<Self, $crate::value::Wrong> {
                node.text().and_then(Self::from_word).ok_or_else(|| $crate::value::Wrong::new(node, kind))
            }
            fn show(&self) -> serde_json::Value {
                serde_json::Value::from(self.as_str())
            }
        }
    };
}
pub(crate) use choice;
