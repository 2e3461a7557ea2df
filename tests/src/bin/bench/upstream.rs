//! The provider of the benchmark: as little work as possible per request, so that what is measured is what stands before
//! it. Whole answers come from a process of its own; paced streams from this one, so that both ends share a clock.

use std::process::Stdio;

use anyhow::{Context, Result};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::wire::{Conn, Events, LAST_CHUNK, chunk};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{Duration, Instant, sleep_until};
use tokio_util::task::TaskTracker;

use crate::direct::Target;

/// The provider's own process; it ends with this value.
pub(crate) struct Upstream {
    pub(crate) addr: String,
    _process: Child,
}

impl Upstream {
    pub(crate) async fn spawn() -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let process = Command::new(std::env::current_exe()?)
            .args(["upstream", &port.to_string()])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let addr = format!("127.0.0.1:{port}");
        metaclaw_tests::until("the fake provider listens", || async { Conn::connect(&addr).await.ok() }).await;
        Ok(Self { addr, _process: process })
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}/v1", self.addr)
    }
}

/// How a stream goes.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) chunks: usize,
    pub(crate) gap: Duration,
}

/// Serves until the process ends. With a pace, streams carry the time of each chunk since `epoch`.
pub(crate) async fn serve(port: u16, pace: Option<(Pace, Instant)>) -> Result<()> {
    accept(TcpListener::bind(("127.0.0.1", port)).await?, pace).await
}

async fn accept(listener: TcpListener, pace: Option<(Pace, Instant)>) -> Result<()> {
    let body = Answer::text(&"An answer of a usual length. ".repeat(8)).whole(Api::Chat, "fake-large").to_string();
    let whole =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let whole: &'static [u8] = Box::leak(whole.into_bytes().into_boxed_slice());
    let tasks = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        tasks.spawn(async move {
            let mut conn = Conn::new(stream);
            while let Ok(Some(_)) = conn.request_head().await {
                while let Ok(Some(_)) = conn.piece().await {}
                let sent = match pace {
                    Some((pace, epoch)) => stream_out(&mut conn, pace, epoch).await,
                    None => conn.send(whole).await,
                };
                if sent.is_err() {
                    return;
                }
            }
        });
    }
}

async fn stream_out(conn: &mut Conn, pace: Pace, epoch: Instant) -> std::io::Result<()> {
    conn.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    let mut next = Instant::now();
    for _ in 0..pace.chunks {
        next += pace.gap;
        sleep_until(next).await;
        let now = epoch.elapsed().as_nanos();
        let event = format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{now}\"}},\"finish_reason\":null}}]}}\n\n"
        );
        conn.send(&chunk(event.as_bytes())).await?;
    }
    let end = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":40,\"total_tokens\":49}}\n\ndata: [DONE]\n\n";
    conn.send(&[&chunk(end.as_bytes())[..], LAST_CHUNK].concat()).await
}

/// A paced provider in this process.
pub(crate) struct Paced {
    pub(crate) addr: String,
    epoch: Instant,
    tasks: TaskTracker,
}

pub(crate) async fn paced(pace: Pace) -> Result<Paced> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (addr, epoch, tasks) = (listener.local_addr()?.to_string(), Instant::now(), TaskTracker::new());
    tasks.spawn(accept(listener, Some((pace, epoch))));
    Ok(Paced { addr, epoch, tasks })
}

impl Paced {
    pub(crate) fn base(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// From the provider's write of a chunk to the client's read of it, for each chunk of `streams` streams.
    pub(crate) async fn delays(
        &self,
        target: &Target,
        streams: usize,
        body: impl Fn(usize) -> String,
    ) -> Result<Vec<Duration>> {
        anyhow::ensure!(!self.tasks.is_closed());
        let mut delays = Vec::new();
        let mut conn = Conn::connect(&target.addr).await?;
        for n in 0..streams {
            conn.send(&target.request(&body(n))).await?;
            let head = conn.response_head("POST").await?;
            anyhow::ensure!(head.status == 200, "{head:?}");
            let mut events = Events::default();
            while let Some(piece) = conn.piece().await? {
                let now = self.epoch.elapsed();
                for event in events.push(&piece) {
                    let Some(at) = event.data.split("\"content\":\"").nth(1) else { continue };
                    let sent: u64 = at.split('"').next().context("a time")?.parse()?;
                    delays.push(now.saturating_sub(Duration::from_nanos(sent)));
                }
            }
        }
        Ok(delays)
    }
}
