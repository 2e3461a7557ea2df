//! What was put into the messages of one session, or that nothing was. The newest texts are here, equal ones once for all
//! sessions; of older ones the name is known, and the text is in the journal. So a session costs the same after its
//! ten thousandth turn as after its thousandth, and every block still comes back byte for byte.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use store::{Block, Injected};

use crate::conversation::{Conversation, TurnKey};

/// Texts kept per session.
pub(crate) const TEXTS: usize = 256;
/// Decisions kept per session. Older ones are found in the journal.
const KEYS: usize = 8192;
/// What one decision costs beside its text, in bytes.
const KEY_COST: usize = 128;

/// Injected texts of all sessions, each once.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    by_name: HashMap<u128, (Arc<str>, usize)>,
    /// What they cost, and the decisions that name them.
    pub(crate) bytes: usize,
}

impl Texts {
    fn take(&mut self, text: Arc<str>) -> Arc<str> {
        match self.by_name.entry(Block::name(&text)) {
            Entry::Occupied(mut known) => {
                known.get_mut().1 += 1;
                known.get().0.clone()
            }
            Entry::Vacant(place) => {
                self.bytes += text.len();
                place.insert((text.clone(), 1));
                text
            }
        }
    }

    /// The name of a text that is needed once less.
    fn give_back(&mut self, text: &str) -> u128 {
        let name = Block::name(text);
        if let Entry::Occupied(mut known) = self.by_name.entry(name) {
            known.get_mut().1 -= 1;
            if known.get().1 == 0 {
                known.remove();
                self.bytes = self.bytes.saturating_sub(text.len());
            }
        }
        name
    }
}

#[derive(Debug)]
enum Decided {
    /// Nothing fitted.
    Nothing,
    Text(Arc<str>),
    /// A text that the journal has under this name.
    Kept(u128),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    decided: HashMap<TurnKey, Decided>,
    /// The messages in the order in which it was decided.
    order: VecDeque<TurnKey>,
    /// So many of the oldest have no text here.
    cut: usize,
    /// Older ones are not even known by name.
    dropped: bool,
    /// Something was forgotten: only the journal says what older messages got.
    stale: bool,
}

/// Texts of one conversation that were looked up for one request.
pub(crate) type Older = HashMap<TurnKey, Arc<str>>;

/// What a request needs of the journal.
#[derive(Debug)]
pub(crate) enum Absent {
    /// Beside what is known, the texts of these names.
    Named(Older, Vec<(TurnKey, u128)>),
    /// Everything that the journal has of the session.
    All,
}

impl Blocks {
    /// What the journal remembers of a session, in order.
    pub(crate) fn remembered(from: Vec<Injected>, texts: &mut Texts) -> Self {
        let mut blocks = Self::default();
        for block in from {
            let key = TurnKey { hash: block.message_hash, occurrence: block.occurrence };
            let decided = match block.text {
                Some(text) if text.is_empty() => Decided::Nothing,
                Some(text) => Decided::Text(texts.take(text.into())),
                None if blocks.cut == blocks.order.len() => {
                    blocks.cut += 1;
                    Decided::Kept(block.name)
                }
                // It was forgotten this very moment.
                None => continue,
            };
            blocks.insert(key, decided, texts);
        }
        blocks.trim(texts);
        blocks
    }

    fn insert(&mut self, key: TurnKey, decided: Decided, texts: &mut Texts) {
        texts.bytes += KEY_COST;
        self.order.push_back(key);
        self.decided.insert(key, decided);
    }

    /// Enters what was decided for a message, and gives it back; `false` with what was decided before.
    pub(crate) fn decide(
        &mut self,
        key: TurnKey,
        text: Option<Arc<str>>,
        texts: &mut Texts,
    ) -> (Option<Arc<str>>, bool) {
        match self.decided.get(&key) {
            Some(Decided::Text(known)) => return (Some(known.clone()), false),
            Some(_) => return (None, false),
            None => {}
        }
        let text = text.map(|text| texts.take(text));
        self.insert(key, text.clone().map_or(Decided::Nothing, Decided::Text), texts);
        (text, true)
    }

    /// The text of a message, here or among what was looked up; `None` if it got none.
    pub(crate) fn text(&self, key: &TurnKey, older: &Older) -> Option<Arc<str>> {
        match self.decided.get(key) {
            Some(Decided::Text(text)) => Some(text.clone()),
            Some(Decided::Nothing) => None,
            // Without words: it was decided that nothing is added.
            Some(Decided::Kept(_)) | None => older.get(key).filter(|text| !text.is_empty()).cloned(),
        }
    }

    /// Whether it is decided what a message gets.
    pub(crate) fn is_decided(&self, key: &TurnKey, older: &Older) -> bool {
        self.decided.contains_key(key) || older.contains_key(key)
    }

    /// What this conversation needs of the journal; `None` = nothing.
    pub(crate) fn absent(&self, talk: &Conversation) -> Option<Absent> {
        if self.stale {
            return Some(Absent::All);
        }
        // Texts may be let go until the request is entered; those of a short session are not.
        if self.order.len() < TEXTS / 2 {
            return None;
        }
        let trigger = talk.trigger.map(|(_, key)| key);
        let (mut known, mut named) = (Older::new(), Vec::new());
        for (_, key) in &talk.users {
            match self.decided.get(key) {
                Some(Decided::Text(text)) => drop(known.insert(*key, text.clone())),
                Some(Decided::Kept(name)) => named.push((*key, *name)),
                Some(Decided::Nothing) => {}
                None if self.dropped && Some(*key) != trigger => return Some(Absent::All),
                None => {}
            }
        }
        Some(Absent::Named(known, named))
    }

