//! What the desktop says of itself: whether it shows tray icons (a watcher on the session bus that has a host; it may come
//! and go with the panel), and whether it is dark.

use std::time::Duration;

use futures::StreamExt;
use tokio::sync::watch;
use zbus::proxy::CacheProperties;
use zbus::{Connection, proxy};

/// How long the desktop may take to say whether it is dark.
const PATIENCE: Duration = Duration::from_secs(1);

#[proxy(
    interface = "org.kde.StatusNotifierWatcher",
    default_service = "org.kde.StatusNotifierWatcher",
    default_path = "/StatusNotifierWatcher"
)]
trait Watcher {
    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> zbus::Result<bool>;
    #[zbus(signal)]
    fn status_notifier_host_registered(&self) -> zbus::Result<()>;
}

/// Tells `out` whether icons are shown, now and whenever that changes. Ends when the bus does.
pub(crate) async fn follow(out: watch::Sender<Option<bool>>) {
    if let Err(error) = look(&out).await {
        tracing::warn!(%error, "there is no session bus to ask for a tray");
        out.send_replace(Some(false));
    }
}

async fn look(out: &watch::Sender<Option<bool>>) -> zbus::Result<()> {
    let bus = Connection::session().await?;
    let watcher = WatcherProxy::builder(&bus).cache_properties(CacheProperties::No).build().await?;
    let mut owners = watcher.inner().receive_owner_changed().await?;
    let mut hosts = watcher.receive_status_notifier_host_registered().await?;
    loop {
        let shown = watcher.is_status_notifier_host_registered().await.unwrap_or(false);
        out.send_if_modified(|known| known.replace(shown) != Some(shown));
        let more = tokio::select! {
            owner = owners.next() => owner.is_some(),
            host = hosts.next() => host.is_some(),
        };
        if !more {
            return Ok(());
        }
    }
}

#[proxy(
    interface = "org.freedesktop.portal.Settings",
    default_service = "org.freedesktop.portal.Desktop",
    default_path = "/org/freedesktop/portal/desktop"
)]
trait Portal {
    fn read_one(&self, namespace: &str, key: &str) -> zbus::Result<zbus::zvariant::OwnedValue>;
}

/// Whether the desktop says that it is dark; none where it does not say.
pub(crate) async fn dark() -> Option<bool> {
    let bus = Connection::session().await.ok()?;
    let portal = PortalProxy::new(&bus).await.ok()?;
    let asked = portal.read_one("org.freedesktop.appearance", "color-scheme");
    let value = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?;
    match u32::try_from(value).ok()? {
        1 => Some(true),
        2 => Some(false),
        _ => None,
    }
}
