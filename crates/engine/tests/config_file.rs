//! What may happen to the config file of a running service: half saved, lost for a moment, replaced by something that is no
//! file. Agents go on being served as before, and it is told.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::Path;
use std::time::Duration;

use config::Home;
use http::Method;
use metaclaw_engine::api::{Check, ConfigCheck, ConfigFinding, Grade, Setting, SettingValue, Settings, Status};
use metaclaw_engine::client::Client;
use metaclaw_engine::{Engine, StartOptions, health};
use serde_json::json;

const CONFIG: &str = "mode: skills_only\nllm:\n  provider: custom\n  api_base: http://127.0.0.1:9/v1\n  model_id: m\n  \
                      api_key: sk-test\nproxy:\n  port: 0\n  api_key: mc-test-key-of-the-proxy\n";

async fn start(dir: &Path) -> (Engine, Client) {
    std::fs::write(dir.join("config.yaml"), CONFIG).unwrap();
    let engine = Engine::start(StartOptions::new(Home::at(dir))).await.unwrap();
    let api = Client::socket(&Home::at(dir).socket_path()).await.unwrap();
    (engine, api)
}

/// The status as soon as it is as it should be.
async fn until(api: &Client, good: impl Fn(&Status) -> bool) -> Status {
    let looking = async {
        loop {
            let status: Status = api.get("/api/v1/status").await.unwrap();
            if good(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looking).await.unwrap()
}

fn is_held(status: &Status) -> bool {
    status.warnings.iter().any(|warning| warning.contains("no longer says"))
}

#[tokio::test]
async fn a_file_that_is_empty_for_a_moment_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, api) = start(dir.path()).await;
    let file = dir.path().join("config.yaml");
    let (head, _) = CONFIG.split_once("proxy:").unwrap();
    for (half, lost) in [("", "anything"), (head, "proxy.api_key"), ("mode: skills_only\n", "llm.api_key")] {
        std::fs::write(&file, half).unwrap();
        let status = until(&api, is_held).await;
        assert!(status.key_required && status.configured, "{half:?}: {status:?}");
        assert!(status.warnings[0].contains(lost), "{half:?}: {:?}", status.warnings);
        let checks: Vec<Check> = api.get("/api/v1/doctor").await.unwrap();
        let check = checks.iter().find(|check| check.id == "config").unwrap();
        assert!(check.grade == Grade::Warn && check.message.contains("no longer says"), "{check:?}");
        std::fs::write(&file, CONFIG).unwrap();
        let status = until(&api, |status| !is_held(status)).await;
        assert!(status.key_required && status.configured, "{half:?}: {status:?}");
    }
    // What a person says through us is meant, and counts at once.
    let _: Setting = api.call::<(), _>(Method::DELETE, "/api/v1/config/llm.api_key", None).await.unwrap();
    assert!(!is_held(&api.get("/api/v1/status").await.unwrap()));
    engine.stop().await;
}

#[tokio::test]
async fn a_file_that_stays_without_its_provider_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, api) = start(dir.path()).await;
    std::fs::write(dir.path().join("config.yaml"), "mode: skills_only\n").unwrap();
    let status = until(&api, is_held).await;
    assert!(status.configured);
    let status = until(&api, |status| !status.configured).await;
    assert!(!is_held(&status), "{:?}", status.warnings);
    engine.stop().await;
}

#[tokio::test]
async fn a_pipe_or_a_device_in_its_place_freezes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, api) = start(dir.path()).await;
    let file = dir.path().join("config.yaml");
    let addr = ([127, 0, 0, 1], engine.status().port).into();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for special in [pipe.as_path(), Path::new("/dev/zero")] {
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(special, &file).unwrap();
        let status = until(&api, |status| status.config_problem.is_some()).await;
        assert!(status.config_problem.unwrap().contains("no regular file") && status.configured);
        let found: Vec<ConfigFinding> =
            api.call(Method::POST, "/api/v1/config/validate", Some(&ConfigCheck::default())).await.unwrap();
        assert_eq!(found[0].severity, "error");
        assert!(health::answers(addr).await);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, CONFIG).unwrap();
        until(&api, |status| status.config_problem.is_none()).await;
        let put = SettingValue { value: json!("another") };
        let now: Setting = api.call(Method::PUT, "/api/v1/config/llm.model_id", Some(&put)).await.unwrap();
        assert_eq!(now.value, "another");
    }
    let settings: Settings = api.get("/api/v1/config").await.unwrap();
    assert!(settings.exists);
    engine.stop().await;
}
