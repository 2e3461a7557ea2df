//! What reaches the terminal: results on standard output, notes and errors on standard error, colour only where a
//! person reads it. Nothing else in the command prints.

use std::io::{IsTerminal, Write};

use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::exit::Fail;

/// Styles used by the command; each is one SGR sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Strong,
    Faint,
    Good,
    Warn,
    Bad,
    Added,
}

/// Where and how to print.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    pub json: bool,
    pub quiet: bool,
    colour_out: bool,
    colour_err: bool,
    width: usize,
}

impl Out {
    /// `no_color` is true when the variable NO_COLOR is set and not empty.
    pub(crate) fn new(json: bool, quiet: bool, no_color: bool) -> Self {
        let colour = |tty: bool| tty && !no_color;
        Self {
            json,
            quiet,
            colour_out: colour(std::io::stdout().is_terminal()) && !json,
            colour_err: colour(std::io::stderr().is_terminal()),
            width: terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0)).clamp(60, 160),
        }
    }

    /// Columns of the terminal, 100 when there is none.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// A line of the result. A closed pipe is no error: the reader has seen enough.
    pub(crate) fn line(&self, text: &str) {
        let _ = writeln!(std::io::stdout().lock(), "{}", obeyed(text, self.colour_out));
    }

    /// Text of the result as it is, without an added line end.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes);
        let _ = out.flush();
    }

    /// The result as JSON, two-space indented.
    pub(crate) fn value<T: Serialize>(&self, value: &T) {
        if let Ok(text) = serde_json::to_string_pretty(value) {
            let _ = writeln!(std::io::stdout().lock(), "{}", json_escaped(&text));
        }
    }

    /// A remark for the person, on standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{}", obeyed(text, self.colour_err));
        }
    }

    /// What is going on, in one line that the next one replaces. `None`: it is over. Only a terminal shows it.
    pub(crate) fn progress(&self, text: Option<&str>) {
        if self.quiet || !std::io::stderr().is_terminal() {
            return;
        }
        let line = cut(text.unwrap_or_default(), self.width.saturating_sub(1));
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r\u{1b}[K{line}");
        let _ = err.flush();
    }

    /// A warning, on standard error, quiet or not.
    pub(crate) fn warn(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{} {}", self.err_paint(Tone::Warn, "warning:"), printable(text));
    }

    /// An error with its way out. With `--json` the same as one object on standard error.
    pub(crate) fn fail(&self, fail: &Fail) {
        let mut err = std::io::stderr().lock();
        if self.json {
            let body =
                serde_json::json!({"error": {"exit": fail.exit as u8, "message": fail.message, "hint": fail.hint}});
            let _ = writeln!(err, "{}", json_escaped(&body.to_string()));
            return;
        }
        let _ = writeln!(err, "{} {}", self.err_paint(Tone::Bad, "error:"), printable(&fail.message));
        if let Some(hint) = &fail.hint {
            for line in hint.lines() {
                let _ = writeln!(err, "  {}", printable(line));
            }
        }
    }

    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colour_out { styled(tone, text) } else { text.to_owned() }
    }

    fn err_paint(&self, tone: Tone, text: &str) -> String {
        if self.colour_err { styled(tone, text) } else { text.to_owned() }
    }

    /// `label  value` rows with the labels in one column.
    pub(crate) fn pairs(&self, rows: &[(&str, String)]) {
        let wide = rows.iter().map(|(label, _)| label.width()).max().unwrap_or(0);
        for (label, value) in rows {
            let pad = " ".repeat(wide - label.width());
            for (nth, line) in printable(value).lines().enumerate() {
                if nth == 0 {
                    self.line(&format!("{}{pad}  {line}", self.paint(Tone::Faint, label)));
                } else {
                    self.line(&format!("{}  {line}", " ".repeat(wide)));
                }
            }
        }
    }

    /// A table. The last column takes what is left and is cut with an ellipsis.
    pub(crate) fn table(&self, head: &[&str], rows: &[Vec<String>]) {
        for line in layout(head, rows, self.width) {
            let (text, is_head) = line;
            self.line(&if is_head { self.paint(Tone::Faint, &text) } else { text });
        }
    }
}

/// The sequences of the tones, and the one that ends them.
const STYLES: [&str; 7] =
    ["\u{1b}[1m", "\u{1b}[2m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[31m", "\u{1b}[38;5;209m", "\u{1b}[0m"];

fn styled(tone: Tone, text: &str) -> String {
    let [strong, faint, good, warn, bad, added, end] = STYLES;
    let start = match tone {
        Tone::Strong => strong,
        Tone::Faint => faint,
        Tone::Good => good,
        Tone::Warn => warn,
        Tone::Bad => bad,
        Tone::Added => added,
    };
    format!("{start}{}{end}", printable(text))
}

