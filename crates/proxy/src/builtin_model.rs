//! The model inside MetaClaw as one of those that `converse` asks: speaks Chat Completions, so every dialect reaches it by
//! translation. Which file answers is looked up per request, since models come and go.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use builtin::{Refusal, Room};
use bytes::Bytes;
use config::Upstream;
use dialect::{Dialect, Quirks};
use futures::StreamExt;
use models::{Kept, Purpose, Shelf};

use crate::clock::Clock;
use crate::http_model::BadUpstream;
use crate::model::{BodyError, Call, Endpoint, Model, ModelError, Reply};

/// The model inside MetaClaw: where it runs, and where its files are.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// Where it runs. One for the whole process: settings come and go, the model stays.
    pub room: Room,
    /// Where its files are.
    pub shelf: Shelf,
}

/// The world outside, for the model.
pub struct Outside {
    /// Wall time and randomness.
    pub clock: Arc<dyn Clock>,
    /// The program that renders templates of strangers.
    pub renderer: Option<PathBuf>,
}

impl builtin::Outside for Outside {
    fn now_s(&self) -> i64 {
        self.clock.now_ms() / 1000
    }

    fn random(&self) -> u64 {
        self.clock.random()
    }

    fn renderer(&self) -> Option<PathBuf> {
        self.renderer.clone()
    }
}

/// See the module.
#[derive(Debug)]
pub struct BuiltinModel {
    name: Arc<str>,
    built_in: BuiltIn,
    upstream: Upstream,
    quirks: Quirks,
}

impl BuiltinModel {
    /// The built-in model as configured.
    ///
    /// # Errors
    /// Its preset is not understood.
    pub fn new(upstream: Upstream, built_in: BuiltIn) -> Result<Self, BadUpstream> {
        let quirks = serde_json::from_value(upstream.quirks.clone())
            .map_err(|error| BadUpstream { key: "llm.provider", reason: error.to_string() })?;
        Ok(Self { name: upstream.provider.as_str().into(), built_in, upstream, quirks })
    }

    fn missing(&self, id: &str) -> Refusal {
        let message = if id.is_empty() {
            "No model has been fetched for the built-in provider yet. Choose and fetch one: metaclaw setup".to_owned()
        } else if models::offer(id).is_some_and(|offer| offer.purpose == Purpose::Chat) {
            format!("The model {id} is not on this computer. Fetch it: metaclaw models fetch {id}")
        } else if let Some(file) = Shelf::named(id) {
            format!(
                "There is no file {}. Name another in llm.model_id, or choose again: metaclaw setup",
                file.display()
            )
        } else {
            format!(
                "There is no model {id} in {}. See what there is: metaclaw models list",
                self.built_in.shelf.dir().display()
            )
        };
        Refusal { status: 503, code: "model_missing", message }
    }

    async fn generate(&self, call: &Call) -> Result<Reply, Refusal> {
        let id = self.upstream.model_id.as_str();
        let wanted = id.to_owned();
        let kept = self.on_shelf(move |shelf| shelf.find(&wanted)).await.ok_or_else(|| self.missing(id))?;
        let answer = self.built_in.room.chat(&kept.file, &kept.id, &call.body, call.stream).await?;
        let kind = if answer.stream { "text/event-stream" } else { "application/json" };
        Ok(Reply {
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]),
            body: Box::pin(answer.body.map(|part| part.map_err(BodyError))),
            weight_version: None,
        })
    }

    /// Looks at the shelf where the disk may take its time.
    async fn on_shelf<T: Default + Send + 'static>(&self, look: impl FnOnce(&Shelf) -> T + Send + 'static) -> T {
        let shelf = self.built_in.shelf.clone();
        tokio::task::spawn_blocking(move || look(&shelf)).await.unwrap_or_default()
    }

    async fn models(&self) -> Reply {
        let kept: Vec<Kept> = self.on_shelf(|shelf| shelf.kept().unwrap_or_default()).await;
        let data: Vec<_> = kept
            .iter()
            .filter(|kept| kept.purpose == Purpose::Chat)
            .map(|kept| serde_json::json!({"id": kept.id, "object": "model", "owned_by": "builtin"}))
            .collect();
        whole(StatusCode::OK, serde_json::json!({"object": "list", "data": data}).to_string().into())
    }
}

fn whole(status: StatusCode, body: Bytes) -> Reply {
    Reply {
        status,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]),
        body: Box::pin(futures::stream::once(async { Ok(body) })),
        weight_version: None,
    }
}

fn refused(refusal: &Refusal) -> Reply {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    whole(status, refusal.body().into())
}

#[async_trait]
impl Model for BuiltinModel {
    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn model_for<'a>(&'a self, _asked: Option<&'a str>) -> Option<Cow<'a, str>> {
        // Whatever was asked for, the model that is here answers.
        let kept = self.built_in.shelf.find(&self.upstream.model_id)?;
        Some(Cow::Owned(kept.id))
    }

    fn quirks(&self) -> &Quirks {
        &self.quirks
    }

    async fn send(&self, call: Call) -> Result<Reply, ModelError> {
        Ok(match &call.endpoint {
            Endpoint::Generate => self.generate(&call).await.unwrap_or_else(|refusal| refused(&refusal)),
            Endpoint::Other { path, .. } if path == "/models" => self.models().await,
            Endpoint::CountTokens | Endpoint::Other { .. } => refused(&Refusal {
                status: 404,
                code: "not_found",
                message: "The built-in model answers conversations only.".to_owned(),
            }),
        })
    }
}
