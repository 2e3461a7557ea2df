//! The engine from start to stop, spoken to as the command line speaks to it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::Path;
use std::time::Duration;

use config::Home;
use http::Method;
use metaclaw_engine as engine;
use metaclaw_engine::api::{
    ConfigFinding, Event, ServiceState, Setting, SettingValue, Settings, SetupAnswers, SetupReport, Status,
};
use metaclaw_engine::client::Client;
use metaclaw_engine::{Cold, End, Engine, StartError, StartOptions, lock};
use serde_json::{Value, json};

const CONFIG: &str = "# mine\nmode: skills_only\nproxy:\n  port: 0\n  api_key: mc-test-key-of-the-proxy\n";

fn options(dir: &Path) -> StartOptions {
    StartOptions::new(Home::at(dir))
}

async fn start(dir: &Path) -> Engine {
    if !dir.join("config.yaml").exists() {
        std::fs::write(dir.join("config.yaml"), CONFIG).unwrap();
    }
    Engine::start(options(dir)).await.unwrap()
}

async fn socket(dir: &Path) -> Client {
    Client::socket(&Home::at(dir).socket_path()).await.unwrap()
}

#[tokio::test]
async fn a_service_answers_on_its_socket_and_leaves_a_clean_home() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let api = socket(dir.path()).await;
    let status: Status = api.get("/api/v1/status").await.unwrap();
    assert_eq!(status.state, ServiceState::FirstRun);
    assert_eq!(status.pid, Some(std::process::id()));
    assert!(engine::health::answers(([127, 0, 0, 1], status.port).into()).await);
    assert!(dir.path().join(format!("metaclaw_{}.pid", status.port)).exists());
    let holder = lock::holder(&Home::at(dir.path()).lock_path()).unwrap().unwrap();
    assert_eq!((holder.pid, holder.port), (std::process::id(), status.port));

    let _: Value = api.call::<(), _>(Method::POST, "/api/v1/stop", None).await.unwrap();
    assert_eq!(engine.ended().await, End::Stop);
    engine.stop().await;
    assert_eq!(lock::holder(&Home::at(dir.path()).lock_path()), None);
    assert!(!dir.path().join("control.sock").exists());
    assert!(!dir.path().join(format!("metaclaw_{}.pid", status.port)).exists());
}

#[tokio::test]
async fn a_second_start_names_the_holder_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let port = engine.status().port;
    match Engine::start(options(dir.path())).await {
        Err(StartError::Lock(lock::LockError::Held(Some(holder)))) => assert_eq!(holder.port, port),
        other => panic!("{other:?}"),
    }
    assert!(engine::health::answers(([127, 0, 0, 1], port).into()).await);
    let status: Status = socket(dir.path()).await.get("/api/v1/status").await.unwrap();
    assert_eq!(status.port, port);
    engine.stop().await;
}

#[tokio::test]
async fn a_port_of_another_program_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.yaml"), format!("proxy:\n  port: {port}\n")).unwrap();
    let error = Engine::start(options(dir.path())).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("port {port} is taken by")), "{error}");
    assert_eq!(lock::holder(&Home::at(dir.path()).lock_path()), None);
}

#[tokio::test]
async fn without_a_config_a_first_one_is_written_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let overrides = engine::Overrides { port: Some(0), ..engine::Overrides::default() };
    let engine = Engine::start(StartOptions { overrides, ..options(dir.path()) }).await.unwrap();
    let status = engine.status();
    assert_eq!((status.state, status.key_required), (ServiceState::FirstRun, true));
    assert!(std::fs::read_to_string(dir.path().join("config.yaml")).unwrap().contains("api_key: mc-"));
    engine.stop().await;
}

#[tokio::test]
async fn a_broken_edit_keeps_the_last_good_settings_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let api = socket(dir.path()).await;
    let put = SettingValue { value: json!("first-model") };
    let now: Setting = api.call(Method::PUT, "/api/v1/config/llm.model_id", Some(&put)).await.unwrap();
    assert_eq!(now.value, "first-model");
    let file = dir.path().join("config.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    assert!(good.starts_with("# mine\n"));
    std::fs::write(&file, good.replace("skills_only", "sideways")).unwrap();
    let broken = async {
        loop {
            let status: Status = api.get("/api/v1/status").await.unwrap();
            if let Some(problem) = status.config_problem {
                return problem;
            }
            tokio::task::yield_now().await;
        }
    };
    let problem = tokio::time::timeout(Duration::from_secs(20), broken).await.unwrap();
    assert!(problem.contains("mode"), "{problem}");
    let now: Setting = api.get("/api/v1/config/llm.model_id").await.unwrap();
    assert_eq!(now.value, "first-model");
    // Another setting of a file with a mistake elsewhere can be changed; the mistake stays, and so do the settings in force.
    let put = SettingValue { value: json!("second-model") };
    let now: Setting = api.call(Method::PUT, "/api/v1/config/llm.model_id", Some(&put)).await.unwrap();
    assert_eq!(now.value, "first-model");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("second-model") && text.contains("sideways"), "{text}");
    engine.stop().await;
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let findings: Settings = cold.get("/api/v1/config").await.unwrap();
    assert!(findings.findings.iter().any(|finding| finding.severity == "error"));
}

