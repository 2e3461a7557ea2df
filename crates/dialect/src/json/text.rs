//! JSON string text: from escaped to plain and back.

/// Appends the text of an escaped string (without quotes; must have passed the scanner). Unpaired surrogates become
/// U+FFFD.
pub(crate) fn unescape_into(escaped: &str, out: &mut String) {
    let mut rest = escaped;
    while let Some(backslash) = rest.find('\\') {
        out.push_str(&rest[..backslash]);
        let (character, used) = escape_at(&rest[backslash..]);
        out.push(character);
        rest = &rest[backslash + used..];
    }
    out.push_str(rest);
}

/// The character an escape stands for and how many bytes it takes; `text` starts with the backslash.
pub(crate) fn escape_at(text: &str) -> (char, usize) {
    let simple = match text.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unicode_at(text),
        Some(other) => char::from(*other),
        None => return (char::REPLACEMENT_CHARACTER, text.len()),
    };
    (simple, 2)
}

fn unicode_at(text: &str) -> (char, usize) {
    let Some(first) = hex(text, 2) else { return (char::REPLACEMENT_CHARACTER, text.len().min(6)) };
    if let Some(character) = char::from_u32(first) {
        return (character, 6);
    }
    if (0xD800..0xDC00).contains(&first)
        && text.get(6..8) == Some("\\u")
        && let Some(second @ 0xDC00..0xE000) = hex(text, 8)
    {
        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::REPLACEMENT_CHARACTER, 6)
}

pub(super) fn hex(text: &str, at: usize) -> Option<u32> {
    u32::from_str_radix(text.get(at..at + 4)?, 16).ok()
}

/// Appends `text` as a JSON string with its quotes.
pub(crate) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

/// Appends `text` escaped for the inside of a JSON string.
pub(crate) fn push_escaped(out: &mut String, text: &str) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        from = at + 1;
        if short.is_empty() {
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&text[from..]);
}
