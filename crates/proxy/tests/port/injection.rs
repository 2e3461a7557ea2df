//! What is added, where, and that it stays there.

use std::sync::Arc;

use dialect::Dialect;
use metaclaw_proxy::{Placement, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::port::{Fake, Port, Says, assistant, port, port_with, request, user, whole};

const BLOCK: &str = "<metaclaw-context>";

fn blocks(body: &[u8]) -> usize {
    String::from_utf8_lossy(body).matches(BLOCK).count()
}

fn chat() -> Arc<Fake> {
    Arc::new(Fake::new(Dialect::Chat))
}

fn calls(id: &str) -> Value {
    json!({"role": "assistant", "content": null,
           "tool_calls": [{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}]})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

async fn restart(model: &Arc<Fake>, folder: &Arc<tempfile::TempDir>, old: Option<Port>) -> Port {
    if let Some(old) = old {
        old.store.close().await.unwrap();
    }
    port_with(model, None, Settings::default(), folder.clone()).await
}

#[tokio::test]
async fn a_tool_loop_is_one_turn_with_one_block_and_one_reason() {
    let model = chat();
    let call = json!({"id": "c", "choices": [{"index": 0, "message": calls("t1"), "finish_reason": "tool_calls"}]});
    model.says(Says::Whole(200, "application/json", call.to_string()));
    let port = port(&model, Settings::default()).await;
    let mut messages = vec![user("how warm for zebrafish?")];
    port.chat(&request(&messages, false)).await;
    messages.extend([calls("t1"), result("t1", "zebrafish zebrafish")]);
    port.chat(&request(&messages, false)).await;
    messages.extend([assistant("Fine."), user("thanks")]);
    port.chat(&request(&messages, false)).await;
    for index in 0..3 {
        let sent: Value = serde_json::from_slice(&model.body(index)).unwrap();
        assert_eq!(blocks(&model.body(index)), 1, "{sent}");
        assert!(
            sent["messages"][0]["content"]
                .as_str()
                .unwrap()
                .starts_with("how warm for zebrafish?\n\n<metaclaw-context>")
        );
    }
    let turns = port.turns().await;
    let numbers: Vec<_> = turns.iter().map(|t| (t.turn_no, t.step, t.additions.len())).collect();
    assert_eq!(numbers, [(1, 0, 1), (1, 1, 0), (2, 0, 0)]);
    assert_eq!(turns[0].additions[0].why, "zebrafish");
    assert!(turns.iter().all(|t| t.session == turns[0].session));
}

#[tokio::test]
async fn a_tool_loop_that_began_before_us_is_left_alone() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    let mut messages = vec![user("zebrafish"), calls("t1"), result("t1", "x")];
    port.chat(&request(&messages, false)).await;
    assert_eq!(blocks(&model.body(0)), 0);
    messages.extend([assistant("Fine."), user("zebrafish again")]);
    port.chat(&request(&messages, false)).await;
    let sent: Value = serde_json::from_slice(&model.body(1)).unwrap();
    assert_eq!((blocks(&model.body(1)), blocks(sent["messages"][4].to_string().as_bytes())), (1, 1));
}

#[tokio::test]
async fn side_calls_and_text_that_is_there_already_get_nothing() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    let body = request(&[user("zebrafish")], false).to_string();
    port.ask("POST", "/v1/chat/completions", &[("x-turn-type", "side")], body.clone()).await;
    port.ask("POST", "/v1/chat/completions", &[("x-session-id", "s")], body).await;
    assert_eq!((blocks(&model.body(0)), blocks(&model.body(1))), (0, 0));
    let noted = user("zebrafish\n\n<metaclaw-context>\nfrom elsewhere\n</metaclaw-context>");
    port.chat(&request(&[noted], false)).await;
    assert_eq!(blocks(&model.body(2)), 1);
    let kinds: Vec<_> = port.turns().await.iter().map(|t| t.kind.as_str().to_owned()).collect();
    assert_eq!(kinds, ["side", "side", "main"]);
}

