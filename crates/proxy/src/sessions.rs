//! The sessions that are under way, in memory: which conversation belongs to which, how many turns it had, what was put
//! into which message (`blocks`). Bounded; what falls out comes back from the journal (`recall` fills it in again).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Injected, Kind, Outcome, Scope};
use tokio::time::Instant;

use crate::blocks::{Absent, Blocks, Older, Texts};
use crate::conversation::{Conversation, TurnKey};
use crate::identify::Who;

/// Sessions kept in memory.
const CAPACITY: usize = 1024;
/// What was put into messages may take so many bytes in memory.
const BLOCK_BYTES: usize = 6 << 20;
/// States kept per session; older ones are found in the journal.
const STATES: usize = 32;
/// Sessions kept per state; identical conversations beyond that are found in the journal.
const SHARED: usize = 32;
/// User turns of one session whose numbers are kept: as many conversations can go on in it side by side.
const TURNS: usize = 64;
/// A first request that failed and comes again within this time is the same conversation.
const RETRY: Duration = Duration::from_secs(120);
/// Failed first requests remembered.
const FAILED: usize = 512;

/// Where a request belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// To this session, which is in memory.
    Here(Arc<str>),
    /// To this session, which the journal may know.
    Named(Arc<str>),
    /// Nobody in memory has just come to the state it goes on from; the journal may know who has.
    Unknown,
    /// To none: it begins one.
    New,
}

/// A request's place in its session.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) session: Arc<str>,
    pub(crate) turn_no: u32,
    pub(crate) step: u32,
    /// Text that was put into earlier messages, by place in the request.
    pub(crate) put_back: Vec<(usize, Arc<str>)>,
    /// The message that may get text now.
    pub(crate) open: Option<(usize, TurnKey)>,
    /// The text of the current turn, if it is decided.
    pub(crate) current: Option<Arc<str>>,
    pub(crate) scope: Scope,
    /// Several people take part.
    pub(crate) group: bool,
}

/// What the journal remembers of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) turn_no: u32,
    pub(crate) step: u32,
    pub(crate) blocks: Vec<Injected>,
    pub(crate) scope: Scope,
    pub(crate) group: bool,
}

#[derive(Debug)]
struct Session {
    agent: Arc<str>,
    last: Instant,
    in_flight: u32,
    /// The highest number of a user turn.
    turn_no: u32,
    /// The turns that requests may still go on with, the latest last.
    turns: Vec<Turn>,
    /// What was decided for which message.
    blocks: Blocks,
    states: VecDeque<u128>,
    said: VecDeque<u128>,
    /// State of the last request that did not end well.
    failed: Option<u128>,
    scope: Scope,
    /// Several people take part, or did.
    group: bool,
    /// Its place in `Table::quiet`, while nothing is under way.
    quiet: u64,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The message that began it; `None` right after the session came back from the journal.
    key: Option<TurnKey>,
    no: u32,
    step: u32,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<Arc<str>, Session>,
    by_state: HashMap<u128, VecDeque<Claim>>,
    by_said: HashMap<u128, VecDeque<Claim>>,
    failed: HashMap<u128, (Arc<str>, Instant)>,
    texts: Texts,
    /// Sessions with nothing under way in the order in which they fell silent, the longest silent first. Entries
    /// whose number is not the session's own any more are passed over.
    quiet: VecDeque<(u64, Arc<str>)>,
    silences: u64,
}

#[derive(Debug)]
struct Claim {
    session: Arc<str>,
    /// When the request began that came to this state, and when it was over.
    began: Instant,
    over: Instant,
    /// A later request has gone on from this state.
    continued: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the session of a request: the one it names, or the one that has come to the state it goes on from.
    pub(crate) fn find(&self, who: &Who, talk: &Conversation, now: Instant) -> Found {
        let mut table = self.table();
        if let Some(id) = &who.session {
            return if table.sessions.contains_key(id) { Found::Here(id.clone()) } else { Found::Named(id.clone()) };
        }
        let Some(latest) = talk.prior() else {
            return table.tried_before(who, talk, now).map_or(Found::New, Found::Here);
        };
        table.at(latest, who, talk).map_or(Found::Unknown, Found::Here)
    }

    /// The session in memory where the user has said the same up to the last answer, whatever was answered.
    pub(crate) fn find_by_words(&self, who: &Who, talk: &Conversation) -> Option<Arc<str>> {
        let mut table = self.table();
        let Table { by_said, sessions, .. } = &mut *table;
        choose(by_said.get_mut(&talk.said_before?)?, sessions, who, talk)
    }

