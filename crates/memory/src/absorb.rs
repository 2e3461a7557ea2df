//! The journal → windows. Reads on from a cursor that moves in the same transaction as what was read, so a crash
//! loses nothing and reads nothing twice.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use store::{MemoryTurn, NewWindow, Outcome, TurnId};

use crate::{Memory, Result, base_scope, passage, redact, scope_of, terms, time, trust};

/// How far absorbing came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Absorption {
    /// Main rows read.
    pub turns: usize,
    /// Passages written.
    pub windows: usize,
    /// Nothing is left to be read.
    pub done: bool,
}

/// What was said last in a session, the last first: context for what comes next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    before: Vec<String>,
    /// User turn whose words are known already; its later rows are steps of the same turn.
    pub(crate) turn_no: Option<u32>,
}

impl Said {
    pub(crate) fn says(&mut self, text: &str) {
        self.before.insert(0, text.to_owned());
        self.before.truncate(2);
    }
}

/// Reads turns in order into windows.
pub(crate) struct Reader<'a> {
    pub(crate) scope: &'a str,
    pub(crate) zone: &'a TimeZone,
    pub(crate) sessions: HashMap<String, Said>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(scope: &'a str, zone: &'a TimeZone) -> Self {
        Self { scope, zone, sessions: HashMap::new() }
    }

    /// Lets the context of a session be known from turns that were read before.
    pub(crate) fn remember(&mut self, turns: &[MemoryTurn]) {
        for turn in turns {
            self.windows(turn);
        }
    }

    /// A turn that was read before, with its passages.
    pub(crate) fn knows<'t>(&mut self, turn: &MemoryTurn, passages: impl Iterator<Item = &'t str>) {
        let said = self.sessions.entry(turn.session.clone()).or_default();
        passages.for_each(|passage| said.says(passage));
        said.turn_no = Some(turn.turn_no);
    }

    /// The windows of one journal row.
    pub(crate) fn windows(&mut self, turn: &MemoryTurn) -> Vec<NewWindow> {
        let scope = scope_of(&turn.scope, self.scope);
        let said = self.sessions.entry(turn.session.clone()).or_default();
        let like = NewWindow {
            scope,
            session: turn.session.clone(),
            turn: Some(turn.id),
            turn_no: turn.turn_no,
            ..NewWindow::default()
        };
        let mut all = Vec::new();
        // A turn repeats the user's words on every step of its tool loop.
        if said.turn_no != Some(turn.turn_no)
            && let Some(words) = &turn.user_text
        {
            speak(
                words,
                &NewWindow { speaker: "user".to_owned(), at_ms: turn.started_ms, ..like.clone() },
                said,
                self.zone,
                &mut all,
            );
        }
        said.turn_no = Some(turn.turn_no);
        // What the model says before it calls a tool is no answer yet.
        let answered = matches!(turn.outcome, Outcome::Ok | Outcome::Cut) && turn.stop.as_deref() != Some("tool_use");
        if answered && let Some(answer) = &turn.answer_text {
            let like = NewWindow { speaker: "assistant".to_owned(), at_ms: turn.finished_ms, ..like };
            speak(answer, &like, said, self.zone, &mut all);
        }
        all
    }
}

/// Cuts what was said into windows like `like`, each with what was said before it.
fn speak(text: &str, like: &NewWindow, said: &mut Said, zone: &TimeZone, all: &mut Vec<NewWindow>) {
    let clean = redact(text);
    let date = time::words(like.at_ms, zone);
    for range in passage::passages(&clean) {
        let piece = &clean[range];
        let document = terms::Document::new(piece)
            .after(said.before.iter().map(String::as_str))
            .spoken_by(&like.speaker)
            .on(&date);
        all.push(NewWindow {
            part: u32::try_from(all.len()).unwrap_or(u32::MAX),
            quarantined: like.speaker != "user" && trust::suspicion(piece).is_some(),
            hash: terms::hash(piece),
            text: piece.to_owned(),
            terms: document.finish(),
            ..like.clone()
        });
        said.says(piece);
    }
}

/// Something said outside the journal: by a client that keeps its own, or in an old conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Utterance {
    /// `user`, `assistant`, a tool's or a person's name.
    pub speaker: String,
    /// What was said.
    pub text: String,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// User turn within the session.
    pub turn_no: u32,
}

impl Memory {
    /// Reads the journal on from where it was read before, at most `limit` rows, into windows. Call it after every turn
    /// and until `done`; two processes may do so at once. Facts follow with [`Memory::flush`].
    pub async fn absorb(&self, limit: u32) -> Result<Absorption> {
        let from = self.store.memory_cursor().await?;
        let (turns, to) = self.store.memory_turns(from, limit).await?;
        if to == from {
            return Ok(Absorption { done: true, ..Absorption::default() });
        }
        let settings = self.settings();
        let mut reader = Reader::new(&settings.scope, &settings.zone);
        self.context(&mut reader, &turns, from).await?;
        let mut absorbed = store::Absorbed { cursor: Some((from, to)), ..store::Absorbed::default() };
        for turn in &turns {
            absorbed.windows.extend(reader.windows(turn));
        }
        let done = Absorption { turns: turns.len(), windows: absorbed.windows.len(), done: false };
        // Another process was faster: what it read is not read again.
        let written = self.store.memory_absorb(absorbed).await?;
        Ok(if written { done } else { Absorption::default() })
    }

    /// Remembers what was said outside the journal, in order. Facts follow with [`Memory::flush`].
    pub async fn hear(&self, scope: &str, session: &str, utterances: &[Utterance]) -> Result<Absorption> {
        let settings = self.settings();
        let scope = base_scope(if scope.is_empty() { &settings.scope } else { scope }, &settings.scope);
        let mut said = Said::default();
        let before = self.store.memory_windows_of(session).await?;
        let mut before = self.store.memory_windows(&before[before.len().saturating_sub(2)..]).await?;
        before.sort_by_key(|w| w.id);
        before.iter().for_each(|w| said.says(&w.text));
        let mut absorbed = store::Absorbed::default();
        for utterance in utterances {
            let like = NewWindow {
                scope: scope.clone(),
                session: session.to_owned(),
                turn_no: utterance.turn_no,
                speaker: utterance.speaker.clone(),
                at_ms: utterance.at_ms,
                ..NewWindow::default()
            };
            let mut windows = Vec::new();
            speak(&utterance.text, &like, &mut said, &settings.zone, &mut windows);
            absorbed.windows.extend(windows);
        }
        let done = Absorption { turns: utterances.len(), windows: absorbed.windows.len(), done: true };
        self.store.memory_absorb(absorbed).await?;
        self.refresh().await?;
        Ok(done)
    }

    /// What was said in the sessions of `turns` just before them.
    pub(crate) async fn context(&self, reader: &mut Reader<'_>, turns: &[MemoryTurn], until: TurnId) -> Result<()> {
        let mut known = std::collections::HashSet::new();
        for turn in turns.iter().filter(|t| t.turn_no > 1 || t.step > 0) {
            if known.insert(turn.session.as_str()) {
                let before = self.store.memory_turns_before(&turn.session, until, 4).await?;
                reader.remember(&before);
            }
        }
        Ok(())
    }
}
