//! A provider over HTTP: one pooled client, retries before the first byte only. Gets finished bodies from `converse`;
//! knows addresses, credentials and patience, nothing of what the bodies say.

use std::borrow::Cow;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use backon::{BackoffBuilder, ExponentialBuilder};
use config::{Config, Credentials, Upstream};
use dialect::{Dialect, Quirks};
use futures::StreamExt;
use reqwest::Url;

use crate::headers::HOP_HEADER;
use crate::model::{BodyError, Call, Endpoint, Model, ModelError, Reply, Route};

/// Version of the Messages API that is asked for where the agent names none.
const ANTHROPIC_VERSION: &str = "2023-06-01";
/// A provider that asks to wait longer than this is not waited for: the agent gets its answer and decides.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// All waiting of one request together.
const WAIT_BUDGET: Duration = Duration::from_secs(8);

/// Makes the one HTTP client that all providers share.
///
/// # Errors
/// The system's TLS roots cannot be used.
pub fn http_client(config: &Config) -> Result<reqwest::Client, reqwest::Error> {
    // An error only says that a provider of cryptography is in place already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(config.proxy.connect_timeout_seconds.max(1).into()))
        .pool_idle_timeout(Duration::from_secs(90))
        .pool_max_idle_per_host(64)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .build()
}

/// Patience with a provider.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long it may take to begin its answer.
    pub first_byte: Duration,
    /// Further attempts after the first one failed.
    pub retries: u32,
    /// The first wait between attempts; it doubles.
    pub first_wait: Duration,
}

/// Why a provider cannot be used as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} cannot be used: {reason}")]
pub struct BadUpstream {
    /// The key at fault.
    pub key: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// The route that a configuration describes, or what the user has to do first.
///
/// # Errors
/// The text to show to agents and users.
pub fn route(config: &Config, client: &reqwest::Client, hop: &str) -> crate::Upstream {
    let patience = HttpModel::patience(config);
    let build = |upstream| -> Result<Arc<dyn Model>, String> {
        let model = HttpModel::new(upstream, client.clone(), patience, hop).map_err(|e| e.to_string())?;
        Ok(Arc::new(model))
    };
    let primary = build(config.upstream().map_err(|e| e.to_string())?)?;
    let fallback = config.fallback().map_err(|e| e.to_string())?.map(build).transpose()?;
    Ok(Route { primary, fallback })
}

/// See the module.
#[derive(Debug)]
pub struct HttpModel {
    client: reqwest::Client,
    name: Arc<str>,
    upstream: Upstream,
    dialect: Dialect,
    quirks: Quirks,
    headers: HeaderMap,
    doors: Vec<Door>,
    patience: Patience,
    hop: HeaderValue,
}

/// The addresses of one dialect, and the headers in which the key travels there.
#[derive(Debug)]
struct Door {
    dialect: Dialect,
    base: String,
    generate: Url,
    auth: Vec<(HeaderName, HeaderValue)>,
}

impl HttpModel {
    /// A provider as configured. `hop` names this process, see [`crate::new_hop`].
    ///
    /// # Errors
    /// An address or header that HTTP cannot carry.
    pub fn new(
        upstream: Upstream,
        client: reqwest::Client,
        patience: Patience,
        hop: &str,
    ) -> Result<Self, BadUpstream> {
        let bad = |key, reason: &dyn std::fmt::Display| BadUpstream { key, reason: reason.to_string() };
        let quirks = serde_json::from_value(upstream.quirks.clone()).map_err(|e| bad("llm.provider", &e))?;
        let mut doors = Vec::with_capacity(3);
        let all =
            std::iter::once((upstream.dialect, &upstream.base_url)).chain(upstream.also.iter().map(|(d, b)| (*d, b)));
        for (dialect, base) in all {
            let dialect: Dialect = dialect.parse().map_err(|e| bad("llm.dialect", &e))?;
            let url = |path: &str| Url::parse(&format!("{base}{path}")).map_err(|e| bad("llm.api_base", &e));
            let unfit = || bad("llm.api_key", &"it holds characters that no HTTP header can carry");
            let mut auth = Vec::with_capacity(2);
            for (name, value) in upstream.auth_headers(dialect.as_str()) {
                let mut value = HeaderValue::from_str(value.expose()).map_err(|_| unfit())?;
                value.set_sensitive(true);
                auth.push((HeaderName::from_static(name), value));
            }
            doors.push(Door { dialect, base: base.clone(), generate: url(path_of(dialect))?, auth });
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &upstream.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|e| bad("llm.headers", &e))?;
            let mut value = HeaderValue::from_str(value.expose()).map_err(|e| bad("llm.headers", &e))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self {
            name: upstream.provider.as_str().into(),
            dialect: doors.first().map_or(Dialect::Chat, |door| door.dialect),
            hop: HeaderValue::from_str(hop).map_err(|e| bad("hop", &e))?,
            client,
            upstream,
            quirks,
            headers,
            doors,
            patience,
        })
    }

