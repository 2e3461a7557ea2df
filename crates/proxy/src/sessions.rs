//! The sessions that are under way, in memory: which conversation belongs to which, how many turns it had, what was put
//! into which message. Bounded; what falls out comes back from the journal (`recall` fills it in again).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Kind, Outcome, Scope};
use tokio::time::Instant;

use crate::conversation::{Conversation, TurnKey};
use crate::identify::Who;

/// Sessions kept in memory.
const CAPACITY: usize = 1024;
/// Bytes of injected text kept in memory.
const BLOCK_BYTES: usize = 6 << 20;
/// States kept per session; older ones are found in the journal.
const STATES: usize = 32;
/// Sessions kept per state; identical conversations beyond that are found in the journal.
const SHARED: usize = 32;
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
    /// To whatever session the journal knows by one of the conversation's states.
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
}

/// What the journal remembers of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) turn_no: u32,
    pub(crate) step: u32,
    pub(crate) blocks: Vec<(TurnKey, Arc<str>)>,
    pub(crate) scope: Scope,
}

#[derive(Debug)]
struct Session {
    agent: Arc<str>,
    last: Instant,
    in_flight: u32,
    turn_no: u32,
    step: u32,
    /// The message of the current turn; `None` right after the session came back from the journal.
    current: Option<TurnKey>,
    /// What was decided for which message; `None` = nothing fitted.
    blocks: HashMap<TurnKey, Option<Arc<str>>>,
    states: VecDeque<u128>,
    said: VecDeque<u128>,
    /// State of the last request that did not end well.
    failed: Option<u128>,
    scope: Scope,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<Arc<str>, Session>,
    by_state: HashMap<u128, VecDeque<Claim>>,
    by_said: HashMap<u128, VecDeque<Claim>>,
    failed: HashMap<u128, (Arc<str>, Instant)>,
    block_bytes: usize,
}

#[derive(Debug)]
struct Claim {
    session: Arc<str>,
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

    /// Finds the session of a request.
    pub(crate) fn find(&self, who: &Who, talk: &Conversation, now: Instant) -> Found {
        let mut table = self.table();
        if let Some(id) = &who.session {
            return if table.sessions.contains_key(id) { Found::Here(id.clone()) } else { Found::Named(id.clone()) };
        }
        let main = who.kind.is_main();
        if talk.answered.is_empty() {
            return match table.failed.get(&talk.state) {
                Some((id, at)) if main && now.duration_since(*at) < RETRY && table.sessions.contains_key(id) => {
                    Found::Here(id.clone())
                }
                _ => Found::New,
            };
        }
        let table = &mut *table;
        for state in talk.answered.iter().rev() {
            if let Some(claims) = table.by_state.get_mut(state)
                && let Some(id) = choose(claims, &table.sessions, who, talk, main)
            {
                return Found::Here(id);
            }
        }
        for state in talk.said.iter().rev() {
            if let Some(claims) = table.by_said.get_mut(state)
                && let Some(id) = choose(claims, &table.sessions, who, talk, main)
            {
                return Found::Here(id);
            }
        }
        Found::Unknown
    }

    /// Takes up a session again that the journal remembers; one that is in memory meanwhile stays as it is.
    pub(crate) fn adopt(&self, id: &Arc<str>, agent: &Arc<str>, from: Remembered, now: Instant) {
        let mut table = self.table();
        if table.sessions.contains_key(id) {
            return;
        }
        table.make_room(now);
        let bytes: usize = from.blocks.iter().map(|(_, text)| text.len()).sum();
        table.block_bytes += bytes;
        let mut session = Session::new(agent.clone(), now);
        session.turn_no = from.turn_no;
        session.step = from.step;
        session.scope = from.scope;
        session.blocks = from.blocks.into_iter().map(|(key, text)| (key, Some(text))).collect();
        table.sessions.insert(id.clone(), session);
    }

