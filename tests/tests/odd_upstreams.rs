//! Odd answers of a provider never become a 500 or a silent empty answer: what can be understood is passed on, the rest is
//! an error that says what came.

use metaclaw_tests::agent::{Got, ended_well, hello, text_of, text_of_events};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply, Stream};
use rstest::rstest;
use serde_json::{Value, json};

async fn ask(api: Api, upstream: Api, stream: bool, reply: Reply) -> Got {
    let provider = Provider::start().await;
    provider.script(move |_| Some(reply.clone()));
    let settings = json!({"llm": {"dialect": upstream.config()}, "proxy": {"max_retries": 0}});
    let product = Product::started(&provider, &settings).await;
    let got = product.agent().ask(api, &hello(api, "hi", stream)).await;
    assert_eq!(product.agent().get("/healthz").await.status(), 200);
    got
}

/// An error a person can act on, in the caller's form: 502, and what the provider sent.
fn is_readable_error(api: Api, got: &Got, words: &str) {
    assert_eq!(got.status(), 502, "{}", got.text());
    let body = got.json();
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(message.to_lowercase().contains(&words.to_lowercase()), "{words:?} is not in {body}");
    assert!(!message.contains('<') && message.chars().count() < 1_000, "{message}");
    assert_eq!(body["type"] == "error", api == Api::Messages, "{body}");
}

#[rstest]
#[tokio::test]
async fn an_html_page_is_a_readable_502(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Messages)] upstream: Api,
    #[values(200, 502, 503)] status: u16,
    #[values(false, true)] stream: bool,
) {
    let got = ask(api, upstream, stream, Reply::html(status)).await;
    if status == 200 || status == 502 {
        is_readable_error(api, &got, "Bad Gateway");
    } else {
        assert!(matches!(got.status(), 502 | 503 | 529), "{}", got.text());
        assert!(got.json()["error"]["message"].as_str().is_some_and(|m| m.contains("Bad Gateway")), "{}", got.text());
    }
}

#[rstest]
#[case::no_choices(json!({"id": "x", "object": "chat.completion", "choices": [], "usage": {"completion_tokens": 0}}))]
#[case::choices_missing(json!({"id": "x", "object": "chat.completion"}))]
#[case::null_message(json!({"id": "x", "choices": [{"index": 0, "message": null, "finish_reason": "stop"}]}))]
#[case::error_with_status_200(json!({"error": {"message": "The model is overloaded.", "code": 529}}))]
#[case::a_list(json!([]))]
#[tokio::test]
async fn a_whole_answer_without_an_answer_is_a_502(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[case] body: Value,
) {
    let got = ask(api, Api::Chat, false, Reply::json(200, &body)).await;
    assert!(matches!(got.status(), 502 | 503 | 529), "{}", got.text());
    assert!(got.json()["error"]["message"].as_str().is_some_and(|m| m.len() > 10), "{}", got.text());
}