    /// Patience as configured.
    pub fn patience(config: &Config) -> Patience {
        Patience {
            first_byte: Duration::from_secs(config.proxy.idle_timeout_seconds.max(1).into()),
            retries: config.proxy.max_retries,
            first_wait: Duration::from_millis(250),
        }
    }

    fn door(&self, call: &Call) -> Option<&Door> {
        self.doors.iter().find(|d| d.dialect == call.dialect).or(self.doors.first())
    }

    fn url(&self, call: &Call) -> Result<Url, ModelError> {
        let door = self.door(call);
        let broken = |reason: String| ModelError::Broken { name: self.name.to_string(), reason };
        let Some(door) = door else { return Err(broken("it has no address".to_owned())) };
        let mut url = match &call.endpoint {
            Endpoint::Generate => door.generate.clone(),
            Endpoint::CountTokens => self.join(door, "/messages/count_tokens", &broken)?,
            Endpoint::Other { path, .. } => self.join(door, path, &broken)?,
        };
        if call.query.is_some() {
            url.set_query(call.query.as_deref());
        }
        Ok(url)
    }

    fn join(&self, door: &Door, path: &str, broken: &dyn Fn(String) -> ModelError) -> Result<Url, ModelError> {
        let url = Url::parse(&format!("{}{path}", door.base)).map_err(|e| broken(e.to_string()))?;
        // A path never leads off the provider's own address.
        let stays =
            url.host() == door.generate.host() && url.port_or_known_default() == door.generate.port_or_known_default();
        if stays { Ok(url) } else { Err(broken(format!("{path} is no path"))) }
    }

    fn headers(&self, call: &Call) -> HeaderMap {
        let mut headers = call.headers.clone();
        if !call.body.is_empty() {
            // Only uploads come in another form, see `other`.
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("metaclaw/", env!("CARGO_PKG_VERSION"))));
        if call.dialect == Dialect::Messages {
            headers.entry("anthropic-version").or_insert(HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        match &self.upstream.credentials {
            Credentials::None => {}
            Credentials::Caller => {
                for (name, value) in &call.credentials {
                    headers.insert(*name, value.clone());
                }
            }
            Credentials::Key(_) => {
                for (name, value) in self.door(call).into_iter().flat_map(|door| &door.auth) {
                    headers.insert(name.clone(), value.clone());
                }
            }
        }
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        headers.insert(HeaderName::from_static(HOP_HEADER), self.hop.clone());
        headers
    }

    async fn once(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        call: &Call,
    ) -> Result<reqwest::Response, ModelError> {
        let mut request = self.client.request(method, url).headers(headers);
        if !call.body.is_empty() {
            request = request.body(call.body.clone());
        }
        match tokio::time::timeout(self.patience.first_byte, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => {
                Err(ModelError::Timeout { name: self.name.to_string(), seconds: self.patience.first_byte.as_secs() })
            }
        }
    }

    fn failed(&self, error: &reqwest::Error) -> ModelError {
        let name = self.name.to_string();
        let reason = root_cause(error);
        if error.is_connect() {
            ModelError::Unreachable { name, address: self.upstream.base_url.clone(), reason }
        } else if error.is_timeout() {
            ModelError::Timeout { name, seconds: self.patience.first_byte.as_secs() }
        } else {
            ModelError::Broken { name, reason }
        }
    }
}

/// Whether a header of this name identifies somebody.
fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "auth", "secret", "cookie", "password", "credential", "signature"].iter().any(|w| name.contains(w))
}

/// A credential without its scheme (`Bearer`, `Basic`).
fn bare(value: &str) -> &str {
    value.rsplit(' ').next().unwrap_or(value)
}

fn path_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat => "/chat/completions",
        Dialect::Responses => "/responses",
        Dialect::Messages => "/messages",
    }
}

