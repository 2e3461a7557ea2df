//! Notices an edited config file. It is looked at once a second, because its folder also holds the busy journal, whose
//! every write a watch of the folder would tell of. The skill library watches its own folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::core::{Core, Held};
use crate::serve::Lifeline;

/// How often the config file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is looked at while it does not answer.
const SILENT: Duration = Duration::from_secs(20);

/// What tells one version of a file from the next.
pub(crate) type Mark = Option<(SystemTime, u64, u64)>;

pub(crate) fn mark(path: &Path) -> Mark {
    let meta = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    #[cfg(not(unix))]
    let inode = 0;
    Some((meta.modified().ok()?, meta.len(), inode))
}

/// Rereads the config file whenever it changes, until `ending`.
pub(crate) async fn config(core: Core, ending: CancellationToken) {
    let mut silent = false;
    loop {
        tokio::select! {
            () = ending.cancelled() => return,
            () = tokio::time::sleep(if silent { SILENT } else { LOOK }) => {}
        }
        let path = core.config_path().to_path_buf();
        let found = core.files().ask(move || mark(&path)).await;
        let again = silent;
        silent = found.is_err();
        let reading = core.reading();
        let held = reading.held.as_ref().is_some_and(Held::is_over);
        if again || held || found != Ok(reading.mark) {
            core.reload(&[]).await;
        }
    }
}

/// Makes the control socket again when its file is gone (a cleaner of temporary folders), until `ending`.
pub(crate) async fn socket(path: PathBuf, router: axum::Router, life: Lifeline, ending: CancellationToken) {
    loop {
        tokio::select! {
            () = ending.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let gone = matches!(path.symlink_metadata(), Err(error) if error.kind() == std::io::ErrorKind::NotFound);
        if gone {
            match crate::doors::unix(&path, router.clone(), &life) {
                Ok(()) => tracing::warn!(path = %path.display(), "the control socket was removed; it is there again"),
                Err(error) => tracing::debug!(%error, "the control socket was removed and cannot be made again"),
            }
        }
    }
}

/// Where the window's pages are: beside the program, in an installed tree, or where the caller says.
pub(crate) fn pages(given: Option<PathBuf>) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|exe| {
        let bin = exe.parent()?;
        [bin.join("ui"), bin.join("../share/metaclaw/ui"), bin.join("../lib/metaclaw/ui")]
            .into_iter()
            .find(|dir| dir.join("index.html").is_file())
    });
    given.or(beside)
}
