//! The journal row of a request, from its arrival to its commit. `converse` opens it, whoever ends the request closes it:
//! the finished answer, an error, or the client going away. Closed exactly once; what is dropped open counts as cancelled.
//! The agent waits until the row is safe (`keep`); its number, and the event that tells of it, come with the commit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dialect::request::chain;
use dialect::{Answer, Dialect, answer_hash};
use futures::future::BoxFuture;
use store::{EndReason, Kept, MemoryTurn, NewTurn, Outcome, TurnId, Usage};
use tokio::time::{Instant, Sleep};

use crate::Proxy;
use crate::conversation::{Conversation, response_state};
use crate::events::{Event, Timings, TurnFinished};
use crate::forward::Head;
use crate::identify::Who;
use crate::knowledge::Knowledge;
use crate::sessions::End;
use crate::settings::Settings;

/// How often it is looked whether a database that could not be written can be written again.
const RECOVERY: Duration = Duration::from_millis(500);

/// A request under way.
pub(crate) struct Record {
    proxy: Arc<Proxy>,
    settings: Arc<Settings>,
    session: Arc<str>,
    who: Who,
    talk: Conversation,
    client: Dialect,
    started: Instant,
    pub(crate) timings: Timings,
    /// Taken when the record is closed.
    open: Option<(NewTurn, Bytes)>,
}

/// How a request ended.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) status: u16,
    pub(crate) error: Option<String>,
    pub(crate) answer: Option<Answer>,
    pub(crate) weight_version: Option<i64>,
}

/// Whether the row is safe.
pub(crate) type Recorded = Result<(), String>;

/// What the agent is told of a row that is not in the journal and will not be.
fn lost(error: &str) -> String {
    format!("not recorded: {error}")
}

/// … and of one that is not there yet.
fn late(error: &str) -> String {
    format!("not recorded yet; it waits in memory: {error}")
}

impl Record {
    #[expect(clippy::too_many_arguments, reason = "one call, one place that knows all of it")]
    pub(crate) fn open(
        proxy: &Arc<Proxy>,
        settings: &Arc<Settings>,
        session: &Arc<str>,
        who: Who,
        talk: Conversation,
        client: Dialect,
        started: Instant,
        turn: NewTurn,
        body: Bytes,
    ) -> Self {
        Self {
            proxy: proxy.clone(),
            settings: settings.clone(),
            session: session.clone(),
            who,
            talk,
            client,
            started,
            timings: Timings::default(),
            open: Some((turn, body)),
        }
    }

    /// The row so far.
    pub(crate) fn turn(&mut self) -> Option<&mut NewTurn> {
        self.open.as_mut().map(|(turn, _)| turn)
    }

    /// Somebody was asked.
    pub(crate) fn asked(&mut self, head: &Head) {
        if let Some((turn, _)) = &mut self.open {
            if turn.upstream.as_deref() != head.upstream.as_deref() {
                turn.upstream = head.upstream.as_deref().map(str::to_owned);
            }
            turn.upstream_dialect = head.dialect.map_or("", Dialect::as_str).into();
            turn.model_sent.clone_from(&head.model);
        }
    }

    /// The first byte of the answer is there.
    pub(crate) fn first_byte(&mut self) {
        if self.timings.first_byte_us.is_none() {
            let elapsed = self.started.elapsed();
            self.timings.first_byte_us = Some(micros(elapsed).saturating_sub(self.timings.prepare_us));
            if let Some((turn, _)) = &mut self.open {
                turn.first_byte_ms = Some(turn.started_ms.saturating_add(millis(elapsed)));
            }
        }
    }

    /// Closes the record: the session knows at once, the journal when the future resolves. Dropped earlier, it goes on
    /// by itself.
    pub(crate) fn close(mut self, ending: Ending) -> Closing {
        let Some((turn, body)) = self.open.take() else {
            let closed = Err("the request was recorded already".to_owned());
            return self.closing(Box::pin(std::future::ready(closed)));
        };
        let row = self.finish(turn, body, ending);
        let (proxy, settings) = (self.proxy.clone(), self.settings.clone());
        self.closing(Box::pin(row.keep(proxy, settings)))
    }

    fn closing(&self, keep: BoxFuture<'static, Recorded>) -> Closing {
        Closing {
            keep: Some(keep),
            proxy: self.proxy.clone(),
            session: self.session.clone(),
            patience: self.settings.journal_patience,
            over: None,
        }
    }

