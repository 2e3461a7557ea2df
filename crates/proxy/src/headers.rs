//! Which headers travel: agent → provider, provider → agent, agent → journal. Pure tables over header maps.

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue};

use dialect::Dialect;

use crate::gate::Pass;

/// Header by which a MetaClaw knows its own requests again.
pub(crate) const HOP_HEADER: &str = "x-metaclaw-hop";

/// Headers of one connection, never of the message.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of an agent's request that stay here: addressed to us, set anew, credentials (sent on their own), or a
/// browser's.
const NOT_UPSTREAM: [&str; 22] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "accept-encoding",
    "expect",
    "authorization",
    "x-api-key",
    "cookie",
    "origin",
    "referer",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-session-id",
    "x-session-done",
    "x-turn-type",
    "x-memory-scope",
    "x-user-id",
    "x-workspace-id",
];

/// What an agent may tell a provider that speaks another dialect.
const ANY_DIALECT: [&str; 4] = ["user-agent", "x-request-id", "x-client-request-id", "traceparent"];

/// Headers of a provider's answer that describe its connection or its site, not the answer.
const NOT_BACK: [&str; 12] = [
    "content-length",
    "content-encoding",
    "content-type",
    "date",
    "server",
    "set-cookie",
    "alt-svc",
    "strict-transport-security",
    "nel",
    "report-to",
    "x-session-id",
    "vary",
];

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lists = headers.get_all(header::CONNECTION).iter().filter_map(|v| v.to_str().ok());
    lists.flat_map(|list| list.split(',')).filter_map(|name| HeaderName::try_from(name.trim()).ok()).collect()
}

fn is_ours(name: &str) -> bool {
    name.starts_with("x-metaclaw-")
}

/// The agent's headers that go to the provider. Credentials are not among them, see [`credentials`].
pub(crate) fn to_upstream(headers: &HeaderMap, same_dialect: bool) -> HeaderMap {
    let dropped = named_by_connection(headers);
    let mut out = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let text = name.as_str();
        let travels = if same_dialect {
            !HOP_BY_HOP.contains(&text)
                && !NOT_UPSTREAM.contains(&text)
                && !text.starts_with("sec-")
                && !text.starts_with("access-control-")
                && !is_ours(text)
                && !dropped.contains(name)
        } else {
            ANY_DIALECT.contains(&text)
        };
        if travels {
            out.append(name.clone(), value.clone());
        }
    }
    out
}

/// The agent's own credentials, for providers that take those.
pub(crate) fn credentials(headers: &HeaderMap, pass: Pass) -> Vec<(&'static str, HeaderValue)> {
    [("authorization", pass.bearer_is_ours), ("x-api-key", pass.api_key_is_ours)]
        .into_iter()
        .filter(|(_, ours)| !ours)
        .filter_map(|(name, _)| {
            let mut value = headers.get(name)?.clone();
            value.set_sensitive(true);
            Some((name, value))
        })
        .collect()
}

