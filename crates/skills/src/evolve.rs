//! A conversation → what is to be learned from it. Pure: [`Lesson::prompt`] goes to a model, its answer comes back through
//! [`read`]; nothing here writes a skill.

mod edits;
mod prompt;
mod reply;
mod source;

pub use edits::{Edit, revised};
pub(crate) use prompt::part;
pub use prompt::{PROMPT_TOKENS, repair};
pub(crate) use reply::without_thinking;
pub use reply::{Learned, Misread, read, schema};
pub use source::{Source, source};

use crate::signals::{Reaction, is_wish};

/// A user turn as the evolver sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LessonTurn {
    /// User turn within the session.
    pub turn_no: u32,
    /// Its rows in the journal.
    pub rows: Vec<i64>,
    /// The user's own words.
    pub user: String,
    /// The final answer.
    pub answer: String,
    /// What tools gave back, and whether they failed.
    pub tools: Vec<(String, bool)>,
    /// How the user took it.
    pub reaction: Reaction,
    /// What the user said next.
    pub next: Option<String>,
    /// Requests that failed and came again.
    pub retries: u32,
    /// Answers that were asked for once more.
    pub regenerations: u32,
    /// The judge's score, 0–1.
    pub judge: Option<f64>,
    /// Skills that it had.
    pub skills: Vec<String>,
}

impl LessonTurn {
    /// Tools that failed.
    pub fn tool_errors(&self) -> u32 {
        u32::try_from(self.tools.iter().filter(|(_, failed)| *failed).count()).unwrap_or(u32::MAX)
    }

    /// Something happened that one can learn from.
    fn teaches(&self) -> bool {
        self.reaction == Reaction::Correction
            || self.reaction == Reaction::Thanks && self.tools.len() > 1
            || self.tool_errors() > 0
            || self.retries + self.regenerations > 0
            || self.judge.is_some_and(|score| score < 0.5)
            || is_wish(&self.user)
    }
}

/// A stretch of a conversation, and the skills there are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lesson {
    /// Session id.
    pub session: String,
    /// Agent; empty = unknown.
    pub agent: String,
    /// User turns, oldest first.
    pub turns: Vec<LessonTurn>,
    /// Names, descriptions and bodies of existing skills, the nearest first.
    pub skills: Vec<Existing>,
    /// At most so many proposals.
    pub most: usize,
}

/// A skill that there is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Existing {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its body, for the few that the conversation had: only those can be revised.
    pub body: Option<String>,
}

impl Lesson {
    /// Whether anything in it is worth asking about.
    pub fn teaches(&self) -> bool {
        self.turns.iter().any(LessonTurn::teaches)
    }

    /// Everything that was said, for telling where a skill's content comes from.
    pub fn said(&self) -> Said {
        let mut said = Said::default();
        for turn in &self.turns {
            said.user.push(turn.user.clone());
            said.user.extend(turn.next.clone());
            said.assistant.push(turn.answer.clone());
            said.tool.extend(turn.tools.iter().map(|(text, _)| text.clone()));
        }
        said
    }

    /// The journal's rows of these user turns; all of them if none is named.
    pub fn rows(&self, turns: &[u32]) -> Vec<i64> {
        let named = |turn: &&LessonTurn| turns.is_empty() || turns.contains(&turn.turn_no);
        let rows: Vec<i64> = self.turns.iter().filter(named).flat_map(|turn| turn.rows.iter().copied()).collect();
        if rows.is_empty() && !turns.is_empty() { self.rows(&[]) } else { rows }
    }
}

/// Who said what.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// The user's words.
    pub user: Vec<String>,
    /// The model's.
    pub assistant: Vec<String>,
    /// What tools gave back.
    pub tool: Vec<String>,
}

impl Said {
    /// The words of the user and of the model: what addresses and commands may come from, but for what only tools gave.
    pub fn spoken(&self) -> String {
        [self.user.join("\n"), self.assistant.join("\n")].join("\n")
    }
}
