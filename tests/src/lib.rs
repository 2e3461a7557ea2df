//! What the end-to-end tests share: a provider that misbehaves on command, the product's own process, and a client that
//! sees every byte. Nothing here links the product: requests go in through its port, answers and journal come out of its
//! port and its command.

pub mod agent;
pub mod answer;
pub mod llama;
pub mod peers;
pub mod product;
pub mod provider;
pub mod wire;

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Longest that any single expectation may take before the test fails. Generous: CI has two busy cores.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Awaits `what` for at most [`PATIENCE`].
///
/// # Panics
/// When it does not finish in time; `name` says what was waited for.
pub async fn within<T>(name: &str, what: impl Future<Output = T>) -> T {
    within_for(PATIENCE, name, what).await
}

/// Awaits `what` for at most `limit`.
///
/// # Panics
/// As [`within`].
pub async fn within_for<T>(limit: Duration, name: &str, what: impl Future<Output = T>) -> T {
    match timeout(limit, what).await {
        Ok(value) => value,
        Err(_) => panic!("{name}: not within {limit:?}"),
    }
}

/// Asks `probe` again and again until it says `Some`. For what another process does and nobody can notify us of.
///
/// # Panics
/// When it still says `None` after [`PATIENCE`].
pub async fn until<T, F: Future<Output = Option<T>>>(name: &str, mut probe: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "{name}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Letters that no compression makes smaller; the same ones for the same seed.
pub fn incompressible(length: usize, seed: u64) -> String {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            char::from(b'a' + (x % 26) as u8)
        })
        .collect()
}
