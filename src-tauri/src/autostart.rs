//! Start at login. Only a release build registers itself: a build from a checkout is gone tomorrow. An entry whose
//! program is no longer there is repaired; one that points at another program that exists is left alone.

use std::path::PathBuf;

use config::Home;
use tauri::AppHandle;
use tauri_plugin_autostart::ManagerExt;

/// What the login starts this program with.
pub(crate) const ARGUMENT: &str = "--background";

/// Whether it starts at login; none where this build does not offer it.
pub(crate) fn state(app: &AppHandle) -> Option<bool> {
    if cfg!(debug_assertions) { None } else { app.autolaunch().is_enabled().ok() }
}

/// Switches it over.
pub(crate) fn switch(app: &AppHandle) {
    let done = match state(app) {
        None => return,
        Some(true) => app.autolaunch().disable(),
        Some(false) => app.autolaunch().enable(),
    };
    if let Err(error) = done {
        tracing::error!(%error, "start at login was not switched");
    }
}

/// Writes the entry anew if this program was moved since.
pub(crate) fn repair(app: &AppHandle, home: &Home) {
    if state(app) != Some(true) {
        return;
    }
    let Some(entry) = home.login_entry() else { return };
    let Ok(text) = std::fs::read_to_string(&entry) else { return };
    if program(&text).is_some_and(|program| !program.exists()) {
        tracing::info!(entry = %entry.display(), "the program was moved; start at login follows it");
        if let Err(error) = app.autolaunch().enable() {
            tracing::error!(%error, "start at login was not repaired");
        }
    }
}

/// The program that an entry starts.
fn program(entry: &str) -> Option<PathBuf> {
    let line = entry.lines().find_map(|line| line.strip_prefix("Exec="))?.trim();
    let path = match line.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => line.split(" --").next()?.trim_end(),
    };
    Some(PathBuf::from(path)).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(
        "[Desktop Entry]\nType=Application\nExec=/usr/bin/metaclaw-app --background\n",
        Some("/usr/bin/metaclaw-app")
    )]
    #[case("Exec=\"/home/a b/metaclaw-app\" --background\n", Some("/home/a b/metaclaw-app"))]
    #[case("Exec=/home/a b/metaclaw-app --background\n", Some("/home/a b/metaclaw-app"))]
    #[case("Exec=metaclaw-app --background\n", None)]
    #[case("Name=x\n", None)]
    fn the_program_of_an_entry_is_found(#[case] entry: &str, #[case] expected: Option<&str>) {
        assert_eq!(program(entry), expected.map(PathBuf::from));
    }
}
