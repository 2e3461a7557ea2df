//! What is added to a request, and where. Asks `Knowledge` once per user turn with the user's own words, renders one
//! delimited block within its budget, and hands it to the dialect's edits. Messages of the model are never touched.

use std::sync::Arc;

use config::Placement;
use dialect::{Request, RequestEdit, estimate_tokens, user_words};
use store::Addition;

use crate::conversation::TurnKey;
use crate::knowledge::{Ask, Knowledge, Piece};
use crate::sessions::Place;
use crate::settings::Settings;

const TURN_INTRO: &str = "Reference notes added by MetaClaw, not written by the user. Use what helps with the message \
                          above; ignore the rest.";
const SYSTEM_INTRO: &str = "Reference notes added by MetaClaw, not written by the user. Use what helps with the user's \
                            current request; ignore the rest.";
/// How text from MetaClaw begins, whether this proxy or a plugin put it there.
const MARKS: [&str; 2] = ["<metaclaw-context", "<metaclaw-memory"];

/// A block that was just made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Made {
    pub(crate) text: String,
    pub(crate) additions: Vec<Addition>,
}

/// What to ask for this request; `None` = nothing may or need be added.
pub(crate) fn question(
    request: &Request,
    index: usize,
    place: &Place,
    agent: &Arc<str>,
    settings: &Settings,
) -> Option<Ask> {
    if settings.max_injected_tokens == 0 {
        return None;
    }
    let text = request.message_text(index);
    if MARKS.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let words = user_words(&text);
    (!words.is_empty()).then(|| Ask {
        text: words.into_owned(),
        agent: agent.clone(),
        session: place.session.clone(),
        scope: place.scope.clone(),
        budget_tokens: settings.max_injected_tokens,
    })
}

/// Asks, and renders what comes back.
pub(crate) async fn make(knowledge: &dyn Knowledge, ask: &Ask, placement: Placement) -> Option<Made> {
    let pieces = knowledge.recall(ask).await;
    render(&pieces, ask.budget_tokens, placement)
}

/// One block of the pieces that fit the budget, in order; a piece that does not fit is left out whole.
pub(crate) fn render(pieces: &[Piece], budget: u32, placement: Placement) -> Option<Made> {
    let intro = match placement {
        Placement::Turn => TURN_INTRO,
        Placement::System => SYSTEM_INTRO,
    };
    let tag = skills::TAG;
    let mut text = format!("<{tag}>\n{intro}");
    let end = format!("\n</{tag}>");
    let mut left = budget.checked_sub(estimate_tokens(&text) + estimate_tokens(&end))?;
    let mut additions = Vec::new();
    for piece in pieces {
        let tokens = estimate_tokens(&piece.section) + 1;
        let Some(rest) = left.checked_sub(tokens) else { continue };
        left = rest;
        text.push_str("\n\n");
        text.push_str(&piece.section);
        additions.push(Addition {
            kind: piece.kind.to_owned(),
            id: piece.id.clone(),
            score: piece.score,
            why: piece.why.clone(),
            tokens,
        });
    }
    if additions.is_empty() {
        return None;
    }
    text.push_str(&end);
    Some(Made { text, additions })
}

/// Where a block that was made earlier was put: its first line says so.
#[must_use]
pub fn placement_of(block: &str) -> Placement {
    if block.contains(SYSTEM_INTRO) { Placement::System } else { Placement::Turn }
}

/// Puts all text of a request where it belongs: what was there before at its old place, the current turn's at its own.
/// Returns the trigger's key where the current text really went in.
pub(crate) fn apply(
    edit: &mut RequestEdit<'_>,
    place: &Place,
    trigger: Option<(usize, TurnKey)>,
    placement: Placement,
) {
    match placement {
        Placement::Turn => {
            for (index, text) in &place.put_back {
                edit.inject_turn(*index, text);
            }
            if let (Some(text), Some((index, _))) = (&place.current, trigger) {
                edit.inject_turn(index, text);
            }
        }
        Placement::System => {
            if let Some(text) = &place.current {
                edit.inject_system(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: &str, words: usize) -> Piece {
        Piece {
            kind: "skill",
            id: id.to_owned(),
            section: format!("## Skill: {id}\n{}", "word ".repeat(words)),
            score: 1.5,
            why: "word".to_owned(),
        }
    }

    #[test]
    fn a_block_is_delimited_and_says_what_it_is() {
        let made = render(&[piece("a", 3)], 1000, Placement::Turn).unwrap();
        insta::assert_snapshot!(made.text, @r"
        <metaclaw-context>
        Reference notes added by MetaClaw, not written by the user. Use what helps with the message above; ignore the rest.

        ## Skill: a
        word word word 
        </metaclaw-context>
        ");
        assert_eq!(made.additions.len(), 1);
    }

    #[test]
    fn a_block_tells_where_it_was_put() {
        for placement in [Placement::Turn, Placement::System] {
            let made = render(&[piece("a", 3)], 1000, placement).unwrap();
            assert_eq!(placement_of(&made.text), placement);
        }
    }

    #[test]
    fn a_block_never_exceeds_its_budget() {
        let pieces: Vec<_> = (0..20).map(|i| piece(&format!("s{i}"), i * 13 % 60)).collect();
        for budget in 0..600 {
            if let Some(made) = render(&pieces, budget, Placement::Turn) {
                assert!(estimate_tokens(&made.text) <= budget, "{budget}");
            }
        }
        assert!(render(&pieces, 600, Placement::Turn).is_some());
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole_and_smaller_ones_still_come_in() {
        let made = render(&[piece("big", 500), piece("small", 2)], 100, Placement::Turn).unwrap();
        let ids: Vec<_> = made.additions.iter().map(|a| a.id.as_str()).collect();
        assert_eq!(ids, ["small"]);
        assert!(render(&[piece("big", 500)], 100, Placement::Turn).is_none());
        assert!(render(&[], 100, Placement::Turn).is_none());
    }
}
