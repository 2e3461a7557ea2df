//! Schema versions: forward only, each in one transaction, all after one backup of what was there (`VACUUM INTO`). `PRAGMA user_version` is the
//! version, `PRAGMA application_id` says whose file it is. The caller holds the open lock, so two processes take turns.

use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::{Error, Result};

/// `MClw` in the database header.
pub(crate) const APPLICATION_ID: i64 = 0x4d43_6c77;

/// Migration `n` (from 1) takes the schema from `n - 1` to `n`. Never edit one that was released.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_journal.sql"),
    include_str!("../migrations/0002_memory.sql"),
    include_str!("../migrations/0003_spool.sql"),
    include_str!("../migrations/0004_answer_ids.sql"),
    include_str!("../migrations/0005_memory_heard.sql"),
    include_str!("../migrations/0006_skill_learning.sql"),
    include_str!("../migrations/0007_skill_replays.sql"),
    include_str!("../migrations/0008_memory_vectors.sql"),
    include_str!("../migrations/0009_judging.sql"),
    include_str!("../migrations/0010_memory_upkeep.sql"),
];

/// The schema version of this build.
pub(crate) fn newest() -> i64 {
    MIGRATIONS.len() as i64
}

/// What the header says: schema version, or an error if the file is another program's or newer than this build.
pub(crate) async fn version(conn: &mut SqliteConnection, path: &Path) -> Result<i64> {
    let sql = |e: sqlx::Error| Error::from_sqlx(path, &e);
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *conn).await.map_err(sql)?;
    let app: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *conn).await.map_err(sql)?;
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut *conn).await.map_err(sql)?;
    if app != APPLICATION_ID && (app != 0 || tables > 0) {
        return Err(Error::Foreign { path: path.to_owned(), found: app });
    }
    if version > newest() {
        return Err(Error::NewerSchema { path: path.to_owned(), found: version, known: newest() });
    }
    Ok(version)
}

/// Brings the file to the newest schema; keeps the last `keep` backups.
pub(crate) async fn migrate(conn: &mut SqliteConnection, path: &Path, keep: usize) -> Result<()> {
    run(conn, path, keep, MIGRATIONS).await
}

async fn run(conn: &mut SqliteConnection, path: &Path, keep: usize, migrations: &[&'static str]) -> Result<()> {
    let sql = |e: sqlx::Error| Error::from_sqlx(path, &e);
    let have: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *conn).await.map_err(sql)?;
    if have > 0 && (have as usize) < migrations.len() {
        let backup = backup(conn, path, have + 1).await?;
        tracing::info!(from = have, to = migrations.len(), backup = %backup.display(), "migrating the journal");
        prune(path, keep);
    }
    for (step, migration) in (1i64..).zip(migrations).filter(|(step, _)| *step > have) {
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.map_err(sql)?;
        sqlx::raw_sql(*migration).execute(&mut *tx).await.map_err(sql)?;
        let header = format!("PRAGMA user_version = {step}; PRAGMA application_id = {APPLICATION_ID}");
        sqlx::raw_sql(AssertSqlSafe(header)).execute(&mut *tx).await.map_err(sql)?;
        tx.commit().await.map_err(sql)?;
    }
    Ok(())
}

/// Copies the whole database beside itself before the schema goes to `step`.
async fn backup(conn: &mut SqliteConnection, path: &Path, step: i64) -> Result<PathBuf> {
    let dir = backup_dir(path);
    make_private_dir(&dir).map_err(|e| Error::from_io(dir.clone(), &e))?;
    let number = backups_of(path).iter().filter_map(|p| numbers(p)).map(|(_, n)| n).max().unwrap_or(0) + 1;
    let done = dir.join(format!("before-v{step}-{number:04}.db"));
    let partial = done.with_extension("partial");
    if let Err(error) = std::fs::remove_file(&partial)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(Error::from_io(partial, &error));
    }
    copy_into(conn, path, &partial).await?;
    std::fs::rename(&partial, &done).map_err(|e| Error::from_io(done.clone(), &e))?;
    Ok(done)
}

