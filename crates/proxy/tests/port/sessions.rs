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

fn in_memory(port: &Port) -> usize {
    let shown = format!("{:?}", port.proxy);
    let count: String = shown.chars().filter(char::is_ascii_digit).collect();
    count.parse().unwrap_or_else(|_| panic!("no number of sessions in {shown}"))
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
    for id in ["resp_a", "resp_b", "resp_c", "resp_d", "resp_e"] {
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
    // The other one has nothing but its first answer, which might have gone on by its messages.
    let again = port.ask("POST", "/v1/responses", &[], ask("go on", Some("resp_b"))).await;
    assert_eq!((again.session(), again.header("x-metaclaw-turn")), (other, "2"));
}

/// Answers of the fake model, one after the other.
fn answers(model: &Fake, texts: &[&str]) {
    for text in texts {
        model.says(Says::Whole(200, "application/json", crate::port::whole(Dialect::Chat, text)));
    }
}

async fn idle_out(port: &Port) {
    let settings = port.settings.load_full();
    port.settings.store(Arc::new(Settings { session_idle: Some(Duration::ZERO), ..Settings::default() }));
    port.proxy.end_idle_now().await;
    port.settings.store(settings);
    assert_eq!(in_memory(port), 0);
}

#[tokio::test]
async fn a_chat_that_was_idle_is_not_taken_for_another_one_with_the_same_opening() {
    for second in ["Fine.", "Otherwise."] {
        let model = chat();
        let port = port(&model, Settings::default()).await;
        answers(&model, &["Fine.", "Shorter.", second]);
        let opening = user("zebrafish, a commit message");
        let mut talk = vec![opening.clone()];
        let one = session(&port, &talk).await;
        talk.extend([assistant("Fine."), user("make the zebrafish shorter")]);
        assert_eq!(session(&port, &talk).await, one);
        idle_out(&port).await;
        let two = session(&port, &[opening]).await;
        assert_ne!(one, two);
        talk.extend([assistant("Shorter."), user("thanks")]);
        let got = port.chat(&request(&talk, false)).await;
        assert_eq!((got.session(), got.header("x-metaclaw-turn")), (one, "3"));
        let sent: Value = serde_json::from_slice(&model.last().body).unwrap();
        for at in [0, 2] {
            assert!(sent["messages"][at].to_string().contains("<metaclaw-context>"), "{sent}");
        }
    }
}

#[tokio::test]
async fn only_the_same_words_up_to_the_last_answer_make_an_unknown_answer_the_sessions_own() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    answers(&model, &["Fine.", "More.", "Fine, too."]);
    let one = session(&port, &[user("hi")]).await;
    let two = session(&port, &[user("hi"), assistant("Fine."), user("cats")]).await;
    assert_eq!(one, two);
    // Neither answer was given by anybody here; the words before the last one are nobody's.
    let stranger = [user("hi"), assistant("Hm."), user("dogs"), assistant("Hm!"), user("more")];
    assert_ne!(session(&port, &stranger).await, one);
    let changed = [user("hi"), assistant("F…"), user("cats"), assistant("M…"), user("more")];
    assert_eq!(session(&port, &changed).await, one);
}

#[tokio::test]
async fn a_chat_given_up_is_not_taken_for_a_new_one_with_the_same_opening() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut port = port_with(&chat(), None, Settings::default(), folder.clone()).await;
    let mut sessions = Vec::new();
    // With the answers as they were given, and with answers that the agent changes; in memory, and from the journal.
    for (answer, restart) in [("Fine.", false), ("edited", false), ("Fine.", true)] {
        for _ in 0..3 {
            sessions.push(session(&port, &[user("zebrafish")]).await);
        }
        if restart {
            port.store.close().await.unwrap();
            port = port_with(&chat(), None, Settings::default(), folder.clone()).await;
        }
        let mine = sessions.last().unwrap();
        let mut talk = vec![user("zebrafish")];
        for turn in 2..5 {
            talk.extend([assistant(answer), user(&format!("more {turn}"))]);
            let got = port.chat(&request(&talk, false)).await;
            assert_eq!((got.session(), got.header("x-metaclaw-turn")), (mine.clone(), &*turn.to_string()), "{answer}");
        }
    }
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 9);
}

