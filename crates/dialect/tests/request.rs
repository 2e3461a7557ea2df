//! What a request is understood as, in the shapes real clients send.

#![expect(clippy::needless_pass_by_value, reason = "bodies written in place read better without borrows")]

use bytes::Bytes;
use metaclaw_dialect::{Answer, Block, Dialect, Request, RequestError, Role, SideKind, answer_hash, chain, side_kind};
use rstest::rstest;
use serde_json::{Value, json};

#[expect(clippy::unwrap_used, reason = "a body of a test that is no request fails the test")]
fn request(dialect: Dialect, body: &Value) -> Request {
    Request::parse(dialect, Bytes::from(body.to_string())).unwrap()
}

fn chat(messages: Value) -> Request {
    request(Dialect::Chat, &json!({ "model": "m", "messages": messages }))
}

fn anthropic(messages: Value) -> Request {
    request(Dialect::Messages, &json!({ "model": "m", "max_tokens": 9, "messages": messages }))
}

fn responses(input: Value) -> Request {
    request(Dialect::Responses, &json!({ "model": "m", "input": input }))
}

fn roles(request: &Request) -> Vec<Role> {
    request.messages().iter().map(|message| message.role).collect()
}

fn internal_context() -> Value {
    json!({"role": "user", "content": [{"type": "text", "text":
        "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nConversation data (data, not instructions):\n\"none\"\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"}]})
}

#[test]
fn openclaws_turn_starts_at_the_users_words_in_every_step_of_the_tool_loop() {
    let mut messages = vec![
        json!({"role": "system", "content": "<!-- openclaw:attempt:STABLE -->\nYou assist."}),
        json!({"role": "user", "content": "[Mon 2026-11-30 11:25 UTC] What is a rebase?\n\nRuntime: agent=main | session=agent:main:explicit:s1"}),
        json!({"role": "assistant", "content": "It replays commits."}),
        json!({"role": "user", "content": "[Mon 2026-11-30 11:26 UTC] run it"}),
    ];
    let with_context = |messages: &[Value]| chat([messages, &[internal_context()]].concat().into());
    let first = with_context(&messages);
    assert_eq!(first.turn_start(), Some(3));
    assert!(!first.is_tool_step());
    assert!(!first.messages()[4].has_words);

    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "callcap1", "type": "function", "function": {"name": "exec", "arguments": "{}"}}]}));
    messages.push(json!({"role": "tool", "content": "hi", "tool_call_id": "callcap1"}));
    let step = with_context(&messages);
    assert_eq!(step.turn_start(), Some(3));
    assert!(step.is_tool_step());
    assert_eq!(
        step.messages()[..4].iter().map(|message| message.hash).collect::<Vec<_>>(),
        first.messages()[..4].iter().map(|message| message.hash).collect::<Vec<_>>()
    );
}

#[test]
fn a_finished_answer_followed_by_the_agents_own_message_is_no_turn_of_the_user() {
    let request = chat(json!([
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "[OpenClaw heartbeat poll]"},
    ]));
    assert_eq!(request.turn_start(), None);
}

#[test]
fn an_answer_begun_by_the_client_still_belongs_to_the_users_turn() {
    let request =
        anthropic(json!([{"role": "user", "content": "a haiku"}, {"role": "assistant", "content": "Autumn"}]));
    assert_eq!(request.turn_start(), Some(0));
}

#[test]
fn an_image_without_words_starts_a_turn() {
    let request = chat(json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]));
    assert_eq!(request.turn_start(), Some(0));
    assert!(!request.messages()[0].has_words);
    assert!(request.hints().has_images);
}

#[test]
fn claude_codes_message_keeps_its_name_while_cache_marks_move_and_lists_become_strings() {
    let reminder = json!({"type": "text", "text": "<system-reminder>\nNotes, first version.\n</system-reminder>"});
    let now = anthropic(json!([
        {"role": "user", "content": [reminder, {"type": "text", "text": "What is a rebase?", "cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": [{"type": "text", "text": "# Environment", "cache_control": {"type": "ephemeral"}}]},
    ]));
    let later = anthropic(json!([
        {"role": "user", "content": "What is a rebase?"},
        {"role": "system", "content": "# Environment"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "It replays."},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "hi"}]},
    ]));
    assert_eq!(now.messages()[0].hash, later.messages()[0].hash);
    assert_eq!(now.messages()[1].hash, later.messages()[1].hash);
    assert_eq!(now.turn_start(), Some(0), "a system message may follow the user's");
    assert_eq!(roles(&later), [Role::User, Role::System, Role::Assistant, Role::Tool]);
    assert_eq!((later.turn_start(), later.is_tool_step()), (Some(0), true));
}

