//! Sleep and waking, as logind tells of it. After waking, timers and sockets may be stale and the panel may have lost
//! the icon.

use futures::StreamExt;
use tokio::sync::mpsc;
use zbus::{Connection, proxy};

#[proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
trait Logind {
    #[zbus(signal)]
    fn prepare_for_sleep(&self, start: bool) -> zbus::Result<()>;
}

/// Sends a word whenever the machine has woken up. Ends where nobody tells of that.
pub(crate) async fn follow(woke: mpsc::Sender<()>) {
    if let Err(error) = listen(&woke).await {
        tracing::info!(%error, "nobody tells of sleep and waking here");
    }
}

async fn listen(woke: &mpsc::Sender<()>) -> zbus::Result<()> {
    let bus = Connection::system().await?;
    let mut signals = LogindProxy::new(&bus).await?.receive_prepare_for_sleep().await?;
    while let Some(signal) = signals.next().await {
        let falls_asleep = signal.args()?.start;
        tracing::info!(falls_asleep, "sleep");
        if !falls_asleep && woke.send(()).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