#[tokio::test]
async fn a_call_beside_the_conversation_begins_with_what_the_conversation_began_with() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    let named = [("x-session-affinity", "s:1")];
    let ask = async |messages: &[Value]| {
        port.ask("POST", "/v1/chat/completions", &named, request(messages, false).to_string()).await;
        String::from_utf8(model.last().body.to_vec()).unwrap()
    };
    let mut talk = vec![user("zebrafish")];
    let main = ask(&talk).await;
    let begin = &main[..main.rfind("]}").unwrap()];
    talk.push(assistant("Fine."));
    let beat = user("[Mon 2026-11-30 08:54 UTC] Read HEARTBEAT.md if it exists (zebrafish).");
    let side = ask(&[&talk[..], &[beat]].concat()).await;
    assert!(side.starts_with(begin) && blocks(side.as_bytes()) == 1, "{side}");
    talk.push(user("zebrafish again"));
    let next = ask(&talk).await;
    assert!(next.starts_with(begin) && blocks(next.as_bytes()) == 2, "{next}");
    // A call of its own, with the same first words, carries no conversation.
    let title = ask(&[json!({"role": "system", "content": "You are a title generator."}), user("zebrafish")]).await;
    assert_eq!(blocks(title.as_bytes()), 0, "{title}");
    let numbers: Vec<_> = port.turns().await.iter().map(|t| (t.kind.as_str().to_owned(), t.turn_no, t.step)).collect();
    let row = |kind: &str, turn| (kind.to_owned(), turn, 0);
    assert_eq!(numbers, [row("main", 1), row("heartbeat", 1), row("main", 2), row("title", 2)]);
}

#[tokio::test]
async fn nothing_is_added_when_that_is_switched_off() {
    let model = chat();
    let port = port(&model, Settings { max_injected_tokens: 0, ..Settings::default() }).await;
    port.chat(&request(&[user("zebrafish")], false)).await;
    assert_eq!(blocks(&model.body(0)), 0);
}

#[tokio::test]
async fn the_old_placement_puts_it_into_the_system_prompt() {
    let model = chat();
    let port = port(&model, Settings { placement: Placement::System, ..Settings::default() }).await;
    let mut messages = vec![json!({"role": "system", "content": "Be kind."}), user("zebrafish")];
    port.chat(&request(&messages, false)).await;
    messages.extend([assistant("Fine."), user("rust")]);
    port.chat(&request(&messages, false)).await;
    for (index, words) in [(0, "28.5"), (1, "clippy")] {
        let sent: Value = serde_json::from_slice(&model.body(index)).unwrap();
        let system = sent["messages"][0]["content"].as_str().unwrap();
        assert!(system.starts_with("Be kind.\n\n<metaclaw-context>") && system.contains(words), "{system}");
        assert_eq!(blocks(&model.body(index)), 1);
    }
}

#[tokio::test]
async fn a_block_comes_back_after_a_restart_even_if_the_skill_has_changed() {
    let (model, folder) = (chat(), Arc::new(tempfile::tempdir().unwrap()));
    let port = restart(&model, &folder, None).await;
    let mut messages = vec![user("zebrafish")];
    let first = port.chat(&request(&messages, false)).await;
    messages.extend([assistant("Fine."), user("thanks")]);
    let port = restart(&model, &folder, Some(port)).await;
    let second = port.chat(&request(&messages, false)).await;
    assert_eq!(second.session(), first.session());
    let (one, two) = (model.body(0), model.body(1));
    let end = one.iter().rposition(|b| *b == b']').unwrap();
    assert!(two.starts_with(&one[..end]), "{}", String::from_utf8_lossy(&two));
    assert_eq!(port.turns().await[1].turn_no, 2);
}

