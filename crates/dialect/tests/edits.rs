//! Edits change what they name; every other byte stays.

use bytes::Bytes;
use metaclaw_dialect::edit::Edits;
use metaclaw_dialect::{Dialect, Json, MaxTokensField, Quirks, Request};
use proptest::prelude::*;
use rstest::rstest;

#[expect(clippy::unwrap_used, reason = "a text of a test that is no JSON fails the test")]
fn json(text: &str) -> Json {
    Json::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

#[expect(clippy::unwrap_used, reason = "a body of a test that is no request fails the test")]
fn edited(dialect: Dialect, body: &str, edit: impl Fn(&mut metaclaw_dialect::RequestEdit<'_>)) -> String {
    let request = Request::parse(dialect, Bytes::copy_from_slice(body.as_bytes())).unwrap();
    let mut edits = request.edit();
    edit(&mut edits);
    String::from_utf8(edits.finish().to_vec()).unwrap()
}

#[rstest]
#[case(r#"{ "a" : 1 , "b":2, "c":3 }"#, &["a"], r#"{ "b":2, "c":3 }"#)]
#[case(r#"{ "a" : 1 , "b":2, "c":3 }"#, &["b"], r#"{ "a" : 1, "c":3 }"#)]
#[case(r#"{ "a" : 1 , "b":2, "c":3 }"#, &["c"], r#"{ "a" : 1 , "b":2 }"#)]
#[case(r#"{ "a" : 1 , "b":2, "c":3 }"#, &["a", "b"], r#"{ "c":3 }"#)]
#[case(r#"{ "a" : 1 , "b":2, "c":3 }"#, &["b", "c"], r#"{ "a" : 1 }"#)]
#[case(r#"{ "a" : 1 , "b":2, "c":3 }"#, &["c", "b", "a"], "{  }")]
#[case(r#"{"a":1,"a":2,"b":3}"#, &["a"], r#"{"b":3}"#)]
#[case(r#"{"\u0061":1}"#, &["a"], "{}")]
fn removed_members_take_their_commas_along(#[case] text: &str, #[case] keys: &[&str], #[case] expected: &str) {
    let json = json(text);
    let mut edits = Edits::new(&json);
    for key in keys {
        edits.remove_member(json.root(), key);
    }
    assert_eq!(edits.apply(), expected);
    for key in keys {
        edits.set_member(json.root(), key, "9");
    }
    let again = Json::parse(edits.apply()).unwrap();
    assert!(keys.iter().all(|key| again.root().get(key).and_then(metaclaw_dialect::Value::as_i64) == Some(9)));
}

#[rstest]
#[case("{}", r#"{"k":1,"l":2}"#)]
#[case("{ \n }", "{\"k\":1,\"l\":2 \n }")]
#[case(r#"{"a":{} }"#, r#"{"a":{},"k":1,"l":2 }"#)]
#[case(r#"{"k":0,"k":5}"#, r#"{"k":1,"k":1,"l":2}"#)]
fn new_members_come_last_and_known_ones_stay_in_place(#[case] text: &str, #[case] expected: &str) {
    let json = json(text);
    let mut edits = Edits::new(&json);
    edits.set_member(json.root(), "k", "0");
    edits.set_member(json.root(), "l", "2");
    edits.set_member(json.root(), "k", "1");
    assert_eq!(edits.apply(), expected);
}

#[test]
fn elements_come_first_and_last() {
    let json = json(r#"{"a":[ 1 ],"b":[]}"#);
    let mut edits = Edits::new(&json);
    for key in ["a", "b"] {
        let array = json.root().get(key).unwrap();
        edits.append_element(array, "3");
        edits.prepend_element(array, "0");
    }
    assert_eq!(edits.apply(), r#"{"a":[0, 1,3 ],"b":[0,3]}"#);
}

#[rstest]
#[case::string(
    Dialect::Chat,
    r#"{"messages":[{"role":"user","content":"a \u00e9"}]}"#,
    r#"{"messages":[{"role":"user","content":"a \u00e9\n\nB \"q\""}]}"#
)]
#[case::last_text(
    Dialect::Messages,
    r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]}]}"#,
    r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a\n\nB \"q\"","cache_control":{}}]}]}"#
)]
#[case::after_image(Dialect::Messages, r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}]}]}"#,
    r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"B \"q\""}]}]}"#)]
