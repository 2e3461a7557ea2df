//! Hits → the text that goes into the agent's context. Whole skills only, within a token budget; nothing in a skill
//! can close or fake the block that the proxy puts around the text.

use text::escape;

use crate::bank::Hit;

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