#[rstest]
#[case::empty("")]
#[case::cut_json(r#"{"id":"x","choices":[{"#)]
#[case::text("upstream connect error or disconnect/reset before headers")]
#[tokio::test]
async fn a_body_that_is_no_json_is_a_502(#[values(Api::Chat, Api::Messages)] api: Api, #[case] body: &str) {
    let got = ask(api, Api::Chat, false, Reply::whole(200, "application/json", body)).await;
    assert_eq!(got.status(), 502, "{}", got.text());
    assert!(got.json()["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{}", got.text());
}

#[rstest]
#[case::usage_after_done(true)]
#[case::usage_before_done(false)]
#[tokio::test]
async fn usage_is_found_on_either_side_of_done(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[case] after: bool,
) {
    let mut events = Answer::text("one two").events(Api::Chat, "fake-large", true);
    if after {
        let last = events.len() - 1;
        events.swap(last - 1, last);
    }
    let provider = Provider::start().await;
    provider.next(Reply::stream(&events));
    let product = Product::started(&provider, &json!({})).await;
    let mut body = hello(api, "hi", true);
    if api == Api::Chat {
        body["stream_options"] = json!({"include_usage": true});
    }
    let got = product.agent().ask(api, &body).await;
    let seen = got.events();
    assert_eq!(text_of_events(api, &seen), "one two");
    assert!(ended_well(api, &seen), "{}", got.text());
    let usage = seen
        .iter()
        .filter(|e| e.data != "[DONE]")
        .map(|e| e.json())
        .rev()
        .find_map(|e| [&e["usage"], &e["response"]["usage"]].into_iter().find(|u| u.is_object()).cloned());
    let usage = usage.unwrap_or_else(|| panic!("no usage reached the client: {}", got.text()));
    assert!(usage["prompt_tokens"] == 50 || usage["input_tokens"] == 50 || usage["input_tokens"] == 30, "{usage}");
    let turns = product.turns().await;
    assert_eq!(turns[0]["tokens"]["output"], 7, "the journal lost the usage: {:#}", turns[0]);
}

/// GLM sends the usage in a chunk with no choices in the middle; others leave the role out, or send nulls.
#[rstest]
#[tokio::test]
async fn sloppy_chunks_are_understood(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api) {
    let chunk = |choices: Value| format!("data: {}\n\n", json!({"id": "x", "model": "m", "choices": choices}));
    let events = [
        "data: {\"id\":\"x\",\"choices\":[]}\n\n".to_owned(),
        chunk(json!([{"delta": {"content": "one "}}])),
        "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n".to_owned(),
        chunk(
            json!([{"index": 0, "delta": {"content": "two", "tool_calls": null, "role": null}, "finish_reason": null}]),
        ),
        "data: {\"id\":\"x\",\"choices\":null}\n\n".to_owned(),
        chunk(json!([{"index": 0, "delta": null, "finish_reason": "stop"}])),
        "data: [DONE]\n\n".to_owned(),
    ];
    let got = ask(api, Api::Chat, true, Reply::stream(&events)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let text: String =
        got.events().iter().filter(|e| e.data != "[DONE]").map(|e| e.json()).fold(String::new(), |t, e| {
            let part = [&e["choices"][0]["delta"]["content"], &e["delta"]["text"]];
            let plain = if e["type"] == "response.output_text.delta" { e["delta"].as_str() } else { None };
            t + part.iter().find_map(|p| p.as_str()).or(plain).unwrap_or_default()
        });
    assert_eq!(text, "one two", "{}", got.text());
    assert!(ended_well(api, &got.events()), "{}", got.text());
}

/// Some servers close without `[DONE]`; the finish reason was there, so the answer is whole. An agent of the same API gets
/// the bytes as they came.
#[rstest]
#[tokio::test]
async fn a_missing_done_after_the_finish_reason_is_forgiven(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
) {
    let mut events = Answer::text("one two").events(Api::Chat, "fake-large", false);
    events.pop();
    let provider = Provider::start().await;
    provider.next(Reply::stream(&events));
    let product = Product::started(&provider, &json!({})).await;
    let got = product.agent().ask(api, &hello(api, "hi", true)).await;
    assert_eq!(text_of_events(api, &got.events()), "one two");
    if api == Api::Chat {
        assert_eq!(got.text(), events.concat());
    } else {
        assert!(ended_well(api, &got.events()), "{}", got.text());
    }
    assert_eq!(product.turns().await[0]["outcome"], "ok");
}

/// A stream that stops in the middle, by a reset or an orderly close, never looks finished.
#[rstest]
#[tokio::test]
async fn a_stream_cut_in_the_middle_does_not_look_finished(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Responses, Api::Messages)] upstream: Api,
    #[values("reset", "close", "end")] how: &str,
) {
    let events = Answer::text("one two three").events(upstream, "fake-large", false);
    let cut = events.iter().position(|e| e.contains("\"two ")).expect("a middle") + 1;
    let stream = Stream::begin().events(&events[..cut]);
    let reply = match how {
        "reset" => stream.reset(),
        "close" => stream.close(),
        _ => stream.end(),
    };
    let provider = Provider::start().await;
    provider.next(reply);
    let product = Product::started(&provider, &json!({"llm": {"dialect": upstream.config()}})).await;
    let mut coming = product.agent().stream(api, &hello(api, "hi", true)).await;
    let mut seen = Vec::new();
    while let Ok(Some(event)) = coming.event().await {
        seen.push(event);
    }
    assert!(
        text_of_events(api, &seen.iter().filter(|e| e.name != "error").cloned().collect::<Vec<_>>())
            .starts_with("one "),
        "{seen:#?}"
    );
    assert!(!ended_well(api, &seen), "a broken answer ended as if it were whole: {seen:#?}");
    assert!(seen.iter().any(|e| e.data.contains("error")), "nothing says that it broke: {seen:#?}");
    let turns = metaclaw_tests::until("the cut turn is in the journal", || async {
        Some(product.turns().await).filter(|t| t.len() == 1)
    })
    .await;
    assert_eq!(turns[0]["outcome"], "cut", "{:#}", turns[0]);
}

/// An error that comes as an event of a stream with status 200.
#[rstest]
#[tokio::test]
async fn an_error_event_is_passed_on_as_an_error(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Messages)] upstream: Api,
) {
    let events = [match upstream {
        Api::Messages => {
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded now\"}}\n\n"
        }
        _ => "data: {\"error\":{\"message\":\"Overloaded now\",\"type\":\"server_error\",\"code\":\"x\"}}\n\n",
    }
    .to_owned()];
    let got = ask(api, upstream, true, Reply::stream(&events)).await;
    assert!(got.text().contains("Overloaded now"), "{} {}", got.status(), got.text());
    if got.status() == 200 {
        assert!(!ended_well(api, &got.events()) || got.text().contains("\"error\""), "{}", got.text());
    }
}

/// A provider that ignores `stream: true`, and one that streams when it should not.
#[rstest]
#[tokio::test]
async fn the_wrong_form_is_turned_into_the_right_one(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Messages)] upstream: Api,
) {
    let answer = Answer::text("one two");
    let whole = Reply::json(200, &answer.whole(upstream, "fake-large"));
    let got = ask(api, upstream, true, whole).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let text = if got.head.header("content-type").is_some_and(|t| t.contains("event-stream")) {
        assert!(ended_well(api, &got.events()), "{}", got.text());
        text_of_events(api, &got.events())
    } else {
        text_of(api, &got.json())
    };
    assert_eq!(text, "one two");
    let got = ask(api, upstream, false, Reply::stream(&answer.events(upstream, "fake-large", false))).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    assert_eq!(text_of(api, &got.json()), "one two", "{}", got.text());
}

/// Reasoning only, no text: the text of one field is never moved into the other, and it is no error.
#[tokio::test]
async fn an_answer_of_reasoning_only_comes_through() {
    let answer = Answer::text("").thinking("Let me see.", "c2ln");
    let got = ask(Api::Chat, Api::Chat, false, Reply::Answer(answer)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    assert_eq!(got.json()["choices"][0]["message"]["reasoning_content"], "Let me see.");
}
