//! SKILL.md text → [`Skill`]. Strict YAML with the Agent Skills limits; files that the Python MetaClaw wrote are
//! read too, and each thing that was put up with is told with its line and its fix.

use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use crate::front_matter::{self, Entry, Parts, YAML_LINE};
use crate::problem::{Finding, Problem, Severity};
use crate::skill::{GENERAL, Origin, Skill};

/// Largest SKILL.md that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// Largest front matter, in bytes.
pub const MAX_FRONT_MATTER_BYTES: usize = 32 * 1024;
/// Longest name, in characters.
pub const MAX_NAME_CHARS: usize = 64;
/// Longest description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// Longest `compatibility`, in characters.
pub const MAX_COMPATIBILITY_CHARS: usize = 500;
/// Bodies longer than this get a note: agents read them whole.
pub const LONG_BODY_LINES: usize = 500;

/// The metadata key for the category.
pub const CATEGORY_KEY: &str = "metaclaw-category";
/// The metadata key for trigger words, separated by commas.
pub const KEYWORDS_KEY: &str = "metaclaw-keywords";
/// The front matter's key for [`Skill::examples`], which `|` or a new line parts.
pub const EXAMPLES_KEY: &str = "metaclaw-examples";
/// The metadata key for the agents a skill is for, separated by commas or blanks.
pub const AGENTS_KEY: &str = "metaclaw-agents";
/// The metadata key for who wrote a skill, if not a person.
pub const ORIGIN_KEY: &str = "metaclaw-origin";

/// Keys whose value is a line of text, which people forget to quote.
const PROSE_KEYS: [&str; 5] = ["name", "description", "category", "license", "compatibility"];
const SPEC_KEYS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// What came of reading one file.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The skill, unless a problem is an error.
    pub skill: Option<Skill>,
    /// Everything worth telling, in file order.
    pub problems: Vec<Problem>,
}

/// Reads the bytes of the SKILL.md at `path`. The file system is not touched; the folder's name is taken from `path`.
pub fn parse(path: &Path, bytes: &[u8]) -> Parsed {
    let mut findings = Vec::new();
    let skill = read(path, bytes, &mut findings);
    findings.sort_by_key(|f| f.line);
    let failed = findings.iter().any(|f| f.severity == Severity::Error);
    Parsed { skill: skill.filter(|_| !failed), problems: findings.into_iter().map(|f| f.at(path)).collect() }
}

fn read(path: &Path, bytes: &[u8], findings: &mut Vec<Finding>) -> Option<Skill> {
    let text = match text_of(bytes) {
        Ok(text) => text,
        Err(finding) => {
            findings.push(finding);
            return None;
        }
    };
    if text.starts_with('\u{feff}') {
        findings.push(Finding::new(
            Severity::Note,
            1,
            "the file begins with a byte order mark",
            "save it as UTF-8 without BOM; other programs may not find the front matter",
        ));
    }
    let parts = match front_matter::split(text) {
        Ok(parts) => parts,
        Err(finding) => {
            findings.push(finding);
            return None;
        }
    };
    if parts.yaml.len() > MAX_FRONT_MATTER_BYTES {
        findings.push(Finding::new(
            Severity::Error,
            1,
            format!("the front matter has {} bytes; {MAX_FRONT_MATTER_BYTES} are allowed", parts.yaml.len()),
            "move the text into the body",
        ));
        return None;
    }
    let entries = front_matter::entries(text, parts.yaml.clone(), YAML_LINE);
    let map = read_yaml(text, &parts, &entries, findings)?;
    Some(check(path, bytes, text, &parts, &Fields { map, entries }, findings))
}

fn text_of(bytes: &[u8]) -> Result<&str, Finding> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Finding::new(
            Severity::Error,
            None,
            format!("the file has {} bytes; {MAX_FILE_BYTES} are allowed", bytes.len()),
            "keep the guidance short and move the rest to files under references/",
        ));
    }
    str::from_utf8(bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Finding::new(Severity::Error, u32::try_from(line).ok(), "the file is not UTF-8 text", "save it as UTF-8")
    })
}