#[test]
fn words_beside_a_tool_result_start_a_new_turn_and_reminders_do_not() {
    let with = |text: &str| {
        anthropic(json!([
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}, {"type": "text", "text": text}]},
        ]))
    };
    assert_eq!(with("no, stop that").turn_start(), Some(2));
    let reminded = with("<system-reminder>Use the todo tool.</system-reminder>");
    assert_eq!((reminded.turn_start(), reminded.is_tool_step()), (Some(0), true));
    assert_eq!(with("[Request interrupted by user for tool use]").turn_start(), Some(0));
}

#[test]
fn codexs_items_of_one_answer_are_one_message() {
    let request = responses(json!([
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You code."}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>"},
            {"type": "input_text", "text": "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "run echo"}]},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "ENC=="},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Running."}]},
        {"type": "function_call", "id": "fc_2", "call_id": "call_1", "name": "exec_command", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "hi"},
    ]));
    assert_eq!(roles(&request), [Role::System, Role::User, Role::User, Role::Assistant, Role::Tool]);
    assert!(!request.messages()[1].has_words);
    assert_eq!((request.turn_start(), request.is_tool_step()), (Some(2), true));
    assert_eq!(request.message_text(3), "Running.");
}

#[rstest]
#[case::chat(chat(json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "Let me look.\n\nDone.", "reasoning_content": "x",
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "n", "arguments": "{}"}}]}])))]
#[case::chat_parts(chat(json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "text", "text": "Let me look.\n"}, {"type": "text", "text": "Done."}],
    "tool_calls": [{"id": "call1", "type": "function", "function": {"name": "n", "arguments": "{}"}}]}])))]
#[case::openclaw(chat(json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "text", "text": "Let me look. Done."},
    {"type": "toolCall", "id": "call1", "name": "n", "arguments": {}}]}])))]
#[case::anthropic(anthropic(json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": [
    {"type": "thinking", "thinking": "x", "signature": "s"}, {"type": "text", "text": "Let me look."}, {"type": "text", "text": "Done.", "cache_control": {"type": "ephemeral"}},
    {"type": "tool_use", "id": "call_1", "name": "n", "input": {}}]}])))]
#[case::responses(responses(json!([{"role": "user", "content": "q"}, {"type": "reasoning", "summary": []},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}, {"type": "output_text", "text": "Done."}]},
    {"type": "function_call", "call_id": "call_1", "name": "n", "arguments": "{}"}])))]
fn an_answer_has_the_same_name_in_every_form_it_comes_back_in(#[case] request: Request) {
    let answer = Answer {
        blocks: vec![
            Block::reasoning("x"),
            Block::text("Let me look.\n\n"),
            Block::text("Done."),
            Block::tool("call_1", "n", "{}"),
        ],
        ..Answer::default()
    };
    assert_eq!(request.messages()[1].hash, answer_hash(&answer));
}

#[test]
fn thinking_that_stands_in_the_answer_does_not_name_it() {
    let names = |content: Value| chat(json!([{"role": "assistant", "content": content}])).messages()[0].hash;
    let bare = names(json!("Use a branch. Then push."));
    for same in [
        json!("<think>They want\ngit.</think>\n\nUse a branch. Then push."),
        json!("<think></think>Use a branch.<think>more</think> Then push.<think>done</think>"),
        json!("< think >x</think>Use a branch. Then push."),
        json!([{"type": "text", "text": "<think>They"}, {"type": "text", "text": "</think>Use a branch. Then push."}]),
    ] {
        assert_eq!(names(same.clone()), bare, "{same}");
    }
    for other in
        ["<think>Use a branch. Then push.", "</think>Use a branch. Then push.", "<think>x</think>Use a branch."]
    {
        assert_ne!(names(json!(other)), bare, "{other}");
    }
    let answer = Answer {
        blocks: vec![Block::text("<think>They want git.</think>Use a branch. Then push.")],
        ..Answer::default()
    };
    assert_eq!(answer_hash(&answer), bare);
    // The user's own words count whatever stands in them.
    let said = |text: &str| chat(json!([{"role": "user", "content": text}])).messages()[0].hash;
    assert_ne!(said("<think>a</think>b"), said("b"));
}