    /// Enters a request into its session, which is made if need be. Every entered request must be left again.
    pub(crate) fn enter(&self, id: &Arc<str>, who: &Who, talk: &Conversation, now: Instant) -> Place {
        let mut table = self.table();
        if !table.sessions.contains_key(id) {
            table.make_room(now);
        }
        let session = table.sessions.entry(id.clone()).or_insert_with(|| Session::new(who.agent.clone(), now));
        session.last = now;
        session.in_flight += 1;
        session.keep_scope(&who.scope);
        let mut place = Place {
            session: id.clone(),
            turn_no: session.turn_no.max(1),
            step: session.step,
            put_back: Vec::new(),
            open: None,
            current: None,
            scope: session.scope.clone(),
        };
        if !who.kind.is_main() {
            return place;
        }
        let key = talk.trigger.map(|(_, key)| key);
        let same_turn = match (key, session.current) {
            _ if session.turn_no == 0 => false,
            (None, _) => true,
            (Some(key), Some(current)) => key == current,
            // Back from the journal: tool results continue the turn that was under way.
            (Some(_), None) => talk.tool_step,
        };
        if same_turn {
            session.step += 1;
        } else {
            session.turn_no += 1;
            session.step = 0;
        }
        if key.is_some() {
            session.current = key;
        }
        place.turn_no = session.turn_no;
        place.step = session.step;
        place.open = talk.trigger;
        session.put_back(talk, &mut place);
        if let Some((_, key)) = place.open.filter(|_| talk.tool_step) {
            // A turn that is under way has been seen by the provider without text; it stays so.
            session.blocks.insert(key, None);
            place.open = None;
        }
        place
    }

    /// Remembers what was decided for a message. The first decision counts and is given back.
    pub(crate) fn decide(&self, id: &Arc<str>, key: TurnKey, text: Option<Arc<str>>) -> Option<Arc<str>> {
        let mut table = self.table();
        let table = &mut *table;
        let Some(session) = table.sessions.get_mut(id) else { return text };
        session
            .blocks
            .entry(key)
            .or_insert_with(|| {
                table.block_bytes += text.as_ref().map_or(0, |t| t.len());
                text
            })
            .clone()
    }

    /// A request is over. `end.states` is empty where there is nothing to go on from.
    pub(crate) fn leave(&self, id: &Arc<str>, kind: &Kind, talk: &Conversation, end: End, now: Instant) {
        let mut table = self.table();
        let table = &mut *table;
        let Some(session) = table.sessions.get_mut(id) else { return };
        session.in_flight = session.in_flight.saturating_sub(1);
        session.last = now;
        if !kind.is_main() {
            return;
        }
        let [Some(state), other] = end.states else {
            session.failed = Some(talk.state);
            if talk.answered.is_empty() && talk.trigger.is_some() && end.outcome != Outcome::Ok {
                if table.failed.len() >= FAILED {
                    table.failed.retain(|_, (_, at)| now.duration_since(*at) < RETRY);
                }
                if table.failed.len() < FAILED {
                    table.failed.insert(talk.state, (id.clone(), now));
                }
            }
            return;
        };
        session.failed = None;
        if talk.answered.is_empty() {
            table.failed.remove(&talk.state);
        }
        claim(&mut table.by_state, &mut session.states, state, id);
        if let Some(other) = other {
            claim(&mut table.by_state, &mut session.states, other, id);
        }
        if let Some(said) = talk.said.last() {
            claim(&mut table.by_said, &mut session.said, *said, id);
        }
    }

