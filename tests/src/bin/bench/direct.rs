//! One connection, one request after another, each timed: the latency that an agent sees.

use anyhow::Result;
use metaclaw_tests::agent::Agent;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::PROXY_KEY;
use metaclaw_tests::wire::Conn;
use tokio::time::{Duration, Instant};

/// Where requests go. All targets get the same bytes.
pub(crate) struct Target {
    pub(crate) addr: String,
    agent: Agent,
}

impl Target {
    pub(crate) fn new(addr: &str) -> Self {
        let agent = Agent::new(addr).with_header("authorization", &format!("Bearer {PROXY_KEY}"));
        Self { addr: addr.to_owned(), agent }
    }

    pub(crate) fn request(&self, body: &str) -> Vec<u8> {
        self.agent.request("POST", Api::Chat.path(), body.as_bytes())
    }
}

/// The time of each call.
pub(crate) async fn latencies(target: &Target, bodies: &[String]) -> Result<Vec<Duration>> {
    let mut conn = Conn::connect(&target.addr).await?;
    let mut times = Vec::with_capacity(bodies.len());
    for body in bodies {
        let request = target.request(body);
        let start = Instant::now();
        conn.send(&request).await?;
        let head = conn.response_head("POST").await?;
        while conn.piece().await?.is_some() {}
        times.push(start.elapsed());
        anyhow::ensure!(head.status == 200, "{head:?}");
    }
    Ok(times)
}

/// The value below which `p` percent of the list lie.
pub(crate) fn percentile(list: &mut [Duration], p: f64) -> Duration {
    list.sort();
    let at = ((list.len() as f64 - 1.0) * p / 100.0).round() as usize;
    list.get(at).copied().unwrap_or_default()
}
