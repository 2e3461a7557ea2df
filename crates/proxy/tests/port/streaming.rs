//! Streams: every chunk leaves when it arrives, the end waits for the journal, nothing outlives the agent.

use std::time::Duration;

use axum::body::Body;
use dialect::Dialect;
use metaclaw_proxy::{BodyError, Event, ModelError, Settings};
use serde_json::json;
use std::sync::Arc;
use store::Outcome;
use tokio::sync::oneshot;

use crate::port::{Fake, Port, Says, chunk, finish, next, port, request, settle, user, whole};

async fn open(port: &Port, path: &str) -> (u16, Body) {
    let body = match path {
        "/v1/messages" => json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [user("hi")]}),
        "/v1/responses" => json!({"model": "m", "stream": true, "input": "hi"}),
        _ => request(&[user("hi")], true),
    };
    let (parts, body) = port.open("POST", path, &[], body.to_string()).await.into_parts();
    (parts.status.as_u16(), body)
}

fn chat() -> Arc<Fake> {
    Arc::new(Fake::new(Dialect::Chat))
}

#[tokio::test]
async fn each_chunk_arrives_before_the_next_one_is_sent() {
    let model = chat();
    let provider = model.streams();
    let port = port(&model, Settings::default()).await;
    provider.unbounded_send(Ok(chunk("one"))).unwrap();
    let (status, mut body) = open(&port, "/v1/chat/completions").await;
    assert_eq!(status, 200);
    assert_eq!(next(&mut body).await.unwrap(), chunk("one"));
    provider.unbounded_send(Ok(chunk("two"))).unwrap();
    assert_eq!(next(&mut body).await.unwrap(), chunk("two"));
    assert!(port.turns().await.is_empty(), "the turn is not over");
    provider.unbounded_send(Ok(finish())).unwrap();
    let rest = next(&mut body).await.unwrap();
    assert!(rest.starts_with(b"data: "));
    let mut all = rest.to_vec();
    while let Some(more) = next(&mut body).await {
        all.extend_from_slice(&more);
    }
    assert!(all.ends_with(b"data: [DONE]\n\n"), "{}", String::from_utf8_lossy(&all));
    assert!(!String::from_utf8_lossy(&all).contains("prompt_tokens"), "usage that nobody asked for");
}

#[tokio::test]
async fn the_turn_is_in_the_journal_before_the_end_leaves() {
    let model = chat();
    let provider = model.streams();
    let port = port(&model, Settings::default()).await;
    for bytes in [chunk("one "), chunk("two"), finish()] {
        provider.unbounded_send(Ok(bytes)).unwrap();
    }
    let (_, mut body) = open(&port, "/v1/chat/completions").await;
    loop {
        let bytes = next(&mut body).await.expect("an end");
        if bytes.ends_with(b"[DONE]\n\n") {
            break;
        }
    }
    let turns = port.turns().await;
    assert_eq!(turns.len(), 1);
    assert_eq!((turns[0].outcome, turns[0].usage.output), (Outcome::Ok, Some(2)));
    let turn = port.store.turn(turns[0].id).await.unwrap().unwrap();
    assert_eq!(turn.answer_text.as_deref(), Some("one two"));
}

#[tokio::test]
async fn a_stream_reaches_agents_of_every_dialect() {
    for (path, end) in [("/v1/messages", "message_stop"), ("/v1/responses", "response.completed")] {
        let model = chat();
        let provider = model.streams();
        let port = port(&model, Settings::default()).await;
        provider.unbounded_send(Ok(chunk("one"))).unwrap();
        let (status, mut body) = open(&port, path).await;
        assert_eq!(status, 200);
        let first = next(&mut body).await.unwrap();
        assert!(String::from_utf8_lossy(&first).contains("one"), "{first:?}");
        provider.unbounded_send(Ok(finish())).unwrap();
        let mut all = Vec::new();
        while let Some(more) = next(&mut body).await {
            all.extend_from_slice(&more);
        }
        assert!(String::from_utf8_lossy(&all).contains(end), "{}", String::from_utf8_lossy(&all));
    }
}

