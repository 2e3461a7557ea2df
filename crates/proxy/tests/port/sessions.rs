//! Which conversation a request belongs to when nothing names it, and how sessions end.

use std::sync::Arc;
use std::time::Duration;

use dialect::Dialect;
use metaclaw_proxy::{Event, Settings};
use serde_json::{Value, json};
use store::EndReason;

use crate::port::{Fake, Port, Says, assistant, port, port_with, request, user};

fn chat() -> Arc<Fake> {
    Arc::new(Fake::new(Dialect::Chat))
}

async fn session(port: &Port, messages: &[Value]) -> String {
    let got = port.chat(&request(messages, false)).await;
    assert_eq!(got.status, 200, "{}", got.text());
    got.session()
}

#[tokio::test]
async fn parallel_chats_with_the_same_words_stay_apart() {
    let port = port(&chat(), Settings::default()).await;
    let one = session(&port, &[user("hi")]).await;
    let two = session(&port, &[user("hi")]).await;
    assert_ne!(one, two);
    assert!(one.starts_with("tui-m-"), "{one}");
    let talk = |last: &str| vec![user("hi"), assistant("Fine."), user(last)];
    let a = session(&port, &talk("cats")).await;
    let b = session(&port, &talk("dogs")).await;
    assert_ne!(a, b);
    assert!([&one, &two].contains(&&a) && [&one, &two].contains(&&b));
    let mut cats = talk("cats");
    cats.extend([assistant("Fine."), user("more")]);
    assert_eq!(session(&port, &cats).await, a);
}

#[tokio::test]
async fn an_edited_or_repeated_last_message_stays_in_its_session() {
    let port = port(&chat(), Settings::default()).await;
    let one = session(&port, &[user("hi")]).await;
    let talk = |last: &str| vec![user("hi"), assistant("Fine."), user(last)];
    assert_eq!(session(&port, &talk("cats")).await, one);
    assert_eq!(session(&port, &talk("cats")).await, one);
    assert_eq!(session(&port, &talk("dogs")).await, one);
}

#[tokio::test]
async fn an_answer_the_agent_changed_is_found_by_what_the_user_said() {
    let port = port(&chat(), Settings::default()).await;
    let one = session(&port, &[user("About cats")]).await;
    let shortened = [user("About cats"), assistant("(shortened)"), user("more")];
    assert_eq!(session(&port, &shortened).await, one);
    let elsewhere = [user("About dogs"), assistant("Fine."), user("more")];
    assert_ne!(session(&port, &elsewhere).await, one);
}

#[tokio::test]
async fn a_first_request_that_failed_and_comes_again_is_the_same_session() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    model.says(Says::Whole(500, "application/json", "{\"error\":{\"message\":\"x\"}}".into()));
    let failed = port.chat(&request(&[user("hi")], false)).await;
    assert_eq!(failed.status, 500);
    assert_eq!(session(&port, &[user("hi")]).await, failed.session());
    let turns = port.turns().await;
    assert_eq!(turns.iter().map(|t| (t.turn_no, t.step)).collect::<Vec<_>>(), [(1, 0), (1, 1)]);
    assert_ne!(session(&port, &[user("hi")]).await, failed.session(), "it was answered; this is another chat");
}

#[tokio::test]
async fn a_conversation_at_the_provider_is_followed_by_its_answers() {
    let model = Arc::new(Fake::new(Dialect::Responses));
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let port = port_with(&model, None, Settings::default(), folder.clone()).await;
    let answer = |id: &str| crate::port::whole(Dialect::Responses, "Fine.").replace("\"r1\"", &format!("\"{id}\""));
    for id in ["resp_a", "resp_b", "resp_c", "resp_d"] {
        model.says(Says::Whole(200, "application/json", answer(id)));
    }
    let ask = |text: &str, before: Option<&str>| {
        json!({"model": "m", "input": text, "previous_response_id": before}).to_string()
    };
    let one = port.ask("POST", "/v1/responses", &[], ask("go on", None)).await.session();
    let other = port.ask("POST", "/v1/responses", &[], ask("go on", None)).await.session();
    assert_ne!(one, other);
    let again = port.ask("POST", "/v1/responses", &[], ask("go on", Some("resp_a"))).await;
    assert_eq!((again.session(), again.header("x-metaclaw-turn")), (one.clone(), "2"));
    port.store.close().await.unwrap();
    let port = port_with(&model, None, Settings::default(), folder).await;
    let again = port.ask("POST", "/v1/responses", &[], ask("go on", Some("resp_c"))).await;
    assert_eq!((again.session(), again.header("x-metaclaw-turn")), (one, "3"));
}

