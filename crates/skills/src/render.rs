//! Hits → the text that goes into the agent's context. Whole skills only, within a token budget; nothing in a skill
//! can close or fake the block that the proxy puts around the text.

use std::borrow::Cow;

use crate::bank::Hit;

/// The name of the tag around everything that MetaClaw adds to a message.
pub const TAG: &str = "metaclaw-context";

/// A skill that is in the text.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Used {
    /// The skill's name.
    pub name: String,
    /// Its score.
    pub score: f32,
    /// The matched words.
    pub why: String,
    /// Estimated tokens of its section.
    pub tokens: u32,
}

/// A skill that fitted the query but not the budget.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Dropped {
    /// The skill's name.
    pub name: String,
    /// Its score.
    pub score: f32,
    /// Estimated tokens it would have taken.
    pub tokens: u32,
}

/// The rendered sections.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Block {
    /// Sections joined by a blank line; empty when nothing fits.
    pub text: String,
    /// What is in it, in order.
    pub used: Vec<Used>,
    /// What is not, for want of room.
    pub dropped: Vec<Dropped>,
}

/// One skill as a section: `## Skill: NAME`, the description, a blank line, the body.
pub fn section(hit: &Hit) -> String {
    let skill = &hit.skill;
    let description = skill.description.split_whitespace().collect::<Vec<_>>().join(" ");
    escape(&format!("## Skill: {}\n{description}\n\n{}", skill.name, skill.body)).into_owned()
}

/// Renders hits in order until the budget (in tokens, as `estimate` counts) is used up. A skill that does not fit is
/// left out whole, and a smaller one after it may still come in.
pub fn render(hits: &[Hit], budget_tokens: u32, estimate: impl Fn(&str) -> u32) -> Block {
    let mut block = Block::default();
    let mut left = budget_tokens;
    for hit in hits {
        let text = section(hit);
        let separator = u32::from(!block.text.is_empty());
        let tokens = estimate(&text).saturating_add(separator);
        let name = hit.skill.name.clone();
        if tokens > left {
            block.dropped.push(Dropped { name, score: hit.score, tokens });
            continue;
        }
        left -= tokens;
        if !block.text.is_empty() {
            block.text.push_str("\n\n");
        }
        block.text.push_str(&text);
        block.used.push(Used { name, score: hit.score, why: hit.why.clone(), tokens });
    }
    block
}

/// Makes a text safe to stand inside the block: the block's own tag, opening or closing, in any case and spacing,
/// loses its `<`; characters that are invisible or turn the reading direction are removed.
pub fn escape(text: &str) -> Cow<'_, str> {
    let visible: Cow<'_, str> = if text.contains(is_hidden) { text.replace(is_hidden, "").into() } else { text.into() };
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