    /// Forgets all sessions without a request under way: what the journal says of them has changed.
    pub(crate) fn forget_quiet(&self) {
        let mut table = self.table();
        let quiet: Vec<Arc<str>> =
            table.sessions.iter().filter(|(_, s)| s.in_flight == 0).map(|(id, _)| id.clone()).collect();
        quiet.iter().for_each(|id| table.remove(id));
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

    /// Whether some request has been under way for so long.
    pub(crate) fn busy_longer_than(&self, idle: Duration, now: Instant) -> bool {
        self.table().sessions.values().any(|s| s.in_flight > 0 && now.duration_since(s.last) >= idle)
    }

    /// Where a request would belong and what would be put into it, without entering it.
    pub(crate) fn preview(&self, who: &Who, talk: &Conversation, now: Instant) -> Place {
        let aside = Who { kind: Kind::Side(String::new()), ..who.clone() };
        let id = match self.find(&aside, talk, now) {
            Found::Here(id) | Found::Named(id) => id,
            Found::Unknown | Found::New => "".into(),
        };
        let mut place = Place {
            session: id.clone(),
            turn_no: 0,
            step: 0,
            put_back: Vec::new(),
            open: talk.trigger.filter(|_| !talk.tool_step),
            current: None,
            scope: who.scope.clone(),
        };
        if let Some(session) = self.table().sessions.get(&id) {
            session.put_back(talk, &mut place);
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
            step: 0,
            current: None,
            blocks: HashMap::new(),
            states: VecDeque::new(),
            said: VecDeque::new(),
            failed: None,
            scope: Scope::default(),
        }
    }

    /// A scope once named holds for the session until another is named.
    fn keep_scope(&mut self, named: &Scope) {
        let Scope { user_id, workspace_id, memory_scope } = named;
        for (kept, named) in [
            (&mut self.scope.user_id, user_id),
            (&mut self.scope.workspace_id, workspace_id),
            (&mut self.scope.memory_scope, memory_scope),
        ] {
            if named.is_some() {
                kept.clone_from(named);
            }
        }
    }

    /// Fills in what was put into the messages of this conversation before.
    fn put_back(&self, talk: &Conversation, place: &mut Place) {
        let current = talk.trigger.map(|(_, key)| key);
        place.put_back = talk
            .users
            .iter()
            .filter(|(_, key)| Some(*key) != current)
            .filter_map(|(index, key)| Some((*index, self.blocks.get(key)?.clone()?)))
            .collect();
        if let Some(decided) = current.and_then(|key| self.blocks.get(&key)) {
            place.current.clone_from(decided);
            place.open = None;
        }
    }

    fn block_bytes(&self) -> usize {
        self.blocks.values().flatten().map(|text| text.len()).sum()
    }
}

/// Picks the session that goes on: one whose same request failed, else the oldest that has not gone on yet, else the latest.
fn choose(
    claims: &mut VecDeque<Claim>,
    sessions: &HashMap<Arc<str>, Session>,
    who: &Who,
    talk: &Conversation,
    main: bool,
) -> Option<Arc<str>> {
    let of_agent = |claim: &&mut Claim| sessions.get(&claim.session).is_some_and(|s| s.agent == who.agent);
    let mut fitting: Vec<&mut Claim> = claims.iter_mut().filter(of_agent).collect();
    let again = fitting.iter().position(|c| sessions.get(&c.session).is_some_and(|s| s.failed == Some(talk.state)));
    let fresh = again.or_else(|| fitting.iter().position(|c| !c.continued));
    let at = fresh.or_else(|| fitting.len().checked_sub(1))?;
    let claim = fitting.get_mut(at)?;
    claim.continued |= main;
    Some(claim.session.clone())
}

fn claim(index: &mut HashMap<u128, VecDeque<Claim>>, own: &mut VecDeque<u128>, state: u128, id: &Arc<str>) {
    if own.contains(&state) {
        return;
    }
    if own.len() >= STATES
        && let Some(old) = own.pop_front()
    {
        release(index, old, id);
    }
    own.push_back(state);
    let claims = index.entry(state).or_default();
    if claims.len() >= SHARED {
        claims.pop_front();
    }
    claims.push_back(Claim { session: id.clone(), continued: false });
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
    fn remove(&mut self, id: &str) {
        let Some(session) = self.sessions.remove(id) else { return };
        self.block_bytes = self.block_bytes.saturating_sub(session.block_bytes());
        for state in &session.states {
            release(&mut self.by_state, *state, id);
        }
        for said in &session.said {
            release(&mut self.by_said, *said, id);
        }
    }

    /// Lets the longest unused eighth go when the table is full. Sessions with a request under way stay.
    fn make_room(&mut self, now: Instant) {
        if self.sessions.len() < CAPACITY && self.block_bytes < BLOCK_BYTES {
            return;
        }
        let mut quiet: Vec<(Duration, Arc<str>)> = self
            .sessions
            .iter()
            .filter(|(_, s)| s.in_flight == 0)
            .map(|(id, s)| (now.duration_since(s.last), id.clone()))
            .collect();
        let most = (quiet.len() / 8).max(1).min(quiet.len());
        if most == 0 {
            return;
        }
        quiet.select_nth_unstable_by(most - 1, |a, b| b.0.cmp(&a.0));
        for (_, id) in quiet.drain(..most) {
            self.remove(&id);
        }
        self.failed.retain(|_, (id, _)| self.sessions.contains_key(id));
    }
}