    /// Lets the older texts go: the journal has them. To be called when a turn of the session is in there.
    pub(crate) fn trim(&mut self, texts: &mut Texts) {
        while self.order.len() - self.cut > TEXTS {
            if let Some(decided) = self.order.get(self.cut).and_then(|key| self.decided.get_mut(key))
                && let Decided::Text(text) = decided
            {
                *decided = Decided::Kept(texts.give_back(text));
            }
            self.cut += 1;
        }
        while self.order.len() > KEYS
            && let Some(key) = self.order.pop_front()
        {
            if let Some(Decided::Text(text)) = self.decided.remove(&key) {
                texts.give_back(&text);
            }
            texts.bytes = texts.bytes.saturating_sub(KEY_COST);
            self.cut = self.cut.saturating_sub(1);
            self.dropped = true;
        }
    }

    /// Lets everything go.
    pub(crate) fn release(&mut self, texts: &mut Texts) {
        for (_, decided) in self.decided.drain() {
            texts.bytes = texts.bytes.saturating_sub(KEY_COST);
            if let Decided::Text(text) = decided {
                texts.give_back(&text);
            }
        }
        self.order.clear();
        self.cut = 0;
    }

    /// Something was forgotten while requests are under way: from now on the journal says what was put where.
    pub(crate) fn outdate(&mut self, texts: &mut Texts) {
        self.release(texts);
        self.stale = true;
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> TurnKey {
        TurnKey { hash: n.into(), occurrence: 0 }
    }

    fn talk(keys: impl Iterator<Item = u32>) -> Conversation {
        Conversation { users: keys.map(|n| (n as usize, key(n))).collect(), ..Conversation::default() }
    }

    #[test]
    fn a_long_session_keeps_its_newest_texts_and_the_names_of_the_others() {
        let (mut blocks, mut texts) = (Blocks::default(), Texts::default());
        for n in 0..1000 {
            let text = (n % 3 > 0).then(|| Arc::from(format!("text {n}")));
            assert_eq!(blocks.decide(key(n), text.clone(), &mut texts), (text, true));
            blocks.trim(&mut texts);
        }
        assert!(texts.by_name.len() <= TEXTS);
        assert!(texts.bytes < TEXTS * 16 + 1000 * KEY_COST);
        let Some(Absent::Named(known, named)) = blocks.absent(&talk(700..1000)) else { panic!("nothing is absent") };
        for n in 700..1000 {
            let name = named.iter().find(|(k, _)| *k == key(n)).map(|(_, name)| *name);
            let text = format!("text {n}");
            match n % 3 {
                0 => assert!(name.is_none() && !known.contains_key(&key(n))),
                _ if n < 1000 - TEXTS as u32 => assert_eq!(name, Some(Block::name(&text))),
                _ => assert_eq!(known.get(&key(n)).map(|t| &**t), Some(&*text)),
            }
        }
        // What is looked up counts for messages whose text went, and only for those.
        let older = Older::from([(key(1), Arc::from("text 1")), (key(3), Arc::from("no"))]);
        assert_eq!(blocks.text(&key(1), &older).as_deref(), Some("text 1"));
        assert_eq!(blocks.text(&key(3), &older), None);
        assert_eq!(blocks.decide(key(1), Some("other".into()), &mut texts), (None, false));
    }

    #[test]
    fn what_fell_out_altogether_is_asked_of_the_journal() {
        let (mut blocks, mut texts) = (Blocks::default(), Texts::default());
        let count = KEYS as u32 + 10;
        for n in 0..count {
            blocks.decide(key(n), Some(format!("text {n}").into()), &mut texts);
            blocks.trim(&mut texts);
        }
        assert!(blocks.decided.len() == KEYS && blocks.order.len() == KEYS);
        assert!(matches!(blocks.absent(&talk(0..20)), Some(Absent::All)));
        assert!(matches!(blocks.absent(&talk(count - 20..count)), Some(Absent::Named(..))));
    }

    #[test]
    fn equal_texts_are_kept_once_and_cost_nothing_when_all_are_gone() {
        let mut texts = Texts::default();
        let mut sessions: Vec<Blocks> = (0..10).map(|_| Blocks::default()).collect();
        for (n, blocks) in sessions.iter_mut().enumerate() {
            for turn in 0..20 {
                blocks.decide(key(turn), Some(Arc::from("the same words")), &mut texts);
            }
            assert_eq!(texts.bytes, "the same words".len() + (n + 1) * 20 * KEY_COST);
        }
        sessions.iter_mut().for_each(|blocks| blocks.release(&mut texts));
        assert!(texts.bytes == 0 && texts.by_name.is_empty());
    }

    #[test]
    fn what_the_journal_remembers_is_known_again() {
        let mut texts = Texts::default();
        let one = |n: u32, text: Option<&str>| Injected {
            message_hash: n.into(),
            occurrence: 0,
            name: Block::name(&format!("text {n}")),
            text: text.map(str::to_owned),
        };
        let blocks = Blocks::remembered(vec![one(0, None), one(1, Some("text 1")), one(2, None)], &mut texts);
        assert!(blocks.is_decided(&key(0), &Older::new()) && !blocks.is_decided(&key(2), &Older::new()));
        assert_eq!(blocks.text(&key(1), &Older::new()).as_deref(), Some("text 1"));
    }
}