/// What the network said, without the address (it may hold a key).
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.source().is_none() { "the exchange failed".to_owned() } else { cause.to_string() }
}

/// Worth another attempt: the provider is busy or half up, and has not begun to answer.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502..=504 | 520..=529)
}

/// How long the provider asks to wait. Dates are not counted: they are as good as a long wait.
fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: HeaderName, unit: f64| {
        let text = headers.get(name)?.to_str().ok()?.trim();
        Some(
            text.parse::<f64>()
                .ok()
                .filter(|n| *n >= 0.0)
                .map_or(Duration::MAX, |n| Duration::try_from_secs_f64(n * unit).unwrap_or(Duration::MAX)),
        )
    };
    number(HeaderName::from_static("retry-after-ms"), 0.001).or_else(|| number(RETRY_AFTER, 1.0))
}

#[async_trait]
impl Model for HttpModel {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn dialect_for(&self, client: Dialect) -> Dialect {
        if self.doors.iter().any(|door| door.dialect == client) { client } else { self.dialect }
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn model_for<'a>(&'a self, asked: Option<&'a str>) -> Option<Cow<'a, str>> {
        self.upstream.model_for(asked)
    }

    fn takes_caller_credentials(&self) -> bool {
        self.upstream.credentials == Credentials::Caller
    }

    fn secrets(&self) -> Vec<&str> {
        let key = match &self.upstream.credentials {
            Credentials::Key(key) => Some(key.expose()),
            Credentials::None | Credentials::Caller => None,
        };
        // Other headers hold words that stand in any error: a title, an address, a switch.
        let secret = self.upstream.headers.iter().filter(|(name, _)| names_a_secret(name));
        key.into_iter().chain(secret.map(|(_, value)| bare(value.expose()))).collect()
    }

    fn quirks(&self) -> &Quirks {
        &self.quirks
    }

    async fn send(&self, call: Call) -> Result<Reply, ModelError> {
        let url = self.url(&call)?;
        let headers = self.headers(&call);
        let method = match &call.endpoint {
            Endpoint::Other { method, .. } => method.clone(),
            Endpoint::Generate | Endpoint::CountTokens => Method::POST,
        };
        // Only answers are worth waiting for.
        let retries = if call.endpoint == Endpoint::Generate { self.patience.retries } else { 0 };
        let retries = usize::try_from(retries).unwrap_or(usize::MAX);
        let mut waits = None;
        let mut budget = WAIT_BUDGET;
        loop {
            let result = self.once(method.clone(), url.clone(), headers.clone(), &call).await;
            let asked = match &result {
                Ok(response) if is_passing(response.status().as_u16()) => asked_wait(response.headers()),
                Ok(_) | Err(ModelError::Timeout { .. }) => return result.map(into_reply),
                Err(ModelError::Unreachable { .. } | ModelError::Broken { .. }) => None,
            };
            let backoff = waits.get_or_insert_with(|| {
                ExponentialBuilder::default()
                    .with_min_delay(self.patience.first_wait)
                    .with_max_delay(LONGEST_WAIT)
                    .with_max_times(retries)
                    .with_jitter()
                    .build()
            });
            let Some(wait) = backoff.next() else { return result.map(into_reply) };
            let wait = asked.unwrap_or(wait);
            if wait > LONGEST_WAIT || wait > budget {
                return result.map(into_reply);
            }
            budget -= wait;
            let why = match &result {
                Ok(response) => response.status().to_string(),
                Err(error) => error.to_string(),
            };
            tracing::debug!(upstream = %self.name, ?wait, %why, "trying again");
            // The connection goes back to the pool before the wait.
            drop(result);
            tokio::time::sleep(wait).await;
        }
    }
}

fn into_reply(response: reqwest::Response) -> Reply {
    let status = response.status();
    let mut response = response;
    let headers = std::mem::take(response.headers_mut());
    let body = response.bytes_stream().map(|chunk| chunk.map_err(|e| BodyError(root_cause(&e))));
    Reply { status, headers, body: Box::pin(body), weight_version: None }
}

#[cfg(test)]
mod tests {
    use dialect::Quirks;

    #[test]
    fn every_presets_quirks_are_ones_that_the_dialects_know() {
        for preset in config::presets() {
            serde_json::from_value::<Quirks>(preset.quirks.clone()).unwrap_or_else(|e| panic!("{}: {e}", preset.id));
        }
    }
}