#[tokio::test]
async fn events_that_matter_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    engine.stop().await;
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let events: Vec<Event> = cold.get("/api/v1/events").await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["service_stopping", "service_started"]);
}

#[tokio::test]
async fn answers_change_only_what_they_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.yaml"), format!("{CONFIG}wechat:\n  enabled: true # kept\n")).unwrap();
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let answers = SetupAnswers {
        answers: json!({"provider": "kimi", "api_key": "sk-answered-key"}).as_object().unwrap().clone(),
        dry_run: true,
        test: false,
    };
    let before = std::fs::read_to_string(dir.path().join("config.yaml")).unwrap();
    let report: SetupReport = cold.call(Method::POST, "/api/v1/setup", Some(&answers)).await.unwrap();
    assert!(!report.written && report.missing.is_none());
    assert!(!format!("{report:?}").contains("sk-answered-key"));
    assert_eq!(std::fs::read_to_string(dir.path().join("config.yaml")).unwrap(), before);
    let answers = SetupAnswers { dry_run: false, ..answers };
    let report: SetupReport = cold.call(Method::POST, "/api/v1/setup", Some(&answers)).await.unwrap();
    assert!(report.written);
    let after = std::fs::read_to_string(dir.path().join("config.yaml")).unwrap();
    for kept in ["# mine", "mc-test-key-of-the-proxy", "enabled: true # kept", "provider: kimi", "sk-answered-key"] {
        assert!(after.contains(kept), "{kept} is missing:\n{after}");
    }
}

#[tokio::test]
async fn one_entry_of_a_map_is_changed_without_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{CONFIG}llm:\n  headers:\n    X-First: sk-first-header\n  model_map: {{gpt-4o: big}}\n");
    std::fs::write(dir.path().join("config.yaml"), text).unwrap();
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let put = SettingValue { value: json!("sk-second-header") };
    let now: Setting = cold.call(Method::PUT, "/api/v1/config/llm.headers.X-Second", Some(&put)).await.unwrap();
    assert_eq!((now.key.as_str(), now.secret, now.value), ("llm.headers.X-Second", true, json!("(set)")));
    let put = SettingValue { value: json!("small") };
    let now: Setting = cold.call(Method::PUT, "/api/v1/config/llm.model_map.gpt-4o-mini", Some(&put)).await.unwrap();
    assert_eq!(now.value, "small");
    let _: Setting = cold.call::<(), _>(Method::DELETE, "/api/v1/config/llm.model_map.gpt-4o", None).await.unwrap();
    let text = std::fs::read_to_string(dir.path().join("config.yaml")).unwrap();
    for kept in ["X-First: sk-first-header", "X-Second: sk-second-header", "gpt-4o-mini: small"] {
        assert!(text.contains(kept), "{kept} is missing:\n{text}");
    }
    assert!(!text.contains("big"), "{text}");
}

#[tokio::test]
async fn skills_may_have_the_names_of_commands() {
    let dir = tempfile::tempdir().unwrap();
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    for name in ["log", "search", "undo", "validate"] {
        let text = format!("---\nname: {name}\ndescription: Does {name}. Use when asked.\n---\n\nBody.\n");
        let add = engine::api::SkillAdd { path: None, text: Some(text), replace: false };
        let _: Value = cold.call(Method::POST, "/api/v1/skills", Some(&add)).await.unwrap();
        let path = format!("/api/v1/skills/{name}");
        let skill: engine::api::Skill = cold.get(&path).await.unwrap();
        assert_eq!(skill.row.name, name);
        let _: Value = cold.call::<(), _>(Method::DELETE, &path, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_restart_that_would_not_come_back_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let (api, file) = (socket(dir.path()).await, dir.path().join("config.yaml"));
    let restart = async || api.call::<(), Value>(Method::POST, "/api/v1/restart", None).await;
    std::fs::write(&file, format!("{CONFIG}  nonsense: [\n")).unwrap();
    let refused = restart().await.unwrap_err();
    assert_eq!(refused.code, engine::api::Code::Invalid);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    std::fs::write(&file, CONFIG.replace("port: 0", &format!("port: {port}"))).unwrap();
    let refused = restart().await.unwrap_err();
    assert_eq!(refused.code, engine::api::Code::Conflict);
    assert!(refused.message.contains(&port.to_string()), "{refused:?}");
    assert!(engine::health::answers(([127, 0, 0, 1], engine.status().port).into()).await);
    std::fs::write(&file, CONFIG).unwrap();
    restart().await.unwrap();
    assert_eq!(engine.ended().await, End::Restart);
    let late = api.call::<(), Value>(Method::POST, "/api/v1/stop", None).await.unwrap_err();
    assert_eq!(late.code, engine::api::Code::Conflict, "a wish that does not count is not taken: {late:?}");
    engine.stop().await;
}

#[tokio::test]
async fn a_removed_control_socket_comes_back_and_is_told_apart_from_no_service() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let socket = Home::at(dir.path()).socket_path();
    std::fs::remove_file(&socket).unwrap();
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let status: Status = cold.get("/api/v1/status").await.unwrap();
    assert_eq!((status.state, status.pid), (ServiceState::Unreachable, Some(std::process::id())));
    assert_eq!(status.port, engine.status().port);
    let back = async {
        while Client::socket(&socket).await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), back).await.unwrap();
    engine.stop().await;
    let status: Status = cold.get("/api/v1/status").await.unwrap();
    assert_eq!(status.state, ServiceState::Stopped);
}

