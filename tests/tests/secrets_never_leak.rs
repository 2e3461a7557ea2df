//! The provider's key and the proxy's key come out nowhere: not in logs at any level, errors, command lines, the journal,
//! status, or an answer that the provider wrote around them.

use std::path::{Path, PathBuf};

use metaclaw_tests::agent::{Chat, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{PROXY_KEY, Product, UPSTREAM_KEY};
use metaclaw_tests::provider::{Provider, Reply, Stream};
use serde_json::json;

const CALLERS: &str = "sk-callers-own-canary-90ab";

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            all.extend(files(&entry.path()));
        } else if kind.is_file() {
            all.push(entry.path());
        }
    }
    all
}

#[tokio::test]
async fn whatever_happens() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({"log": {"level": "trace"}, "proxy": {"max_retries": 0}}));
    product.env("RUST_LOG", "trace");
    product.teach();
    product.start().await;
    let agent = product.agent();
    let mut said = Vec::new();

    // Good and bad requests, and a provider that repeats the key in its errors, as some do.
    let echo = format!("Incorrect API key provided: {UPSTREAM_KEY}. See your account.");
    for api in Api::ALL {
        said.push(agent.ask(api, &hello(api, "Zebrafish feeding in the aquarium?", true)).await.body.to_vec());
        provider.next(Reply::error(Api::Chat, 401, "invalid_request_error", &echo));
        said.push(agent.ask(api, &hello(api, "hi", false)).await.body.to_vec());
        provider.next(Reply::whole(502, "text/html", format!("<html><title>{echo}</title></html>")));
        said.push(agent.ask(api, &hello(api, "hi", true)).await.body.to_vec());
        provider.next(Stream::begin().bytes("data: {\"id\"").reset());
        if let Ok(mut coming) = agent.open("POST", api.path(), hello(api, "hi", true).to_string()).await {
            said.extend(coming.rest().await.ok().map(|b| b.to_vec()));
        }
        said.push(agent.post(api.path(), "{").await.body.to_vec());
    }
    let wrong = agent.without_header("authorization").with_header("authorization", &format!("Bearer {CALLERS}"));
    said.push(wrong.get("/v1/models").await.body.to_vec());
    said.push(agent.get("/v1/models").await.body.to_vec());
    said.push(agent.without_header("authorization").get(&format!("/k/{PROXY_KEY}/v1/models")).await.body.to_vec());
    said.push(agent.without_header("authorization").get(&format!("/k/{PROXY_KEY}/v1/nothing")).await.body.to_vec());
    said.push(
        agent.with_header("x-api-key", CALLERS).ask(Api::Chat, &hello(Api::Chat, "hi", false)).await.body.to_vec(),
    );

    let line = std::fs::read(format!("/proc/{}/cmdline", product.pid())).expect("its command line");
    said.push(line);
    for args in [
        &["status", "--json"][..],
        &["status"],
        &["doctor"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["config", "get", "llm.api_key"],
        &["config", "get", "proxy.api_key"],
        &["config", "validate"],
        &["turns", "--json"],
        &["turns", "show", "1", "--json"],
        &["turns", "show", "1"],
        &["turns", "show", "2", "--json"],
        &["sessions", "--json"],
        &["logs", "-n", "100000"],
    ] {
        said.push(product.cli(args).await.all().into_bytes());
    }
    product.stop().await;
    // A start that fails over the config must not show the lines around the mistake.
    let good = product.config();
    product.write_config(&good.replace("api_key: \"sk-", "api_key: [\"sk-"));
    product.spawn(&["start"]);
    let refused = product.ended().await;
    assert!(refused.code != 0, "{refused:#?}");
    said.push(refused.all().into_bytes());
    product.write_config(&good);
    // Nor must answers that are no YAML.
    let answers = product.folder().join("answers.yaml");
    for broken in [
        format!("provider: custom\napi_key: {UPSTREAM_KEY}\n  model: m1\n"),
        format!("provider: custom\napi_key: \"{UPSTREAM_KEY}\n"),
        format!("- {UPSTREAM_KEY}\n"),
    ] {
        std::fs::write(&answers, broken).expect("the answers");
        let refused = product.cli(&["setup", "--non-interactive", "--answers", &answers.display().to_string()]).await;
        assert_eq!(refused.code, 2, "{refused:#?}");
        said.push(refused.all().into_bytes());
    }
    std::fs::remove_file(&answers).expect("the answers go");

    let config = product.home().join("config.yaml");
    let outputs = said.iter().enumerate().map(|(n, text)| (format!("output {n}"), text.clone()));
    let written = files(product.folder())
        .into_iter()
        .filter(|p| *p != config)
        .map(|p| (p.display().to_string(), std::fs::read(&p).expect("a file")));
    let mut leaks = Vec::new();
    for (place, bytes) in outputs.chain(written) {
        for secret in [UPSTREAM_KEY, PROXY_KEY, CALLERS] {
            if let Some(at) = bytes.windows(secret.len()).position(|w| w == secret.as_bytes()) {
                let around = &bytes[at.saturating_sub(80)..bytes.len().min(at + 40)];
                leaks.push(format!("{place}: … {} …", String::from_utf8_lossy(around)));
            }
        }
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[tokio::test]
async fn what_is_written_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    Chat::new(Api::Chat).user("hi").send(&product.agent()).await;
    let said = product.cli(&["config", "set", "skills.top_k", "5"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    for change in [&["skills", "disable", "git-history"][..], &["skills", "undo"]] {
        let said = product.cli(change).await;
        assert_eq!(said.code, 0, "{said:#?}");
    }
    let mode = |path: &Path| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&product.home()), 0o700);
    for path in files(&product.home()) {
        if path.starts_with(product.home().join("skills")) {
            continue;
        }
        assert_eq!(mode(&path) & 0o077, 0, "{} has mode {:o}", path.display(), mode(&path));
    }
    assert_eq!(mode(&product.home().join("control.sock")) & 0o077, 0);
}

/// A secret on the command line would stand in the shell's history and in `ps`.
#[tokio::test]
async fn a_secret_is_not_taken_from_the_command_line() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    let before = product.config();
    let said = product.cli(&["config", "set", "llm.api_key", "sk-on-the-command-line"]).await;
    assert_eq!(said.code, 2, "{said:#?}");
    assert!(!said.all().contains("sk-on-the-command-line"), "{said:#?}");
    assert_eq!(product.config(), before);
    product.env("NEW_KEY", "sk-from-the-environment");
    let said = product.cli(&["config", "set", "llm.api_key", "--from-env", "NEW_KEY"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!said.all().contains("sk-from-the-environment"), "{said:#?}");
    assert!(product.config().contains("sk-from-the-environment") || product.config().contains("env:NEW_KEY"));
}