#[case::input(Dialect::Responses, r#"{"input":"a"}"#, r#"{"input":"a\n\nB \"q\""}"#)]
#[case::input_image(
    Dialect::Responses,
    r#"{"input":[{"role":"user","content":[{"type":"input_image"}]}]}"#,
    r#"{"input":[{"role":"user","content":[{"type":"input_image"},{"type":"input_text","text":"B \"q\""}]}]}"#
)]
#[case::empty(
    Dialect::Chat,
    r#"{"messages":[{"role":"user","content":""}]}"#,
    r#"{"messages":[{"role":"user","content":"B \"q\""}]}"#
)]
#[case::null(
    Dialect::Chat,
    r#"{"messages":[{"role":"user","content":null}]}"#,
    r#"{"messages":[{"role":"user","content":"B \"q\""}]}"#
)]
fn a_block_goes_to_the_end_of_the_message(#[case] dialect: Dialect, #[case] body: &str, #[case] expected: &str) {
    assert_eq!(edited(dialect, body, |edit| assert!(edit.inject_turn(0, "B \"q\""))), expected);
}

#[test]
fn a_message_reads_the_same_with_its_block_as_a_list_and_as_a_string() {
    let as_list = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]}]}"#;
    let as_string = r#"{"messages":[{"role":"user","content":"a"}]}"#;
    let text = |body: &str| {
        let body = edited(Dialect::Messages, body, |edit| assert!(edit.inject_turn(0, "B")));
        Request::parse(Dialect::Messages, Bytes::from(body)).unwrap().message_text(0)
    };
    assert_eq!(text(as_list), text(as_string));
}

#[test]
fn assistant_tool_and_system_messages_are_never_touched() {
    let body = r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"tool","tool_call_id":"1","content":"t"}]}"#;
    let same = edited(Dialect::Chat, body, |edit| {
        for index in [0, 2, 3, 4] {
            assert!(!edit.inject_turn(index, "B"));
        }
    });
    assert_eq!(same, body);
}

#[rstest]
#[case(
    Dialect::Chat,
    r#"{"messages":[{"role":"developer","content":[{"type":"text","text":"s"}]}]}"#,
    r#"{"messages":[{"role":"developer","content":[{"type":"text","text":"s\n\nB"}]}]}"#
)]
#[case(
    Dialect::Chat,
    r#"{"messages":[{"role":"user","content":"u"}]}"#,
    r#"{"messages":[{"role":"system","content":"B"},{"role":"user","content":"u"}]}"#
)]
#[case(
    Dialect::Messages,
    r#"{"system":"s","messages":[{"role":"user","content":"u"}]}"#,
    r#"{"system":"s\n\nB","messages":[{"role":"user","content":"u"}]}"#
)]
#[case(
    Dialect::Messages,
    r#"{"messages":[{"role":"user","content":"u"}]}"#,
    r#"{"messages":[{"role":"user","content":"u"}],"system":"B"}"#
)]
#[case(Dialect::Responses, r#"{"input":"u","instructions":null}"#, r#"{"input":"u","instructions":"B"}"#)]
fn a_block_for_the_system_prompt_goes_to_its_end(#[case] dialect: Dialect, #[case] body: &str, #[case] expected: &str) {
    assert_eq!(edited(dialect, body, |edit| edit.inject_system("B")), expected);
}

#[rstest]
#[case(
    r#"{"stream":true,"messages":[{"role":"user"}]}"#,
    r#"{"stream":true,"messages":[{"role":"user"}],"stream_options":{"include_usage":true}}"#
)]
#[case(
    r#"{"stream":true,"stream_options":{"x":1},"messages":[{"role":"user"}]}"#,
    r#"{"stream":true,"stream_options":{"x":1,"include_usage":true},"messages":[{"role":"user"}]}"#
)]
#[case(
    r#"{"stream":true,"stream_options":{"include_usage":false},"messages":[{"role":"user"}]}"#,
    r#"{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user"}]}"#
)]
#[case(r#"{"messages":[{"role":"user"}]}"#, r#"{"messages":[{"role":"user"}]}"#)]
fn usage_is_asked_for_in_streams_only(#[case] body: &str, #[case] expected: &str) {
    assert_eq!(edited(Dialect::Chat, body, |edit| edit.request_usage()), expected);
}

