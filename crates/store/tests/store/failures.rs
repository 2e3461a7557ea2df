//! Full disk, read-only home, busy, damaged, foreign and newer files: each its own error, and nothing is lost or replaced.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{Home, turn};
use bytes::Bytes;
use metaclaw_store::{Error, Kind, Options, Store};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.expect("opens")
}

async fn try_open(path: &Path) -> Result<Store, Error> {
    Store::open(path, Options::default(), &TaskTracker::new(), CancellationToken::new()).await
}

#[tokio::test]
async fn a_full_disk_is_said_and_what_was_committed_stays() {
    let home = Home::new();
    let store = home.open_with(Options { max_pages: Some(40), ..Options::default() }).await;
    let mut committed = Vec::new();
    let error = loop {
        let n = committed.len();
        let body = Bytes::from(format!("{n} {}", "incompressible?".repeat(n % 7 * 20)));
        match store.append(turn(&format!("s{n}"), 1, 1), store.begin(&format!("s{n}"), &Kind::Main, body.clone())).await
        {
            Ok(id) => committed.push((id, body)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert!(committed.len() > 10);
    store.close().await.expect("closes");
    // Room again: everything is there, and writing goes on.
    let store = home.open().await;
    for (id, body) in &committed {
        assert_eq!(store.request_of(*id).await.expect("rebuilds"), *body);
    }
    home.append(&store, turn("s", 1, 1), b"{}").await;
}

#[tokio::test]
async fn one_row_that_cannot_be_written_does_not_fail_its_neighbours() {
    let home = Home::new();
    let store = home.open_with(Options { max_pages: Some(200), ..Options::default() }).await;
    let tracker = TaskTracker::new();
    let jobs: Vec<_> = (0..16)
        .map(|n| {
            let store = store.clone();
            tracker.spawn(async move {
                let new = metaclaw_store::NewTurn {
                    answer_text: (n == 5).then(|| "too big for the disk".repeat(100_000)),
                    ..turn(&format!("s{n}"), 1, 1)
                };
                let pending = store.begin(&new.session, &Kind::Main, Bytes::new());
                store.append(new, pending).await.is_ok()
            })
        })
        .collect();
    for (n, job) in jobs.into_iter().enumerate() {
        assert_eq!(job.await.expect("runs"), n != 5, "turn {n}");
    }
}

#[tokio::test]
async fn a_busy_file_is_waited_for_then_said_and_never_replaced() {
    let home = Home::new();
    let store = home.open_with(Options { busy_timeout: Duration::from_millis(50), ..Options::default() }).await;
    home.append(&store, turn("s", 1, 1), b"{}").await;
    let inode = std::fs::metadata(home.db()).expect("is there").ino();
    let mut other = raw(&home.db()).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("locks");
    let error = store.append(turn("s", 2, 1), store.begin("s", &Kind::Main, Bytes::new())).await.expect_err("is busy");
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("unlocks");
    home.append(&store, turn("s", 2, 1), b"{}").await;
    assert_eq!(std::fs::metadata(home.db()).expect("is there").ino(), inode);
}

#[tokio::test]
async fn a_damaged_file_is_said_and_left_alone() {
    let home = Home::new();
    home.open().await.close().await.expect("closes");
    let mut bytes = std::fs::read(home.db()).expect("reads");
    bytes[..64].fill(b'?');
    std::fs::write(home.db(), &bytes).expect("writes");
    let error = try_open(&home.db()).await.expect_err("is damaged");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains(".recover"), "{error}");
    assert_eq!(std::fs::read(home.db()).expect("reads"), bytes);
}

#[tokio::test]
async fn a_damaged_body_is_said() {
    let home = Home::new();
    let store = home.open().await;
    let id = home.append(&store, turn("s", 1, 1), b"{\"a\":1}").await;
    let mut other = raw(&home.db()).await;
    sqlx::raw_sql("UPDATE turns SET body = x'00112233445566'").execute(&mut other).await.expect("damages");
    let error = store.request_of(id).await.expect_err("is damaged");
    assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains("turn 1"), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let home = Home::new();
    home.open().await.close().await.expect("closes");
    let mut other = raw(&home.db()).await;
    sqlx::raw_sql("PRAGMA user_version = 99").execute(&mut other).await.expect("writes");
    other.close().await.expect("closes");
    let error = try_open(&home.db()).await.expect_err("is newer");
    assert!(matches!(error, Error::NewerSchema { found: 99, .. }), "{error}");
    let error = Store::open_read_only(&home.db(), Options::default()).await.expect_err("is newer");
    assert!(matches!(error, Error::NewerSchema { .. }), "{error}");
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    let home = Home::new();
    let mut other = raw(&home.db()).await;
    sqlx::raw_sql("CREATE TABLE theirs (a)").execute(&mut other).await.expect("writes");
    other.close().await.expect("closes");
    assert!(matches!(try_open(&home.db()).await.expect_err("is theirs"), Error::Foreign { .. }));
}

#[tokio::test]
async fn opening_for_reading_makes_no_file() {
    let home = Home::new();
    let error = Store::open_read_only(&home.db(), Options::default()).await.expect_err("is not there");
    assert!(matches!(error, Error::CannotOpen { .. }), "{error}");
    assert!(!home.db().exists());
}

#[tokio::test]
async fn only_the_user_can_read_the_files() {
    let home = Home::new();
    let store = home.open().await;
    home.append(&store, turn("s", 1, 1), b"{}").await;
    for end in ["db", "db-wal", "db-shm", "db.lock"] {
        let mode = std::fs::metadata(home.db().with_extension(end)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{end}");
    }
}

#[tokio::test]
async fn several_that_open_a_new_file_at_once_migrate_it_once() {
    let home = Home::new();
    let tracker = TaskTracker::new();
    let jobs: Vec<_> = (0..8)
        .map(|_| {
            let path = home.db();
            tracker.spawn(async move { try_open(&path).await.map(|_| ()) })
        })
        .collect();
    for job in jobs {
        job.await.expect("runs").expect("opens");
    }
}

#[test]
fn a_read_only_home_is_said() {
    let home = tempfile::tempdir().expect("makes a folder");
    let program = tempfile::tempdir().expect("makes a folder");
    let copy = program.path().join("child");
    std::fs::copy(std::env::current_exe().expect("has a name"), &copy).expect("copies");
    for (dir, mode) in [(home.path(), 0o555), (program.path(), 0o755)] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).expect("changes the mode");
    }
    let mut child = Command::new(&copy);
    child
        .args(["--exact", "failures::child_opens", "--ignored", "--nocapture"])
        .env("STORE_CHILD", home.path().join("metaclaw.db"));
    if std::fs::metadata(home.path()).expect("is there").uid() == 0 {
        // Root may write anywhere; nobody may not.
        child.uid(65_534).gid(65_534);
    }
    let output = child.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("said: ReadOnly") && said.contains("METACLAW_HOME"), "{said}");
}

#[tokio::test]
#[ignore = "run by a_read_only_home_is_said in a process of its own"]
async fn child_opens() {
    let Ok(path) = std::env::var("STORE_CHILD") else { return };
    let error = try_open(Path::new(&path)).await.expect_err("is read-only");
    println!("said: {error:?}\n{error}");
}