#[tokio::test]
async fn a_chat_with_changed_answers_stays_in_its_session_through_its_tool_calls() {
    let port = port(&chat(), Settings::default()).await;
    for _ in 0..3 {
        session(&port, &[user("sort the files")]).await;
    }
    let mine = session(&port, &[user("sort the files")]).await;
    let mut talk = vec![user("sort the files")];
    for n in 0..5 {
        let id = format!("call{n}");
        let call = json!({"id": id, "type": "function", "function": {"name": "ls", "arguments": "{}"}});
        talk.push(json!({"role": "assistant", "content": "Fine.", "tool_calls": [call]}));
        talk.push(json!({"role": "tool", "tool_call_id": id, "content": "x"}));
        let got = port.chat(&request(&talk, false)).await;
        assert_eq!((got.session(), got.header("x-metaclaw-turn")), (mine.clone(), "1"), "step {n}");
    }
}

#[tokio::test]
async fn alike_chats_that_are_under_way_together_go_on_in_their_order() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    session(&port, &[user("hi")]).await;
    let mut hold = Vec::new();
    for _ in 0..3 {
        let (go, held) = tokio::sync::oneshot::channel();
        let said = Says::Whole(200, "application/json", crate::port::whole(Dialect::Chat, "Fine."));
        model.says(Says::Later(held, Box::new(said)));
        hold.push(go);
    }
    let first = request(&[user("hi")], false);
    let together = futures::future::join3(port.chat(&first), port.chat(&first), port.chat(&first));
    let release = async {
        crate::port::settle().await;
        hold.drain(..).for_each(|go| go.send(()).unwrap());
    };
    let ((a, b, c), ()) = futures::future::join(together, release).await;
    let mut begun: Vec<_> = port.turns().await.iter().skip(1).map(|turn| turn.session.clone()).collect();
    for word in ["one", "two", "three"] {
        let went = session(&port, &[user("hi"), assistant("Fine."), user(word)]).await;
        assert_eq!(went, begun.remove(0), "{word}");
    }
    assert!([a, b, c].iter().all(|got| got.status == 200));
}

#[tokio::test]
async fn an_agent_that_cuts_the_thinking_off_stays_in_its_session() {
    let (model, folder) = (chat(), Arc::new(tempfile::tempdir().unwrap()));
    answers(&model, &["<think>Hm, fish.</think>\n\nFine."]);
    let port = port_with(&model, None, Settings::default(), folder.clone()).await;
    let one = session(&port, &[user("zebrafish")]).await;
    port.store.close().await.unwrap();
    let port = port_with(&model, None, Settings::default(), folder).await;
    let got = port.chat(&request(&[user("zebrafish"), assistant("Fine."), user("more")], false)).await;
    assert_eq!((got.session(), got.header("x-metaclaw-turn")), (one, "2"));
    let sent: Value = serde_json::from_slice(&model.last().body).unwrap();
    assert!(sent["messages"][0].to_string().contains("<metaclaw-context>"), "{sent}");
}

