//! A journal that cannot be written is told wherever a person looks, for as long as it lasts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::time::Duration;

use config::Home;
use metaclaw_engine::api::{Check, Grade, Status};
use metaclaw_engine::client::Client;
use metaclaw_engine::{Engine, StartOptions};
use sqlx::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Nothing listens at the provider's address: its error is a turn as well.
const CONFIG: &str = "mode: skills_only\nllm:\n  provider: custom\n  api_base: http://127.0.0.1:9/v1\n  model_id: m\n\
                      proxy:\n  port: 0\n";

async fn ask(port: u16) {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hello."}]}"#;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    stream.read_to_string(&mut String::new()).await.unwrap();
}

async fn until(api: &Client, told: bool) -> Status {
    let looking = async {
        loop {
            let status: Status = api.get("/api/v1/status").await.unwrap();
            if status.warnings.iter().any(|warning| warning.contains("journal")) == told {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looking).await.unwrap()
}

#[tokio::test]
async fn turns_that_do_not_get_into_the_journal_are_told_until_they_do() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.yaml"), CONFIG).unwrap();
    let home = Home::at(dir.path());
    let engine = Engine::start(StartOptions::new(home.clone())).await.unwrap();
    let api = Client::socket(&home.socket_path()).await.unwrap();
    let journal = async || -> Check {
        let checks: Vec<Check> = api.get("/api/v1/doctor").await.unwrap();
        checks.into_iter().find(|check| check.id == "journal").unwrap()
    };
    assert_eq!(journal().await.grade, Grade::Good);
    // Another program takes the database for itself.
    let url = format!("sqlite://{}", home.db_path().display());
    let mut other = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    ask(engine.status().port).await;
    let status = until(&api, true).await;
    assert!(status.warnings[0].contains("in use by another process"), "{:?}", status.warnings);
    let check = journal().await;
    assert!(check.grade == Grade::Bad && check.hint.is_some(), "{check:?}");
    assert!(check.message.contains("in use by another process"), "{check:?}");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    until(&api, false).await;
    assert_eq!(journal().await.grade, Grade::Good);
    engine.stop().await;
}