    /// The session in memory that has come to one of these earlier states; the first one known counts.
    pub(crate) fn find_earlier<'s>(
        &self,
        states: impl IntoIterator<Item = &'s u128>,
        who: &Who,
        talk: &Conversation,
    ) -> Option<Arc<str>> {
        let mut table = self.table();
        states.into_iter().find_map(|state| table.at(*state, who, talk))
    }

    /// Takes up a session again that the journal remembers; one that is in memory meanwhile stays as it is.
    pub(crate) fn adopt(&self, id: &Arc<str>, agent: &Arc<str>, from: Remembered, now: Instant) {
        let mut table = self.table();
        if table.sessions.contains_key(id) {
            return;
        }
        table.make_room();
        let mut session = Session::new(from.agent.unwrap_or_else(|| agent.clone()), now);
        session.turn_no = from.turn_no;
        if from.turn_no > 0 {
            session.turns.push(Turn { key: None, no: from.turn_no, step: from.step });
        }
        session.scope = from.scope;
        session.group = from.group;
        session.blocks = Blocks::remembered(from.blocks, &mut table.texts);
        table.sessions.insert(id.clone(), session);
        table.falls_silent(id);
    }

    /// What a request needs of the journal before it is entered; `None` = nothing.
    pub(crate) fn absent(&self, id: &str, talk: &Conversation) -> Option<Absent> {
        self.table().sessions.get(id)?.blocks.absent(talk)
    }

    /// Enters a request into its session, which is made if need be; `older` is what was absent. Every entered request
    /// must be left again.
    pub(crate) fn enter(&self, id: &Arc<str>, who: &Who, talk: &Conversation, older: &Older, now: Instant) -> Place {
        let mut table = self.table();
        if !table.sessions.contains_key(id) {
            table.make_room();
        }
        let table = &mut *table;
        let session = table.sessions.entry(id.clone()).or_insert_with(|| Session::new(who.agent.clone(), now));
        session.last = now;
        session.in_flight += 1;
        // What was said to a group stays said to it.
        session.group |= who.group;
        let mut place = Place {
            session: id.clone(),
            turn_no: session.turn_no.max(1),
            step: session.turns.last().map_or(0, |turn| turn.step),
            put_back: Vec::new(),
            open: None,
            current: None,
            scope: session.scope_of(who),
            group: session.group,
        };
        if !who.kind.is_main() {
            session.put_back_aside(talk, older, &mut place);
            return place;
        }
        (place.turn_no, place.step) = session.count(talk);
        place.open = talk.trigger;
        session.put_back(talk, older, &mut place);
        if let Some((_, key)) = place.open.filter(|_| talk.tool_step) {
            // A turn that is under way has been seen by the provider without text; it stays so.
            session.blocks.decide(key, None, &mut table.texts);
            place.open = None;
        }
        place
    }

    /// Remembers what was decided for a message. The first decision counts and is given back; true if it is this one.
    pub(crate) fn decide(&self, id: &Arc<str>, key: TurnKey, text: Option<Arc<str>>) -> (Option<Arc<str>>, bool) {
        let mut table = self.table();
        let Table { sessions, texts, .. } = &mut *table;
        match sessions.get_mut(id) {
            Some(session) => session.blocks.decide(key, text, texts),
            None => (text, true),
        }
    }

    /// A turn of this session is in the journal: older texts are found there.
    pub(crate) fn is_written(&self, id: &str) {
        let mut table = self.table();
        let Table { sessions, texts, .. } = &mut *table;
        if let Some(session) = sessions.get_mut(id) {
            session.blocks.trim(texts);
        }
    }

    /// A request is over. `end.states` is empty where there is nothing to go on from.
    pub(crate) fn leave(&self, id: &Arc<str>, kind: &Kind, talk: &Conversation, end: End, now: Instant) {
        let mut table = self.table();
        let table = &mut *table;
        let Some(session) = table.sessions.get_mut(id) else { return };
        session.in_flight = session.in_flight.saturating_sub(1);
        session.last = now;
        if kind.is_main() {
            if end.outcome == Outcome::Ok {
                session.failed = None;
                if talk.answered.is_empty() {
                    table.failed.remove(&talk.state);
                }
            } else {
                session.failed = Some(talk.state);
                if talk.answered.is_empty() && talk.trigger.is_some() {
                    if table.failed.len() >= FAILED {
                        table.failed.retain(|_, (_, at)| now.duration_since(*at) < RETRY);
                    }
                    if table.failed.len() < FAILED {
                        table.failed.insert(talk.state, (id.clone(), now));
                    }
                }
            }
            let claim = || Claim { session: id.clone(), began: end.began, over: now, continued: false };
            for state in end.states.into_iter().flatten() {
                enter_claim(&mut table.by_state, &mut session.states, state, claim());
            }
            if let Some(said) = talk.said.filter(|_| end.states[0].is_some()) {
                enter_claim(&mut table.by_said, &mut session.said, said, claim());
            }
        }
        if session.in_flight == 0 {
            if session.blocks.is_stale() {
                table.remove(id);
            } else {
                table.falls_silent(id);
            }
        }
    }

    /// What the journal says of sessions has changed: those without a request under way are forgotten, of the others
    /// what was put into their messages, until they fall silent.
    pub(crate) fn journal_changed(&self) {
        let mut table = self.table();
        let quiet: Vec<Arc<str>> =
            table.sessions.iter().filter(|(_, s)| s.in_flight == 0).map(|(id, _)| id.clone()).collect();
        quiet.iter().for_each(|id| table.remove(id));
        let Table { sessions, texts, .. } = &mut *table;
        sessions.values_mut().for_each(|session| session.blocks.outdate(texts));
    }

    /// Forgets a session. The journal still knows it.
    pub(crate) fn forget(&self, id: &str) {
        self.table().remove(id);
    }

    /// The sessions without a request for so long, and none under way.
    pub(crate) fn idle(&self, idle: Duration, now: Instant) -> Vec<Arc<str>> {
        let table = self.table();
        let is_idle = |s: &Session| s.in_flight == 0 && now.duration_since(s.last) >= idle;
        table.sessions.iter().filter(|(_, s)| is_idle(s)).map(|(id, _)| id.clone()).collect()
    }

    /// Whether the session has had a request within this time, or has one under way.
    pub(crate) fn is_active(&self, id: &str, idle: Duration, now: Instant) -> bool {
        self.table().sessions.get(id).is_some_and(|s| s.in_flight > 0 || now.duration_since(s.last) < idle)
    }

    /// Where a request would belong; empty if nowhere.
    pub(crate) fn whereabouts(&self, who: &Who, talk: &Conversation, now: Instant) -> Arc<str> {
        let aside = Who { kind: Kind::Side(String::new()), ..who.clone() };
        match self.find(&aside, talk, now) {
            Found::Here(id) | Found::Named(id) => id,
            Found::Unknown => {
                let alike = self.find_by_words(&aside, talk);
                alike.or_else(|| self.find_earlier(talk.earlier(), &aside, talk)).unwrap_or_default()
            }
            Found::New => Arc::default(),
        }
    }

    /// What would be put into a request of this session, without entering it.
    pub(crate) fn preview(&self, id: &Arc<str>, who: &Who, talk: &Conversation, older: &Older) -> Place {
        let mut place = Place {
            session: id.clone(),
            turn_no: 0,
            step: 0,
            put_back: Vec::new(),
            open: talk.trigger.filter(|_| !talk.tool_step),
            current: None,
            scope: who.scope.clone(),
            group: who.group,
        };
        if let Some(session) = self.table().sessions.get(id) {
            place.group |= session.group;
            session.put_back(talk, older, &mut place);
        }
        place
    }

    /// Sessions in memory.
    pub(crate) fn len(&self) -> usize {
        self.table().sessions.len()
    }
}

