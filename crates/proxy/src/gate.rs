//! The door of the agent port: Host, Origin, content type and key, in that order, before a body byte is read.
//! Takes a request head and the settings; gives the caller's standing or the refusal, which is shown in the caller's dialect.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, REFERER};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, request::Parts};
use dialect::{ApiError, ErrorKind};
use subtle::ConstantTimeEq;

use crate::settings::Settings;

/// Header that carries the proxy key when `Authorization` belongs to the provider.
pub const KEY_HEADER: &str = "x-metaclaw-key";

/// What the gate found out about a request it let in: which of its credentials are our own key, and must not travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The one in `authorization`.
    pub(crate) bearer_is_ours: bool,
    /// The one in `x-api-key`.
    pub(crate) api_key_is_ours: bool,
    /// The agent whose own key it showed: its place in `Settings::agent_keys`.
    pub(crate) agent: Option<usize>,
}

impl Pass {
    /// The agent that the key belongs to.
    pub(crate) fn agent<'s>(&self, settings: &'s Settings) -> Option<&'s Arc<str>> {
        settings.agent_keys.get(self.agent?).map(|(agent, _)| agent)
    }
}

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the request has no Host header; a client that speaks HTTP/1.1 sends exactly one")]
    NoHost,
    #[error("the request has more than one Host header")]
    TwoHosts,
    #[error(
        "this host name is not served here; use 127.0.0.1 or localhost, or add the name to proxy.allowed_hosts in config.yaml"
    )]
    ForeignHost,
    #[error(
        "requests from this web origin are not served; add it to proxy.allowed_origins in config.yaml if you trust it"
    )]
    ForeignOrigin,
    #[error("a POST needs the header `Content-Type: application/json`")]
    NotJson,
    #[error(
        "the proxy key is missing; send it as `Authorization: Bearer KEY` or `x-api-key: KEY` (`metaclaw config get proxy.api_key --reveal` shows it)"
    )]
    NoKey,
    #[error(
        "the proxy key is missing; the upstream credential stays in Authorization, so send ours as `x-metaclaw-key: KEY` or use the base URL /k/KEY/v1"
    )]
    NoKeyBeside,
    #[error("the proxy key is wrong; compare it with proxy.api_key in config.yaml")]
    WrongKey,
}

impl Refusal {
    pub(crate) fn api_error(self) -> ApiError {
        let (status, kind) = match self {
            Self::NoHost | Self::TwoHosts => (StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest),
            Self::ForeignHost | Self::ForeignOrigin => (StatusCode::FORBIDDEN, ErrorKind::Permission),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorKind::InvalidRequest),
            Self::NoKey | Self::NoKeyBeside | Self::WrongKey => (StatusCode::UNAUTHORIZED, ErrorKind::Authentication),
        };
        let mut error = ApiError::new(status.as_u16(), kind, self.to_string());
        error.code = match self {
            Self::WrongKey => Some("invalid_api_key".to_owned()),
            Self::NoKey | Self::NoKeyBeside => Some("missing_api_key".to_owned()),
            _ => None,
        };
        error
    }
}

/// Host and Origin: asked on every route, `/healthz` included.
pub(crate) fn check_source(parts: &Parts, settings: &Settings) -> Result<(), Refusal> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Refusal::TwoHosts);
    }
    // An absolute-form target (or HTTP/2's :authority) names a host too, and it must be one of ours as well.
    let target = parts.uri.authority().map(|a| a.as_str());
    if host.is_none() && (target.is_none() || parts.version < Version::HTTP_2) {
        return Err(Refusal::NoHost);
    }
    let host = host.map(|h| h.to_str().map_err(|_| Refusal::ForeignHost)).transpose()?;
    if ![host, target].into_iter().flatten().all(|h| host_allowed(h, settings)) {
        return Err(Refusal::ForeignHost);
    }
    let mut origins = parts.headers.get_all(ORIGIN).iter();
    if !origins.all(|o| o.to_str().is_ok_and(|o| origin_allowed(o, settings))) {
        return Err(Refusal::ForeignOrigin);
    }
    Ok(())
}

