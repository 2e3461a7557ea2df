//! An OpenAI-compatible endpoint: <https://platform.openai.com/docs/api-reference/embeddings>.

use async_trait::async_trait;
use reqwest::Client;
use serde::{Deserialize, Serialize};

use crate::{Embedder, Error, Side, Vector};

/// Texts of one request.
const BATCH: usize = 64;

/// Who is asked.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The address above `/embeddings`, such as `https://api.openai.com/v1`.
    pub base: String,
    /// Sent as a bearer token; empty = none.
    pub key: String,
    /// The model there.
    pub model: String,
}

impl std::fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteOptions").field("base", &self.base).field("model", &self.model).finish_non_exhaustive()
    }
}

/// See the module. Time limits are the client's and the caller's.
#[derive(Debug, Clone)]
pub struct Remote {
    client: Client,
    options: RemoteOptions,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    input: &'a [String],
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Remote {
    /// Nothing is sent yet.
    pub fn new(client: Client, options: RemoteOptions) -> Self {
        Self { client, options }
    }

    async fn ask(&self, texts: &[String]) -> Result<Vec<Vector>, Error> {
        let address = format!("{}/embeddings", self.options.base.trim_end_matches('/'));
        let failed = |what: String| Error::Endpoint { address: address.clone(), what };
        let mut request = self.client.post(&address).json(&Question { model: &self.options.model, input: texts });
        if !self.options.key.is_empty() {
            request = request.bearer_auth(&self.options.key);
        }
        let answer = request.send().await.map_err(|error| failed(error.without_url().to_string()))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(failed(match status.as_u16() {
                401 | 403 => format!("{status}: the key is unknown or not allowed there"),
                404 => format!("{status}: it has no model {}, or no embeddings", self.options.model),
                _ => status.to_string(),
            }));
        }
        let answer: Answer = answer.json().await.map_err(|error| failed(error.without_url().to_string()))?;
        let mut items: Vec<_> = answer.data.into_iter().enumerate().collect();
        items.sort_by_key(|(at, item)| item.index.unwrap_or(*at));
        let width = items.first().map_or(0, |(_, item)| item.embedding.len());
        if items.len() != texts.len() || width == 0 || items.iter().any(|(_, item)| item.embedding.len() != width) {
            return Err(failed(format!("{} texts were sent, {} vectors came", texts.len(), items.len())));
        }
        Ok(items.into_iter().map(|(_, item)| Vector::of(item.embedding)).collect())
    }
}

#[async_trait]
impl Embedder for Remote {
    fn name(&self) -> String {
        format!("{}@{}", self.options.model, self.options.base)
    }

    async fn embed(&self, _side: Side, texts: &[String]) -> Result<Vec<Vector>, Error> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            vectors.extend(self.ask(batch).await?);
        }
        Ok(vectors)
    }
}
