//! The address of an API, as people paste it, as the address that requests go to.
//! In: `api.example.com`, with or without `/v1`, slash, or a whole endpoint. Out: scheme, host and the path before
//! `/chat/completions`, `/responses` or `/messages`.

use http::uri::{Authority, Uri};

use crate::preset::{Preset, preset_of_host};

/// What people paste behind the base, longest first.
const ENDPOINTS: &[&str] = &[
    "/chat/completions",
    "/messages/count_tokens",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    "/models",
];

/// A checked address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    scheme: &'static str,
    authority: Authority,
    path: String,
}

impl BaseUrl {
    /// Takes an address apart, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest),
            Some(_) => return Err("an http:// or https:// address".to_owned()),
            None if near(text) => ("http", text),
            None => ("https", text),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let uri: Uri = format!("{scheme}://{rest}").parse().map_err(|_| "an http:// or https:// address".to_owned())?;
        let authority = uri.authority().ok_or("an address with a host")?.clone();
        if authority.as_str().contains('@') {
            return Err("an address without a name or password in it; keys belong in the key of the section".to_owned());
        }
        let port_unread = authority.as_str().len() > authority.host().len() && authority.port_u16().is_none();
        if authority.host().is_empty() || port_unread {
            return Err("an address with a host, and a port from 1 to 65535 if any".to_owned());
        }
        if !authority.host().contains(['.', ':'])
            && !authority.host().eq_ignore_ascii_case("localhost")
            && !text.contains("://")
        {
            // `openai` alone is a provider, not an address.
            return Err("an http:// or https:// address".to_owned());
        }
        let mut path = uri.path().trim_end_matches('/').to_owned();
        while let Some(start) = path.find("//") {
            path.remove(start);
        }
        for endpoint in ENDPOINTS {
            if let Some(before) = strip_suffix_ignore_case(&path, endpoint) {
                path = before.trim_end_matches('/').to_owned();
                break;
            }
        }
        Ok(Self { scheme, authority, path })
    }

    /// The host, without port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// Whether both are the same server: what is meant for one may be told to the other.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.host().eq_ignore_ascii_case(other.host()) && self.port() == other.port()
    }

    /// The port that connections go to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.scheme == "https" { 443 } else { 80 })
    }

    /// The path, without a slash at its end; may be empty.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the host is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.host())
    }

    /// The provider whose host it is.
    #[must_use]
    pub fn preset(&self) -> Option<&'static Preset> {
        preset_of_host(self.host())
    }

    /// The base for a dialect: `<base>/chat/completions`, `<base>/responses` or `<base>/messages` is an endpoint.
    /// A path that was given is kept. Where it is only the beginning of the provider's own, the rest is added; where
    /// nothing is known, `/v1` is added to a bare host; and Anthropic's dialect is always served below a version.
    #[must_use]
    pub fn for_dialect(&self, dialect: &str) -> String {
        let messages = dialect == "anthropic-messages";
        let known = self.preset().and_then(|preset| {
            let own = Self::parse(&preset.api_base).ok().map(|own| (preset.dialect.as_str(), own.path));
            let others = preset.also.iter().map(|door| (door.dialect.as_str(), door.path.clone()));
            own.into_iter()
                .chain(others)
                .find(|(served, path)| *served == dialect && path.starts_with(&format!("{}/", self.path)))
        });
        let path = if let Some((_, path)) = known {
            path
        } else if self.path.is_empty() {
            "/v1".to_owned()
        } else if messages && !ends_in_version(&self.path) {
            format!("{}/v1", self.path)
        } else {
            self.path.clone()
        };
        self.with_path(&path)
    }

    /// The same host with another path.
    #[must_use]
    pub fn with_path(&self, path: &str) -> String {
        format!("{}://{}{}", self.scheme, self.authority, path)
    }
}

fn ends_in_version(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|last| last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

fn strip_suffix_ignore_case<'p>(path: &'p str, suffix: &str) -> Option<&'p str> {
    let start = path.len().checked_sub(suffix.len())?;
    let tail = path.get(start..)?;
    tail.eq_ignore_ascii_case(suffix).then(|| &path[..start])
}

/// Whether an address without scheme is on this machine or in this network, where nobody has certificates.
fn near(text: &str) -> bool {
    let host = text.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    };
    is_loopback(host)
        || host.ends_with(".local")
        || host.ends_with(".lan")
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_private() || ip.is_link_local())
}

/// Whether a host name or address is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