/// Content type: no web page may send JSON unasked. Asked on every route but `/healthz`. Uploads to the provider's
/// own routes come in other forms; they need the key, or come from no page, or from one that is let in.
pub(crate) fn check_type(parts: &Parts, is_providers: bool, settings: &Settings) -> Result<(), Refusal> {
    let headers = &parts.headers;
    let from_page = || headers.keys().any(|name| *name == REFERER || name.as_str().starts_with("sec-fetch-"));
    let uploads = || is_providers && (settings.api_key.is_some() || headers.contains_key(ORIGIN) || !from_page());
    if parts.method != Method::POST || is_json(headers) || uploads() { Ok(()) } else { Err(Refusal::NotJson) }
}

/// The key: asked on every route but `/healthz`.
pub(crate) fn check_caller(parts: &Parts, path_key: Option<&str>, settings: &Settings) -> Result<Pass, Refusal> {
    let main = settings.api_key.as_deref();
    if main.is_none() && settings.agent_keys.is_empty() {
        return Ok(Pass { bearer_is_ours: false, api_key_is_ours: false, agent: None });
    }
    let beside = [parts.headers.get(KEY_HEADER).map(|v| v.as_bytes()), path_key.map(str::as_bytes)];
    let usual = [bearer(&parts.headers), parts.headers.get("x-api-key").map(|v| v.as_bytes())];
    // No early exit: every credential that came is compared in full, with every key.
    let (mut ours, mut agent) = ([false; 4], None);
    for (found, credential) in ours.iter_mut().zip(beside.iter().chain(&usual)) {
        let is = |key: &str| credential.is_some_and(|c| bool::from(c.ct_eq(key.as_bytes())));
        *found = main.is_some_and(is);
        for (place, (_, key)) in settings.agent_keys.iter().enumerate() {
            if is(key) {
                (*found, agent) = (true, Some(place));
            }
        }
    }
    if ours.contains(&true) || main.is_none() {
        return Ok(Pass { bearer_is_ours: ours[2], api_key_is_ours: ours[3], agent });
    }
    let offered = if settings.passthrough { &beside[..] } else { &[beside[0], beside[1], usual[0], usual[1]][..] };
    match (offered.iter().any(Option::is_some), settings.passthrough) {
        (true, _) => Err(Refusal::WrongKey),
        (false, true) => Err(Refusal::NoKeyBeside),
        (false, false) => Err(Refusal::NoKey),
    }
}

/// The origin of a web page that the user let in by name; only such a page may read answers.
pub(crate) fn listed_origin(headers: &HeaderMap, settings: &Settings) -> Option<HeaderValue> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (origin, None) = (origins.next()?, origins.next()) else { return None };
    let text = origin.to_str().ok()?;
    settings.allowed_origins.iter().any(|a| a.eq_ignore_ascii_case(text)).then(|| origin.clone())
}

/// The key in a base URL of the form `/k/KEY/v1/…`, and the path without it.
pub(crate) fn split_path_key(uri: &Uri) -> (Option<&str>, &str) {
    let path = uri.path();
    let Some(rest) = path.strip_prefix("/k/") else { return (None, path) };
    match rest.find('/') {
        Some(slash) => (Some(&rest[..slash]), &rest[slash..]),
        None => (Some(rest), "/"),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else { return false };
    let Ok(text) = first.to_str() else { return false };
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.len() > 17
            && essence.get(..12).is_some_and(|p| p.eq_ignore_ascii_case("application/"))
            && essence.get(essence.len() - 5..).is_some_and(|p| p.eq_ignore_ascii_case("+json")))
}

/// Is `host[:port]` a name of this machine's loopback, or one the user allowed?
fn host_allowed(authority: &str, settings: &Settings) -> bool {
    let Some((host, _port)) = split_port(authority) else { return false };
    is_loopback_name(host)
        || settings.allowed_hosts.iter().any(|a| a.eq_ignore_ascii_case(host) || a.eq_ignore_ascii_case(authority))
        // Rebinding needs a name. When the user opened the port to the network, plain addresses are how peers reach it.
        || (settings.open_to_network && is_address(host))
}

