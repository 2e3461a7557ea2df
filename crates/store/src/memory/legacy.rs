//! Reads the memory database of an old install (schema up to 6), whatever its name: a copy of it is opened, so that the file
//! itself is never written, locked or renamed.

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

use crate::{Error, Result};

/// The newest schema of those databases.
const NEWEST: i64 = 6;

/// A memory of an old install.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Legacy {
    /// Its id.
    pub memory_id: String,
    /// Scope string, as it stands there.
    pub scope_id: String,
    /// Type.
    pub memory_type: String,
    /// What is remembered.
    pub content: String,
    /// A shorter form.
    pub summary: String,
    /// Session it comes from.
    pub source_session_id: String,
    /// First user turn.
    pub source_turn_start: u32,
    /// Last user turn.
    pub source_turn_end: u32,
    /// 0–1; 0.99 and above is pinned.
    pub importance: f64,
    /// 0–1.
    pub confidence: f64,
    /// `active`, `superseded`, `archived`.
    pub status: String,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub updated_at: String,
    /// ISO 8601, or empty.
    pub expires_at: String,
    /// Labels.
    pub tags: Vec<String>,
}

/// All memories of the database at `path`, the oldest first. `scratch` is a folder for the copy, which is removed again.
pub async fn read_legacy(path: &Path, scratch: &Path) -> Result<Vec<Legacy>> {
    let copy = scratch.join("old-memory.db");
    let (from, to) = (path.to_owned(), copy.clone());
    let copied = tokio::task::spawn_blocking(move || copy_with_log(&from, &to)).await;
    copied.map_err(|e| Error::CannotOpen { path: path.to_owned(), reason: e.to_string() })??;
    let connect = SqliteConnectOptions::new().filename(&copy).disable_statement_logging();
    let sql = |e: sqlx::Error| Error::from_sqlx(path, &e);
    let mut conn = connect.connect().await.map_err(sql)?;
    let read = async {
        let version: Option<i64> = sqlx::query_scalar(
            "SELECT CASE WHEN EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'schema_version') THEN 1 ELSE 0 END",
        )
        .fetch_optional(&mut conn)
        .await
        .map_err(sql)?;
        if version == Some(1) {
            let newest: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM schema_version")
                .fetch_one(&mut conn)
                .await
                .map_err(sql)?;
            if let Some(found) = newest.filter(|found| *found > NEWEST) {
                return Err(Error::NewerSchema { path: path.to_owned(), found, known: NEWEST });
            }
        }
        let rows = sqlx::query("SELECT * FROM memories ORDER BY created_at, memory_id");
        let rows = rows.fetch_all(&mut conn).await.map_err(sql)?;
        rows.iter().map(|row| legacy(row).map_err(sql)).collect()
    };
    let read = read.await;
    conn.close().await.map_err(sql)?;
    read
}

fn legacy(row: &SqliteRow) -> sqlx::Result<Legacy> {
    let text = |column: &str| -> sqlx::Result<String> {
        match row.try_get::<Option<String>, _>(column) {
            Ok(value) => Ok(value.unwrap_or_default()),
            // Columns came with later versions.
            Err(sqlx::Error::ColumnNotFound(_)) => Ok(String::new()),
            Err(error) => Err(error),
        }
    };
    let number = |column: &str, default: f64| row.try_get::<f64, _>(column).unwrap_or(default);
    let turn = |column: &str| row.try_get::<i64, _>(column).ok().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    Ok(Legacy {
        memory_id: row.try_get("memory_id")?,
        scope_id: row.try_get("scope_id")?,
        memory_type: row.try_get("memory_type")?,
        content: row.try_get("content")?,
        summary: text("summary")?,
        source_session_id: text("source_session_id")?,
        source_turn_start: turn("source_turn_start"),
        source_turn_end: turn("source_turn_end"),
        importance: number("importance", 0.5),
        confidence: number("confidence", 0.7),
        status: text("status")?,
        created_at: text("created_at")?,
        updated_at: text("updated_at")?,
        expires_at: text("expires_at")?,
        tags: serde_json::from_str(&text("tags_json")?).unwrap_or_default(),
    })
}

/// The database and what its log holds beside it.
fn copy_with_log(from: &Path, to: &Path) -> Result<()> {
    let beside = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push("-wal");
        PathBuf::from(name)
    };
    std::fs::copy(from, to).map_err(|e| Error::from_io(from.to_owned(), &e))?;
    let log = beside(from);
    if log.exists() {
        std::fs::copy(&log, beside(to)).map_err(|e| Error::from_io(log.clone(), &e))?;
    }
    Ok(())
}
