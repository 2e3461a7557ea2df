//! Serves a router on a listener: one task per connection on the engine's tracker, closed in two steps. `quit` stops
//! accepting and lets running answers end; `kill` drops what is left.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a connection may sit without a complete request head before it is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Pause after the system refuses a connection (out of file handles), before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The two closing signals of a server and the tracker its connections live on.
#[derive(Clone, Debug)]
pub(crate) struct Lifeline {
    /// Stop accepting; finish what runs.
    pub quit: CancellationToken,
    /// Drop every connection now.
    pub kill: CancellationToken,
    /// Connections and the accept loop.
    pub tasks: TaskTracker,
}

impl Lifeline {
    pub(crate) fn new() -> Self {
        Self { quit: CancellationToken::new(), kill: CancellationToken::new(), tasks: TaskTracker::new() }
    }
}

/// Accepts TCP connections until `quit`.
pub(crate) fn tcp(listener: TcpListener, router: Router, life: &Lifeline) {
    let life = life.clone();
    life.tasks.clone().spawn(async move {
        loop {
            let accepted = tokio::select! {
                biased;
                () = life.quit.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    connection(stream, router.clone(), &life);
                }
                Err(error) => pause(&error).await,
            }
        }
    });
}

/// Accepts connections on a Unix socket until `quit`. Only processes of this user get in; root's are let in as well,
/// because root can read the home anyway.
pub(crate) fn unix(listener: UnixListener, router: Router, life: &Lifeline) {
    let life = life.clone();
    let me = rustix::process::geteuid().as_raw();
    life.tasks.clone().spawn(async move {
        loop {
            let accepted = tokio::select! {
                biased;
                () = life.quit.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) if peer.uid() == me || peer.uid() == 0 => connection(stream, router.clone(), &life),
                    Ok(peer) => tracing::warn!(uid = peer.uid(), "refused another user on the control socket"),
                    Err(error) => tracing::warn!(%error, "refused a peer of unknown owner on the control socket"),
                },
                Err(error) => pause(&error).await,
            }
        }
    });
}

async fn pause(error: &std::io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

fn connection<S>(stream: S, router: Router, life: &Lifeline)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (quit, kill) = (life.quit.clone(), life.kill.clone());
    life.tasks.spawn(async move {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(infallible(router)));
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            () = kill.cancelled() => return,
            ended = connection.as_mut() => return note(ended),
            () = quit.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            biased;
            ended = connection.as_mut() => note(ended),
            () = kill.cancelled() => {}
        }
    });
}

/// Peers that hang up, time out or speak something else are everyday events.
fn note(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::trace!(%error, "connection closed early");
    }
}

/// Only pins the error type for inference.
fn infallible<T>(service: T) -> T
where
    T: tower::Service<http::Request<hyper::body::Incoming>, Error = Infallible>,
{
    service
}
