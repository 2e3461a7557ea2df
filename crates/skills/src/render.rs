//! Hits → the text that goes into the agent's context. Whole skills only, within a token budget; nothing in a skill
//! can close or fake the block that the proxy puts around the text.

use std::borrow::Cow;

use text::escape;

use crate::bank::Hit;

/// How the headings begin that stand over what is added.
pub(crate) const FRAMES: [&str; 2] = ["skill:", "relevant long-term memory"];

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
    let body = without_frames(&skill.body);
    escape(&format!("## Skill: {}\n{description}\n\n{body}", skill.name)).into_owned()
}

/// A body whose headings cannot pass for another skill, or for memories.
fn without_frames(body: &str) -> Cow<'_, str> {
    let fakes = |line: &str| {
        let title = line.trim_start().trim_start_matches('#');
        title.len() < line.trim_start().len() && FRAMES.iter().any(|frame| is_frame(title, frame))
    };
    if !body.lines().any(fakes) {
        return body.into();
    }
    let plain = |line: &str| match fakes(line) {
        true => line.trim_start().trim_start_matches('#').trim_start().to_owned(),
        false => line.to_owned(),
    };
    body.lines().map(plain).collect::<Vec<_>>().join("\n").into()
}

fn is_frame(title: &str, frame: &str) -> bool {
    let title = text::fold(&text::visible(title)).trim_start().to_owned();
    title.starts_with(frame)
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