fn origin_allowed(origin: &str, settings: &Settings) -> bool {
    if settings.allowed_origins.iter().any(|a| a.eq_ignore_ascii_case(origin)) {
        return true;
    }
    let authority = ["http://", "https://"].iter().find_map(|scheme| {
        let (head, rest) = origin.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    authority.and_then(split_port).is_some_and(|(host, _)| is_loopback_name(host))
}

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`; anything else (user info, path, empty or odd port) is `None`.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, rest) = if authority.starts_with('[') {
        authority.split_at(authority.find(']')? + 1)
    } else {
        authority.split_at(authority.find(':').unwrap_or(authority.len()))
    };
    if host.is_empty() || !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b)) {
        return None;
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((host, None)),
        Some(port) if (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit()) => {
            port.parse::<u16>().ok().map(|_| (host, Some(port)))
        }
        _ => None,
    }
}

fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|a| a.is_loopback())
        || v6(host).is_some_and(|a| a.is_loopback())
}

fn is_address(host: &str) -> bool {
    host.parse::<Ipv4Addr>().is_ok_and(|a| !a.is_unspecified()) || v6(host).is_some_and(|a| !a.is_unspecified())
}

fn v6(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use rstest::rstest;

    fn settings() -> Settings {
        Settings { api_key: Some("secret-key".into()), allowed_hosts: vec!["pi.local".into()], ..Settings::for_test() }
    }

    fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut builder = Request::builder().method("POST").uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[rstest]
    #[case::v4("127.0.0.1", true)]
    #[case::v4_port("127.0.0.1:30000", true)]
    #[case::other_loopback("127.0.0.10:1", true)]
    #[case::name("localhost:30000", true)]
    #[case::upper("LOCALHOST", true)]
    #[case::v6("[::1]:30000", true)]
    #[case::allowed("pi.local:8080", true)]
    #[case::allowed_case("PI.LOCAL", true)]
    #[case::suffix("127.0.0.1.evil.com", false)]
    #[case::suffix_name("localhost.evil.com:30000", false)]
    #[case::prefix("evil-localhost", false)]
    #[case::dot("localhost.", false)]
    #[case::unspecified("0.0.0.0:30000", false)]
    #[case::unspecified_v6("[::]:30000", false)]
    #[case::mapped("[::ffff:127.0.0.1]", false)]
    #[case::lan("192.168.1.5", false)]
    #[case::short_v4("127.1", false)]
    #[case::octal("0177.0.0.1", false)]
    #[case::decimal("2130706433", false)]
    #[case::userinfo("localhost@evil.com", false)]
    #[case::userinfo2("evil.com:80@localhost", false)]
    #[case::empty("", false)]
    #[case::only_port(":30000", false)]
    #[case::bad_port("localhost:port", false)]
    #[case::big_port("localhost:99999", false)]
    #[case::empty_port("localhost:", false)]
    #[case::bare_v6("::1", false)]
    #[case::open_bracket("[::1", false)]
    #[case::path("localhost/evil", false)]
    #[case::two("localhost:1:2", false)]
    fn only_our_own_names_are_hosts(#[case] host: &str, #[case] ok: bool) {
        assert_eq!(check_source(&head("/v1/models", &[("host", host)]), &settings()).is_ok(), ok, "{host}");
        // The same rule for an absolute-form target beside a good Host header.
        if let Ok(uri) = format!("http://{host}/v1/models").parse::<Uri>()
            && uri.authority().is_some_and(|a| a.as_str() == host)
        {
            let parts = head(&uri.to_string(), &[("host", "127.0.0.1:30000")]);
            assert_eq!(check_source(&parts, &settings()).is_ok(), ok, "target {host}");
        }
    }

    #[test]
    fn a_missing_or_second_host_is_refused() {
        assert_eq!(check_source(&head("/", &[]), &settings()), Err(Refusal::NoHost));
        assert_eq!(check_source(&head("http://localhost/", &[]), &settings()), Err(Refusal::NoHost));
        let two = head("/", &[("host", "localhost"), ("host", "localhost")]);
        assert_eq!(check_source(&two, &settings()), Err(Refusal::TwoHosts));
    }

    #[test]
    fn plain_addresses_are_served_once_the_port_is_open_to_the_network() {
        let open = Settings { open_to_network: true, ..settings() };
        assert!(check_source(&head("/", &[("host", "192.168.1.5:30000")]), &open).is_ok());
        assert!(check_source(&head("/", &[("host", "evil.com")]), &open).is_err());
        assert!(check_source(&head("/", &[("host", "0.0.0.0")]), &open).is_err());
    }

    #[rstest]
    #[case("http://localhost:3000", true)]
    #[case("https://127.0.0.1", true)]
    #[case("HTTP://[::1]:5173", true)]
    #[case("null", false)]
    #[case("", false)]
    #[case("file://", false)]
    #[case("http://evil.com", false)]
    #[case("http://localhost.evil.com", false)]
    #[case("http://127.0.0.1.evil.com", false)]
    #[case("http://localhost:3000/path", false)]
    #[case("chrome-extension://abc", false)]
    #[case("ws://localhost", false)]
    fn only_loopback_or_allowed_origins_pass(#[case] origin: &str, #[case] ok: bool) {
        let parts = head("/", &[("host", "localhost"), ("origin", origin)]);
        assert_eq!(check_source(&parts, &settings()).is_ok(), ok, "{origin}");
        let allowed = Settings { allowed_origins: vec!["chrome-extension://abc".into()], ..settings() };
        assert_eq!(check_source(&parts, &allowed).is_ok(), ok || origin == "chrome-extension://abc");
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    #[rstest]
    #[case::none(&[], Some(Refusal::NoKey))]
    #[case::bearer(&[("authorization", "Bearer secret-key")], None)]
    #[case::bearer_lower(&[("authorization", "bearer secret-key ")], None)]
    #[case::x_api_key(&[("x-api-key", "secret-key")], None)]
    #[case::own_header(&[("x-metaclaw-key", "secret-key")], None)]
    #[case::one_of_two(&[("authorization", "Bearer sk-other"), ("x-api-key", "secret-key")], None)]
    #[case::wrong(&[("authorization", "Bearer secret-kez")], Some(Refusal::WrongKey))]
    #[case::prefix(&[("authorization", "Bearer secret")], Some(Refusal::WrongKey))]
    #[case::longer(&[("authorization", "Bearer secret-key1")], Some(Refusal::WrongKey))]
    #[case::basic(&[("authorization", "Basic secret-key")], Some(Refusal::NoKey))]
    #[case::empty(&[("authorization", "Bearer ")], Some(Refusal::WrongKey))]
    fn the_key_opens_the_door(#[case] headers: &[(&str, &str)], #[case] refused: Option<Refusal>) {
        let headers = [headers, &[JSON]].concat();
        assert_eq!(check_caller(&head("/", &headers), None, &settings()).err(), refused);
    }

    #[test]
    fn without_a_configured_key_any_credential_is_fine() {
        let open = Settings { api_key: None, ..settings() };
        assert!(check_caller(&head("/", &[JSON, ("authorization", "Bearer metaclaw")]), None, &open).is_ok());
    }

    #[test]
    fn in_passthrough_the_key_travels_beside_the_credential() {
        let pass = Settings { passthrough: true, ..settings() };
        let with = |extra: &[(&str, &str)], path| check_caller(&head("/", &[extra, &[JSON]].concat()), path, &pass);
        assert_eq!(with(&[("authorization", "Bearer sk-ant")], None), Err(Refusal::NoKeyBeside));
        assert_eq!(with(&[("authorization", "Bearer sk-ant")], Some("nope")), Err(Refusal::WrongKey));
        let theirs = Ok(Pass { bearer_is_ours: false, api_key_is_ours: false, agent: None });
        assert_eq!(with(&[("authorization", "Bearer sk-ant")], Some("secret-key")), theirs);
        assert_eq!(with(&[("authorization", "Bearer sk"), ("x-metaclaw-key", "secret-key")], None), theirs);
        assert_eq!(
            with(&[("x-api-key", "secret-key")], None),
            Ok(Pass { bearer_is_ours: false, api_key_is_ours: true, agent: None })
        );
    }

    #[rstest]
    #[case(&["application/json"], true)]
    #[case(&["Application/JSON;charset=utf-8"], true)]
    #[case(&["application/vnd.api+json"], true)]
    #[case(&["text/plain"], false)]
    #[case(&["text/plain;application/json"], false)]
    #[case(&["application/x-www-form-urlencoded"], false)]
    #[case(&["multipart/form-data"], false)]
    #[case(&["application/jsonx"], false)]
    #[case(&["application/json", "text/plain"], false)]
    #[case(&[], false)]
    fn a_post_must_be_json(#[case] types: &[&str], #[case] ok: bool) {
        let open = Settings { api_key: None, ..settings() };
        let mut headers: Vec<_> = types.iter().map(|t| ("content-type", *t)).collect();
        let passes = |headers: &[(&str, &str)], providers, settings: &Settings| {
            check_type(&head("/", headers), providers, settings).is_ok()
        };
        assert_eq!(passes(&headers, false, &open), ok);
        assert_eq!(passes(&headers, false, &settings()), ok, "the key is no reason where only JSON is read");
        // An upload to the provider comes in any form, but not from a page nobody knows.
        assert!(passes(&headers, true, &open));
        for mark in [("sec-fetch-site", "cross-site"), ("referer", "https://evil.com/")] {
            headers.push(mark);
            assert_eq!(passes(&headers, true, &open), ok, "{mark:?}");
            assert!(passes(&headers, true, &settings()), "the key is asked for next");
            headers.push(("origin", "http://localhost:3000"));
            assert!(passes(&headers, true, &open));
            headers.truncate(types.len());
        }
    }

    #[rstest]
    #[case("/v1/models", None, "/v1/models")]
    #[case("/k/abc/v1/models?x=1", Some("abc"), "/v1/models")]
    #[case("/k/abc", Some("abc"), "/")]
    #[case("/k//v1", Some(""), "/v1")]
    #[case("/kk/abc/v1", None, "/kk/abc/v1")]
    fn the_key_can_stand_in_the_base_url(#[case] uri: &str, #[case] key: Option<&str>, #[case] path: &str) {
        let uri: Uri = uri.parse().unwrap();
        assert_eq!(split_path_key(&uri), (key, path));
    }

    #[test]
    fn an_agents_own_key_lets_it_in_and_tells_who_it_is() {
        let keys = vec![("mail".into(), "key-of-mail".to_owned()), ("research".into(), "key-of-research".to_owned())];
        let known = Settings { agent_keys: keys.clone(), ..settings() };
        let asked = |headers: &[(&str, &str)], settings: &Settings| {
            let mut request = Request::builder().uri("/v1/models").header("host", "localhost");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            check_caller(&parts, None, settings)
                .map(|pass| (pass.agent(settings).map(|a| a.to_string()), pass.bearer_is_ours))
        };
        let research = [("authorization", "Bearer key-of-research")];
        assert_eq!(asked(&research, &known), Ok((Some("research".into()), true)));
        assert_eq!(asked(&[("authorization", "Bearer secret-key")], &known), Ok((None, true)));
        assert_eq!(asked(&[("authorization", "Bearer key-of-nobody")], &known), Err(Refusal::WrongKey));
        // Without a key that is asked for, who shows one is known all the same, and nobody is turned away.
        let open = Settings { api_key: None, agent_keys: keys, ..settings() };
        assert_eq!(asked(&research, &open), Ok((Some("research".into()), true)));
        assert_eq!(asked(&[("authorization", "Bearer sk-of-the-provider")], &open), Ok((None, false)));
    }
}