#[tokio::test]
async fn another_agents_conversation_and_its_memory_are_never_taken_over() {
    let (model, folder) = (chat(), Arc::new(tempfile::tempdir().unwrap()));
    let alpha = [("user-agent", "alpha/1"), ("x-memory-scope", "alice-private")];
    let beta = [("user-agent", "beta/1")];
    let first = request(&[user("hi")], false).to_string();
    let more = request(&[user("hi"), assistant("Fine."), user("more")], false).to_string();
    let mut port = port_with(&model, None, Settings::default(), folder.clone()).await;
    let path = "/v1/chat/completions";
    let a = port.ask("POST", path, &alpha, first.clone()).await.session();
    let b = port.ask("POST", path, &beta, first.clone()).await.session();
    assert_ne!(a, b);
    port.store.close().await.unwrap();
    port = port_with(&model, None, Settings::default(), folder.clone()).await;
    assert_eq!(port.ask("POST", path, &beta, more.clone()).await.session(), b);
    let turns = port.turns().await;
    assert_eq!(turns.last().unwrap().scope.memory_scope, None);
    assert_eq!(port.ask("POST", path, &alpha[..1], more).await.session(), a);
    assert_eq!(port.turns().await.last().unwrap().scope.memory_scope.as_deref(), Some("alice-private"));
    // A name they share makes it one session, but not one memory; with and without the journal.
    let named = json!({"model": "m", "messages": [user("ho")]}).to_string();
    let shared = ("session_id", "shared");
    let (alpha, beta) = ([alpha[0], shared, alpha[1]], [beta[0], shared]);
    port.ask("POST", path, &alpha, named.clone()).await;
    port.ask("POST", path, &beta, named.clone()).await;
    assert_eq!(port.turns().await.last().unwrap().scope.memory_scope, None);
    port.ask("POST", path, &alpha[..2], named.clone()).await;
    assert_eq!(port.turns().await.last().unwrap().scope.memory_scope.as_deref(), Some("alice-private"));
    port.store.close().await.unwrap();
    port = port_with(&model, None, Settings::default(), folder).await;
    port.ask("POST", path, &beta, named).await;
    assert_eq!(port.turns().await.last().unwrap().scope.memory_scope, None);
}

#[tokio::test]
async fn a_key_that_a_program_uses_for_everything_keeps_its_chats_apart() {
    let port = port(&chat(), Settings::default()).await;
    let path = "/v1/chat/completions";
    let ask = async |key: &str, messages: &[Value]| {
        let mut body = request(messages, false);
        body["prompt_cache_key"] = json!(key);
        port.ask("POST", path, &[("user-agent", "OpenAI/Python 1.2.3")], body.to_string()).await.session()
    };
    let cats = ask("my-app", &[user("cats")]).await;
    let dogs = ask("my-app", &[user("dogs")]).await;
    assert_ne!(cats, dogs);
    let more = |words| [user(words), assistant("Fine."), user("more")];
    assert_eq!(ask("my-app", &more("cats")).await, cats);
    assert_eq!(ask("my-app", &more("dogs")).await, dogs);
    // Of alike conversations it tells which goes on.
    let (one, two) = (ask("one", &[user("hi")]).await, ask("two", &[user("hi")]).await);
    assert_ne!(one, two);
    assert_eq!(ask("two", &more("hi")).await, two);
    assert_eq!(ask("one", &more("hi")).await, one);
}

#[tokio::test]
async fn a_first_request_that_failed_is_no_other_agents() {
    let model = chat();
    let port = port(&model, Settings::default()).await;
    model.says(Says::Whole(500, "application/json", "{\"error\":{\"message\":\"x\"}}".into()));
    let body = request(&[user("hi")], false).to_string();
    let one = port.ask("POST", "/v1/chat/completions", &[("user-agent", "alpha/1")], body.clone()).await.session();
    let two = port.ask("POST", "/v1/chat/completions", &[("user-agent", "beta/1")], body).await.session();
    assert_ne!(one, two);
}

#[tokio::test]
async fn conversations_side_by_side_in_one_session_have_a_turn_each() {
    let port = port(&chat(), Settings::default()).await;
    let named = [("session_id", "s")];
    let calls = |n: usize, id: &str| {
        json!({"role": "assistant", "content": null,
               "tool_calls": [{"id": format!("{id}{n}"), "type": "function", "function": {"name": "look", "arguments": "{}"}}]})
    };
    let result = |n: usize, id: &str| json!({"role": "tool", "tool_call_id": format!("{id}{n}"), "content": "x"});
    let (mut a, mut b) = (vec![user("sort the files")], vec![user("count the files")]);
    for n in 0..3 {
        for (talk, id) in [(&mut a, "a"), (&mut b, "b")] {
            let body = request(talk, false).to_string();
            assert_eq!(port.ask("POST", "/v1/chat/completions", &named, body).await.session(), "s");
            talk.extend([calls(n, id), result(n, id)]);
        }
    }
    let numbers: Vec<_> = port.turns().await.iter().map(|t| (t.turn_no, t.step)).collect();
    assert_eq!(numbers, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]);
    // The same words again are a new turn.
    let body = request(&[user("sort the files")], false).to_string();
    let again = port.ask("POST", "/v1/chat/completions", &named, body).await;
    assert_eq!(again.header("x-metaclaw-turn"), "3");
}

