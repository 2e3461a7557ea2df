//! Finished turns that the database refuses for what is in them: one JSON line each in a file beside it, so that they are not
//! lost. No way back in is offered; the log says where they are.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Error, NewTurn};

#[derive(Serialize)]
struct Line<'a> {
    error: String,
    turn: &'a NewTurn,
    /// As text; a body that is not UTF-8 loses what cannot be shown.
    body: std::borrow::Cow<'a, str>,
}

/// The file of a database.
pub(crate) fn path_of(db: &Path) -> PathBuf {
    let mut name = db.to_owned().into_os_string();
    name.push("-rejected");
    PathBuf::from(name)
}

/// Adds a turn to the file of the database `db`; on disk when this returns.
pub(crate) fn keep(db: &Path, turn: &NewTurn, body: &[u8], error: &Error) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut line = serde_json::to_vec(&Line { error: error.to_string(), turn, body: String::from_utf8_lossy(body) })?;
    line.push(b'\n');
    let mut file = options.open(path_of(db))?;
    file.write_all(&line)?;
    file.sync_data()
}