#[test]
fn quirks_leave_out_and_rename_what_the_upstream_cannot_take() {
    let body = r#"{"store":false,"max_completion_tokens":186281,"messages":[{"role":"developer","content":"d"},{"role":"user","content":"u"}],"stream_options":{},"seed":1}"#;
    let quirks = Quirks {
        developer_role: false,
        store: false,
        stream_usage: false,
        max_tokens_field: MaxTokensField::MaxTokens,
        max_output_tokens: Some(8192),
        drop_fields: vec!["seed".to_owned()],
        ..Quirks::default()
    };
    assert_eq!(
        edited(Dialect::Chat, body, |edit| edit.apply_quirks(&quirks)),
        r#"{"messages":[{"role":"system","content":"d"},{"role":"user","content":"u"}],"max_tokens":8192}"#
    );
    assert_eq!(edited(Dialect::Chat, body, |edit| edit.apply_quirks(&Quirks::default())), body);
}

#[test]
fn the_session_start_prompt_is_replaced_only_where_it_is_refused_and_only_itself() {
    let body = r#"{"messages":[{"role":"user","name":"n","content":"[Mon 2026-11-30 08:54 UTC] A new session was started via /new or /reset. Execute your Session Startup sequence now."},{"role":"user","content":"what does \"A new session was started via /new or /reset\" mean?"}]}"#;
    let refused = Quirks { session_start_prompt: false, ..Quirks::default() };
    let out = edited(Dialect::Chat, body, |edit| edit.apply_quirks(&refused));
    assert!(out.starts_with(r#"{"messages":[{"role":"user","name":"n","content":"This is the start of a new chat."#));
    assert!(out.ends_with(&body[body.find(r#"{"role":"user","content":"what"#).unwrap()..]));
    assert_eq!(edited(Dialect::Chat, body, |edit| edit.apply_quirks(&Quirks::default())), body);
}

/// JSON as people and programs write it: odd spacing, escapes, numbers in all spellings, keys that repeat.
fn json_text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("-0.5E+10".to_owned()),
        Just("12345678901234567890".to_owned()),
        Just(r#""\u00e9\ud83d\ude00 \\\" 日本""#.to_owned()),
        "[a-z ]{0,5}".prop_map(|text| format!("\"{text}\"")),
    ];
    let space = prop_oneof![Just(""), Just(" "), Just("\n\t")];
    scalar.prop_recursive(3, 24, 5, move |inner| {
        let space = space.clone();
        prop_oneof![
            prop::collection::vec((inner.clone(), space.clone()), 0..5).prop_map(|items| {
                let items: Vec<_> = items.into_iter().map(|(item, space)| format!("{space}{item}")).collect();
                format!("[{}]", items.join(","))
            }),
            prop::collection::vec(("[a-e]", inner, space), 0..6).prop_map(|members| {
                let members: Vec<_> =
                    members.into_iter().map(|(key, value, space)| format!("{space}\"{key}\"{space}:{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    /// Setting and removing gives what the same does to the parsed value, and members not named keep their bytes.
    #[test]
    fn edits_agree_with_the_value_and_spare_the_rest(
        members in prop::collection::vec(("[a-e]", json_text(), prop_oneof![Just(""), Just(" "), Just("\n")]), 0..6),
        steps in prop::collection::vec(("[a-g]", prop::option::of(json_text())), 1..6),
    ) {
        let members: Vec<_> = members.iter().map(|(key, value, space)| format!("{space}\"{key}\":{value}{space}")).collect();
        let text = format!("{{{}}}", members.join(","));
        let json = Json::parse(Bytes::from(text.clone())).unwrap();
        let mut model: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        let mut edits = Edits::new(&json);
        for (key, value) in &steps {
            match value {
                Some(value) => {
                    edits.set_member(json.root(), key, value);
                    model.insert(key.clone(), serde_json::from_str(value).unwrap());
                }
                None => {
                    edits.remove_member(json.root(), key);
                    model.remove(key);
                }
            }
        }
        let out = edits.apply();
        prop_assert_eq!(serde_json::from_slice::<serde_json::Map<_, _>>(&out).unwrap(), model);
        let out = Json::parse(out).unwrap();
        let spared = |json: &Json| -> Vec<String> {
            let named = |key: &str| steps.iter().any(|(step, _)| step == key);
            json.root().members()
                .filter(|(key, _)| !named(&key.as_str().unwrap_or_default()))
                .map(|(key, value)| format!("{}{}", key.raw(), value.raw()))
                .collect()
        };
        prop_assert_eq!(spared(&json), spared(&out));
    }

    /// What comes after an injected block is appended; what came before it is the same to the byte.
    #[test]
    fn the_next_request_starts_with_the_bytes_of_this_one(
        words in prop::collection::vec(("[a-z\"\\\\\n日]{1,12}", any::<bool>(), any::<bool>()), 1..6),
    ) {
        let block = "<metaclaw-context>\n\"notes\"\n</metaclaw-context>";
        let mut messages = Vec::new();
        let mut known: Vec<usize> = Vec::new();
        let mut last = String::new();
        for (index, (text, as_list, injected)) in words.iter().enumerate() {
            let content = if *as_list { serde_json::json!([{"type": "text", "text": text}]) } else { text.as_str().into() };
            messages.push(serde_json::json!({"role": "user", "content": content}));
            if *injected {
                known.push(index * 2);
            }
            let body = serde_json::json!({"model": "m", "messages": messages}).to_string();
            let out = edited(Dialect::Chat, &body, |edit| {
                for at in &known {
                    assert!(edit.inject_turn(*at, block));
                }
            });
            prop_assert!(out.starts_with(&last), "{out}\ndoes not start with\n{last}");
            prop_assert_eq!(out.matches("<metaclaw-context>").count(), known.len());
            last = out.strip_suffix("]}").unwrap().to_owned();
            messages.push(serde_json::json!({"role": "assistant", "content": "ok"}));
        }
    }
}

fn unpacked(dialect: Dialect, body: &str) -> String {
    edited(dialect, body, |edit| edit.unpack_reasoning())
}

#[test]
fn packed_thinking_goes_and_a_providers_own_stays() {
    let body = r#"{ "thinking":{"type":"enabled"}, "messages":[{"role":"user","content":"a"},
        {"role":"assistant","content":[ {"type":"thinking","thinking":"x","signature":"metaclaw:{}"}, {"type":"text","text":"b"} ]},
        {"role":"user","content":"metaclaw: what is it?"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"EqQB"},{"type":"text","text":"c"}]},
        {"role":"user","content":"d"}] }"#;
    let gone = r#"{"type":"thinking","thinking":"x","signature":"metaclaw:{}"}, "#;
    assert_eq!(unpacked(Dialect::Messages, body), body.replace(gone, ""));
    let restored = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
        {"type":"thinking","thinking":"x","signature":"metaclaw:{\"sig\":\"EqQB\"}"},
        {"type":"redacted_thinking","data":"metaclaw:{\"enc\":\"Red==\"}"},
        {"type":"redacted_thinking","data":"metaclaw:{\"enc\":\"gAAA\",\"id\":\"rs_1\"}"},{"type":"text","text":"b"}]}]}"#;
    let expected = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
        {"type":"thinking","thinking":"x","signature":"EqQB"},
        {"type":"redacted_thinking","data":"Red=="},{"type":"text","text":"b"}]}]}"#;
    assert_eq!(unpacked(Dialect::Messages, restored), expected);
}