/// The front matter as a map. When YAML refuses it, single-line values that cannot stand without quotes are quoted
/// (the Python MetaClaw wrote such files) and it is read again.
fn read_yaml(text: &str, parts: &Parts, entries: &[Entry], findings: &mut Vec<Finding>) -> Option<Map<String, Value>> {
    let yaml = text[parts.yaml.clone()].replace("\r\n", "\n");
    let refused = match yaml_map(&yaml) {
        Ok(map) => return Some(map),
        Err(refused) => refused,
    };
    let mut repaired = String::with_capacity(yaml.len() + 16);
    let mut warnings = Vec::new();
    let mut at = parts.yaml.start;
    let prose = |e: &&Entry| PROSE_KEYS.contains(&e.key.as_str()) && e.single && !e.value.is_empty();
    for entry in entries.iter().filter(prose) {
        if yaml_map(&text[entry.span.clone()]).is_ok() {
            continue;
        }
        let value = &text[entry.value.clone()];
        repaired.push_str(&text[at..entry.value.start]);
        repaired.push_str(&double_quoted(value));
        at = entry.value.end;
        warnings.push(Finding::new(
            Severity::Warning,
            entry.line,
            format!("the value of `{}` needs quotes; it was read as plain text to the end of the line", entry.key),
            format!("write {}: {}", entry.key, double_quoted(value)),
        ));
    }
    repaired.push_str(&text[at..parts.yaml.end]);
    if !warnings.is_empty()
        && let Ok(map) = yaml_map(&repaired.replace("\r\n", "\n"))
    {
        findings.extend(warnings);
        return Some(map);
    }
    findings.push(Finding::new(
        Severity::Error,
        refused.line.map(|l| l + YAML_LINE - 1),
        format!("the front matter is not valid YAML: {}", refused.message),
        refused.fix,
    ));
    None
}

fn double_quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

struct Refused {
    line: Option<u32>,
    message: String,
    fix: &'static str,
}

fn yaml_map(yaml: &str) -> Result<Map<String, Value>, Refused> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    match serde_saphyr::from_str_with_options::<Value>(yaml, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(Refused {
            line: Some(1),
            message: "it is not a list of `key: value` lines".into(),
            fix: "write `name: …` and `description: …`, each on its own line",
        }),
        Err(error) => {
            let line = error.location().and_then(|l| u32::try_from(l.line()).ok()).filter(|l| *l > 0);
            let mut message = error.without_snippet().to_string();
            if let Some(end) = message.find('\n') {
                message.truncate(end);
            }
            Err(Refused { line, message, fix: "put values with `:` or `#` in double quotes and indent with blanks" })
        }
    }
}

struct Fields {
    map: Map<String, Value>,
    entries: Vec<Entry>,
}

impl Fields {
    fn line(&self, key: &str) -> Option<u32> {
        self.entries.iter().find(|e| e.key == key).map(|e| e.line)
    }

    /// A text field; anything else than text is an error, an absent or blank one is `None`.
    fn text(&self, key: &str, findings: &mut Vec<Finding>) -> Option<String> {
        match self.map.get(key)? {
            Value::String(text) => Some(text.trim().to_owned()).filter(|t| !t.is_empty()),
            Value::Null => None,
            other => {
                findings.push(Finding::new(
                    Severity::Error,
                    self.line(key),
                    format!("`{key}` must be text, but it is {}", kind(other)),
                    format!("put the value of `{key}` in double quotes"),
                ));
                None
            }
        }
    }