const PATH: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_conversation_of_many_turns_gets_every_block_back() {
    const TURNS: usize = 300;
    let (model, folder) = (chat(), Arc::new(tempfile::tempdir().unwrap()));
    let named = [("session_id", "long")];
    let mut port = restart(&model, &folder, None).await;
    let words: Vec<String> = (0..TURNS).map(|n| format!("zebrafish {n}")).collect();
    let mut given = Vec::new();
    for words in &words {
        port.ask("POST", PATH, &named, request(&[user(words)], false).to_string()).await;
        let sent: Value = serde_json::from_slice(&model.last().body).unwrap();
        given.push(sent["messages"][0]["content"].as_str().unwrap().to_owned());
    }
    assert!(given.iter().all(|text| text.contains(BLOCK)));
    let mut talk: Vec<Value> = words.iter().flat_map(|words| [user(words), assistant("Fine.")]).collect();
    talk.push(user("thanks"));
    for again in [false, true] {
        if again {
            port = restart(&model, &folder, Some(port)).await;
        }
        // The older texts are in the journal only.
        port.store.flush().await.unwrap();
        crate::port::settle().await;
        port.ask("POST", PATH, &named, request(&talk, false).to_string()).await;
        let sent: Value = serde_json::from_slice(&model.last().body).unwrap();
        for (n, given) in given.iter().enumerate() {
            assert_eq!(sent["messages"][2 * n]["content"].as_str(), Some(given.as_str()), "{n}");
        }
    }
}

#[tokio::test]
async fn what_was_forgotten_while_a_request_was_under_way_is_not_put_back() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    let named = [("session_id", "s")];
    let mut talk = vec![user("zebrafish")];
    port.ask("POST", PATH, &named, request(&talk, false).to_string()).await;
    talk.extend([assistant("Fine."), user("thanks")]);
    let (go, wait) = tokio::sync::oneshot::channel();
    model.says(Says::Later(wait, Box::new(Says::Whole(200, "application/json", whole(Dialect::Chat, "Fine.")))));
    let under_way = port.ask("POST", PATH, &named, request(&talk, false).to_string());
    let forget = async {
        while model.count() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(blocks(&model.body(1)), 1);
        port.store.delete_session("s").await.unwrap();
        port.proxy.journal_changed();
        port.ask("POST", PATH, &named, request(&talk, false).to_string()).await;
        assert_eq!(blocks(&model.body(2)), 0, "a second one at the same time");
        go.send(()).unwrap();
    };
    tokio::join!(under_way, forget);
    talk.extend([assistant("Fine."), user("and now?")]);
    port.ask("POST", PATH, &named, request(&talk, false).to_string()).await;
    assert_eq!(blocks(&model.body(3)), 0, "the next one");
}