#[test]
fn an_answer_of_packed_thinking_alone_and_calls_without_it_stay_acceptable() {
    let alone = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"metaclaw:{}"}]},{"role":"user","content":"b"}]}"#;
    let out: serde_json::Value = serde_json::from_str(&unpacked(Dialect::Messages, alone)).unwrap_or_default();
    assert_eq!(out["messages"][1]["content"][0]["type"], "text");
    let calls = r#"{"thinking":{"type":"enabled"},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"metaclaw:{}"},{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"b"}]}]}"#;
    let out: serde_json::Value = serde_json::from_str(&unpacked(Dialect::Messages, calls)).unwrap_or_default();
    assert_eq!((out.get("thinking"), &out["messages"][1]["content"][0]["type"]), (None, &"tool_use".into()));
}

#[test]
fn packed_reasoning_items_go_and_openais_own_come_back() {
    let body = r#"{"input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_x","summary":[],"encrypted_content":"metaclaw:{\"sig\":\"EqQB\"}"},{"type":"reasoning","id":"rs_y","summary":[],"encrypted_content":"metaclaw:{\"enc\":\"gAAA\",\"id\":\"rs_1\"}"},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gBBB"},{"role":"user","content":"b"}]}"#;
    let expected = r#"{"input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gBBB"},{"role":"user","content":"b"}]}"#;
    assert_eq!(unpacked(Dialect::Responses, body), expected);
    let untouched = Bytes::from_static(b"{\"messages\":[{\"role\":\"user\",\"content\":\"metaclaw: a\"}]}");
    assert_eq!(
        unpacked(Dialect::Messages, "{\"messages\":[{\"role\":\"user\",\"content\":\"metaclaw: a\"}]}"),
        untouched
    );
}