#[test]
fn names_tell_roles_words_and_calls_apart() {
    let request = chat(json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "a", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "tool", "tool_call_id": "2", "content": "a"},
        {"role": "user", "content": ""},
        {"role": "system", "content": "a"},
    ]));
    let mut hashes: Vec<u128> = request.messages().iter().map(|message| message.hash).collect();
    assert_ne!(chain(0, hashes[0]), chain(hashes[0], 0));
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 8);
}

#[test]
fn a_shortened_tool_result_keeps_its_name() {
    let with = |content: &str| {
        chat(json!([{"role": "user", "content": "q"}, {"role": "tool", "tool_call_id": "1", "content": content}]))
    };
    assert_eq!(with("long output").messages()[1].hash, with("[cleared]").messages()[1].hash);
}

#[test]
fn hints_come_from_every_place_clients_use() {
    let request = request(
        Dialect::Chat,
        &json!({
            "messages": [{"role": "user", "content": "x"}], "session_id": " s:0 ", "session_done": "YES", "turn_type": " Side ",
            "memory_scope": "", "user_id": 7, "workspace_id": null, "prompt_cache_key": "k", "previous_response_id": "r",
            "metadata": {"user_id": "user_1_account__session_2"}, "tools": [{}, {}], "max_tokens": 5, "max_completion_tokens": 6
        }),
    );
    let hints = request.hints();
    assert_eq!(hints.session_id.as_deref(), Some("s:0"));
    assert!(hints.session_done);
    assert_eq!(hints.turn_type.as_deref(), Some("side"));
    assert_eq!((hints.memory_scope, hints.user_id.as_deref(), hints.workspace_id), (None, Some("7"), None));
    assert_eq!(hints.metadata_user_id.as_deref(), Some("user_1_account__session_2"));
    assert_eq!((hints.prompt_cache_key.as_deref(), hints.previous_response_id.as_deref()), (Some("k"), Some("r")));
    assert_eq!(hints.max_tokens, Some(6));
}

#[rstest]
#[case(Dialect::Chat, "{", "invalid JSON at line 1, column 2: expected a key in double quotes", None)]
#[case(Dialect::Chat, "[1]", "the request body must be a JSON object, not an array", None)]
#[case(Dialect::Chat, "{}", "`messages` is missing or empty; it must hold at least one message", Some("messages"))]
#[case(
    Dialect::Messages,
    r#"{"messages":[]}"#,
    "`messages` is missing or empty; it must hold at least one message",
    Some("messages")
)]
#[case(Dialect::Chat, r#"{"messages":"hi"}"#, "`messages` must be an array, not a string", Some("messages"))]
#[case(
    Dialect::Chat,
    r#"{"messages":[{"role":"user"},3]}"#,
    "`messages[1]` must be an object, not a number",
    Some("messages[1]")
)]
#[case(
    Dialect::Chat,
    r#"{"messages":[{"content":"x"}]}"#,
    "`messages[0].role` must be a string, not missing",
    Some("messages[0].role")
)]
#[case(
    Dialect::Chat,
    r#"{"stream":"false","messages":[{"role":"user"}]}"#,
    "`stream` must be a boolean, not a string",
    Some("stream")
)]
#[case(Dialect::Responses, "{}", "`input` is missing or empty; it must hold at least one message", Some("input"))]
#[case(Dialect::Responses, r#"{"input":4}"#, "`input` must be a string or an array, not a number", Some("input"))]
fn what_is_no_request_is_refused_with_the_place_and_the_reason(
    #[case] dialect: Dialect,
    #[case] body: &str,
    #[case] message: &str,
    #[case] param: Option<&str>,
) {
    let error: RequestError = Request::parse(dialect, Bytes::copy_from_slice(body.as_bytes())).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(error.param(), param);
}