    fn metadata(&self, key: &str) -> Option<&Value> {
        self.map.get("metadata")?.as_object()?.get(key)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true/false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn check(path: &Path, bytes: &[u8], text: &str, parts: &Parts, fields: &Fields, findings: &mut Vec<Finding>) -> Skill {
    let name = check_name(path, fields, findings);
    let description = check_description(fields, findings);
    check_comments(text, fields, findings);
    if let Some(long) = fields.text("compatibility", findings).filter(|c| c.chars().count() > MAX_COMPATIBILITY_CHARS) {
        findings.push(Finding::new(
            Severity::Note,
            fields.line("compatibility"),
            format!("`compatibility` has {} characters; {MAX_COMPATIBILITY_CHARS} are allowed", long.chars().count()),
            "shorten it",
        ));
    }
    match fields.map.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(other) => findings.push(Finding::new(
            Severity::Warning,
            fields.line("metadata"),
            format!("`metadata` must be a mapping, but it is {}; it is ignored", kind(other)),
            "write `metadata:` and under it indented `key: value` lines",
        )),
    }
    for entry in fields.entries.iter().filter(|e| !SPEC_KEYS.contains(&e.key.as_str()) && e.key != "category") {
        findings.push(Finding::new(
            Severity::Note,
            entry.line,
            format!("`{}` is not an Agent Skills key; it is kept, but strict programs refuse it", entry.key),
            "move it under `metadata` if nothing needs it at the top",
        ));
    }
    let body = text[parts.body.clone()].replace("\r\n", "\n");
    let lead = body.len() - body.trim_start_matches(['\n', ' ', '\t']).len();
    let skipped = body[..lead].matches('\n').count();
    let trimmed = body.trim();
    if trimmed.is_empty() {
        findings.push(Finding::new(
            Severity::Error,
            parts.body_line,
            "the skill has no body",
            "write the guidance after the closing `---`",
        ));
    }
    if trimmed.lines().count() > LONG_BODY_LINES {
        findings.push(Finding::new(
            Severity::Note,
            parts.body_line,
            format!("the body has more than {LONG_BODY_LINES} lines"),
            "move details to files under references/",
        ));
    }
    Skill {
        name,
        description,
        category: check_category(fields, findings),
        keywords: list(fields.metadata(KEYWORDS_KEY), &[',', '，', '、', ';', '；', '\n']),
        examples: list(fields.metadata(EXAMPLES_KEY), &['|', '\n']),
        agents: list(fields.metadata(AGENTS_KEY), &[',', ' ', '\n']),
        manual: fields.map.get("disable-model-invocation") == Some(&Value::Bool(true)),
        body: trimmed.to_owned(),
        path: path.to_owned(),
        line_of_body: parts.body_line + u32::try_from(skipped).unwrap_or(0),
        content_hash: xxh3_128(bytes),
        origin: Origin::User,
        front_matter: fields.map.clone(),
    }
}

fn check_name(path: &Path, fields: &Fields, findings: &mut Vec<Finding>) -> String {
    let folder = path.parent().and_then(Path::file_name).and_then(|n| n.to_str());
    let wrong_type = findings.len();
    let Some(name) = fields.text("name", findings) else {
        if findings.len() == wrong_type {
            findings.push(Finding::new(
                Severity::Error,
                fields.line("name").unwrap_or(1),
                "`name` is missing",
                format!("add `name: {}`", folder.unwrap_or("my-skill")),
            ));
        }
        return String::new();
    };
    let line = fields.line("name");
    if let Err(why) = check_slug(&name) {
        findings.push(Finding::new(
            Severity::Error,
            line,
            format!("the name `{}` {why}", clip(&name)),
            "use lower-case letters, digits and single hyphens, at most 64, such as `code-review`",
        ));
    } else if let Some(folder) = folder
        && folder != name
    {
        findings.push(Finding::new(
            Severity::Warning,
            line,
            format!("the name `{name}` differs from the folder's name `{}`", clip(folder)),
            format!("rename the folder to `{name}`"),
        ));
    }
    name
}

/// Whether `name` is a valid skill name: `[a-z0-9-]`, 1–64, hyphens single and inside.
pub fn check_slug(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("is empty")
    } else if name.chars().count() > MAX_NAME_CHARS {
        Err("is longer than 64 characters")
    } else if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Err("has capital letters")
    } else if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        Err("has characters that are not a-z, 0-9 or -")
    } else if name.starts_with('-') || name.ends_with('-') {
        Err("begins or ends with a hyphen")
    } else if name.contains("--") {
        Err("has two hyphens in a row")
    } else {
        Ok(())
    }
}

