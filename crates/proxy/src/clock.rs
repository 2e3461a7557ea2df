//! Wall time and randomness, handed in by the engine so that tests can choose them. Durations come from tokio's clock.

use std::time::{Duration, SystemTime};

/// Where wall time and randomness come from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;
    /// 64 unpredictable bits.
    fn random(&self) -> u64;
}

/// The machine's own clock and random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock that is passed in")]
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn random(&self) -> u64 {
        uuid::Uuid::new_v4().as_u64_pair().1
    }
}