#[tokio::test]
async fn a_request_under_way_keeps_its_session_open() {
    let model = chat();
    let mut port = port(&model, Settings::default()).await;
    let one = session(&port, &[user("hi")]).await;
    port.event().await;
    let provider = model.streams();
    provider.unbounded_send(Ok(crate::port::chunk("x"))).unwrap();
    let talk = request(&[user("hi"), assistant("Fine."), user("more")], true).to_string();
    let running = port.open("POST", "/v1/chat/completions", &[], talk).await;
    // The last answer is old, the request is young.
    port.settings.store(Arc::new(Settings { session_idle: Some(Duration::ZERO), ..Settings::default() }));
    port.clock.forward(60_000);
    port.proxy.end_idle_now().await;
    assert_eq!(port.store.session(&one).await.unwrap().unwrap().ended_ms, None);
    assert_eq!(in_memory(&port), 1);
    drop(running);
    port.event().await;
    port.clock.forward(60_000);
    port.proxy.end_idle_now().await;
    assert!(port.store.session(&one).await.unwrap().unwrap().ended_ms.is_some());
}

#[tokio::test]
async fn a_chat_that_begins_with_a_picture_alone_is_one_session() {
    let (model, folder) = (chat(), Arc::new(tempfile::tempdir().unwrap()));
    let port = port_with(&model, None, Settings::default(), folder.clone()).await;
    let picture = |mark: bool| {
        let mut part = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        if mark {
            part["cache_control"] = json!({"type": "ephemeral"});
        }
        json!({"role": "user", "content": [part]})
    };
    let one = session(&port, &[picture(true)]).await;
    let mut talk = vec![picture(false), assistant("Fine."), user("what colour is it?")];
    assert_eq!(session(&port, &talk).await, one);
    port.store.close().await.unwrap();
    let port = port_with(&model, None, Settings::default(), folder).await;
    talk.extend([assistant("Fine."), user("and now?")]);
    assert_eq!(session(&port, &talk).await, one);
}

#[tokio::test]
async fn words_that_follow_an_answer_broken_off_stay_in_the_session() {
    let model = chat();
    let mut port = port(&model, Settings::default()).await;
    let provider = model.streams();
    provider.unbounded_send(Ok(crate::port::chunk("half an ans"))).unwrap();
    let open = port.open("POST", "/v1/chat/completions", &[], request(&[user("hi")], true).to_string()).await;
    let one = open.headers()["x-metaclaw-session"].to_str().unwrap().to_owned();
    let mut body = open.into_body();
    crate::port::next(&mut body).await.unwrap();
    drop(body);
    port.event().await;
    let with = session(&port, &[user("hi"), assistant("half an ans"), user("go on")]).await;
    assert_eq!(with, one);
    let without = session(&port, &[user("hi"), user("go on, please")]).await;
    assert_eq!(without, one);
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
    assert_eq!(in_memory(&port), 1, "it is not idle yet");
    port.settings.store(Arc::new(Settings { session_idle: Some(Duration::ZERO), ..Settings::default() }));
    let provider = model.streams();
    provider.unbounded_send(Ok(crate::port::chunk("x"))).unwrap();
    let running = port.open("POST", "/v1/chat/completions", &[], request(&[user("ho")], true).to_string()).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    port.proxy.end_idle_now().await;
    assert_eq!(in_memory(&port), 1, "the busy one stays");
    drop(running);
}

#[tokio::test]
async fn thousands_of_sessions_do_not_pile_up() {
    let port = port(&chat(), Settings::default()).await;
    for n in 0..1300 {
        session(&port, &[user(&format!("zebrafish {n}"))]).await;
    }
    assert!(in_memory(&port) <= 1024, "{}", in_memory(&port));
}
