//! Who is this: the agent, its session, main turn or side call. Reads headers first, then the body's own fields; when
//! neither tells a session, `sessions` finds it by the conversation itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;
use dialect::{Dialect, Hints, Request};
use store::{Kind, Scope};

/// What a request says about itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Who {
    /// Short lower-case name of the agent.
    pub(crate) agent: Arc<str>,
    /// The session it names.
    pub(crate) session: Option<Arc<str>>,
    /// Where the chain of its messages begins: a `prompt_cache_key` that names no session still tells conversations
    /// apart that begin alike.
    pub(crate) chain: Option<u128>,
    /// The client named the session in MetaClaw's own way and expects it back in the body.
    pub(crate) echo: bool,
    /// Main conversation or side call.
    pub(crate) kind: Kind,
    /// The session ends with this request.
    pub(crate) done: bool,
    /// Whose memory it is.
    pub(crate) scope: Scope,
    /// It is of a conversation that several people take part in.
    pub(crate) group: bool,
}

/// Longest session id that is kept, in bytes.
const MAX_ID: usize = 200;

/// Reads a request's identity.
pub(crate) fn identify(headers: &HeaderMap, request: &Request, hints: &Hints) -> Who {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty());
    let own = header("x-session-id").or(hints.session_id.as_deref());
    let conversation = (request.dialect() == Dialect::Responses).then(|| conversation(request)).flatten();
    let agent = agent_name(headers, request.dialect());
    let native = || {
        let named = header("session_id").or_else(|| header("session-id"));
        // Only OpenClaw counts its requests in the name, and only it sends this header.
        let affinity = header("x-session-affinity").map(|affinity| without_counter(named.unwrap_or(affinity)));
        affinity
            .or(named)
            .or_else(|| header("conversation_id"))
            .or_else(|| hints.metadata_user_id.as_deref().and_then(claude_code_session))
            .or(hints.prompt_cache_key.as_deref().filter(|_| names_by_cache_key(&agent)))
            .or(conversation.as_deref())
    };
    let session = own.or_else(native).map(clean_id).filter(|id| !id.is_empty()).map(Arc::from);
    let turn_type = header("x-turn-type").map(str::to_lowercase).or_else(|| hints.turn_type.clone());
    let kind = match (turn_type, own) {
        (Some(kind), _) if kind == "main" => Kind::Main,
        (Some(kind), _) => Kind::Side(clean_id(&kind)),
        // Clients that name the session themselves say so when they mean the main conversation.
        (None, Some(_)) => Kind::Side("side".to_owned()),
        (None, None) => dialect::side_kind(request).map_or(Kind::Main, |side| Kind::Side(side.as_str().to_owned())),
    };
    let text = |name: &str, alias: &Option<String>| header(name).map(str::to_owned).or_else(|| alias.clone());
    Who {
        chain: hints.prompt_cache_key.as_deref().filter(|_| session.is_none()).map(key_state),
        agent,
        session,
        echo: own.is_some(),
        kind,
        done: hints.session_done || header("x-session-done").is_some_and(dialect::is_yes),
        scope: Scope {
            user_id: text("x-user-id", &hints.user_id),
            workspace_id: text("x-workspace-id", &hints.workspace_id),
            memory_scope: text("x-memory-scope", &hints.memory_scope),
        },
        group: header("x-metaclaw-group").is_some_and(dialect::is_yes) || dialect::is_group(request),
    }
}

/// Codex and OpenClaw have a key for each conversation. The providers' SDKs leave it to the program, and that may have one
/// for everything it asks.
fn names_by_cache_key(agent: &str) -> bool {
    matches!(agent, "codex" | "openclaw")
}

fn key_state(key: &str) -> u128 {
    dialect::request::chain(0, xxhash_rust::xxh3::xxh3_128(key.as_bytes()))
}

/// The conversation at the provider that a Responses request names.
fn conversation(request: &Request) -> Option<String> {
    let named = request.json().root().get("conversation")?;
    named.as_str().or_else(|| named.get("id")?.as_str()).map(std::borrow::Cow::into_owned)
}

/// OpenClaw appends a request counter: `S:0`, `S:1`, … name the session `S`.
fn without_counter(id: &str) -> &str {
    match id.rsplit_once(':') {
        Some((session, n)) if !session.is_empty() && !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => session,
        _ => id,
    }
}

/// The session in Claude Code's `metadata.user_id`: `user_…_session_UUID`, or JSON with a `session_id`.
fn claude_code_session(user_id: &str) -> Option<&str> {
    if let Some((_, session)) = user_id.rsplit_once("_session_") {
        return Some(session).filter(|s| !s.is_empty());
    }
    let rest = &user_id[user_id.find("\"session_id\"")? + 12..];
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(session, _)| session).filter(|s| !s.is_empty() && !s.contains('\\'))
}

/// Names come from outside: no control characters, no endless text.
fn clean_id(id: &str) -> String {
    let mut clean: String = id.trim().chars().filter(|c| !c.is_control()).collect();
    if clean.len() > MAX_ID {
        let mut end = MAX_ID;
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        clean.truncate(end);
    }
    clean
}