/// `VACUUM INTO` a new file that only this user can read, on disk when this returns.
pub(crate) async fn copy_into(conn: &mut SqliteConnection, path: &Path, to: &Path) -> Result<()> {
    let io = |e: std::io::Error| Error::from_io(to.to_owned(), &e);
    let file = create_private(to).map_err(io)?;
    let name =
        to.to_str().ok_or_else(|| Error::CannotOpen { path: to.to_owned(), reason: "the path is not UTF-8".into() })?;
    let copied = sqlx::query("VACUUM INTO ?").bind(name).execute(&mut *conn).await;
    if let Err(error) = copied {
        std::fs::remove_file(to).map_err(io)?;
        return Err(Error::from_sqlx(path, &error));
    }
    file.sync_all().map_err(io)
}

fn create_private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn make_private_dir(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn backup_dir(path: &Path) -> PathBuf {
    path.with_file_name("backups")
}

/// (schema version, running number) of a backup file's name.
fn numbers(path: &Path) -> Option<(i64, i64)> {
    let (version, number) =
        path.file_name()?.to_str()?.strip_prefix("before-v")?.strip_suffix(".db")?.split_once('-')?;
    Some((version.parse().ok()?, number.parse().ok()?))
}

/// Backups made before migrations, oldest first.
pub(crate) fn backups_of(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(backup_dir(path)) else { return Vec::new() };
    let mut found: Vec<_> =
        entries.flatten().map(|e| e.path()).filter_map(|p| numbers(&p).map(|(_, n)| (n, p))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn prune(path: &Path, keep: usize) {
    let backups = backups_of(path);
    for old in &backups[..backups.len().saturating_sub(keep)] {
        if let Err(error) = std::fs::remove_file(old) {
            tracing::warn!(file = %old.display(), %error, "an old backup could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;

    async fn connect(path: &Path) -> SqliteConnection {
        SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.expect("opens")
    }

    #[tokio::test]
    async fn one_backup_is_made_before_a_migration_and_the_last_three_are_kept() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let path = dir.path().join("metaclaw.db");
        let mut conn = connect(&path).await;
        let steps = [
            "CREATE TABLE t (a)",
            "INSERT INTO t VALUES (2)",
            "INSERT INTO t VALUES (3)",
            "INSERT INTO t VALUES (4)",
            "INSERT INTO t VALUES (5)",
        ];
        run(&mut conn, &path, 3, &steps[..1]).await.expect("migrates");
        assert!(backups_of(&path).is_empty(), "there was nothing to keep");
        run(&mut conn, &path, 3, &steps[..3]).await.expect("migrates two steps at once");
        let names = || {
            let name = |p: &PathBuf| Some(p.file_name()?.to_str()?.to_owned());
            backups_of(&path).iter().filter_map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["before-v2-0001.db"]);
        run(&mut conn, &path, 3, &steps[..4]).await.expect("migrates");
        run(&mut conn, &path, 3, &steps).await.expect("migrates");
        run(&mut conn, &path, 3, &steps).await.expect("has nothing to do");
        let backups = backups_of(&path);
        assert_eq!(names(), ["before-v2-0001.db", "before-v4-0002.db", "before-v5-0003.db"]);
        let mut old = connect(&backups[2]).await;
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(&mut old).await.expect("reads");
        let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut old).await.expect("reads");
        assert_eq!((count, version), (3, 4));
        let mut oldest = connect(&backups[0]).await;
        let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut oldest).await.expect("reads");
        assert_eq!(version, 1, "what the program before could open");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&backups[2]).expect("is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn a_step_that_fails_leaves_the_schema_as_it_was() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let path = dir.path().join("metaclaw.db");
        let mut conn = connect(&path).await;
        run(&mut conn, &path, 3, &["CREATE TABLE t (a)"]).await.expect("migrates");
        let steps = ["CREATE TABLE t (a)", "CREATE TABLE u (a); INSERT INTO missing VALUES (1)"];
        run(&mut conn, &path, 3, &steps).await.expect_err("fails");
        let tables: i64 =
            sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut conn).await.expect("reads");
        let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut conn).await.expect("reads");
        assert_eq!((tables, version), (1, 1));
    }
}
