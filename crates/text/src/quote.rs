//! Makes foreign text safe to stand inside the block that MetaClaw adds to a message. Skills and memories pass through here
//! before they are shown to a model.

use std::borrow::Cow;

/// The name of the tag around everything that MetaClaw adds to a message.
pub const TAG: &str = "metaclaw-context";

/// Makes a text safe to stand inside the block: the block's own tag, opening or closing, in any case and spacing,
/// loses its `<`; characters that are invisible or turn the reading direction are removed.
pub fn escape(text: &str) -> Cow<'_, str> {
    let visible = visible(text);
    let mut out = String::new();
    let mut copied = 0;
    for (at, _) in visible.match_indices('<') {
        if is_tag(&visible[at + 1..]) {
            out.push_str(&visible[copied..at]);
            out.push_str("&lt;");
            copied = at + 1;
        }
    }
    if copied == 0 {
        return visible;
    }
    out.push_str(&visible[copied..]);
    out.into()
}

/// A text without what cannot be seen: what a model is shown of it.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.contains(is_hidden) { text.replace(is_hidden, "").into() } else { text.into() }
}

/// Joiners and blanks between the letters do not hide the tag.
fn is_tag(after: &str) -> bool {
    let mut letters = after
        .chars()
        .filter(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, '\u{200c}' | '\u{200d}'))
        .skip_while(|c| *c == '/')
        .map(|c| c.to_ascii_lowercase());
    TAG.chars().all(|c| letters.next() == Some(c))
}

/// Zero-width, direction and tag characters. The two joiners that scripts and emoji need are not among them.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}