fn layout(head: &[&str], rows: &[Vec<String>], width: usize) -> Vec<(String, bool)> {
    let columns = head.len();
    // What is in a cell may come from a request or a file: one line, and nothing that a terminal obeys.
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let mut wide: Vec<usize> = head.iter().map(|cell| cell.width()).collect();
    for row in &rows {
        for (at, cell) in row.iter().enumerate().take(columns) {
            wide[at] = wide[at].max(cell.width());
        }
    }
    let fixed: usize = wide.iter().take(columns.saturating_sub(1)).map(|column| column + 2).sum();
    let last = width.saturating_sub(fixed).max(20);
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (at, cell) in cells.enumerate() {
            if at + 1 == columns {
                text.push_str(&cut(cell, last));
            } else {
                text.push_str(cell);
                text.push_str(&" ".repeat((wide[at] + 2).saturating_sub(cell.width())));
            }
        }
        text.trim_end().to_owned()
    };
    let mut lines = vec![(line(&mut head.iter().copied()), true)];
    lines.extend(rows.iter().map(|row| (line(&mut row.iter().map(String::as_str)), false)));
    lines
}

/// As one line without control characters; a leading indent stays.
fn one_line(text: &str) -> String {
    let indent = text.len() - text.trim_start_matches(' ').len();
    format!("{}{}", &text[..indent], cut(text, usize::MAX))
}

/// One line of at most `width` columns; line breaks become spaces and control characters go.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let clean: String =
        text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !c.is_control()).collect();
    let clean = clean.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if clean.width() <= width {
        return clean;
    }
    let mut used = 0;
    let kept: String = clean
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used < width
        })
        .collect();
    format!("{}…", kept.trim_end())
}

/// Text from elsewhere made safe for a terminal: control characters other than line end and tab are shown as escapes.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() && c != '\n' && c != '\t' {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

/// A line as the terminal gets it: of its control characters only our own styles are left, and those only where there
/// is colour at all.
fn obeyed(text: &str, colour: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&printable(&rest[..at]));
        let ours = STYLES.iter().find(|style| colour && rest[at..].starts_with(**style));
        match ours {
            Some(style) => out.push_str(style),
            None => out.push_str(&printable("\u{1b}")),
        }
        rest = &rest[at + ours.map_or(1, |style| style.len())..];
    }
    out.push_str(&printable(rest));
    out
}

/// JSON with the control characters escaped that serde leaves alone.
fn json_escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() && c != '\n' {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
        out
    })
}

/// A moment in the person's own time: today as 15:04:05, earlier as 2026-01-31 15:04.
pub(crate) fn moment(ms: i64, now: &jiff::Zoned) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(ms) else { return "?".into() };
    let at = at.to_zoned(now.time_zone().clone());
    if at.date() == now.date() {
        at.strftime("%H:%M:%S").to_string()
    } else {
        at.strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// A duration in the two largest units: 0.4 s, 12 s, 3 min 2 s, 3 h 12 min, 2 d 4 h.
pub(crate) fn duration(ms: i64) -> String {
    let s = ms / 1000;
    match s {
        ..1 => format!("{ms} ms"),
        1..10 => format!("{}.{} s", s, ms % 1000 / 100),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86400, s % 86400 / 3600),
    }
}

/// Bytes in the unit that fits.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        ..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{} kB", count / 1024),
        _ => format!("{:.1} MB", count as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_cut_and_wide_letters_count_double() {
        let rows = vec![vec!["a".to_owned(), "日本語の長い長い長い文です".to_owned()]];
        let lines = layout(&["id", "words"], &rows, 24);
        insta::assert_snapshot!(lines.iter().map(|line| line.0.as_str()).collect::<Vec<_>>().join("\n"), @r"
        id  words
        a   日本語の長い長い長…
        ");
    }

    #[test]
    fn terminal_escapes_from_elsewhere_are_shown_not_obeyed() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\nc");
        assert_eq!(cut("a\u{1b}[2Jb\nc", 20), "a[2Jb c");
        let row = ["x\u{1b}]0;pwn\u{7}\u{1b}[31mRED", "co\u{9b}31mRED"].map(str::to_owned).to_vec();
        let table = layout(&["MODEL", "CATEGORY"], &[row], 80);
        assert!(table.iter().all(|line| !line.0.contains(char::is_control)), "{table:?}");
        let line = format!("{} {}", styled(Tone::Strong, "a\u{1b}]0;pwn\u{7}"), "b\u{1b}[31mc\u{1b}[5m");
        let bare = |colour| obeyed(&line, colour);
        assert_eq!(bare(true), "\u{1b}[1ma\\u{1b}]0;pwn\\u{7}\u{1b}[0m b\u{1b}[31mc\\u{1b}[5m");
        assert!(!bare(false).contains(char::is_control));
        let json = serde_json::to_string(&serde_json::json!({"a": "\u{9b}31m\u{1b}\u{7f}"})).unwrap();
        let safe = json_escaped(&json);
        assert!(!safe.contains(char::is_control));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap()["a"], "\u{9b}31m\u{1b}\u{7f}");
    }

    #[test]
    fn durations_use_the_two_largest_units() {
        let shown: Vec<String> = [420, 4_200, 59_000, 182_000, 11_520_000, 187_200_000].map(duration).to_vec();
        assert_eq!(shown, ["420 ms", "4.2 s", "59 s", "3 min 2 s", "3 h 12 min", "2 d 4 h"]);
    }
}
