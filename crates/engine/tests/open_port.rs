//! A port that others in the network can reach never stands open: what it was bound to decides, not what the config file
//! says by now.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::Path;

use config::Home;
use http::Method;
use metaclaw_engine::api::{Check, Setting, SettingValue, Status};
use metaclaw_engine::client::Client;
use metaclaw_engine::{Engine, StartOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const KEY: &str = "mc-test-key-of-the-proxy";

async fn start(dir: &Path, host: &str, key: &str) -> (Engine, Client) {
    let text = format!(
        "mode: skills_only\nllm:\n  provider: custom\n  api_base: http://127.0.0.1:9/v1\n  model_id: m\n\
         proxy:\n  host: {host}\n  port: 0\n  api_key: \"{key}\"\n"
    );
    std::fs::write(dir.join("config.yaml"), text).unwrap();
    let engine = Engine::start(StartOptions::new(Home::at(dir))).await.unwrap();
    let api = Client::socket(&Home::at(dir).socket_path()).await.unwrap();
    (engine, api)
}

/// The status line of a request with a Host header of the caller's choice, as somebody in the network would send it.
async fn asked(port: u16, host: &str, key: Option<&str>) -> String {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let head = format!("GET /v1/models HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{key}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_key_of_an_open_port_cannot_be_removed_while_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, api) = start(dir.path(), "0.0.0.0", KEY).await;
    let port = engine.status().port;
    let forged = format!("127.0.0.1:{port}");
    assert!(asked(port, &forged, None).await.contains(" 401 "));
    // By the command, then by hand with the host taken back as well: both leave the socket where it is.
    let _: Setting = api.call::<(), _>(Method::DELETE, "/api/v1/config/proxy.api_key", None).await.unwrap();
    let host = SettingValue { value: json!("127.0.0.1") };
    for step in 0..2 {
        if step == 1 {
            let _: Setting = api.call(Method::PUT, "/api/v1/config/proxy.host", Some(&host)).await.unwrap();
        }
        assert!(asked(port, &forged, None).await.contains(" 401 "), "step {step}");
        assert!(asked(port, &forged, Some("another")).await.contains(" 401 "), "step {step}");
        assert!(!asked(port, &forged, Some(KEY)).await.contains(" 401 "), "the old key still counts, step {step}");
        let status: Status = api.get("/api/v1/status").await.unwrap();
        assert!(status.key_required);
        assert!(status.restart_for.contains(&"proxy.api_key".to_owned()), "{status:?}");
        assert!(status.listen_note.unwrap().contains("was removed"));
        let checks: Vec<Check> = api.get("/api/v1/doctor").await.unwrap();
        let key = checks.iter().find(|check| check.id == "key").unwrap();
        assert!(key.message.contains("was removed") && !key.message.contains("only this machine can reach port"));
    }
    // Another key counts at once.
    let key = SettingValue { value: json!("mc-another-key-of-the-proxy") };
    let _: Setting = api.call(Method::PUT, "/api/v1/config/proxy.api_key", Some(&key)).await.unwrap();
    assert!(asked(port, &forged, Some(KEY)).await.contains(" 401 "));
    assert!(!asked(port, &forged, Some("mc-another-key-of-the-proxy")).await.contains(" 401 "));
    engine.stop().await;
}

#[tokio::test]
async fn a_loopback_port_is_not_taken_for_an_open_one() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, api) = start(dir.path(), "127.0.0.1", KEY).await;
    let port = engine.status().port;
    let host = SettingValue { value: json!("0.0.0.0") };
    let _: Setting = api.call(Method::PUT, "/api/v1/config/proxy.host", Some(&host)).await.unwrap();
    // Addresses of the network are served on a port of the network only.
    assert!(asked(port, &format!("192.168.1.7:{port}"), Some(KEY)).await.contains(" 403 "));
    let _: Setting = api.call::<(), _>(Method::DELETE, "/api/v1/config/proxy.api_key", None).await.unwrap();
    assert!(!asked(port, &format!("127.0.0.1:{port}"), None).await.contains(" 401 "));
    assert!(!api.get::<Status>("/api/v1/status").await.unwrap().key_required);
    engine.stop().await;
}
