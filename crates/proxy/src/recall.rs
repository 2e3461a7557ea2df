//! Sessions that are not in memory any more: found in the journal by their name or by a state of their conversation, and
//! taken up again with their turn numbers and everything that was put into their messages.

use std::sync::Arc;

use store::{Block, StateMatch, TurnFilter};
use tokio::time::Instant;

use crate::Proxy;
use crate::blocks::{Absent, Older, TEXTS};
use crate::conversation::{Conversation, TurnKey};
use crate::identify::Who;
use crate::sessions::{Found, Remembered};

/// States of one conversation that the journal is asked for, the latest first.
const LOOKUPS: usize = 3;

/// The session of a request; `fresh` names a new one.
pub(crate) async fn session_of(
    proxy: &Proxy,
    who: &Who,
    talk: &Conversation,
    fresh: impl FnOnce() -> Arc<str>,
) -> Arc<str> {
    match proxy.sessions.find(who, talk, Instant::now()) {
        Found::Here(id) => id,
        Found::Named(id) => {
            take_up(proxy, &id, who).await;
            id
        }
        Found::Unknown => by_state(proxy, who, talk).await.unwrap_or_else(|| alone(who, fresh)),
        Found::New => alone(who, fresh),
    }
}

/// Side calls that belong to no conversation share one session per agent.
fn alone(who: &Who, fresh: impl FnOnce() -> Arc<str>) -> Arc<str> {
    if who.kind.is_main() { fresh() } else { format!("side-{}", who.agent).into() }
}

/// The session that a conversation goes on with, where nobody in memory has just come to its latest state. That exact
/// state counts most; then the same words of the user's; only then the beginning it shares with another.
async fn by_state(proxy: &Proxy, who: &Who, talk: &Conversation) -> Option<Arc<str>> {
    let mut journal = Journal { proxy, who, answers: true };
    if let Some(id) = journal.find(talk.prior()?).await {
        return Some(id);
    }
    if let Some(answer) = &talk.remote
        && let Some(id) = journal.find_answer(answer).await
    {
        return Some(id);
    }
    if let Some(id) = proxy.sessions.find_by_words(who, talk) {
        return Some(id);
    }
    for state in talk.earlier().take(LOOKUPS - 1) {
        if let Some(id) = proxy.sessions.find_earlier([state], who, talk) {
            return Some(id);
        }
        if let Some(id) = journal.find(*state).await {
            return Some(id);
        }
    }
    proxy.sessions.find_earlier(talk.earlier().skip(LOOKUPS - 1), who, talk)
}

/// The journal, as long as it answers.
struct Journal<'a> {
    proxy: &'a Proxy,
    who: &'a Who,
    answers: bool,
}

impl Journal<'_> {
    /// The session of this agent that has come to a state, taken up again.
    async fn find(&mut self, state: u128) -> Option<Arc<str>> {
        if !self.answers {
            return None;
        }
        let found = self.proxy.deps.store.session_by_state(state, &self.who.agent).await;
        self.take_up(found).await
    }

    /// The session of this agent in which the provider gave an answer with this id. The first answer of a chain is
    /// written down under the state of its messages, since nobody knows yet how the conversation will go on.
    async fn find_answer(&mut self, answer: &str) -> Option<Arc<str>> {
        if !self.answers {
            return None;
        }
        let found = self.proxy.deps.store.session_by_answer(answer, &self.who.agent).await;
        self.take_up(found).await
    }

    async fn take_up(&mut self, found: store::Result<Vec<StateMatch>>) -> Option<Arc<str>> {
        let matches = match found {
            Ok(matches) => matches,
            Err(error) => {
                tracing::warn!(%error, "the journal cannot be asked for the session");
                self.answers = false;
                return None;
            }
        };
        // The latest that has not gone on from here yet; else the latest.
        let found = matches.iter().find(|m| !m.continued).or(matches.first())?;
        tracing::debug!(session = %found.session, agent = %self.who.agent, "session found in the journal");
        let id = found.session.as_str().into();
        take_up(self.proxy, &id, self.who).await;
        Some(id)
    }
}

/// Loads what the journal knows of a session, if anything.
async fn take_up(proxy: &Proxy, id: &Arc<str>, who: &Who) {
    match remembered(proxy, id, who).await {
        Ok(Some(from)) => proxy.sessions.adopt(id, &who.agent, from, Instant::now()),
        Ok(None) => {}
        Err(error) => tracing::warn!(session = %id, %error, "the journal cannot be asked what was added before"),
    }
}

async fn remembered(proxy: &Proxy, id: &str, who: &Who) -> store::Result<Option<Remembered>> {
    let store = &proxy.deps.store;
    let Some(session) = store.session(id).await? else { return Ok(None) };
    let last =
        TurnFilter { session: Some(id.to_owned()), kind: Some("main".to_owned()), limit: 1, ..TurnFilter::default() };
    let last = store.turns(&last).await?.into_iter().next();
    let blocks = store.injected(id, TEXTS).await?;
    // What another agent said of whose memory it is holds for that one.
    let scope = last.as_ref().filter(|turn| turn.agent.as_deref() == Some(&*who.agent));
    let scope = scope.map(|turn| memory::widen(&turn.scope, &proxy.deps.settings.load().memory_scope));
    Ok(Some(Remembered {
        agent: session.agent.map(Arc::from),
        turn_no: last.as_ref().map_or(0, |t| t.turn_no),
        step: last.as_ref().map_or(0, |t| t.step),
        scope: scope.unwrap_or_default(),
        group: last.as_ref().is_some_and(|turn| memory::is_groups(&turn.scope)),
        blocks,
    }))
}

/// What was put into messages of this conversation and is not in memory any more.
pub(crate) async fn older(proxy: &Proxy, id: &Arc<str>, talk: &Conversation) -> Older {
    let Some(absent) = proxy.sessions.absent(id, talk) else { return Older::new() };
    let store = &proxy.deps.store;
    let found = match absent {
        Absent::Named(known, named) if named.is_empty() => Ok(known),
        Absent::Named(mut known, named) => {
            let names: Vec<u128> = named.iter().map(|(_, name)| *name).collect();
            store.block_texts(&names).await.map(|texts| {
                let texts: std::collections::HashMap<u128, Arc<str>> =
                    texts.into_iter().map(|(name, text)| (name, text.into())).collect();
                known.extend(named.into_iter().filter_map(|(key, name)| Some((key, texts.get(&name)?.clone()))));
                known
            })
        }
        Absent::All => store.injections(id).await.map(|blocks| {
            let key = |b: &Block| TurnKey { hash: b.message_hash, occurrence: b.occurrence };
            blocks.into_iter().map(|block| (key(&block), block.text.into())).collect()
        }),
    };
    found.unwrap_or_else(|error| {
        tracing::warn!(session = %id, %error, "the journal cannot be asked what was added before");
        Older::new()
    })
}