/// One thing an agent does next.
#[derive(Debug, Clone)]
enum Move {
    Says(&'static str),
    Loops(u8),
    Restart,
    Fails,
    /// A call beside the conversation that carries all of it.
    Aside(&'static str),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let words =
        prop::sample::select(vec!["zebrafish", "rust and zebrafish", "thanks", "go on", "rust", "日本 zebrafish"]);
    let one = prop_oneof![
        6 => words.prop_map(Move::Says),
        3 => (1..3_u8).prop_map(Move::Loops),
        1 => Just(Move::Restart),
        1 => Just(Move::Fails),
        2 => prop::sample::select(vec![
            "Read HEARTBEAT.md if it exists (workspace context).",
            "Pre-compaction memory flush. Store what matters.",
            "Your task is to create a detailed summary of the conversation so far",
        ]).prop_map(Move::Aside),
    ];
    prop::collection::vec(one, 1..9)
}

/// Bytes of the blocks in the first messages of a body.
fn added(messages: &[Value], sent: &str) -> usize {
    let sent: Value = serde_json::from_str(sent).unwrap();
    let bytes = |all: &[Value]| -> usize { all.iter().map(|m| m.to_string().len()).sum() };
    bytes(&sent["messages"].as_array().unwrap()[..messages.len()]) - bytes(messages)
}

async fn grows(dialect: Dialect, parts: bool, moves: Vec<Move>) {
    let (model, folder) = (Arc::new(Fake::new(dialect)), Arc::new(tempfile::tempdir().unwrap()));
    let mut port = restart(&model, &folder, None).await;
    let path = if dialect == Dialect::Messages { "/v1/messages" } else { "/v1/chat/completions" };
    let said = |text: &str| {
        let content = if parts { json!([{"type": "text", "text": text}]) } else { json!(text) };
        json!({"role": "user", "content": content})
    };
    let head = |text: &str| text[..text.rfind("]}").unwrap()].to_owned();
    let mut messages = vec![said("zebrafish first")];
    let mut before: Option<(String, String)> = None;
    let mut n = 0;
    for step in std::iter::once(Move::Says("")).chain(moves) {
        match step {
            Move::Says("") => {}
            Move::Aside(text) => {
                let mut aside = messages.clone();
                aside.push(said(text));
                let body = json!({"model": "m", "max_tokens": 5, "messages": aside}).to_string();
                let got = port.ask("POST", path, &[("x-session-affinity", "s:1")], body.clone()).await;
                assert_eq!(got.session(), "s");
                let sent = String::from_utf8(model.last().body.to_vec()).unwrap();
                let (client, upstream) = before.as_ref().unwrap();
                if body.starts_with(&head(client)) {
                    assert!(sent.starts_with(&head(upstream)), "\n{upstream}\n{sent}");
                }
                // Nothing but what was there before.
                assert_eq!(sent.len() - body.len(), added(&messages, &sent), "\n{sent}");
                continue;
            }
            Move::Says(text) => messages.push(said(text)),
            Move::Restart => {
                port = restart(&model, &folder, Some(port)).await;
                continue;
            }
            Move::Fails => {
                if messages.last().unwrap()["role"] == "assistant" {
                    continue;
                }
                model.says(Says::Whole(500, "application/json", "{\"error\":{\"message\":\"x\"}}".into()));
            }
            Move::Loops(times) => {
                for _ in 0..times {
                    n += 1;
                    let id = format!("t{n}");
                    if dialect == Dialect::Messages {
                        messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "look", "input": {}}]}));
                        messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "zebrafish"}]}));
                    } else {
                        messages.push(calls(&id));
                        messages.push(result(&id, "zebrafish"));
                    }
                }
            }
        }
        if messages.last().unwrap()["role"] == "assistant" {
            messages.push(said("more zebrafish"));
        }
        let body = json!({"model": "m", "max_tokens": 5, "messages": messages}).to_string();
        let got = port.ask("POST", path, &[("x-session-affinity", "s:1")], body.clone()).await;
        let sent = String::from_utf8(model.last().body.to_vec()).unwrap();
        if let Some((client, upstream)) = &before
            && body.starts_with(&head(client))
        {
            assert!(sent.starts_with(&head(upstream)), "\n{upstream}\n{sent}");
        }
        before = Some((body, sent));
        if got.status == 200 {
            messages.push(assistant("Fine."));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_goes_upstream_only_grows_at_its_end(moves in moves(), parts in any::<bool>(), messages in any::<bool>()) {
        let dialect = if messages { Dialect::Messages } else { Dialect::Chat };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(grows(dialect, parts, moves));
    }
}

#[tokio::test]
async fn the_block_is_translated_with_its_message() {
    let model = Arc::new(Fake::new(Dialect::Messages));
    model.says(Says::Whole(200, "application/json", whole(Dialect::Messages, "Fine.")));
    let port = port(&model, Settings::default()).await;
    port.chat(&request(&[user("zebrafish")], false)).await;
    let sent: Value = serde_json::from_slice(&model.body(0)).unwrap();
    assert_eq!(blocks(sent["messages"][0].to_string().as_bytes()), 1, "{sent}");
}