/// The agent's credentials where a provider of another dialect looks for them. Tokens that Anthropic gives out for its own
/// clients are told as bearer everywhere.
pub(crate) fn translated(
    credentials: Vec<(&'static str, HeaderValue)>,
    to: Dialect,
) -> Vec<(&'static str, HeaderValue)> {
    let told = credentials.into_iter().next().and_then(|(name, value)| {
        let text = value.to_str().ok()?;
        let scheme = text.get(..7).filter(|scheme| name == "authorization" && scheme.eq_ignore_ascii_case("bearer "));
        let key = text[scheme.map_or(0, str::len)..].trim();
        let bearer = to != Dialect::Messages || key.starts_with("sk-ant-oat");
        let (name, text) = match (bearer, scheme.is_none() && name == "authorization") {
            // Another scheme, which means nothing in another header.
            (_, true) => return Some((name, value)),
            (true, _) => ("authorization", format!("Bearer {key}")),
            (false, _) => ("x-api-key", key.to_owned()),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    });
    told.into_iter().collect()
}

/// The provider's headers that go to the agent.
pub(crate) fn to_agent(headers: &HeaderMap, same_dialect: bool) -> HeaderMap {
    let dropped = named_by_connection(headers);
    let mut out = HeaderMap::with_capacity(headers.len() + 4);
    for (name, value) in headers {
        let text = name.as_str();
        let known = || {
            ["retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry"].contains(&text)
                || ["x-ratelimit-", "anthropic-ratelimit-", "ratelimit"].iter().any(|p| text.starts_with(p))
        };
        let travels = if same_dialect {
            !HOP_BY_HOP.contains(&text)
                && !NOT_BACK.contains(&text)
                && !text.starts_with("access-control-")
                && !is_ours(text)
                && !dropped.contains(name)
        } else {
            known()
        };
        if travels {
            out.append(name.clone(), value.clone());
        }
    }
    out
}

/// The compression of a body, if it has one.
pub(crate) fn coding(headers: &HeaderMap) -> Option<String> {
    let named = headers.get_all(header::CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let mut named = named.map(|value| value.trim().to_owned());
    named.find(|value| !value.is_empty() && !value.eq_ignore_ascii_case("identity"))
}

/// The agent's headers that the journal keeps: what tells clients apart, never credentials.
pub(crate) fn to_journal(headers: &HeaderMap) -> Vec<(String, String)> {
    const KEPT: [&str; 14] = [
        "user-agent",
        "originator",
        "x-session-id",
        "x-turn-type",
        "x-session-done",
        "x-session-affinity",
        "session_id",
        "conversation_id",
        "x-client-request-id",
        "x-request-id",
        "anthropic-version",
        "anthropic-beta",
        "openai-beta",
        "x-stainless-retry-count",
    ];
    let kept = |name: &&str| headers.get(*name)?.to_str().ok().map(|value| ((*name).to_owned(), value.to_owned()));
    KEPT.iter().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::try_from(*n).unwrap(), HeaderValue::from_str(v).unwrap())).collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn client_headers_travel_and_ours_do_not() {
        let sent = map(&[
            ("host", "localhost"),
            ("user-agent", "OpenAI/JS"),
            ("anthropic-beta", "a"),
            ("anthropic-beta", "b"),
            ("openai-organization", "o"),
            ("x-stainless-lang", "js"),
            ("authorization", "Bearer k"),
            ("x-api-key", "k"),
            ("x-metaclaw-key", "k"),
            ("x-session-id", "s"),
            ("connection", "keep-alive, x-once"),
            ("x-once", "1"),
            ("accept-encoding", "gzip"),
            ("cookie", "c"),
            ("sec-fetch-site", "none"),
            ("content-length", "2"),
        ]);
        let out = to_upstream(&sent, true);
        assert_eq!(names(&out), ["user-agent", "anthropic-beta", "openai-organization", "x-stainless-lang"]);
        assert_eq!(out.get_all("anthropic-beta").iter().count(), 2);
        assert_eq!(names(&to_upstream(&sent, false)), ["user-agent"]);
    }

    #[test]
    fn a_callers_credential_stands_where_the_providers_dialect_has_it() {
        let told = |name, value, to| {
            let told = translated(vec![(name, HeaderValue::from_static(value))], to);
            assert!(told.iter().all(|(_, value)| value.is_sensitive() || value == "Basic eA=="));
            told.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect::<String>()
        };
        assert_eq!(told("x-api-key", "sk-1", Dialect::Chat), "authorization: Bearer sk-1");
        assert_eq!(told("x-api-key", "sk-1", Dialect::Responses), "authorization: Bearer sk-1");
        assert_eq!(told("authorization", "Bearer sk-1", Dialect::Messages), "x-api-key: sk-1");
        assert_eq!(told("authorization", "bearer sk-ant-oat1", Dialect::Messages), "authorization: Bearer sk-ant-oat1");
        assert_eq!(told("authorization", "Bearer sk-1", Dialect::Chat), "authorization: Bearer sk-1");
        assert_eq!(told("authorization", "Basic eA==", Dialect::Messages), "authorization: Basic eA==");
        assert!(translated(Vec::new(), Dialect::Chat).is_empty());
    }

    #[test]
    fn limits_and_ids_come_back_in_every_dialect() {
        let back = map(&[
            ("retry-after", "7"),
            ("x-ratelimit-remaining-requests", "0"),
            ("anthropic-ratelimit-tokens-reset", "t"),
            ("request-id", "req_1"),
            ("x-request-id", "req_2"),
            ("openai-processing-ms", "5"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("set-cookie", "c"),
            ("access-control-allow-origin", "*"),
        ]);
        let limits = [
            "retry-after",
            "x-ratelimit-remaining-requests",
            "anthropic-ratelimit-tokens-reset",
            "request-id",
            "x-request-id",
        ];
        assert_eq!(names(&to_agent(&back, false)), limits);
        assert_eq!(names(&to_agent(&back, true)), [&limits[..], &["openai-processing-ms"]].concat());
    }

    #[test]
    fn the_journal_keeps_no_credentials() {
        let kept = to_journal(&map(&[
            ("authorization", "Bearer canary"),
            ("x-api-key", "canary"),
            ("x-metaclaw-key", "canary"),
            ("cookie", "canary"),
            ("user-agent", "a"),
        ]));
        assert_eq!(kept, [("user-agent".to_owned(), "a".to_owned())]);
    }
}