#[tokio::test]
async fn a_conversation_is_found_again_after_a_restart() {
    let (model, folder) = (chat(), Arc::new(tempfile::tempdir().unwrap()));
    let port = port_with(&model, None, Settings::default(), folder.clone()).await;
    let one = session(&port, &[user("hi")]).await;
    port.store.close().await.unwrap();
    let port = port_with(&model, None, Settings::default(), folder).await;
    let got = port.chat(&request(&[user("hi"), assistant("Fine."), user("more")], false)).await;
    assert_eq!((got.session(), got.header("x-metaclaw-turn")), (one, "2"));
}

#[tokio::test]
async fn side_calls_without_a_conversation_share_a_session_and_take_no_turn_number() {
    let port = port(&chat(), Settings::default()).await;
    let one = session(&port, &[user("hi")]).await;
    let side = [("x-turn-type", "heartbeat")];
    let body = request(&[user("anything to do?")], false).to_string();
    let got = port.ask("POST", "/v1/chat/completions", &side, body).await;
    assert_eq!(got.session(), "side-openai-client");
    let talk = [user("hi"), assistant("Fine."), user("summarise this")];
    let got = port.ask("POST", "/v1/chat/completions", &side, request(&talk, false).to_string()).await;
    assert_eq!(got.session(), one);
    let got = port.chat(&request(&[user("hi"), assistant("Fine."), user("more")], false)).await;
    assert_eq!((got.session(), got.header("x-metaclaw-turn")), (one, "2"));
}

#[tokio::test]
async fn an_explicit_end_is_recorded_and_told() {
    let mut port = port(&chat(), Settings::default()).await;
    let body = json!({"model": "m", "session_id": "s", "session_done": true, "messages": [user("bye")]}).to_string();
    let got = port.ask("POST", "/v1/chat/completions", &[], body).await;
    assert_eq!((got.session(), got.json()["session_id"].as_str()), ("s".to_owned(), Some("s")));
    assert!(matches!(port.event().await, Event::TurnFinished(_)));
    let Event::SessionEnded { session, reason } = port.event().await else { panic!("no end") };
    assert_eq!((&*session, reason), ("s", EndReason::Explicit));
    assert!(port.store.session("s").await.unwrap().unwrap().ended_ms.is_some());
}

/// The store's clock is the test's and stands still, so only sessions that memory or time call idle end.
#[tokio::test]
async fn silent_sessions_end_and_busy_ones_do_not() {
    let model = chat();
    let mut port = port(&model, Settings { session_idle: Some(Duration::from_secs(60)), ..Settings::default() }).await;
    session(&port, &[user("hi")]).await;
    port.event().await;
    port.proxy.end_idle_now().await;
    assert_eq!(port.proxy.sessions_in_memory(), 1, "it is not idle yet");
    port.settings.store(Arc::new(Settings { session_idle: Some(Duration::ZERO), ..Settings::default() }));
    let provider = model.streams();
    provider.unbounded_send(Ok(crate::port::chunk("x"))).unwrap();
    let running = port.open("POST", "/v1/chat/completions", &[], request(&[user("ho")], true).to_string()).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    port.proxy.end_idle_now().await;
    assert_eq!(port.proxy.sessions_in_memory(), 1, "the busy one stays");
    drop(running);
}

#[tokio::test]
async fn thousands_of_sessions_do_not_pile_up() {
    let port = port(&chat(), Settings::default()).await;
    for n in 0..1300 {
        session(&port, &[user(&format!("zebrafish {n}"))]).await;
    }
    assert!(port.proxy.sessions_in_memory() <= 1024, "{}", port.proxy.sessions_in_memory());
}
