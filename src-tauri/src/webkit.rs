//! WebKit leaves the window blank on some graphics drivers. Two variables make it draw in plainer ways; it reads them
//! when the process begins. So this program starts itself once more with what is known to be needed: at once where a
//! driver is known for it, and after a window that showed nothing, which is remembered in `window.json` of the home.

use std::path::Path;

use config::Home;
use serde::{Deserialize, Serialize};
use tauri::{AppHandle, Manager};

use crate::app::Shell;
use crate::notify::{Note, show};

/// From the first to the plainest way of drawing.
const STEPS: [&str; 2] = ["WEBKIT_DISABLE_DMABUF_RENDERER", "WEBKIT_DISABLE_COMPOSITING_MODE"];
/// Where the driver is that leaves windows blank most often.
const NVIDIA: &str = "/proc/driver/nvidia/version";

/// What is remembered from run to run.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// How many of [`STEPS`] this machine needs.
    #[serde(default)]
    plainer: usize,
}

/// Starts this program again if variables are missing that it needs; returns only if none are, or with what failed.
#[cfg(unix)]
pub(crate) fn prepare(home: &Home) -> std::io::Result<()> {
    let plainer = read(&home.drawing_path()).plainer.max(usize::from(Path::new(NVIDIA).exists()));
    let missing = missing(plainer, |name| std::env::var_os(name).is_some());
    if missing.is_empty() { Ok(()) } else { Err(again(&missing, None)) }
}

/// What this process lacks. What the person has set, to any value, is theirs.
fn missing(plainer: usize, is_set: impl Fn(&str) -> bool) -> Vec<&'static str> {
    STEPS.into_iter().take(plainer).filter(|name| !is_set(name)).collect()
}

/// Becomes a new run of this program. Returns only what went wrong.
#[cfg(unix)]
fn again(with: &[&str], args: Option<&[&str]>) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut next = std::process::Command::new(program);
    match args {
        Some(args) => next.args(args),
        None => next.args(std::env::args_os().skip(1)),
    };
    next.envs(with.iter().map(|name| (name, "1"))).exec()
}

/// The window has shown nothing: the next plainer way of drawing, in a new run. Running answers are finished first; a
/// service of its own goes on meanwhile.
pub(crate) fn blank(app: &AppHandle) {
    let shell = app.state::<Shell>();
    let path = shell.home.drawing_path();
    let next = STEPS.iter().position(|name| std::env::var_os(name).is_none());
    let Some(next) = next else {
        tracing::error!("the window shows nothing, whatever way it is drawn");
        let note = Note {
            title: shell.words.blank_title.to_owned(),
            body: shell.words.blank_body.to_owned(),
            page: "home".to_owned(),
        };
        show(app, note);
        return;
    };
    let kept = serde_json::to_string(&Kept { plainer: next + 1 }).unwrap_or_default();
    if let Err(error) = std::fs::write(&path, kept) {
        tracing::error!(%error, path = %path.display(), "cannot remember how the window must be drawn");
        return;
    }
    tracing::warn!(variable = STEPS[next], "the window shows nothing; starting again with plainer drawing");
    let app = app.clone();
    shell.tasks.spawn(async move {
        app.state::<Shell>().host.quit().await;
        #[cfg(unix)]
        {
            // The name on the bus is given back with a blocking call.
            let handle = app.clone();
            let failed = tokio::task::spawn_blocking(move || {
                tauri_plugin_single_instance::destroy(&handle);
                again(&STEPS[..=next], Some(&[]))
            });
            if let Ok(error) = failed.await {
                tracing::error!(%error, "cannot start again");
            }
        }
        app.exit(1);
    });
}

fn read(path: &Path) -> Kept {
    std::fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::healthy(0, &[], &[])]
    #[case::first_step(1, &[], &["WEBKIT_DISABLE_DMABUF_RENDERER"])]
    #[case::started_with_it(1, &["WEBKIT_DISABLE_DMABUF_RENDERER"], &[])]
    #[case::second_step(2, &["WEBKIT_DISABLE_DMABUF_RENDERER"], &["WEBKIT_DISABLE_COMPOSITING_MODE"])]
    #[case::from_another_version(9, &[], &["WEBKIT_DISABLE_DMABUF_RENDERER", "WEBKIT_DISABLE_COMPOSITING_MODE"])]
    fn only_what_is_needed_and_not_set_is_added(
        #[case] plainer: usize,
        #[case] set: &[&str],
        #[case] expected: &[&str],
    ) {
        assert_eq!(missing(plainer, |name| set.contains(&name)), expected);
    }

    #[test]
    fn a_broken_note_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("window.json");
        assert_eq!(read(&path), Kept::default());
        std::fs::write(&path, "{").unwrap();
        assert_eq!(read(&path), Kept::default());
        std::fs::write(&path, "{\"plainer\":1}").unwrap();
        assert_eq!(read(&path), Kept { plainer: 1 });
    }
}
