//! How long one 200 kB request takes: read, edited as on every turn, counted. `cargo bench -p metaclaw-dialect`

#![expect(clippy::print_stdout, clippy::disallowed_types, reason = "a benchmark measures and prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use metaclaw_dialect::{Dialect, Json, Request, count_tokens_estimate, side_kind};

const RUNS: usize = 400;
const SIZE: usize = 200_000;

fn main() {
    for (name, body) in [
        ("OpenClaw turn, English", openclaw("Explain what `git rebase` does.\nThen \"merge\", with care.\t")),
        ("OpenClaw turn, Chinese", openclaw("请解释一下变基和合并的区别，并举例说明。\n")),
        ("Claude Code, 200 tool steps", claude_code()),
    ] {
        println!("{name}: {} kB", body.0.len() / 1000);
        let (body, dialect) = body;
        let request = |body: &Bytes| Request::parse(dialect, body.clone()).ok();
        let Some(parsed) = request(&body) else { continue };
        report("scan", &body, || Json::parse(body.clone()).is_ok());
        report("read (scan, roles, hashes)", &body, || request(&body).is_some());
        report("side call?", &body, || side_kind(&parsed));
        report("edit (model, usage, aliases, block)", &body, || edited(&parsed).len());
        report("read and edit", &body, || request(&body).map(|request| edited(&request).len()));
        report("count tokens", &body, || count_tokens_estimate(&parsed));
    }
}

fn edited(request: &Request) -> Bytes {
    let mut edit = request.edit();
    edit.set_model("gpt-5");
    edit.strip_aliases();
    edit.request_usage();
    if let Some(start) = request.turn_start() {
        edit.inject_turn(start, &"## Skill: git\nNever rewrite pushed history.\n".repeat(60));
    }
    edit.finish()
}

fn report<T>(what: &str, body: &Bytes, mut work: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let median = times[RUNS / 2];
    let rate = body.len() as f64 / median.as_secs_f64() / 1e9;
    println!("  {what:<38} {:>9.1} µs median {:>9.1} µs p99 {rate:>8.2} GB/s", us(median), us(times[RUNS * 99 / 100]));
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn text(sample: &str, length: usize) -> serde_json::Value {
    let mut text = sample.repeat(length / sample.len() + 1);
    text.truncate(text.floor_char_boundary(length));
    text.into()
}

fn openclaw(sample: &str) -> (Bytes, Dialect) {
    let tool = serde_json::json!({"type": "function", "function": {"name": "read", "description": text(sample, 800),
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "number"}}}}});
    let mut messages = vec![serde_json::json!({"role": "system", "content": text(sample, 42_000)})];
    for turn in 0.. {
        let id = format!("call_{turn}");
        messages.extend([
            serde_json::json!({"role": "user", "content": format!("[Mon 2026-11-30 08:54 UTC] {}", text(sample, 300))}),
            serde_json::json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
                "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}}]}),
            serde_json::json!({"role": "tool", "tool_call_id": id, "content": text(sample, 4_000)}),
            serde_json::json!({"role": "assistant", "content": text(sample, 1_200)}),
        ]);
        if serde_json::to_vec(&messages).map_or(0, |bytes| bytes.len()) > SIZE - 16_000 {
            break;
        }
    }
    messages.push(serde_json::json!({"role": "user", "content": "[Mon 2026-11-30 08:54 UTC] and now?"}));
    let body = serde_json::json!({"model": "m1", "messages": messages, "stream": true, "session_id": "s:0",
        "tools": vec![tool; 14]});
    (Bytes::from(body.to_string()), Dialect::Chat)
}

fn claude_code() -> (Bytes, Dialect) {
    let mut messages =
        vec![serde_json::json!({"role": "user", "content": [{"type": "text", "text": "fix the tests"}]})];
    for step in 0..200 {
        let id = format!("toolu_{step}");
        messages.extend([
            serde_json::json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "Bash",
                "input": {"command": "cargo test", "description": "run"}}]}),
            serde_json::json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id,
                "content": text("test a ... ok\n", 700), "is_error": false}]}),
        ]);
    }
    let body = serde_json::json!({"model": "c", "max_tokens": 1000, "stream": true, "messages": messages});
    (Bytes::from(body.to_string()), Dialect::Messages)
}
