//! Real agents, unmodified, with a provider that answers by script: Claude Code, Codex and OpenClaw talk through the
//! product, run a tool, and get the right skill. Each skips where it is not installed (`make peers` brings the first two).

use std::path::Path;

use metaclaw_tests::agent::blocks;
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::peers::{agent_command, peer, run_agent};
use metaclaw_tests::product::{MODEL, PROXY_KEY, Product, QUESTION};
use metaclaw_tests::provider::{Provider, Reply, Seen};
use rstest::rstest;
use serde_json::json;
use tokio::process::Command;

const FINAL: &str = "The note says: heron at dawn.";

/// Asks for one tool call, and ends once the tool's result is there. Anything but the main conversation gets a word.
fn tool_loop(provider: &Provider, call: (&'static str, String)) {
    provider.script(move |seen| {
        let text = seen.text();
        seen.api()?;
        if text.contains("heron at dawn") {
            return Some(Reply::text(FINAL));
        }
        if text.contains("zebrafish") && text.contains(&format!("\"{}\"", call.0)) {
            return Some(Reply::Answer(Answer::calls(&[(call.0, &call.1)])));
        }
        Some(Reply::text("ok"))
    });
}

/// The requests of the main conversation, which carry tools.
fn main_requests(provider: &Provider) -> Vec<std::sync::Arc<Seen>> {
    let with_tools = |s: &Seen| s.json()["tools"].as_array().is_some_and(|t| !t.is_empty());
    provider.seen().into_iter().filter(|s| with_tools(s) && s.text().contains("zebrafish")).collect()
}

async fn product(provider: &Provider, upstream: Api) -> Product {
    let mut product = Product::at(provider, &json!({"llm": {"dialect": upstream.config()}}));
    product.teach();
    product.start().await;
    std::fs::write(product.folder().join("note.txt"), "heron at dawn\n").expect("a note");
    product
}

fn folder(product: &Product, name: &str) -> std::path::PathBuf {
    let path = product.folder().join(name);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn claude(program: &Path, product: &Product) -> Command {
    let home = folder(product, "claude");
    let mut command = agent_command(program, &home);
    command
        .env("ANTHROPIC_BASE_URL", format!("http://{}", product.addr()))
        .env("ANTHROPIC_API_KEY", PROXY_KEY)
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("DISABLE_TELEMETRY", "1")
        .args(["-p", QUESTION, "--model", "claude-sonnet-4-6", "--output-format", "json", "--allowedTools", "Read"])
        .arg("--add-dir")
        .arg(product.folder());
    command
}

#[rstest]
#[tokio::test]
async fn claude_code_reads_a_file(#[values(Api::Messages, Api::Chat)] upstream: Api) {
    let Some(program) = peer("claude-code", "node_modules/.bin/claude") else { return };
    let provider = Provider::start().await;
    let product = product(&provider, upstream).await;
    let path = product.folder().join("note.txt");
    tool_loop(&provider, ("Read", json!({ "file_path": path }).to_string()));
    let out = run_agent(claude(&program, &product)).await;
    let said: serde_json::Value = serde_json::from_str(out.trim()).expect("JSON from the agent");
    assert_eq!(said["result"], FINAL, "{said:#}");
    one_turn_with_skill(&provider, &product).await;
}

#[rstest]
#[tokio::test]
async fn codex_runs_a_command(#[values(Api::Responses, Api::Chat)] upstream: Api) {
    let Some(program) = peer("codex", "node_modules/.bin/codex") else { return };
    let provider = Provider::start().await;
    let product = product(&provider, upstream).await;
    let home = folder(&product, "codex");
    let path = product.folder().join("note.txt");
    let call = json!({"command": ["cat", path], "cmd": format!("cat {}", path.display())});
    provider.script(move |seen| {
        let text = seen.text();
        let body = seen.json();
        let name = ["exec_command", "shell", "shell_command", "local_shell"].into_iter().find(|n| {
            body["tools"].as_array().into_iter().flatten().any(|t| t["name"] == *n || t["function"]["name"] == *n)
        });
        match (text.contains("heron at dawn"), name) {
            (true, _) => Some(Reply::text(FINAL)),
            (false, Some("shell_command")) => {
                Some(Reply::Answer(Answer::calls(&[("shell_command", &json!({"command": call["cmd"]}).to_string())])))
            }
            (false, Some(name)) => Some(Reply::Answer(Answer::calls(&[(name, &call.to_string())]))),
            (false, None) => Some(Reply::text("ok")),
        }
    });
    let mut command = agent_command(&program, &home);
    let model_provider = format!(
        "model_providers.metaclaw={{name=\"MetaClaw\",base_url=\"http://{}/v1\",wire_api=\"responses\",env_key=\"METACLAW_KEY\"}}",
        product.addr()
    );
    command.env("METACLAW_KEY", PROXY_KEY).args([
        "exec",
        "--json",
        "--ephemeral",
        "--skip-git-repo-check",
        "-s",
        "danger-full-access",
    ]);
    command.args(["-m", MODEL, "-c", "model_provider=metaclaw", "-c", &model_provider]);
    command.args(["-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false", QUESTION]);
    let out = run_agent(command).await;
    assert!(out.contains(FINAL), "{out}");
    one_turn_with_skill(&provider, &product).await;
}

#[rstest]
#[case::chat("openai-completions", Api::Chat, Api::Chat)]
#[case::chat_on_anthropic("openai-completions", Api::Chat, Api::Messages)]
#[case::responses("openai-responses", Api::Responses, Api::Responses)]
#[case::messages("anthropic-messages", Api::Messages, Api::Messages)]
#[tokio::test]
async fn openclaw_takes_a_turn(#[case] kind: &str, #[case] api: Api, #[case] upstream: Api) {
    let Some(program) = peer("openclaw", "app/node_modules/.bin/openclaw") else { return };
    let Some(node) = peer("openclaw", "node/node_modules/.bin/node") else { return };
    let provider = Provider::start().await;
    provider.script(|seen| seen.api().map(|_| Reply::text(FINAL)));
    let product = product(&provider, upstream).await;
    let home = folder(&product, "openclaw");
    let base = if api == Api::Messages {
        format!("http://{}", product.addr())
    } else {
        format!("http://{}/v1", product.addr())
    };
    let compat = if api == Api::Chat { json!({"sendSessionAffinityHeaders": true}) } else { json!({}) };
    let model = json!({"id": "m1", "name": "MetaClaw m1", "reasoning": false, "input": ["text"], "contextWindow": 200_000,
                       "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "maxTokens": 8192, "compat": compat});
    let config = json!({
        "models": {"mode": "merge", "catalogRefresh": {"enabled": false}, "providers": {"metaclaw": {
            "api": kind, "baseUrl": base, "apiKey": PROXY_KEY, "timeoutSeconds": 100, "models": [model]}}},
        "agents": {"defaults": {"model": {"primary": "metaclaw/m1"}}},
        "update": {"checkOnStart": false},
    });
    std::fs::create_dir_all(home.join(".openclaw")).expect("a folder");
    std::fs::write(home.join(".openclaw/openclaw.json"), config.to_string()).expect("its config");
    let mut command = agent_command(&program, &home);
    let path = format!("{}:/usr/bin:/bin", node.parent().expect("a folder").display());
    command.env("PATH", path).args(["agent", "exec", QUESTION, "--json", "--cwd"]).arg(&home);
    let out = run_agent(command).await;
    assert!(out.contains(FINAL), "{out}");
    assert!(provider.seen().iter().all(|s| s.api() == Some(upstream)));
    let turns = product.turns().await;
    let main: Vec<_> = turns.iter().filter(|t| t["kind"] == "main").collect();
    assert_eq!(main.len(), 1, "{turns:#?}");
    assert!(main[0]["user_text"].as_str().is_some_and(|t| t.trim() == QUESTION), "{:#}", main[0]);
    let request = main_requests(&provider).pop().expect("the main request");
    assert_eq!(blocks(request.text()), 1, "{}", request.text());
}

/// One session, one user turn of two steps, one block in each request, placed in the user's message.
async fn one_turn_with_skill(provider: &Provider, product: &Product) {
    let requests = main_requests(provider);
    assert!(requests.len() >= 2, "{} main requests", requests.len());
    for request in &requests {
        assert_eq!(blocks(request.text()), 1, "{}", request.text());
    }
    let turns = product.turns().await;
    let main: Vec<_> = turns.iter().filter(|t| t["kind"] == "main").collect();
    assert_eq!(main.len(), requests.len(), "{turns:#?}");
    assert!(main.iter().all(|t| t["session"] == main[0]["session"] && t["turn"] == 1), "{turns:#?}");
    assert!(main.iter().all(|t| t["outcome"] == "ok"), "{turns:#?}");
}