/// Lists of agents are separated by commas and blanks, so a name has neither.
pub(crate) fn short_name(name: &str) -> String {
    let word = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':') { c } else { ' ' };
    let name: String = clean_id(&name.to_lowercase()).chars().map(word).collect();
    name.split_whitespace().collect::<Vec<_>>().join("-")
}

/// The agent's short name: what it says itself, what gives it away, or the product in its `User-Agent`.
pub(crate) fn agent_name(headers: &HeaderMap, dialect: Dialect) -> Arc<str> {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty());
    if let Some(name) = header("x-metaclaw-agent").or_else(|| header("x-agent-id")) {
        return short_name(name).into();
    }
    if headers.contains_key("x-session-affinity") {
        return "openclaw".into();
    }
    let product = header("originator").or_else(|| header("user-agent"));
    let product = product.and_then(|p| p.split([' ', ';', '(']).next()).unwrap_or_default();
    let name = match product.split_once('/') {
        // OpenAI/Python 1.2.3, OpenAI/JS 7.15.0, Anthropic/Python 0.40: the SDK, not the agent.
        Some((maker, sdk)) if sdk.starts_with(char::is_alphabetic) => format!("{maker}-{sdk}"),
        Some((name, _)) => name.to_owned(),
        None => product.to_owned(),
    };
    let name = short_name(&name);
    match name.as_str() {
        "" => match dialect {
            Dialect::Messages => "anthropic-client".into(),
            Dialect::Chat | Dialect::Responses => "openai-client".into(),
        },
        "claude-cli" => "claude-code".into(),
        n if n.starts_with("codex") => "codex".into(),
        _ => name.into(),
    }
}

/// The number of a session that nothing names: later ones are higher, so that their rows and index entries lie side by
/// side; `random` keeps it from being guessed, `last` (the one before) from being used twice.
pub(crate) fn session_number(now_ms: i64, random: u64, last: &AtomicU64) -> u64 {
    const RANDOM_BITS: u32 = 22;
    let time = now_ms.max(0).cast_unsigned() << RANDOM_BITS;
    let wish = time | (random & ((1 << RANDOM_BITS) - 1));
    let next = |last: u64| wish.max(last + 1);
    last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last))).map_or(wish, next)
}