/// How a request ended, for the next one to find.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    pub(crate) began: Instant,
    /// The states from which the next request may go on, the usual one first.
    pub(crate) states: [Option<u128>; 2],
}

impl Session {
    fn new(agent: Arc<str>, now: Instant) -> Self {
        Self {
            agent,
            last: now,
            in_flight: 0,
            turn_no: 0,
            turns: Vec::new(),
            blocks: Blocks::default(),
            states: VecDeque::new(),
            said: VecDeque::new(),
            failed: None,
            scope: Scope::default(),
            group: false,
            quiet: 0,
        }
    }

    /// Whose memory it is. A scope once named holds for the session until another is named; what one agent named does
    /// not hold for another one that uses the same session id.
    fn scope_of(&mut self, who: &Who) -> Scope {
        if who.agent != self.agent {
            return who.scope.clone();
        }
        let Scope { user_id, workspace_id, memory_scope } = &who.scope;
        for (kept, named) in [
            (&mut self.scope.user_id, user_id),
            (&mut self.scope.workspace_id, workspace_id),
            (&mut self.scope.memory_scope, memory_scope),
        ] {
            if named.is_some() {
                kept.clone_from(named);
            }
        }
        self.scope.clone()
    }

    /// The turn a main request belongs to and its step in it. Several conversations may go on in one session: each
    /// has its turn, named by the user's message.
    fn count(&mut self, talk: &Conversation) -> (u32, u32) {
        let key = talk.trigger.map(|(_, key)| key);
        let latest = self.turns.len().checked_sub(1);
        let again = self.failed == Some(talk.state);
        let known = match key {
            // Nobody spoke: it belongs to what is under way.
            None => latest,
            Some(_) => {
                let known = self.turns.iter().rposition(|turn| turn.key == key);
                let known = known.filter(|at| talk.begun || again || Some(*at) == latest);
                // Back from the journal: tool results continue the turn that was under way.
                known.or(latest.filter(|at| talk.tool_step && self.turns[*at].key.is_none()))
            }
        };
        let turn = match known {
            Some(at) => {
                let turn = self.turns.remove(at);
                Turn { key: key.or(turn.key), step: turn.step + 1, ..turn }
            }
            None => {
                if self.turns.len() >= TURNS {
                    self.turns.remove(0);
                }
                self.turn_no += 1;
                Turn { key, no: self.turn_no, step: 0 }
            }
        };
        self.turns.push(turn);
        (turn.no, turn.step)
    }

