//! Work beside the requests: sessions that fell silent are ended. Runs on tokio's clock until the engine cancels it.

use std::sync::Arc;
use std::time::Duration;

use store::EndReason;
use tokio::time::{Instant, MissedTickBehavior};

use crate::Proxy;
use crate::events::Event;

/// How often silent sessions are looked for.
const EVERY: Duration = Duration::from_secs(15);

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
    pub async fn end_idle_now(self: &Arc<Self>) {
        let Some(idle) = self.deps.settings.load().session_idle else { return };
        let now = Instant::now();
        let now_ms = self.deps.clock.now_ms();
        let before = now_ms.saturating_sub(i64::try_from(idle.as_millis()).unwrap_or(i64::MAX));
        // A session whose last answer is old may have a request under way that nobody has answered yet.
        let proxy = self.clone();
        let active = move |id: &str| proxy.sessions.is_active(id, idle, now);
        let ended = self.deps.store.end_idle(before, now_ms, active).await.map(|ids| {
            for id in &ids {
                self.sessions.forget(id);
                self.emit(Event::SessionEnded { session: id.as_str().into(), reason: EndReason::Idle });
            }
            ids.len()
        });
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
}