/// The id of a session that nothing names: readable, and never used twice.
pub(crate) fn automatic_id(model: Option<&str>, number: u64) -> Arc<str> {
    let model: String = model
        .filter(|m| !m.is_empty())
        .unwrap_or("default")
        .chars()
        .take(40)
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .collect();
    format!("tui-{model}-{number:016x}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use rstest::rstest;
    use serde_json::{Value, json};

    fn who(headers: &[(&str, &str)], extra: &Value) -> Who {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "how do I fix a flaky test?"}]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let request = Request::parse(Dialect::Chat, body.to_string().into()).unwrap();
        let headers: HeaderMap = headers
            .iter()
            .map(|(n, v)| (HeaderName::try_from(*n).unwrap(), HeaderValue::from_str(v).unwrap()))
            .collect();
        identify(&headers, &request, &request.hints())
    }

    #[rstest]
    #[case::nothing(&[], json!({}), None)]
    #[case::own_header(&[("X-Session-Id", "a:1")], json!({}), Some("a:1"))]
    #[case::empty_header(&[("X-Session-Id", " ")], json!({}), None)]
    #[case::alias(&[], json!({"session_id": "b"}), Some("b"))]
    #[case::header_wins(&[("X-Session-Id", "a")], json!({"session_id": "b"}), Some("a"))]
    #[case::openclaw(&[("session_id", "test-2:0"), ("x-session-affinity", "test-2:0")], json!({}), Some("test-2"))]
    #[case::tenant(&[("session_id", "tenant:42")], json!({}), Some("tenant:42"))]
    #[case::affinity(&[("x-session-affinity", "44b4:0709:12")], json!({}), Some("44b4:0709"))]
    #[case::no_counter(&[("session_id", "agent:main")], json!({}), Some("agent:main"))]
    #[case::claude_code(&[], json!({"metadata": {"user_id": "user_a_account__session_3f2c"}}), Some("3f2c"))]
    #[case::claude_code_json(&[], json!({"metadata": {"user_id": "{\"device_id\":\"d\",\"session_id\": \"3f2c\"}"}}), Some("3f2c"))]
    #[case::other_user(&[], json!({"metadata": {"user_id": "alice"}}), None)]
    #[case::cache_key(&[("user-agent", "codex_cli_rs/0.171.0")], json!({"prompt_cache_key": "conv-9"}), Some("conv-9"))]
    #[case::key_of_openclaw(&[("x-metaclaw-agent", "openclaw")], json!({"prompt_cache_key": "conv-9"}), Some("conv-9"))]
    #[case::key_of_a_program(&[("user-agent", "OpenAI/Python 1.2.3")], json!({"prompt_cache_key": "my-app"}), None)]
    #[case::own_before_native(&[("session_id", "n:0")], json!({"session_id": "o", "prompt_cache_key": "p"}), Some("o"))]
    #[case::log_injection(&[], json!({"session_id": "a\nINFO b\u{7}"}), Some("aINFO b"))]
    fn the_session_is_told_by(#[case] headers: &[(&str, &str)], #[case] body: Value, #[case] id: Option<&str>) {
        assert_eq!(who(headers, &body).session.as_deref(), id);
    }

    #[rstest]
    #[case::no_id(&[], json!({}), "main")]
    #[case::id_alone_is_side(&[("x-session-id", "s")], json!({}), "side")]
    #[case::id_and_main(&[("x-session-id", "s"), ("x-turn-type", " MAIN ")], json!({}), "main")]
    #[case::alias_main(&[], json!({"session_id": "s", "turn_type": "main"}), "main")]
    #[case::any_other_word(&[("x-turn-type", "cron")], json!({}), "cron")]
    #[case::header_wins(&[("x-turn-type", "side")], json!({"turn_type": "main"}), "side")]
    #[case::openclaw_is_main(&[("session_id", "s:0")], json!({}), "main")]
    fn main_or_side(#[case] headers: &[(&str, &str)], #[case] body: Value, #[case] kind: &str) {
        assert_eq!(who(headers, &body).kind.as_str(), kind);
    }

    #[rstest]
    #[case(&[("x-session-done", "Yes")], json!({}), true)]
    #[case(&[("x-session-done", "0")], json!({}), false)]
    #[case(&[("x-session-done", "0")], json!({"session_done": true}), true)]
    #[case(&[], json!({"session_done": "on"}), true)]
    #[case(&[], json!({"session_done": "false"}), false)]
    fn done_is_an_or_of_header_and_body(#[case] headers: &[(&str, &str)], #[case] body: Value, #[case] done: bool) {
        assert_eq!(who(headers, &body).done, done);
    }

    #[rstest]
    #[case(&[("user-agent", "OpenAI/JS 7.15.0")], "openai-js")]
    #[case(&[("user-agent", "OpenAI/Python 1.2.3")], "openai-python")]
    #[case(&[("user-agent", "claude-cli/2.1.332 (external, cli)")], "claude-code")]
    #[case(&[("user-agent", "codex_cli_rs/0.171.0")], "codex")]
    #[case(&[("user-agent", "OpenAI/JS 7.15.0"), ("x-session-affinity", "s:0")], "openclaw")]
    #[case(&[("user-agent", "x"), ("x-metaclaw-agent", "Hermes")], "hermes")]
    #[case(&[("user-agent", "x"), ("x-agent-id", "Mail, and more")], "mail-and-more")]
    #[case(&[], "openai-client")]
    fn the_agent_has_a_short_name(#[case] headers: &[(&str, &str)], #[case] name: &str) {
        assert_eq!(&*who(headers, &json!({})).agent, name);
    }

    #[test]
    fn only_own_ids_are_given_back_in_the_body() {
        assert!(who(&[("x-session-id", "s")], &json!({})).echo);
        assert!(who(&[], &json!({"session_id": "s"})).echo);
        assert!(!who(&[("session_id", "s:0")], &json!({})).echo);
        assert!(!who(&[], &json!({})).echo);
    }

    #[test]
    fn scope_comes_from_headers_before_body() {
        let who = who(&[("x-user-id", "u1")], &json!({"user_id": "u2", "workspace_id": "w", "memory_scope": "m"}));
        let scope =
            Scope { user_id: Some("u1".into()), workspace_id: Some("w".into()), memory_scope: Some("m".into()) };
        assert_eq!(who.scope, scope);
    }

    #[test]
    fn a_group_is_told_by_the_agent_or_by_what_openclaw_says() {
        let marked = "Conversation info: ⟦openclaw:ctx⟧\n```json\n{\"is_group_chat\": true}\n```\n\nhello";
        assert!(who(&[("x-metaclaw-group", "yes")], &json!({})).group);
        assert!(who(&[], &json!({"messages": [{"role": "user", "content": marked}]})).group);
        assert!(!who(&[("x-metaclaw-group", "0")], &json!({})).group);
    }

    #[test]
    fn numbers_of_new_sessions_rise_with_time_and_none_comes_twice() {
        let last = AtomicU64::new(0);
        let times = [1_790_000_000_000, 1_790_000_000_000, 1_790_000_000_000, 1_790_000_000_001, 1_789_999_999_999];
        // The random part is the same each time, and the clock goes back once.
        let numbers: Vec<u64> = times.iter().map(|now| session_number(*now, u64::MAX, &last)).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:x?}");
        assert_eq!(numbers[0] >> 22, 1_790_000_000_000);
        let soon = session_number(1_790_000_001_000, 1, &last);
        assert!(soon > numbers[4] && session_number(1_790_000_001_001, 0, &last) > soon);
    }

    #[test]
    fn automatic_ids_are_readable_and_plain() {
        assert_eq!(&*automatic_id(Some("openai/gpt 5\n"), 255), "tui-openai-gpt-5--00000000000000ff");
        assert_eq!(&*automatic_id(None, 1), "tui-default-0000000000000001");
    }
}