#[tokio::test]
async fn an_agent_that_goes_away_ends_the_exchange_and_leaves_what_was_said() {
    let model = chat();
    let provider = model.streams();
    let mut port = port(&model, Settings::default()).await;
    provider.unbounded_send(Ok(chunk("half an ans"))).unwrap();
    let (_, mut body) = open(&port, "/v1/chat/completions").await;
    next(&mut body).await.unwrap();
    drop(body);
    assert!(provider.is_closed(), "the provider goes on for nobody");
    let Event::TurnFinished(turn) = port.event().await else { panic!("no turn") };
    assert_eq!(turn.outcome, Outcome::Cancelled);
    let row = port.store.turn(turn.id).await.unwrap().unwrap();
    assert_eq!(row.answer_text.as_deref(), Some("half an ans"));
}

#[tokio::test]
async fn an_agent_that_reads_no_further_than_the_stop_reason_has_a_finished_turn() {
    let stop = |text: &str| bytes::Bytes::from(text.to_owned());
    let message = |kind: &str, rest: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
    let messages = [
        message(
            "message_start",
            r#","message":{"id":"m1","role":"assistant","model":"up","content":[],"usage":{"input_tokens":3,"output_tokens":1}}"#,
        ),
        message("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#),
        message("content_block_delta", r#","index":0,"delta":{"type":"text_delta","text":"Fine."}"#),
        message("content_block_stop", r#","index":0"#),
        message("message_delta", r#","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}"#),
    ];
    let all = String::from_utf8_lossy(&finish()).into_owned();
    let chat_end = all.split_inclusive("\n\n").next().unwrap().to_owned();
    for (upstream, path, chunks) in [
        (Dialect::Chat, "/v1/chat/completions", vec![chunk("Fine."), stop(&chat_end)]),
        (Dialect::Messages, "/v1/messages", messages.iter().map(|m| stop(m)).collect()),
    ] {
        let model = Arc::new(Fake::new(upstream));
        let provider = model.streams();
        let mut port = port(&model, Settings::default()).await;
        for chunk in chunks.iter().cloned() {
            provider.unbounded_send(Ok(chunk)).unwrap();
        }
        let (_, mut body) = open(&port, path).await;
        for _ in 0..chunks.len() {
            next(&mut body).await.unwrap();
        }
        drop(body);
        let Event::TurnFinished(turn) = port.event().await else { panic!("no turn") };
        assert_eq!(turn.outcome, Outcome::Ok, "{upstream}");
        let row = port.store.turn(turn.id).await.unwrap().unwrap();
        assert_eq!((row.answer_text.as_deref(), row.summary.error), (Some("Fine."), None));
        // The conversation goes on in its session, with what was added before.
        let talk = json!({"model": "m", "max_tokens": 9, "messages": [user("hi"), crate::port::assistant("Fine."), user("more")]});
        let got = port.ask("POST", path, &[], talk.to_string()).await;
        assert_eq!((got.session(), got.header("x-metaclaw-turn")), (turn.session.to_string(), "2"));
    }
}

#[tokio::test]
async fn an_agent_that_goes_away_before_the_answer_is_recorded_too() {
    for stream in [false, true] {
        let model = chat();
        let (hold, held) = oneshot::channel();
        model.says(Says::Later(held, Box::new(Says::Whole(200, "application/json", String::new()))));
        let mut port = port(&model, Settings { keepalive: None, ..Settings::default() }).await;
        {
            let body = request(&[user("hi")], stream).to_string();
            let call = port.open("POST", "/v1/chat/completions", &[], body);
            tokio::pin!(call);
            for _ in 0..1000 {
                assert!(futures::poll!(&mut call).is_pending());
                if model.count() == 1 {
                    break;
                }
                tokio::task::yield_now().await;
            }
            assert_eq!(model.count(), 1);
        }
        assert!(hold.is_closed(), "the provider is still asked");
        let Event::TurnFinished(turn) = port.event().await else { panic!("no turn") };
        assert_eq!(turn.outcome, Outcome::Cancelled);
    }
}

#[tokio::test]
async fn a_provider_that_breaks_off_is_never_a_good_end() {
    let model = chat();
    let provider = model.streams();
    let mut port = port(&model, Settings::default()).await;
    provider.unbounded_send(Ok(chunk("half"))).unwrap();
    provider.unbounded_send(Err(BodyError("connection reset".into()))).unwrap();
    let (_, mut body) = open(&port, "/v1/chat/completions").await;
    let mut all = Vec::new();
    while let Some(more) = next(&mut body).await {
        all.extend_from_slice(&more);
    }
    let text = String::from_utf8(all).unwrap();
    assert!(text.contains("half") && text.contains("\"error\""), "{text}");
    assert!(!text.contains("\"finish_reason\":\"stop\""), "{text}");
    let Event::TurnFinished(turn) = port.event().await else { panic!("no turn") };
    assert_eq!(turn.outcome, Outcome::Cut);
}

#[tokio::test]
async fn a_provider_that_breaks_off_before_the_first_byte_is_a_proper_error() {
    for (path, dialect) in [("/v1/chat/completions", Dialect::Chat), ("/v1/messages", Dialect::Messages)] {
        let model = chat();
        let provider = model.streams();
        let port = port(&model, Settings::default()).await;
        provider.unbounded_send(Err(BodyError("connection reset".into()))).unwrap();
        let (status, mut body) = open(&port, path).await;
        assert_eq!(status, 502);
        let body: serde_json::Value = serde_json::from_slice(&next(&mut body).await.unwrap()).unwrap();
        assert!(body["error"]["message"].as_str().unwrap().contains("connection reset"), "{body}");
        assert_eq!(body["type"] == "error", dialect == Dialect::Messages);
        let turns = port.turns().await;
        assert_eq!((turns.len(), turns[0].outcome, turns[0].status), (1, Outcome::Error, Some(502)));
    }
}

#[tokio::test]
async fn a_silent_provider_gets_the_agent_a_keep_alive() {
    let model = chat();
    let (go, held) = oneshot::channel();
    let (provider, rx) = futures::channel::mpsc::unbounded();
    model.says(Says::Later(held, Box::new(Says::Stream(rx))));
    let port = port(&model, Settings { keepalive: Some(Duration::from_millis(1)), ..Settings::default() }).await;
    // Not even the head has come from the provider.
    let (status, mut body) = open(&port, "/v1/chat/completions").await;
    assert_eq!(status, 200);
    assert_eq!(&next(&mut body).await.unwrap()[..], b": ping\n\n");
    go.send(()).unwrap();
    provider.unbounded_send(Ok(chunk("one"))).unwrap();
    while next(&mut body).await.unwrap() != chunk("one") {}
    assert_eq!(&next(&mut body).await.unwrap()[..], b": ping\n\n");
    provider.unbounded_send(Ok(finish())).unwrap();
    let mut all = Vec::new();
    while let Some(more) = next(&mut body).await {
        all.extend_from_slice(&more);
    }
    assert!(all.ends_with(b"[DONE]\n\n"));
}

#[tokio::test]
async fn an_error_after_a_keep_alive_is_an_event() {
    for (path, words) in [
        ("/v1/chat/completions", "data: {\"error\""),
        ("/v1/messages", "event: error"),
        ("/v1/responses", "event: error"),
    ] {
        let model = chat();
        let (go, held) = oneshot::channel();
        let broken = ModelError::Broken { name: "fake".into(), reason: "no more".into() };
        model.says(Says::Later(held, Box::new(Says::Fails(broken))));
        let port = port(&model, Settings { keepalive: Some(Duration::from_millis(1)), ..Settings::default() }).await;
        let (status, mut body) = open(&port, path).await;
        assert_eq!(status, 200);
        next(&mut body).await.unwrap();
        go.send(()).unwrap();
        let mut all = Vec::new();
        while let Some(more) = next(&mut body).await {
            all.extend_from_slice(&more);
        }
        let text = String::from_utf8(all).unwrap();
        assert!(text.contains(words) && text.contains("no more"), "{text}");
    }
}

#[tokio::test]
async fn a_provider_that_falls_silent_for_good_is_given_up() {
    let model = chat();
    let provider = model.streams();
    let idle = Duration::from_millis(30);
    let mut port = port(&model, Settings { keepalive: None, stream_idle: idle, ..Settings::default() }).await;
    provider.unbounded_send(Ok(chunk("one"))).unwrap();
    let (_, mut body) = open(&port, "/v1/chat/completions").await;
    next(&mut body).await.unwrap();
    let mut all = Vec::new();
    while let Some(more) = next(&mut body).await {
        all.extend_from_slice(&more);
    }
    assert!(String::from_utf8_lossy(&all).contains("has been silent"), "{}", String::from_utf8_lossy(&all));
    assert!(provider.is_closed());
    let Event::TurnFinished(turn) = port.event().await else { panic!("no turn") };
    assert_eq!(turn.outcome, Outcome::Cut);
}

#[tokio::test]
async fn usage_after_done_is_waited_for() {
    let model = chat();
    let provider = model.streams();
    let port = port(&model, Settings::default()).await;
    let all = finish();
    let text = String::from_utf8_lossy(&all);
    let mut events: Vec<String> = text.split_inclusive("\n\n").map(str::to_owned).collect();
    events.swap(1, 2);
    for bytes in [chunk("one"), events[0].clone().into(), events[1].clone().into()] {
        provider.unbounded_send(Ok(bytes)).unwrap();
    }
    let (_, mut body) = open(&port, "/v1/chat/completions").await;
    next(&mut body).await.unwrap();
    next(&mut body).await.unwrap();
    assert!(futures::poll!(Box::pin(http_body_util::BodyExt::frame(&mut body))).is_pending());
    provider.unbounded_send(Ok(events[2].clone().into())).unwrap();
    drop(provider);
    assert!(next(&mut body).await.unwrap().ends_with(b"[DONE]\n\n"));
    assert_eq!(port.turns().await[0].usage.output, Some(2));
}

#[tokio::test]
async fn a_slow_agent_holds_the_provider_back() {
    let model = chat();
    let (mut provider, rx) = futures::channel::mpsc::channel(0);
    model.says(Says::Bounded(rx));
    let port = port(&model, Settings::default()).await;
    provider.try_send(Ok(chunk("1"))).unwrap();
    let (_, mut body) = open(&port, "/v1/chat/completions").await;
    settle().await;
    // One chunk was pulled to see how the answer begins; nothing more is pulled until the agent reads.
    while provider.try_send(Ok(chunk("2"))).is_ok() {}
    settle().await;
    assert!(provider.try_send(Ok(chunk("3"))).is_err(), "chunks pile up");
    next(&mut body).await.unwrap();
    next(&mut body).await.unwrap();
    assert!(provider.try_send(Ok(chunk("3"))).is_ok());
}

#[tokio::test]
async fn a_whole_answer_to_a_stream_request_becomes_a_stream() {
    for upstream in [Dialect::Chat, Dialect::Messages] {
        let model = Arc::new(Fake::new(upstream));
        model.says(Says::Whole(200, "application/json", whole(upstream, "in one piece")));
        let port = port(&model, Settings::default()).await;
        let (status, mut body) = open(&port, "/v1/chat/completions").await;
        let mut all = Vec::new();
        while let Some(more) = next(&mut body).await {
            all.extend_from_slice(&more);
        }
        let text = String::from_utf8(all).unwrap();
        assert_eq!(status, 200);
        assert!(text.contains("in one piece") && text.ends_with("data: [DONE]\n\n"), "{text}");
        assert_eq!(port.turns().await[0].outcome, Outcome::Ok);
    }
}

#[tokio::test]
async fn agents_are_told_when_the_service_is_stopped_under_their_answer() {
    for (path, event) in [
        ("/v1/chat/completions", "data: {\"error\""),
        ("/v1/messages", "event: error"),
        ("/v1/responses", "response.failed"),
    ] {
        let model = chat();
        let provider = model.streams();
        let mut port = port(&model, Settings::default()).await;
        provider.unbounded_send(Ok(chunk("half an ans"))).unwrap();
        let (status, mut body) = open(&port, path).await;
        assert_eq!(status, 200);
        next(&mut body).await.unwrap();
        port.deps.cancel.cancel();
        let mut all = Vec::new();
        while let Some(more) = next(&mut body).await {
            all.extend_from_slice(&more);
        }
        let text = String::from_utf8(all).unwrap();
        assert!(text.contains(event) && text.contains("being stopped"), "{text}");
        let Event::TurnFinished(turn) = port.event().await else { panic!("no turn") };
        assert_eq!(turn.outcome, Outcome::Cut);
        // One that waits for its first byte gets a proper error.
        let _silent = model.streams();
        let (status, _) = open(&port, path).await;
        assert_eq!(status, 502);
    }
}

#[tokio::test]
async fn a_whole_answer_that_breaks_off_is_told_as_such() {
    let model = chat();
    let provider = model.streams();
    let port = port(&model, Settings::default()).await;
    let whole = whole(Dialect::Chat, "half");
    provider.unbounded_send(Ok(whole[..whole.len() / 2].to_owned().into())).unwrap();
    provider.unbounded_send(Err(BodyError("connection reset".into()))).unwrap();
    let (status, mut body) = open(&port, "/v1/chat/completions").await;
    assert_eq!(status, 502);
    let told = String::from_utf8(next(&mut body).await.unwrap().to_vec()).unwrap();
    assert!(told.contains("connection reset") && !told.contains("JSON"), "{told}");
    assert!(port.turns().await[0].error.as_deref().unwrap().contains("connection reset"));
}

#[tokio::test]
async fn a_key_in_an_error_in_the_middle_of_a_stream_stays_here() {
    let error = r#"{"error":{"message":"overloaded sk-fake-canary","code":"sk-fake-canary"}}"#;
    let odd = "no account for sk-fake-canary";
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        for upstream in Dialect::ALL {
            for (event, data) in [("", error), ("event: error\n", error), ("", odd)] {
                let model = Arc::new(Fake { secret: Some("sk-fake-canary"), ..Fake::new(upstream) });
                let provider = model.streams();
                let port = port(&model, Settings { keepalive: None, ..Settings::default() }).await;
                let begin = match upstream {
                    Dialect::Chat => chunk("one"),
                    Dialect::Messages => "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"one\"}}\n\n".into(),
                    Dialect::Responses => "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"output\":[]}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"output_index\":0,\"content_index\":0,\"delta\":\"one\"}\n\n".into(),
                };
                provider.unbounded_send(Ok(begin)).unwrap();
                // The error comes in two pieces, cut in the middle of the key.
                let told = format!("{event}data: {data}\n\n");
                let (head, tail) = told.split_at(told.find("canary").unwrap());
                provider.unbounded_send(Ok(head.to_owned().into())).unwrap();
                provider.unbounded_send(Ok(tail.to_owned().into())).unwrap();
                drop(provider);
                let (status, mut body) = open(&port, path).await;
                assert_eq!(status, 200);
                let mut all = Vec::new();
                while let Some(more) = next(&mut body).await {
                    all.extend_from_slice(&more);
                }
                let text = String::from_utf8(all).unwrap();
                let row = port.turns().await[0].error.clone().unwrap();
                assert!(text.contains("one") && !text.contains("canary"), "{upstream} {path}: {text}");
                assert!(!row.contains("canary") && (data == odd || text.contains("[key]")), "{row}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn a_provider_that_forgets_the_end_marker_and_hangs_does_not_hold_the_end_back() {
    let all = finish();
    let text = String::from_utf8_lossy(&all).into_owned();
    let complete = text.strip_suffix("data: [DONE]\n\n").unwrap().to_owned();
    for (path, end) in [
        ("/v1/messages", "message_stop"),
        ("/v1/responses", "response.completed"),
        ("/v1/chat/completions", "\"stop\""),
    ] {
        let model = chat();
        let provider = model.streams();
        let port = port(&model, Settings::default()).await;
        provider.unbounded_send(Ok(chunk("one"))).unwrap();
        provider.unbounded_send(Ok(complete.clone().into())).unwrap();
        let (_, mut body) = open(&port, path).await;
        let mut all = Vec::new();
        while let Some(more) = next(&mut body).await {
            all.extend_from_slice(&more);
        }
        let text = String::from_utf8(all).unwrap();
        assert!(text.contains(end) && !text.contains("event: error") && !text.contains("\"error\":{"), "{text}");
        let turn = &port.turns().await[0];
        assert_eq!((turn.outcome, turn.usage.output), (Outcome::Ok, Some(2)));
        drop(provider);
    }
}
