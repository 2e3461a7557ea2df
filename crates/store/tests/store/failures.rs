//! Full disk, read-only home, busy, damaged, foreign and newer files: each its own error, and nothing is lost or replaced.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{Home, turn};
use bytes::Bytes;
use metaclaw_store::{Error, NewTurn, Options, Store, TurnFilter, TurnId};
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
async fn a_full_disk_is_said_and_what_was_handed_in_gets_there_when_there_is_room() {
    let home = Home::new();
    let store = home.open_with(Options { max_pages: Some(100), ..Options::default() }).await;
    let mut bodies = Vec::new();
    let error = loop {
        let n = bodies.len();
        let body = Bytes::from(format!("{n} {}", "incompressible?".repeat(n % 7 * 20)));
        bodies.push(body.clone());
        match store.append(turn(&format!("s{n}"), 1, 1), body).await {
            Ok(id) => assert_eq!(id, TurnId(n as i64 + 1)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert!(bodies.len() > 10);
    // More come in meanwhile: they are safe, and nobody waits for the database.
    for _ in 0..20 {
        let body = Bytes::from(format!("{} later", bodies.len()));
        bodies.push(body.clone());
        drop(store.keep(turn("later", 1, 1), body).await.expect("keeps"));
    }
    store.close().await.expect("closes");
    let store = home.open().await;
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(store.request_of(TurnId(n as i64 + 1)).await.expect("rebuilds"), *body);
    }
    home.append(&store, turn("s", 1, 1), b"{}").await;
}

#[tokio::test]
async fn a_full_queue_before_a_database_that_cannot_be_written_holds_nobody_up() {
    let home = Home::new();
    let store = home.open_with(Options { max_pages: Some(60), queue: 4, ..Options::default() }).await;
    while store.append(turn("s", 1, 1), Bytes::from("x".repeat(1500))).await.is_ok() {}
    let mut kept = 0;
    let error = loop {
        match store.keep(turn("s", 1, 1), Bytes::new()).await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(kept, 4);
}

#[tokio::test]
async fn a_busy_file_is_said_never_replaced_and_the_turn_gets_in_later() {
    let home = Home::new();
    let quick = Options {
        busy_timeout: Duration::from_millis(50),
        retry_every: Duration::from_millis(10),
        ..Options::default()
    };
    let store = home.open_with(quick).await;
    home.append(&store, turn("s", 1, 1), b"{}").await;
    let inode = std::fs::metadata(home.db()).expect("is there").ino();
    let mut other = raw(&home.db()).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("locks");
    let error = store.append(turn("s", 2, 1), Bytes::new()).await.expect_err("is busy");
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("unlocks");
    assert_eq!(home.append(&store, turn("s", 3, 1), b"{}").await, TurnId(3));
    assert_eq!(store.turn(TurnId(2)).await.expect("reads").expect("is there").summary.turn_no, 2);
    assert_eq!(std::fs::metadata(home.db()).expect("is there").ino(), inode);
}

#[tokio::test]
async fn who_asks_for_another_conversation_does_not_wait_for_a_writer_that_is_held_up() {
    let home = Home::new();
    let store = home.open_with(Options { busy_timeout: Duration::from_secs(60), ..Options::default() }).await;
    home.append(&store, turn("known", 1, 1), b"{}").await;
    let mut other = raw(&home.db()).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("locks");
    let new = NewTurn { state_hash: Some(1), agent: Some("a".into()), ..turn("s", 1, 1) };
    let kept = store.keep(new, Bytes::new()).await.expect("keeps");

    let began = tokio::time::Instant::now();
    assert!(store.session_by_state(2, "a").await.expect("reads").is_empty());
    assert_eq!(store.session("known").await.expect("reads").expect("is there").turns, 1);
    let of_known = TurnFilter { session: Some("known".into()), ..TurnFilter::default() };
    assert_eq!(store.turns(&of_known).await.expect("reads").len(), 1);
    assert!(store.injected("known", 8).await.expect("reads").is_empty());
    // A reader that waits gives up after five seconds.
    assert!(began.elapsed() < Duration::from_secs(4), "it waited for a turn of another conversation");
    let mut same = std::pin::pin!(store.session_by_state(1, "a"));
    assert!(futures::poll!(&mut same).is_pending());
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("unlocks");
    kept.await.expect("commits");
    same.await.expect("reads");
    assert_eq!(store.session_by_state(1, "a").await.expect("reads")[0].session, "s");
}

#[tokio::test]
async fn what_was_left_waits_for_a_database_that_cannot_be_written_and_nobody_waits_with_it() {
    let home = Home::new();
    let store = home.open_with(Options { max_pages: Some(60), ..Options::default() }).await;
    let mut n = 0;
    while store.append(turn("s", 1, 1), Bytes::from("x".repeat(1500))).await.is_ok() {
        n += 1;
    }
    for _ in 0..20 {
        store.keep(turn("later", 1, 1), Bytes::from("y".repeat(1500))).await.expect("keeps");
    }
    store.close().await.expect("closes");
    // Still no room: it opens all the same, says so, and refuses other writes instead of letting them wait.
    let store = home.open_with(Options { max_pages: Some(60), ..Options::default() }).await;
    assert!(matches!(store.stalled(), Some(Error::DiskFull { .. })));
    let error = store.set_private("s", true, 1).await.expect_err("cannot be written");
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    store.keep(turn("later", 1, 1), Bytes::new()).await.expect("keeps");
    store.close().await.expect("closes");
    let store = home.open().await;
    assert_eq!(store.turns(&TurnFilter { limit: 5000, ..TurnFilter::default() }).await.expect("reads").len(), n + 22);
}

#[tokio::test]
async fn a_spool_that_another_process_has_is_taken_when_it_lets_go() {
    let home = Home::new();
    let file = std::fs::File::create(home.db().with_extension("db-spool")).expect("makes the spool");
    file.lock().expect("locks");
    let store = home.open_with(Options { retry_every: Duration::from_millis(10), ..Options::default() }).await;
    assert!(store.is_without_spool());
    home.append(&store, turn("s", 1, 1), b"{}").await;
    drop(file);
    while store.is_without_spool() {
        tokio::task::yield_now().await;
    }
    let mut other = raw(&home.db()).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("locks");
    // Safe before the database has it.
    let kept = store.keep(turn("s", 2, 1), Bytes::new()).await.expect("keeps");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("unlocks");
    assert_eq!(kept.await.expect("commits"), TurnId(2));
}

#[tokio::test]
async fn a_turn_that_the_database_refuses_is_kept_beside_it() {
    let home = Home::new();
    let store = home.open().await;
    let mut other = raw(&home.db()).await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON turns WHEN NEW.step = 7
                  BEGIN SELECT raise(ABORT, 'no sevens'); END";
    sqlx::raw_sql(refuse).execute(&mut other).await.expect("makes the trigger");
    let error =
        store.append(NewTurn { step: 7, ..turn("s", 1, 1) }, Bytes::from("bad luck")).await.expect_err("is refused");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(store.stalled().map(|e| e.to_string()), None);
    home.append(&store, turn("s", 2, 1), b"{}").await;
    let path = home.db().with_extension("db-rejected");
    let kept = std::fs::read_to_string(&path).expect("is there");
    assert!(kept.contains("no sevens") && kept.contains("bad luck"), "{kept}");
    assert_eq!(std::fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
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
    for end in ["db", "db-wal", "db-shm", "db-spool", "db.lock"] {
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
