//! `GET /v1/models`: the provider's list where it can be had quickly, and the configured model in any case. Clients ask at
//! start and take an error for a broken provider, so there is none.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use bytes::Bytes;
use dialect::{ApiError, Dialect, ErrorKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Proxy;
use crate::forward::{collect, error_response};
use crate::gate::Pass;
use crate::headers::{to_upstream, translated};
use crate::model::{Call, Endpoint, Model, Route};
use crate::other::caller_credentials;

/// How long the provider may take to list its models.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a list holds; a failed attempt holds shorter.
const FRESH: Duration = Duration::from_secs(300);
const FAILED: Duration = Duration::from_secs(15);
/// Most bytes of a list.
const MAX_LIST: usize = 8 << 20;
/// What stands in for a model nobody has configured.
const NAMELESS: &str = "metaclaw-model";

/// The provider's last list, per provider.
#[derive(Default)]
pub(crate) struct Cache {
    last: Mutex<Option<Listed>>,
}

struct Listed {
    /// Held weakly, so that the address of another model cannot be taken for it.
    of: Weak<dyn Model>,
    until: Instant,
    models: Arc<Vec<Value>>,
}

pub(crate) async fn models(
    proxy: &Arc<Proxy>,
    client: Dialect,
    one: Option<&str>,
    parts: &Parts,
    pass: Pass,
) -> Response {
    let upstream = proxy.deps.upstream.load_full();
    let (own, listed) = match &*upstream {
        Ok(route) => {
            let own = route.primary.model_for(None).map(|id| id.into_owned());
            (own, listed(proxy, route, client, parts, pass).await)
        }
        Err(_) => (None, Arc::default()),
    };
    let own = own.or_else(|| listed.is_empty().then(|| NAMELESS.to_owned()));
    let mut all = Vec::with_capacity(listed.len() + 1);
    if let Some(id) = own.as_deref().filter(|id| !listed.iter().any(|m| id_of(m) == Some(id))) {
        all.push(entry(client, &json!({ "id": id, "owned_by": "metaclaw" })));
    }
    all.extend(listed.iter().map(|model| entry(client, model)));
    let Some(one) = one.map(decoded) else { return answer(&list(client, &all)) };
    let one = &*one;
    match all.iter().find(|model| id_of(model) == Some(one)) {
        Some(model) => answer(model),
        // Every name is answered by the configured model.
        None if own.is_some() => answer(&entry(client, &json!({ "id": one, "owned_by": "metaclaw" }))),
        None => {
            let message = format!("the model {one} does not exist");
            let error = ApiError::new(404, ErrorKind::NotFound, message);
            error_response(client, &error.into(), HeaderMap::new())
        }
    }
}

/// The provider's models, in whatever form it lists them.
async fn listed(proxy: &Proxy, route: &Route, client: Dialect, parts: &Parts, pass: Pass) -> Arc<Vec<Value>> {
    let model = &route.primary;
    let now = Instant::now();
    let lock = || proxy.models.last.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(listed) =
        lock().as_ref().filter(|l| now < l.until && std::ptr::addr_eq(l.of.as_ptr(), Arc::as_ptr(model)))
    {
        return listed.models.clone();
    }
    let dialect = model.dialect_for(client);
    let mut credentials = caller_credentials(&**model, parts, pass);
    if dialect != client {
        credentials = translated(credentials, dialect);
    }
    let personal = !credentials.is_empty();
    let call = Call {
        endpoint: Endpoint::Other { method: Method::GET, path: "/models".to_owned() },
        dialect,
        query: None,
        body: Bytes::new(),
        stream: false,
        headers: to_upstream(&parts.headers, false),
        credentials,
    };
    let models = tokio::time::timeout(PATIENCE, fetch(&**model, call)).await.ok().flatten();
    let until = now + if models.is_some() { FRESH } else { FAILED };
    let models = Arc::new(models.unwrap_or_default());
    // What one caller's credentials see is nobody else's.
    if !personal {
        *lock() = Some(Listed { of: Arc::downgrade(model), until, models: models.clone() });
    }
    models
}

async fn fetch(model: &dyn Model, call: Call) -> Option<Vec<Value>> {
    let reply = model.send(call).await.ok()?;
    if !reply.status.is_success() {
        return None;
    }
    let body = collect(reply.body, MAX_LIST, PATIENCE).await.ok()?;
    let mut body: Value = serde_json::from_slice(&body).ok()?;
    let found = match body.get_mut("data") {
        Some(Value::Array(data)) => std::mem::take(data),
        _ => match body.get_mut("models") {
            Some(Value::Array(models)) => std::mem::take(models),
            _ => return None,
        },
    };
    Some(found.into_iter().filter(|model| id_of(model).is_some()).collect())
}

/// A name from a path: clients write `org%2Fname` as well as `org/name`.
fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let byte = digit(0).zip(digit(1)).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        match byte.filter(|_| first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = &behind[2..];
            }
            None => {
                out.push(first);
                rest = behind;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn id_of(model: &Value) -> Option<&str> {
    model.get("id").and_then(Value::as_str)
}

/// A model in the form the agent's dialect lists it; whatever else the provider said of it stays.
fn entry(client: Dialect, model: &Value) -> Value {
    let mut entry = model.clone();
    let id = id_of(model).unwrap_or_default().to_owned();
    if let Some(fields) = entry.as_object_mut() {
        let mut add = |key: &str, value: Value| {
            fields.entry(key.to_owned()).or_insert(value);
        };
        if client == Dialect::Messages {
            add("type", json!("model"));
            add("display_name", json!(id));
            add("created_at", json!("1970-01-01T00:00:00Z"));
        } else {
            add("object", json!("model"));
            add("created", json!(0));
            add("owned_by", json!("provider"));
        }
    }
    entry
}

fn list(client: Dialect, all: &[Value]) -> Value {
    if client == Dialect::Messages {
        let id = |model: Option<&Value>| model.and_then(id_of).map(str::to_owned);
        json!({ "data": all, "has_more": false, "first_id": id(all.first()), "last_id": id(all.last()) })
    } else {
        json!({ "object": "list", "data": all })
    }
}

fn answer(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn names_in_paths_are_decoded_once() {
        for (path, name) in [
            ("org/name", "org/name"),
            ("org%2Fname", "org/name"),
            ("a%2525b", "a%25b"),
            ("50%", "50%"),
            ("%zz%4", "%zz%4"),
        ] {
            assert_eq!(decoded(path), name);
        }
    }
}