fn check_description(fields: &Fields, findings: &mut Vec<Finding>) -> String {
    let wrong_type = findings.len();
    let Some(description) = fields.text("description", findings) else {
        if findings.len() == wrong_type {
            findings.push(Finding::new(
                Severity::Error,
                fields.line("description").unwrap_or(1),
                "`description` is missing",
                "add `description:` with what the skill does and when to use it",
            ));
        }
        return String::new();
    };
    let length = description.chars().count();
    if length > MAX_DESCRIPTION_CHARS {
        findings.push(Finding::new(
            Severity::Error,
            fields.line("description"),
            format!("the description has {length} characters; {MAX_DESCRIPTION_CHARS} are allowed"),
            "keep what it does and when to use it, move the rest into the body",
        ));
    }
    check_controls(&description, fields.line("description"), "description", findings);
    description
}

/// Control characters have no place in what is shown in terminals and put into a request; line ends and tabs have.
fn check_controls(text: &str, line: Option<u32>, key: &str, findings: &mut Vec<Finding>) {
    if let Some(c) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        findings.push(Finding::new(
            Severity::Error,
            line,
            format!("`{key}` holds the control character {}", c.escape_unicode()),
            "take it out",
        ));
    }
}

/// Text behind ` #` is a comment to YAML: told where it was surely meant as text.
fn check_comments(text: &str, fields: &Fields, findings: &mut Vec<Finding>) {
    let prose = |e: &&Entry| PROSE_KEYS.contains(&e.key.as_str()) && e.single;
    for entry in fields.entries.iter().filter(prose) {
        let value = &text[entry.value.clone()];
        let Some(Value::String(read)) = fields.map.get(&entry.key) else { continue };
        if value.starts_with(read.as_str()) && value[read.len()..].trim_start().starts_with('#') {
            findings.push(Finding::new(
                Severity::Warning,
                entry.line,
                format!("the value of `{}` ends before the ` #`: what follows is a comment", entry.key),
                format!("if it is text, write {}: {}", entry.key, double_quoted(value)),
            ));
        }
    }
}

fn check_category(fields: &Fields, findings: &mut Vec<Finding>) -> String {
    let old = fields.text("category", findings);
    if let Some(old) = &old {
        findings.push(Finding::new(
            Severity::Note,
            fields.line("category"),
            "`category` at the top is the old MetaClaw form, which the Agent Skills validator refuses",
            format!("write it as `metadata:` with `  {CATEGORY_KEY}: {}` under it", clip(old)),
        ));
    }
    let new = [CATEGORY_KEY, "category"].into_iter().find_map(|key| fields.metadata(key)?.as_str());
    let category: String = new
        .map(str::to_owned)
        .or(old)
        .unwrap_or_default()
        .trim()
        .chars()
        .map(|c| if c == ' ' || c == '-' { '_' } else { c.to_ascii_lowercase() })
        .collect();
    let line = fields.line("metadata").or_else(|| fields.line("category"));
    check_controls(&category, line, "category", findings);
    if category.is_empty() { GENERAL.to_owned() } else { category }
}

fn list(value: Option<&Value>, separators: &[char]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        for piece in text.split(separators) {
            let piece = piece.trim();
            if !piece.is_empty() && !all.iter().any(|p| p == piece) {
                all.push(piece.to_owned());
            }
        }
    };
    match value {
        Some(Value::String(text)) => add(text),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).for_each(&mut add),
        _ => {}
    }
    all
}

fn clip(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { '�' } else { c }).take(80).collect();
    if clean.chars().count() < text.chars().count() { format!("{clean}…") } else { clean }
}
