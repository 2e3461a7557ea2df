//! The folder where everything of the user lives, and the names inside it.
//! In: the environment, read once by the caller. Out: absolute paths.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ConfigError;

/// `~/.metaclaw`, or what `METACLAW_HOME` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    dir: PathBuf,
    user: Option<PathBuf>,
}

impl Home {
    /// Finds the folder. `var` looks a variable of the environment up; an empty variable counts as unset.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let set = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        let user = set("HOME").or_else(|| set("USERPROFILE")).map(PathBuf::from);
        let dir = match set("METACLAW_HOME") {
            Some(dir) => expand_tilde(dir.trim(), user.as_deref()),
            None => user.clone().ok_or(ConfigError::NoHome)?.join(".metaclaw"),
        };
        if !dir.is_absolute() {
            return Err(ConfigError::NoHome);
        }
        Ok(Self { dir, user })
    }

    /// A home at a given place, for tests and for tools that were told one.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), user: None }
    }

    /// The folder itself.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// `config.yaml`
    #[must_use]
    pub fn config_path(&self) -> PathBuf {
        self.dir.join("config.yaml")
    }

    /// `metaclaw.db`
    #[must_use]
    pub fn db_path(&self) -> PathBuf {
        self.dir.join("metaclaw.db")
    }

    /// Where skills live unless `skills.dir` says otherwise.
    #[must_use]
    pub fn skills_dir(&self) -> PathBuf {
        self.dir.join("skills")
    }

    /// The socket of the control API.
    #[must_use]
    pub fn socket_path(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    /// The process id of the service that listens on `port`.
    #[must_use]
    pub fn pid_path(&self, port: u16) -> PathBuf {
        self.dir.join(format!("metaclaw_{port}.pid"))
    }

    /// Held by the running service for as long as it lives; tells a live owner from a stale pid file.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.dir.join("service.lock")
    }

    /// What the web view of the desktop app keeps: its caches, and what the person chose for the window alone.
    #[must_use]
    pub fn window_dir(&self) -> PathBuf {
        self.dir.join("window")
    }

    /// How the window must be drawn on this machine, where that was found out.
    #[must_use]
    pub fn drawing_path(&self) -> PathBuf {
        self.dir.join("window.json")
    }

    /// The entry by which a Linux desktop starts the app at login. Outside of this folder; absent for a user without one.
    #[must_use]
    pub fn login_entry(&self) -> Option<PathBuf> {
        Some(self.user.as_ref()?.join(".config/autostart/MetaClaw.desktop"))
    }

    /// The log of a service in the background.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.dir.join("metaclaw.log")
    }

    /// Where deleted skills and replaced files wait to be taken back.
    #[must_use]
    pub fn trash_dir(&self) -> PathBuf {
        self.dir.join("trash")
    }

    /// Makes the folder (0700). An existing folder that others may enter is closed to them if it is ours: empty, or with
    /// our files in it. A folder that everybody shares (`/tmp`), the user's own or one with other things in it is left as
    /// it is; the doctor tells of it.
    pub fn ensure(&self) -> io::Result<()> {
        let ours = match fs::read_dir(&self.dir) {
            Ok(mut entries) => entries.next().is_none() || self.lock_path().exists() || self.config_path().exists(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        fs::create_dir_all(&self.dir)?;
        if !ours || is_shared(&self.dir) || self.user.as_deref() == Some(&self.dir) {
            return Ok(());
        }
        close_to_others(&self.dir, 0o700)
    }

    /// A path from the settings as an absolute path. `~/.metaclaw` stands for this home, wherever it is;
    /// `~` for the user's home; what is relative stands in this home.
    #[must_use]
    pub fn resolve(&self, text: &str) -> PathBuf {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("~/.metaclaw").or_else(|| text.strip_prefix("~\\.metaclaw")) {
            if rest.is_empty() {
                return self.dir.clone();
            }
            if let Some(rest) = rest.strip_prefix(['/', '\\']) {
                return self.dir.join(rest);
            }
        }
        let path = expand_tilde(text, self.user.as_deref());
        if path.is_absolute() { path } else { self.dir.join(path) }
    }
}

fn expand_tilde(text: &str, user: Option<&Path>) -> PathBuf {
    match (user, text) {
        (Some(user), "~") => user.to_path_buf(),
        (Some(user), _) => match text.strip_prefix("~/").or_else(|| text.strip_prefix("~\\")) {
            Some(rest) => user.join(rest),
            None => PathBuf::from(text),
        },
        (None, _) => PathBuf::from(text),
    }
}

/// Whether the folder is one in which everybody may have files and nobody may touch another's.
#[cfg(unix)]
fn is_shared(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o1000 != 0)
}

#[cfg(not(unix))]
fn is_shared(_path: &Path) -> bool {
    false
}

/// Takes the rights of group and others away. Does nothing where there are no such rights.
#[cfg(unix)]
pub(crate) fn close_to_others(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let now = fs::metadata(path)?.permissions().mode();
    if now & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn close_to_others(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode_after(mode: u32, file: Option<&str>) -> u32 {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"));
        fs::create_dir(home.dir()).unwrap();
        if let Some(file) = file {
            fs::write(home.dir().join(file), "").unwrap();
        }
        fs::set_permissions(home.dir(), fs::Permissions::from_mode(mode)).unwrap();
        home.ensure().unwrap();
        fs::metadata(home.dir()).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn only_a_folder_of_our_own_is_closed_to_others() {
        assert_eq!(mode_after(0o755, None), 0o700, "an empty one");
        assert_eq!(mode_after(0o755, Some("config.yaml")), 0o700, "one with our config");
        assert_eq!(mode_after(0o755, Some("letter.odt")), 0o755, "one with other things");
        assert_eq!(mode_after(0o1777, Some("config.yaml")), 0o1777, "a shared one");
    }
}