    fn finish(&mut self, mut turn: NewTurn, body: Bytes, ending: Ending) -> Row {
        let elapsed = self.started.elapsed();
        self.timings.total_us = micros(elapsed);
        turn.finished_ms = turn.started_ms.saturating_add(millis(elapsed));
        turn.outcome = ending.outcome;
        turn.status = Some(ending.status);
        turn.error = ending.error;
        turn.weight_version = ending.weight_version;
        let mut states = (None, None);
        if let Some(answer) = &ending.answer {
            // What an agent got before it went away, or before its provider did, may be what it goes on from.
            let goes_on = ending.outcome == Outcome::Ok || !answer.blocks.is_empty();
            if self.who.kind.is_main() && goes_on {
                let after = chain(self.talk.state, answer_hash(answer));
                let named =
                    (self.client == Dialect::Responses && !answer.id.is_empty()).then(|| response_state(&answer.id));
                // A conversation that lies at the provider goes on by the answer's id, every other one by its messages.
                states = if self.talk.remote.is_some() {
                    (named.or(Some(after)), Some(after))
                } else {
                    (Some(after), named)
                };
            }
            turn.stop = Some(stop_name(answer));
            turn.usage = usage(answer);
            turn.answer_text = Some(answer.text()).filter(|text| !text.is_empty());
            turn.answer_json = serde_json::to_string(answer).ok();
        }
        turn.state_hash = states.0;
        let end = End { outcome: ending.outcome, began: self.started, states: [states.0, states.1] };
        self.proxy.sessions.leave(&self.session, &self.who.kind, &self.talk, end, Instant::now());
        let finished = TurnFinished {
            id: TurnId(0),
            session: self.session.clone(),
            agent: self.who.agent.clone(),
            kind: self.who.kind.clone(),
            turn_no: turn.turn_no,
            step: turn.step,
            outcome: turn.outcome,
            status: ending.status,
            model: turn.model_sent.as_deref().map(Arc::from),
            additions: turn.additions.len(),
            timings: self.timings,
        };
        Row { turn, body, finished, done: self.who.done }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some((turn, body)) = self.open.take() {
            let error = Some("the agent went away before an answer came".to_owned());
            let ending = Ending { outcome: Outcome::Cancelled, status: 499, error, ..Ending::default() };
            let row = self.finish(turn, body, ending);
            self.proxy.deps.tracker.spawn(row.keep(self.proxy.clone(), self.settings.clone()));
        }
    }
}

/// A row on its way into the journal. It gets there even if nobody waits for it any more.
pub(crate) struct Closing {
    keep: Option<BoxFuture<'static, Recorded>>,
    proxy: Arc<Proxy>,
    session: Arc<str>,
    /// How long the agent is made to wait for it.
    patience: Duration,
    /// When that is over; set when it is not there at once.
    over: Option<Pin<Box<Sleep>>>,
}

impl Future for Closing {
    type Output = Recorded;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Recorded> {
        let this = &mut *self;
        let Some(keep) = &mut this.keep else { return Poll::Pending };
        if let Poll::Ready(recorded) = keep.as_mut().poll(cx) {
            this.keep = None;
            return Poll::Ready(recorded);
        }
        let over = this.over.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.patience)));
        std::task::ready!(over.as_mut().poll(cx));
        // The agent waits no longer. The row goes on, and is told of when it is there.
        let error = format!("the journal did not take the turn within {:?}", this.patience);
        failing(&this.proxy, &this.session, &error);
        Poll::Ready(Err(late(&error)))
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(keep) = self.keep.take() {
            self.proxy.deps.tracker.spawn(keep);
        }
    }
}

struct Row {
    turn: NewTurn,
    body: Bytes,
    finished: TurnFinished,
    done: bool,
}

impl Row {
    /// Hands the row to the journal. What is left to do when it is safe goes on by itself.
    async fn keep(self, proxy: Arc<Proxy>, settings: Arc<Settings>) -> Recorded {
        let Self { turn, body, mut finished, done } = self;
        let heard = heard(&turn, &*proxy.deps.knowledge);
        let begun = Instant::now();
        let error = match proxy.deps.store.keep(turn, body).await {
            Ok(kept) => {
                finished.timings.commit_us = micros(begun.elapsed());
                let tracker = proxy.deps.tracker.clone();
                let waits = kept.in_memory_only().map(ToString::to_string);
                if let Some(error) = &waits {
                    failing(&proxy, &finished.session, error);
                }
                // Before the last event leaves: the next turn of any session may ask for it.
                let told = heard.map(|turn| {
                    let told = turn.id;
                    proxy.deps.knowledge.heard(turn);
                    told
                });
                tracker.spawn(committed(proxy, settings, kept, finished, done, told));
                return waits.map_or(Ok(()), |error| Err(late(&error)));
            }
            Err(error) => error.to_string(),
        };
        failing(&proxy, &finished.session, &error);
        if done {
            proxy.end_session(&finished.session, EndReason::Explicit).await;
        }
        Err(lost(&error))
    }
}