    /// Fills in what was put into the messages of this conversation before.
    fn put_back(&self, talk: &Conversation, older: &Older, place: &mut Place) {
        let current = talk.trigger.map(|(_, key)| key);
        self.put_back_but(current, talk, older, place);
        if let Some(key) = current.filter(|key| self.blocks.is_decided(key, older)) {
            place.current = self.blocks.text(&key, older);
            place.open = None;
        }
    }

    /// The same for a call beside the conversation. Where it carries the conversation, what goes upstream begins as
    /// the conversation did; a call of its own gets nothing.
    fn put_back_aside(&self, talk: &Conversation, older: &Older, place: &mut Place) {
        if !talk.answered.is_empty() {
            self.put_back_but(None, talk, older, place);
        }
    }

    fn put_back_but(&self, but: Option<TurnKey>, talk: &Conversation, older: &Older, place: &mut Place) {
        let earlier = talk.users.iter().filter(|(_, key)| Some(*key) != but);
        place.put_back = earlier.filter_map(|(index, key)| Some((*index, self.blocks.text(key, older)?))).collect();
    }
}

/// Picks the session that goes on: one whose same request failed; else, of those answered last, the first that has not
/// gone on yet; else the latest. Answers that were under way together count as equally late: alike conversations side
/// by side go on in the order of their answers, and one that was given up long ago is not taken for a new one.
fn choose(
    claims: &mut VecDeque<Claim>,
    sessions: &HashMap<Arc<str>, Session>,
    who: &Who,
    talk: &Conversation,
) -> Option<Arc<str>> {
    let of_agent = |claim: &&mut Claim| sessions.get(&claim.session).is_some_and(|s| s.agent == who.agent);
    let mut fitting: Vec<&mut Claim> = claims.iter_mut().filter(of_agent).collect();
    let again = fitting.iter().position(|c| sessions.get(&c.session).is_some_and(|s| s.failed == Some(talk.state)));
    let at = again.or_else(|| next_up(&fitting)).or_else(|| fitting.len().checked_sub(1))?;
    let claim = fitting.get_mut(at)?;
    claim.continued |= who.kind.is_main();
    Some(claim.session.clone())
}

/// The first of the claims that were under way together with the latest one nobody has gone on from.
fn next_up(claims: &[&mut Claim]) -> Option<usize> {
    let mut open = claims.iter().enumerate().rev().filter(|(_, claim)| !claim.continued);
    let (mut first, latest) = open.next()?;
    let mut began = latest.began;
    for (at, claim) in open {
        if claim.over <= began {
            break;
        }
        (first, began) = (at, began.min(claim.began));
    }
    Some(first)
}

/// Enters what a session has come to as the latest. Where it has been there before, it is there again.
fn enter_claim(index: &mut HashMap<u128, VecDeque<Claim>>, own: &mut VecDeque<u128>, state: u128, claim: Claim) {
    if let Some(at) = own.iter().position(|known| *known == state) {
        own.remove(at);
        release(index, state, &claim.session);
    } else if own.len() >= STATES
        && let Some(old) = own.pop_front()
    {
        release(index, old, &claim.session);
    }
    own.push_back(state);
    let claims = index.entry(state).or_default();
    if claims.len() >= SHARED {
        claims.pop_front();
    }
    claims.push_back(claim);
}

fn release(index: &mut HashMap<u128, VecDeque<Claim>>, state: u128, id: &str) {
    if let Some(claims) = index.get_mut(&state) {
        claims.retain(|claim| &*claim.session != id);
        if claims.is_empty() {
            index.remove(&state);
        }
    }
}

