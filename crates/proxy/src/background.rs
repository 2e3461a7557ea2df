//! Work beside the requests: sessions that fell silent are ended. Runs on tokio's clock until the engine cancels it.

use std::sync::Arc;
use std::time::Duration;

use store::{EndReason, SessionFilter};
use tokio::time::{Instant, MissedTickBehavior};

use crate::Proxy;
use crate::events::Event;

/// How often silent sessions are looked for.
const EVERY: Duration = Duration::from_secs(15);
/// Sessions ended one by one per look, when some request takes longer than the idle time.
const ONE_BY_ONE: u32 = 200;

impl Proxy {
    /// Ends idle sessions until the engine cancels. The engine spawns this once.
    pub async fn end_idle_sessions(self: Arc<Self>) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.deps.cancel.cancelled() => return,
                _ = tick.tick() => self.end_idle_now().await,
            }
        }
    }

    /// Ends the sessions that are idle now.
    pub async fn end_idle_now(&self) {
        let Some(idle) = self.deps.settings.load().session_idle else { return };
        let now = Instant::now();
        let now_ms = self.deps.clock.now_ms();
        let before = now_ms.saturating_sub(i64::try_from(idle.as_millis()).unwrap_or(i64::MAX));
        let ended = if self.sessions.busy_longer_than(idle, now) {
            self.end_but_active(idle, before).await
        } else {
            self.deps.store.end_idle(before, now_ms).await.map(|ids| {
                for id in &ids {
                    self.sessions.forget(id);
                    self.emit(Event::SessionEnded { session: id.as_str().into(), reason: EndReason::Idle });
                }
                ids.len()
            })
        };
        match ended {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "idle sessions ended"),
            Err(error) => tracing::warn!(%error, "idle sessions could not be ended"),
        }
        // What never got into the journal goes as well.
        for id in self.sessions.idle(idle, now) {
            self.sessions.forget(&id);
        }
    }

    async fn end_but_active(&self, idle: Duration, before_ms: i64) -> store::Result<usize> {
        let open = SessionFilter {
            open: Some(true),
            until_ms: Some(before_ms),
            limit: ONE_BY_ONE,
            ..SessionFilter::default()
        };
        let mut count = 0;
        for session in self.deps.store.sessions(&open).await? {
            if !self.sessions.is_active(&session.id, idle, Instant::now()) {
                self.end_session(&session.id.as_str().into(), EndReason::Idle).await;
                count += 1;
            }
        }
        Ok(count)
    }
}
