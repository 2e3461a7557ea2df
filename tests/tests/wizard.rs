//! `metaclaw setup` as a person meets it, on a terminal: running it again with Enter all the way changes nothing that
//! matters, and the test call uses the key that was kept.

use std::process::Stdio;

use metaclaw_tests::product::{MODEL, Product, UPSTREAM_KEY};
use metaclaw_tests::provider::{Provider, Reply};
use metaclaw_tests::{PATIENCE, peers, within, within_for};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

const ENTER: &str = "\r";

/// A terminal of our own, made by `script` of util-linux.
struct Terminal {
    child: Child,
    seen: String,
}

impl Terminal {
    async fn open(product: &Product, args: &[&str]) -> Option<Self> {
        let there = Command::new("script").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().await;
        if !there.is_ok_and(|status| status.success()) {
            peers::skipped("a terminal (script of util-linux)");
            return None;
        }
        let ours = product.command(args);
        let program = ours.as_std().get_program().to_string_lossy().into_owned();
        let line = format!("stty cols 120 rows 50; exec '{program}' {}", args.join(" "));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env_clear().env("TERM", "xterm").env("SHELL", "/bin/sh");
        for (name, value) in ours.as_std().get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(product.folder()).kill_on_drop(true);
        Some(Self { child: command.spawn().expect("script runs"), seen: String::new() })
    }

    /// Waits for a question, and answers it.
    async fn answer(&mut self, question: &str, keys: &str) {
        let out = self.child.stdout.as_mut().expect("its output");
        let mut bytes = [0; 4096];
        while !self.seen.contains(question) {
            let read = tokio::time::timeout(PATIENCE, out.read(&mut bytes)).await;
            let Ok(Ok(count @ 1..)) = read else { panic!("no {question:?} in:\n{}", self.seen) };
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        self.seen.clear();
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(keys.as_bytes()).await.expect("a key press");
        input.flush().await.expect("a key press");
    }

    async fn ended(mut self) -> i32 {
        let mut out = self.child.stdout.take().expect("its output");
        let mut rest = Vec::new();
        within("the wizard ends", out.read_to_end(&mut rest)).await.expect("its last words");
        within("the wizard ends", self.child.wait()).await.expect("a status").code().unwrap_or(-1)
    }
}

/// Enter for everything behind the choice of the model.
async fn rest(mut terminal: Terminal) {
    terminal.answer("Add skills to turns?", ENTER).await;
    terminal.answer("Mode:", ENTER).await;
    terminal.answer("Port for agents:", ENTER).await;
    terminal.answer("Write this to", ENTER).await;
    assert_eq!(terminal.ended().await, 0);
}

#[tokio::test]
async fn a_kept_key_is_the_one_that_is_tested() {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    let before = product.config();
    let Some(mut terminal) = Terminal::open(&product, &["setup"]).await else { return };
    terminal.answer("Where should answers come from?", ENTER).await;
    terminal.answer("Base URL:", ENTER).await;
    terminal.answer("Which key?", ENTER).await;
    terminal.answer("Which model?", ENTER).await;
    rest(terminal).await;
    let seen = provider.all();
    assert!(seen.len() >= 2, "the list and the call: {seen:#?}");
    for request in &seen {
        assert_eq!(request.head.header("authorization"), Some(format!("Bearer {UPSTREAM_KEY}").as_str()));
    }
    assert!(product.config().contains(UPSTREAM_KEY), "before:\n{before}\nafter:\n{}", product.config());
}

#[tokio::test]
async fn a_server_that_refuses_its_list_does_not_cost_the_model() {
    let provider = Provider::start().await;
    let refusal = json!({"error": {"message": "no list for you"}});
    provider.script(move |request| (request.head.method == "GET").then(|| Reply::json(401, &refusal)));
    let product = Product::at(&provider, &json!({}));
    let Some(mut terminal) = Terminal::open(&product, &["setup"]).await else { return };
    terminal.answer("Where should answers come from?", ENTER).await;
    terminal.answer("Base URL:", ENTER).await;
    terminal.answer("Which key?", ENTER).await;
    terminal.answer("Another key?", "n\r").await;
    terminal.answer("Model:", ENTER).await;
    rest(terminal).await;
    assert!(product.config().contains(MODEL), "{}", product.config());
    assert!(provider.seen().iter().any(|request| request.head.method == "POST"), "the model is tried all the same");
}

#[tokio::test]
async fn the_model_in_the_box_is_chosen_without_a_key() {
    let Some(model) = peers::small_model() else { return };
    let product = Product::bare();
    let kept = product.home().join("models/smollm2-135m-instruct.gguf");
    std::fs::create_dir_all(kept.parent().expect("a folder")).expect("the folder");
    std::fs::copy(model, &kept).expect("the model");
    let Some(mut terminal) = Terminal::open(&product, &["setup"]).await else { return };
    terminal.answer("Where should answers come from?", "Try it\r").await;
    terminal.answer("Which model?", ENTER).await;
    within_for(3 * PATIENCE, "the built-in model is tried", rest(terminal)).await;
    let config = product.config();
    assert!(config.contains("provider: builtin") && config.contains("smollm2-135m-instruct"), "{config}");
}

#[tokio::test]
async fn a_model_that_is_not_here_is_not_fetched_after_a_no() {
    let product = Product::bare();
    // Nobody is asked for it: no source is where the settings say.
    let nowhere = "http://127.0.0.1:9";
    product.write_config(&format!("builtin:\n  hub: {nowhere}\n  index: {nowhere}\n"));
    let Some(mut terminal) = Terminal::open(&product, &["setup"]).await else { return };
    terminal.answer("Where should answers come from?", "Try it\r").await;
    terminal.answer("Which model?", ENTER).await;
    terminal.answer("Fetch it?", "n\r").await;
    // Back where another provider can be chosen.
    terminal.answer("Where should answers come from?", "\u{3}").await;
    assert_ne!(terminal.ended().await, 0);
    assert!(!product.home().join("models").exists());
}
