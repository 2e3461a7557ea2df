//! The bearer token of the TCP door: new at every start, in a file only the owner can read, removed at the end.

use std::io::Write;
use std::path::PathBuf;

use config::Home;
use proxy::Clock;

/// Where the token stands while a TCP door is open.
#[must_use]
pub fn path(home: &Home) -> PathBuf {
    home.dir().join("control.token")
}

/// Makes a token of 256 random bits and writes it for the owner.
pub(crate) fn write(home: &Home, clock: &dyn Clock) -> std::io::Result<String> {
    let token: String = (0..4).map(|_| format!("{:016x}", clock.random())).collect();
    let path = path(home);
    let _ = std::fs::remove_file(&path);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(&path)?.write_all(token.as_bytes())?;
    Ok(token)
}

pub(crate) fn remove(home: &Home) {
    let _ = std::fs::remove_file(path(home));
}