#[tokio::test]
async fn the_log_of_the_last_run_is_found_where_that_run_wrote_it() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.log");
    std::fs::write(&other, "of the last run\n").unwrap();
    std::fs::write(dir.path().join("config.yaml"), CONFIG).unwrap();
    let engine = Engine::start(StartOptions { log_file: other.clone(), ..options(dir.path()) }).await.unwrap();
    engine.stop().await;
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let page: engine::api::LogLines = cold.get("/api/v1/logs?lines=5").await.unwrap();
    assert_eq!(page.lines, ["of the last run"]);
}

#[tokio::test]
async fn a_test_of_the_same_server_uses_its_key_and_another_server_never_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (Listed::start().await, Listed::start().await);
    let text = format!(
        "{CONFIG}llm:\n  provider: custom\n  api_base: {}\n  api_key: sk-kept-key\n  headers: {{X-Org: sk-org}}\n",
        ours.base()
    );
    std::fs::write(dir.path().join("config.yaml"), text).unwrap();
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    for (server, base, gets) in [(&ours, ours.base(), true), (&other, other.base(), false)] {
        let test = engine::api::ProviderTest {
            provider: Some("custom".into()),
            api_base: Some(base.replace("/v1", "/")),
            models_only: true,
            ..engine::api::ProviderTest::default()
        };
        let report: engine::api::ProviderReport =
            cold.call(Method::POST, "/api/v1/providers/test", Some(&test)).await.unwrap();
        assert!(report.ok, "{report:?}");
        let head = server.heard().to_lowercase();
        assert_eq!(head.contains("bearer sk-kept-key"), gets, "{head}");
        assert_eq!(head.contains("sk-org"), gets, "{head}");
    }
}

/// A server that lists one model and keeps the last head it heard.
struct Listed {
    addr: std::net::SocketAddr,
    head: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Listed {
    async fn start() -> Self {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let head = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let kept = std::sync::Arc::clone(&head);
        let serve = async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut heard = Vec::new();
                while !heard.ends_with(b"\r\n\r\n") {
                    heard.push(stream.read_u8().await.unwrap());
                }
                *kept.lock().unwrap() = String::from_utf8(heard).unwrap();
                let body = r#"{"data":[{"id":"m"}]}"#;
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        };
        tokio_util::task::TaskTracker::new().spawn(serve);
        Self { addr, head }
    }

    fn base(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    fn heard(&self) -> String {
        self.head.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn secrets_are_shown_only_when_asked_for_by_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.yaml"), CONFIG).unwrap();
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let all: Value = cold.get("/api/v1/config").await.unwrap();
    assert!(!all.to_string().contains("mc-test-key"));
    let one: Setting = cold.get("/api/v1/config/proxy.api_key").await.unwrap();
    assert_eq!(one.value, "(set)");
    let one: Setting = cold.get("/api/v1/config/proxy.api_key?reveal=true").await.unwrap();
    assert_eq!(one.value, "mc-test-key-of-the-proxy");
}

#[tokio::test]
async fn problems_have_one_shape() {
    let dir = tempfile::tempdir().unwrap();
    let cold = Client::inside(Cold::open(Home::at(dir.path()), None).router());
    let codes = [
        ("/api/v1/nothing", engine::api::Code::NotFound),
        ("/api/v1/turns/7", engine::api::Code::NotFound),
        ("/api/v1/turns?limit=many", engine::api::Code::Invalid),
        ("/api/v1/config/llm.modle_id", engine::api::Code::NotFound),
        ("/api/v1/skills/none", engine::api::Code::NotFound),
        ("/api/v1/events/stream", engine::api::Code::NotRunning),
    ];
    for (path, code) in codes {
        let problem = cold.get::<Value>(path).await.unwrap_err();
        assert_eq!(problem.code, code, "{path}: {problem:?}");
    }
    let wrong =
        cold.call::<_, Vec<ConfigFinding>>(Method::POST, "/api/v1/config/validate", Some(&json!({"text": 1}))).await;
    assert_eq!(wrong.unwrap_err().code, engine::api::Code::Invalid);
}