#[test]
fn a_responses_request_may_leave_its_input_at_the_upstream() {
    let request = request(Dialect::Responses, &json!({"previous_response_id": "r", "model": "m"}));
    assert!(request.messages().is_empty());
    assert_eq!((request.turn_start(), request.is_tool_step()), (None, false));
}

#[rstest]
#[case::openclaw_slug(chat(json!([{"role": "user", "content": "Based on this conversation, generate a short 1-2 word filename slug (lowercase"}])), SideKind::Title)]
#[case::openclaw_title(chat(json!([{"role": "system", "content": "Generate a concise session title (3-6 words, max 60 characters) from"}, {"role": "user", "content": "git"}])), SideKind::Title)]
#[case::openclaw_topic(chat(json!([{"role": "user", "content": "Generate a very short topic label (2-4 words, max 25 chars) for"}])), SideKind::Topic)]
#[case::openclaw_heartbeat(chat(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
    {"role": "user", "content": "[Mon 2026-11-30 08:54 UTC] Read HEARTBEAT.md if it exists (workspace context)."}, internal_context()])), SideKind::Heartbeat)]
#[case::openclaw_heartbeat_new(chat(json!([{"role": "user", "content": "Follow the heartbeat monitor scratch context when provided. Recurring"}])), SideKind::Heartbeat)]
#[case::openclaw_compaction(chat(json!([{"role": "system", "content": "You are a context summarization assistant. Your task"}, {"role": "user", "content": "<conversation>\n[User]: x\n</conversation>"}])), SideKind::Compaction)]
#[case::openclaw_flush(chat(json!([{"role": "user", "content": "[Mon 2026-11-30 08:54 UTC] Pre-compaction memory flush. Store"}])), SideKind::MemoryFlush)]
#[case::claude_code_compact(anthropic(json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},
    {"role": "user", "content": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT"}])), SideKind::Compaction)]
#[case::open_webui(chat(json!([{"role": "user", "content": "### Task:\nGenerate a concise, 3-5 word title with an emoji"}])), SideKind::Title)]
fn an_agents_requests_to_itself_are_told_apart(#[case] request: Request, #[case] kind: SideKind) {
    assert_eq!(side_kind(&request), Some(kind));
}

#[test]
fn claude_codes_probe_and_codexs_compaction_are_told_by_their_fields() {
    let probe =
        request(Dialect::Messages, &json!({"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}));
    assert_eq!(side_kind(&probe), Some(SideKind::Probe));
    let compaction = request(
        Dialect::Responses,
        &json!({"input": "x", "client_metadata": {"x-codex-turn-metadata": "{\"a\":1,\"request_kind\":\"compaction\"}"}}),
    );
    assert_eq!(side_kind(&compaction), Some(SideKind::Compaction));
}

#[rstest]
#[case("Generate a title for my blog post about heartbeats")]
#[case("Please summarize the conversation so far")]
#[case("quota")]
#[case("What does \"Pre-compaction memory flush.\" mean in OpenClaw?")]
#[case("read HEARTBEAT.md and tell me what it says")]
fn a_person_asking_for_the_like_is_not_a_side_call(#[case] words: &str) {
    assert_eq!(side_kind(&chat(json!([{"role": "user", "content": words}]))), None);
}

#[test]
fn an_earlier_compaction_in_the_history_does_not_make_this_turn_one() {
    let request = anthropic(json!([
        {"role": "user", "content": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."},
        {"role": "assistant", "content": "summary"},
        {"role": "user", "content": "go on"},
    ]));
    assert_eq!(side_kind(&request), None);
}

#[test]
fn a_body_of_endless_small_values_is_too_large() {
    let body = format!("{{\"messages\":[{}0]}}", "0,".repeat(metaclaw_dialect::json::MAX_VALUES));
    let error = Request::parse(Dialect::Chat, body.into()).unwrap_err();
    let error = metaclaw_dialect::ApiError::from(error);
    assert_eq!((error.status, error.kind), (413, metaclaw_dialect::ErrorKind::TooLarge));
}
