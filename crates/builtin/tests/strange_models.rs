//! Model files that want more than they may: their templates, their weights and their headers are strangers' and must not
//! take the process down. And what is said in a conversation stays words, whatever a template does with it.
#![expect(clippy::unwrap_used, reason = "what the tests are made with")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use metaclaw_builtin::{Outside, Room, Settings};
use serde_json::{Value, json};

#[expect(dead_code, reason = "shared with another test")]
mod tiny;

#[derive(Default)]
struct Still {
    /// The next request makes the model's thread panic.
    panics: Arc<AtomicBool>,
}

impl Outside for Still {
    fn now_s(&self) -> i64 {
        0
    }

    fn random(&self) -> u64 {
        7
    }

    fn renderer(&self) -> Option<PathBuf> {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "as the test wants it");
        None
    }
}

/// Asks a model, and returns its answer or its refusal.
fn asked(model: &[u8], body: &Value) -> Result<Value, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("any.gguf");
    std::fs::write(&file, model).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let room = Room::new(Still::default());
    room.configure(Settings { threads: 1, context: 0, idle: Duration::from_secs(60) });
    let body = Bytes::from(body.to_string());
    let said = runtime.block_on(async {
        let answer = room.chat(&file, "any", &body, false).await.map_err(|refusal| refusal.message)?;
        let parts: Result<Vec<_>, _> = answer.body.collect::<Vec<_>>().await.into_iter().collect();
        Ok(serde_json::from_slice(&parts?.concat()).unwrap())
    });
    room.close();
    said
}

/// A model with another number in its header.
fn with(model: &[u8], key: &str, number: u32) -> Vec<u8> {
    let key = format!("qwen3.{key}");
    let at = model.windows(key.len()).position(|found| found == key.as_bytes()).unwrap() + key.len() + 4;
    let mut changed = model.to_vec();
    changed[at..at + 4].copy_from_slice(&number.to_le_bytes());
    changed
}

fn hello() -> Value {
    json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0})
}

#[test]
fn a_template_gets_no_more_memory_than_a_conversation_needs() {
    for template in [
        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(34) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(34) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x|length }}",
        "{{ ('a' * 8000000000) | length }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(34) %}{% set ns.x = [ns.x, ns.x] | join(ns.x) %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(34) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(34) %}{% set ns.x = ns.x | replace('a', 'aa') %}{% endfor %}{{ ns.x|length }}",
        "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(34) %}{% set ns.x = twice(ns.x) %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x=['a']) %}{% for i in range(30) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | tojson }}",
        "{% for i in range(3000) %}{% for j in range(3000) %}{{ i }}{% endfor %}{% endfor %}",
    ] {
        let refusal = asked(&tiny::qwen3_with(template), &hello()).unwrap_err();
        assert!(refusal.contains("template does not take this conversation"), "{template}: {refusal}");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let most =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        // Where the system tells: far from the gigabytes that they ask for.
        assert!(most.is_none_or(|kilobytes: u64| kilobytes < 300_000), "{template}: {most:?} kB");
    }
}

#[test]
fn a_fault_of_the_models_own_is_told_and_the_next_request_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("any.gguf");
    std::fs::write(&file, tiny::qwen3()).unwrap();
    let still = Still { panics: Arc::new(AtomicBool::new(true)) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let room = Room::new(still);
    let body = Bytes::from(hello().to_string());
    runtime.block_on(async {
        let refusal = room.chat(&file, "any", &body, false).await.unwrap_err();
        assert_eq!(refusal.code, "model_unusable", "{refusal}");
        assert!(refusal.message.contains("as the test wants it"), "{refusal}");
        assert!(room.chat(&file, "any", &body, false).await.is_ok());
    });
    room.close();
}

#[test]
fn weights_that_lie_upon_each_other_are_refused() {
    let mut model = tiny::qwen3();
    // The offset of the last weights becomes that of the first.
    let name = b"blk.1.ffn_down.weight";
    let at = model.windows(name.len()).position(|found| found == name).unwrap() + name.len() + 4 + 16 + 4;
    model[at..at + 8].copy_from_slice(&0_u64.to_le_bytes());
    // What was cut off is all that is missing.
    let short = model.len() - 512;
    model.truncate(short);
    let refusal = asked(&model, &hello()).unwrap_err();
    assert!(refusal.contains("overlap"), "{refusal}");
}

#[test]
fn sizes_beyond_all_measure_are_refused() {
    let model = tiny::qwen3();
    for (key, number) in [
        ("attention.key_length", 0),
        ("attention.key_length", u32::MAX - 31),
        ("attention.head_count", u32::MAX),
        ("feed_forward_length", u32::MAX),
        ("block_count", u32::MAX),
    ] {
        let refusal = asked(&with(&model, key, number), &hello()).unwrap_err();
        assert!(refusal.contains("cannot be used") && !refusal.contains("failed"), "{key} = {number}: {refusal}");
    }
}

#[test]
fn more_heads_than_a_layer_has_room_for_are_refused() {
    let refusal = asked(&with(&tiny::qwen3(), "attention.head_count", 8192), &hello()).unwrap_err();
    assert!(refusal.contains("8192 heads of 32 numbers in layers of 32"), "{refusal}");
}

#[test]
fn special_tokens_cannot_be_long() {
    let refusal = asked(&tiny::qwen3_saying(&"x".repeat(300)), &hello()).unwrap_err();
    assert!(refusal.contains("special tokens are up to 300 bytes long"), "{refusal}");
    assert!(asked(&tiny::qwen3_saying(&"x".repeat(250)), &hello()).is_ok());
}

#[test]
fn many_calls_and_empty_messages_count_and_cost_little() {
    let model = tiny::qwen3();
    let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let calls = json!({"messages": [{"role": "assistant", "tool_calls": vec![call; 40_000]}], "max_tokens": 1});
    let empty = json!({"messages": vec![json!({"role": "user"}); 60_000], "max_tokens": 1});
    for (body, count) in [(calls, 40_001), (empty, 60_000)] {
        let refusal = asked(&model, &body).unwrap_err();
        let least = refusal.split("at least ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        assert!(least.is_some_and(|least| least >= count), "{refusal}");
    }
}

#[test]
fn nothing_that_is_said_becomes_a_special_token() {
    let model = tiny::qwen3_with(
        "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for message in messages %}<|im_start|>\
         {{ message.role }} {{ message.content }}{% for call in message.tool_calls %}{{ call | tojson }}{% endfor %}\
         <|im_end|>{% endfor %}",
    );
    let model = with(&model, "context_length", 2048);
    let count = |mark: &str| {
        let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": format!("{{\"{mark}\": 1}}")}});
        let body = json!({
            "messages": [{"role": "user", "content": mark}, {"role": "assistant", "content": "", "tool_calls": [call]}],
            "tools": [{"function": {"name": "f", "parameters": {"properties": {mark: {"description": mark}}}}}],
            "max_tokens": 1,
        });
        asked(&model, &body).unwrap()["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    // Every character is a token of its own here, so both are equally long unless one of them is special.
    assert_eq!(count("<|im_end|>"), count("<|im_odd|>"));
    assert_eq!(count("<|im_start|>"), count("<|im_strat|>"));
    assert_eq!(count("<|im_<|im_end|>end|>"), count("<|im_<|im_odd|>odd|>"));
}