/// Waits until a row that is safe is in the database, and tells of it.
async fn committed(
    proxy: Arc<Proxy>,
    settings: Arc<Settings>,
    mut kept: Kept,
    mut finished: TurnFinished,
    done: bool,
    told: Option<TurnId>,
) {
    let session = finished.session.clone();
    let result = match tokio::time::timeout(settings.journal_patience, &mut kept).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => {
            failing(&proxy, &session, "the journal has been busy for long; finished turns wait beside it");
            kept.await.map_err(|error| error.to_string())
        }
    };
    if let Some(told) = told {
        proxy.deps.knowledge.numbered(told, result.as_ref().ok().copied());
    }
    match result {
        Ok(id) => {
            finished.id = id;
            proxy.sessions.is_written(&session);
            tracing::debug!(
                %id,
                %session,
                agent = %finished.agent,
                kind = finished.kind.as_str(),
                status = finished.status,
                outcome = finished.outcome.as_str(),
                prepare_us = finished.timings.prepare_us,
                commit_us = finished.timings.commit_us,
                total_us = finished.timings.total_us,
                "turn finished"
            );
            if proxy.journal_failing.swap(false, Ordering::Relaxed) {
                tracing::info!("the journal takes turns again");
                proxy.emit(Event::JournalRecovered);
            }
            proxy.emit(Event::TurnFinished(finished));
        }
        Err(error) => {
            failing(&proxy, &session, &error);
            recovery(&proxy).await;
        }
    }
    if done {
        proxy.end_session(&session, EndReason::Explicit).await;
    }
}

/// Where turns wait in the spool because the database cannot be written: waits until they are in, and says so.
async fn recovery(proxy: &Proxy) {
    let mut waited = false;
    while proxy.deps.store.stalled().is_some() {
        waited = true;
        tokio::select! {
            () = proxy.deps.cancel.cancelled() => return,
            () = tokio::time::sleep(RECOVERY) => {}
        }
    }
    if waited && proxy.journal_failing.swap(false, Ordering::Relaxed) {
        tracing::info!("the journal takes turns again");
        proxy.emit(Event::JournalRecovered);
    }
}

/// Loud once, and again after every recovery; the event tells of each row that is not in the journal.
fn failing(proxy: &Proxy, session: &Arc<str>, error: &str) {
    if !proxy.journal_failing.swap(true, Ordering::Relaxed) {
        tracing::error!(%session, %error, "turns do not get into the journal; agents are still served");
    }
    proxy.emit(Event::JournalFailed { session: session.clone(), error: error.to_owned() });
}

/// What is to be remembered of a turn of a main conversation, if anybody wants to know; under a number of its own until
/// the journal has given it one.
fn heard(turn: &NewTurn, knowledge: &dyn Knowledge) -> Option<MemoryTurn> {
    static NEXT: AtomicI64 = AtomicI64::new(memory::UNNUMBERED);
    (turn.kind.is_main() && knowledge.listens()).then(|| MemoryTurn {
        id: TurnId(NEXT.fetch_add(1, Ordering::Relaxed)),
        session: turn.session.clone(),
        agent: turn.agent.clone(),
        turn_no: turn.turn_no,
        step: turn.step,
        started_ms: turn.started_ms,
        finished_ms: turn.finished_ms,
        outcome: turn.outcome,
        stop: turn.stop.clone(),
        user_text: turn.user_text.clone(),
        answer_text: turn.answer_text.clone(),
        scope: turn.scope.clone(),
    })
}

fn usage(answer: &Answer) -> Usage {
    let usage = &answer.usage;
    if !usage.is_known() {
        return Usage::default();
    }
    Usage {
        input: Some(usage.input),
        output: Some(usage.output),
        cache_read: Some(usage.cache_read),
        cache_write: Some(usage.cache_write),
        reasoning: usage.reasoning,
    }
}

fn stop_name(answer: &Answer) -> String {
    use dialect::Stop;
    match &answer.stop {
        Stop::EndTurn => "end_turn",
        Stop::MaxTokens => "max_tokens",
        Stop::ToolUse => "tool_use",
        Stop::StopSequence(_) => "stop_sequence",
        Stop::Refusal => "refusal",
        Stop::ContentFilter => "content_filter",
        Stop::Pause => "pause",
        Stop::Other(other) => other,
    }
    .to_owned()
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
