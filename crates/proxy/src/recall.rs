//! Sessions that are not in memory any more: found in the journal by their name or by a state of their conversation, and
//! taken up again with their turn numbers and everything that was put into their messages.

use std::sync::Arc;

use store::TurnFilter;
use tokio::time::Instant;

use crate::Proxy;
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
        Found::Unknown => match by_state(proxy, who, talk).await {
            Some(id) => {
                take_up(proxy, &id, who).await;
                id
            }
            None => alone(who, fresh),
        },
        Found::New => alone(who, fresh),
    }
}

/// Side calls that belong to no conversation share one session per agent.
fn alone(who: &Who, fresh: impl FnOnce() -> Arc<str>) -> Arc<str> {
    if who.kind.is_main() { fresh() } else { format!("side-{}", who.agent).into() }
}

async fn by_state(proxy: &Proxy, who: &Who, talk: &Conversation) -> Option<Arc<str>> {
    let store = &proxy.deps.store;
    let asked = talk.answered.iter().rev().take(LOOKUPS).map(|state| store.session_by_state(*state));
    for matches in futures::future::join_all(asked).await {
        let matches = match matches {
            Ok(matches) => matches,
            Err(error) => {
                tracing::warn!(%error, "the journal cannot be asked for the session; a new one begins");
                return None;
            }
        };
        // The one that has not gone on from here yet; else the latest.
        let found = matches.iter().rev().find(|m| !m.continued).or(matches.first());
        if let Some(found) = found {
            tracing::debug!(session = %found.session, agent = %who.agent, "session found in the journal");
            return Some(found.session.as_str().into());
        }
    }
    None
}

/// Loads what the journal knows of a session, if anything.
async fn take_up(proxy: &Proxy, id: &Arc<str>, who: &Who) {
    match remembered(proxy, id).await {
        Ok(Some(from)) => proxy.sessions.adopt(id, &who.agent, from, Instant::now()),
        Ok(None) => {}
        Err(error) => tracing::warn!(session = %id, %error, "the journal cannot be asked what was added before"),
    }
}

async fn remembered(proxy: &Proxy, id: &str) -> store::Result<Option<Remembered>> {
    let store = &proxy.deps.store;
    if store.session(id).await?.is_none() {
        return Ok(None);
    }
    let last =
        TurnFilter { session: Some(id.to_owned()), kind: Some("main".to_owned()), limit: 1, ..TurnFilter::default() };
    let last = store.turns(&last).await?.into_iter().next();
    let blocks = store.injections(id).await?;
    Ok(Some(Remembered {
        turn_no: last.as_ref().map_or(0, |t| t.turn_no),
        step: last.as_ref().map_or(0, |t| t.step),
        scope: last.map(|t| t.scope).unwrap_or_default(),
        blocks: blocks
            .into_iter()
            .map(|b| (TurnKey { hash: b.message_hash, occurrence: b.occurrence }, Arc::from(b.text)))
            .collect(),
    }))
}
