//! The command: first run to last, every answer also as JSON, documented exit codes, errors that say what to do.

use std::process::Stdio;

use metaclaw_tests::agent::{Chat, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{MODEL, Product, QUESTION, SKILL};
use metaclaw_tests::provider::Provider;
use rstest::rstest;
use serde_json::json;
use tokio::io::AsyncWriteExt;

/// A fresh machine: setup from a file, start in the background, one turn, stop.
#[tokio::test]
async fn from_setup_to_stop_on_a_fresh_machine() {
    let provider = Provider::start().await;
    let product = Product::bare();
    let answers = product.folder().join("answers.yaml");
    let text = format!(
        "provider: custom\nbase_url: {}\napi_key: sk-answers-canary\nmodel: {MODEL}\nport: {}\n",
        provider.base(),
        product.port()
    );
    std::fs::write(&answers, text).expect("the answers");
    let path = answers.display().to_string();
    let said = product.cli(&["setup", "--non-interactive", "--answers", &path]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!said.all().contains("sk-answers-canary"), "{said:#?}");
    assert_eq!(provider.seen().len(), 1, "setup makes one test call");

    let said = product.cli(&["start", "--daemon"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    let config = product.config();
    let key = product.cli(&["config", "get", "proxy.api_key", "--reveal"]).await.out.trim().to_owned();
    assert!(key.len() >= 20, "no proxy key was made: {config}");
    let agent = product.agent().without_header("authorization");
    assert_eq!(agent.get("/v1/models").await.status(), 401);
    let agent = agent.with_header("authorization", &format!("Bearer {key}"));
    Chat::new(Api::Chat).user("hi").send(&agent).await;
    assert_eq!(product.turns().await.len(), 1);
    assert_eq!(product.cli(&["stop"]).await.code, 0);

    // Setup once more changes what is asked, and drops nothing.
    std::fs::write(product.home().join("config.yaml"), format!("{config}\n# mine\n")).expect("the config");
    std::fs::write(&answers, "model: second-model\n").expect("the answers");
    let said = product.cli(&["setup", "--non-interactive", "--answers", &path, "--no-test"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    let now = product.config();
    assert!(now.contains("# mine") && now.contains("second-model") && now.contains(&key), "{now}");
}

#[rstest]
#[case::status(&["status"])]
#[case::sessions(&["sessions"])]
#[case::turns(&["turns"])]
#[case::turn(&["turns", "show", "1"])]
#[case::skills(&["skills", "list"])]
#[case::skill(&["skills", "show", SKILL])]
#[case::search(&["skills", "search", "zebrafish", "aquarium"])]
#[case::check(&["skills", "validate"])]
#[case::config(&["config", "show"])]
#[case::key(&["config", "get", "llm.model_id"])]
#[case::path(&["config", "path"])]
#[case::doctor(&["doctor", "--offline"])]
#[case::logs(&["logs"])]
#[tokio::test]
async fn every_answer_is_there_as_json_and_as_text(#[case] args: &[&str], #[values(true, false)] running: bool) {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    product.teach();
    product.start().await;
    Chat::new(Api::Chat).user(QUESTION).send(&product.agent()).await;
    if !running {
        product.stop().await;
    }
    let text = product.cli(args).await;
    let json = product.cli(&[args, &["--json"]].concat()).await;
    let down = args == ["status"] && !running;
    if args[0] != "doctor" {
        assert_eq!((text.code, json.code), if down { (3, 3) } else { (0, 0) }, "{text:#?}\n{json:#?}");
    }
    assert!(!text.out.trim().is_empty() || down, "{text:#?}");
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap_or_else(|e| panic!("{e}: {json:#?}"));
    assert!(!value.is_null());
    assert!(!text.all().contains("panicked") && !json.all().contains("panicked"));
}

#[rstest]
#[case::no_verb(&[], 2)]
#[case::unknown_verb(&["dance"], 2)]
#[case::unknown_flag(&["status", "--dance"], 2)]
#[case::unknown_key(&["config", "get", "no.such.key"], 5)]
#[case::unknown_turn(&["turns", "show", "999"], 5)]
#[case::unknown_skill(&["skills", "show", "no-such-skill"], 5)]
#[case::not_running(&["stop"], 3)]
#[case::wrong_value(&["config", "set", "proxy.port", "many"], 2)]
#[tokio::test]
async fn exit_codes_are_as_documented(#[case] args: &[&str], #[case] code: i32) {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    let said = product.cli(args).await;
    assert_eq!(said.code, code, "{said:#?}");
    assert!(!said.err.trim().is_empty(), "nothing was said: {said:#?}");
}

/// Nobody is there to be asked: the service comes up, says what is missing, and so does every answer to an agent.
#[tokio::test]
async fn a_start_on_a_fresh_machine_says_what_to_do() {
    let mut product = Product::bare();
    let port = product.port().to_string();
    product.spawn(&["start", "--port", &port]);
    product.healthy().await.expect("it starts");
    let key = product.cli(&["config", "get", "proxy.api_key", "--reveal"]).await.out.trim().to_owned();
    let agent = product.agent().without_header("authorization").with_header("x-api-key", &key);
    let got = agent.ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert_eq!(got.status(), 503, "{}", got.text());
    assert!(got.json()["error"]["message"].as_str().is_some_and(|m| m.contains("metaclaw setup")), "{}", got.text());
    assert!(product.cli(&["status"]).await.all().contains("metaclaw setup"));
    assert_eq!(product.stop().await.code, 0);
    assert!(product.output("err").contains("metaclaw setup"), "{}", product.output("err"));
}

#[rstest]
#[tokio::test]
async fn skills_are_switched_added_and_taken_away(#[values(true, false)] running: bool) {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    product.teach();
    if running {
        product.start().await;
    }
    let ok = async |args: &[&str]| {
        let said = product.cli(args).await;
        assert_eq!(said.code, 0, "{args:?}: {said:#?}");
        said.out
    };
    let search = ["skills", "search", "zebrafish", "aquarium", "feeding"];
    assert!(ok(&search).await.contains(SKILL));
    ok(&["skills", "disable", SKILL]).await;
    assert!(!ok(&search).await.contains(SKILL));
    ok(&["skills", "enable", SKILL]).await;
    assert!(ok(&search).await.contains(SKILL));
    ok(&["skills", "remove", SKILL]).await;
    assert!(!product.home().join("skills").join(SKILL).exists());
    ok(&["skills", "undo"]).await;
    assert!(product.home().join("skills").join(SKILL).join("SKILL.md").exists());

    let outside = product.folder().join("outside/river-otters");
    std::fs::create_dir_all(&outside).expect("a folder");
    std::fs::write(
        outside.join("SKILL.md"),
        "---\nname: river-otters\ndescription: Watching river otters.\n---\nQuietly.\n",
    )
    .expect("a file");
    ok(&["skills", "add", &outside.display().to_string()]).await;
    assert!(ok(&["skills", "show", "river-otters"]).await.contains("Quietly."));
    let said = product.cli(&["skills", "add", "/no/such/folder"]).await;
    assert!(said.code != 0 && said.err.contains("/no/such/folder"), "{said:#?}");
}

#[tokio::test]
async fn a_secret_can_come_from_standard_input() {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    let mut command = product.command(["config", "set", "llm.api_key", "--stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(b"sk-typed-canary\n").await.expect("a key");
    drop(input);
    let output = metaclaw_tests::within("the command ends", child.wait_with_output()).await.expect("an output");
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("sk-typed-canary"));
    assert!(product.config().contains("sk-typed-canary"));
}

#[rstest]
#[tokio::test]
async fn completion_scripts_are_printed(#[values("bash", "zsh", "fish", "powershell", "elvish")] shell: &str) {
    let said = Product::bare().cli(&["completion", shell]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(said.out.contains("metaclaw") && said.out.contains("sessions"), "{}", said.out);
}

#[tokio::test]
async fn man_pages_are_written_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("man");
    let said = Product::bare().cli(&["man", folder.to_str().unwrap()]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    for page in ["metaclaw.1", "metaclaw-start.1", "metaclaw-memory-search.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap_or_default();
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
}

#[tokio::test]
async fn turns_show_tells_what_was_added() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    product.teach();
    product.start().await;
    let body = hello(Api::Chat, QUESTION, false).to_string();
    product.agent().post(Api::Chat.path(), &body).await;
    let id = product.turns().await[0]["id"].to_string();
    let text = product.cli(&["turns", "show", &id]).await.out;
    for part in [QUESTION, SKILL, "28.5 degrees", "This is reply", "+"] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

/// The version and the help are there without a home, and quick.
#[tokio::test]
async fn help_and_version_need_nothing() {
    let product = Product::bare();
    for args in [&["--version"][..], &["--help"], &["start", "--help"], &["turns", "show", "--help"]] {
        let said = product.cli(args).await;
        assert_eq!(said.code, 0, "{said:#?}");
        assert!(said.out.contains("metaclaw") || said.out.contains("Usage"), "{said:#?}");
    }
    assert!(!product.home().exists(), "help made a home folder");
}

/// Keys of digits, other providers, and what belonged to the one before.
#[tokio::test]
async fn answers_are_written_as_they_were_given_and_another_provider_gets_nothing_of_the_old_one() {
    let provider = Provider::start().await;
    let product = Product::at(
        &provider,
        &json!({"llm": {"provider": "openai", "api_base": null, "auth_method": "passthrough", "model_id": "gpt-4o",
                        "dialect": null, "model_map": {"gpt-4o": "gpt-4o-mini"}, "headers": {"X-Org": "sk-org-canary"}}}),
    );
    let answers = product.folder().join("answers.yaml");
    let text = format!("provider: custom\nbase_url: {}\napi_key: 0123456\nmodel: 1e5\n", provider.base());
    std::fs::write(&answers, text).expect("the answers");
    let path = answers.display().to_string();
    let said = product.cli(&["setup", "--non-interactive", "--answers", &path]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    let tested = provider.last();
    assert_eq!(tested.head.header("authorization"), Some("Bearer 0123456"));
    assert_eq!(tested.head.header("x-org"), None);
    assert_eq!(tested.json()["model"], "1e5");
    let mut product = product;
    product.start().await;
    assert_eq!(product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await.status(), 200);
    let turn = provider.last();
    assert_eq!(turn.head.header("authorization"), Some("Bearer 0123456"), "the test call and a turn are the same");
    assert_eq!((turn.head.header("x-org"), turn.json()["model"].clone()), (None, json!("1e5")));
    assert!(!product.config().contains("sk-org-canary"), "{}", product.config());
}

/// What comes from a request or a file is shown by the terminal, not obeyed.
#[tokio::test]
async fn escapes_from_requests_and_files_do_not_reach_the_terminal() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let mut request = hello(Api::Chat, "hi", false);
    request["model"] = json!("x\u{1b}]0;pwn\u{7}\u{1b}[31mRED\u{9b}5m");
    assert_eq!(product.agent().ask(Api::Chat, &request).await.status(), 200);
    for args in [&["turns", "show", "last"][..], &["turns"], &["turns", "show", "last", "--json"], &["sessions"]] {
        let said = product.cli(args).await;
        assert_eq!(said.code, 0, "{said:#?}");
        assert!(!said.all().contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {said:?}");
    }
}