impl Table {
    /// The session of this agent that has come to a state.
    fn at(&mut self, state: u128, who: &Who, talk: &Conversation) -> Option<Arc<str>> {
        choose(self.by_state.get_mut(&state)?, &self.sessions, who, talk)
    }

    /// The session of a first request that failed and comes again, alone or with another message behind it.
    fn tried_before(&self, who: &Who, talk: &Conversation, now: Instant) -> Option<Arc<str>> {
        let tried = |state| self.failed.get(state).filter(|(_, at)| now.duration_since(*at) < RETRY);
        let (id, _) = tried(&talk.state).or_else(|| tried(&talk.before)).filter(|_| who.kind.is_main())?;
        self.sessions.get(id).filter(|session| session.agent == who.agent).map(|_| id.clone())
    }

    fn remove(&mut self, id: &str) {
        let Some(mut session) = self.sessions.remove(id) else { return };
        session.blocks.release(&mut self.texts);
        for state in &session.states {
            release(&mut self.by_state, *state, id);
        }
        for said in &session.said {
            release(&mut self.by_said, *said, id);
        }
        if let Some(state) = session.failed
            && self.failed.get(&state).is_some_and(|(failed, _)| &**failed == id)
        {
            self.failed.remove(&state);
        }
    }

    /// Puts a session with nothing under way at the end of the order in which they go.
    fn falls_silent(&mut self, id: &Arc<str>) {
        self.silences += 1;
        if let Some(session) = self.sessions.get_mut(id) {
            session.quiet = self.silences;
        }
        self.quiet.push_back((self.silences, id.clone()));
        if self.quiet.len() > 2 * self.sessions.len() + 64 {
            let sessions = &self.sessions;
            self.quiet.retain(|(silence, id)| sessions.get(id).is_some_and(|s| s.quiet == *silence));
        }
    }

    /// Lets the longest unused sessions go while the table is full. Sessions with a request under way stay.
    fn make_room(&mut self) {
        while self.sessions.len() >= CAPACITY || self.texts.bytes >= BLOCK_BYTES {
            let Some((silence, id)) = self.quiet.pop_front() else { return };
            // A session that spoke again stands further back, or will when it is silent.
            if self.sessions.get(&id).is_some_and(|s| s.quiet == silence && s.in_flight == 0) {
                self.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who() -> Who {
        Who {
            agent: "a".into(),
            session: None,
            chain: None,
            echo: false,
            kind: Kind::Main,
            done: false,
            scope: Scope::default(),
            group: false,
        }
    }

    fn enter(sessions: &Sessions, id: &str) {
        sessions.enter(&id.into(), &who(), &Conversation::default(), &Older::new(), Instant::now());
    }

    fn leave(sessions: &Sessions, id: &str) {
        let end = End { outcome: Outcome::Ok, began: Instant::now(), states: [None; 2] };
        sessions.leave(&id.into(), &Kind::Main, &Conversation::default(), end, Instant::now());
    }

    #[test]
    fn the_longest_unused_sessions_go_first_and_those_under_way_stay() {
        let sessions = Sessions::default();
        enter(&sessions, "under way");
        for n in 0..CAPACITY - 1 {
            enter(&sessions, &n.to_string());
            leave(&sessions, &n.to_string());
        }
        // The oldest speaks again.
        enter(&sessions, "0");
        leave(&sessions, "0");
        for n in 0..10 {
            enter(&sessions, &format!("new {n}"));
            leave(&sessions, &format!("new {n}"));
        }
        assert_eq!(sessions.len(), CAPACITY);
        let known = |id: &str| sessions.table().sessions.contains_key(id);
        assert!(known("under way") && known("0") && known("new 0") && known("11"));
        assert!((1..=10).all(|n| !known(&n.to_string())));
    }

    #[test]
    fn the_order_of_silence_takes_no_more_room_than_the_sessions() {
        let sessions = Sessions::default();
        for n in 0..10_000 {
            let id = (n % 3).to_string();
            enter(&sessions, &id);
            leave(&sessions, &id);
        }
        assert!(sessions.table().quiet.len() <= 2 * 3 + 65);
    }

    #[test]
    fn a_table_full_of_requests_under_way_takes_more() {
        let sessions = Sessions::default();
        for n in 0..CAPACITY + 5 {
            enter(&sessions, &n.to_string());
        }
        assert_eq!(sessions.len(), CAPACITY + 5);
        (0..CAPACITY + 5).for_each(|n| leave(&sessions, &n.to_string()));
        enter(&sessions, "new");
        assert_eq!(sessions.len(), CAPACITY);
    }
}
