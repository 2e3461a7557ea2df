//! Providers repeat keys in their errors ("incorrect API key provided: sk-…"). Nothing of that reaches agents, journal or
//! log: `forward`, `stream` and `other` pass every error through here.

use std::sync::Arc;

use axum::http::HeaderValue;
use bytes::Bytes;

use crate::model::Model;

/// What stands where a key stood.
const INSTEAD: &str = "[key]";
/// Shorter texts are no keys, and would be found everywhere.
const SHORTEST: usize = 8;

/// The keys a request went out with.
#[derive(Clone)]
pub(crate) struct Conceal {
    model: Arc<dyn Model>,
    credentials: Vec<(&'static str, HeaderValue)>,
}

impl Conceal {
    pub(crate) fn new(model: &Arc<dyn Model>, credentials: Vec<(&'static str, HeaderValue)>) -> Self {
        Self { model: model.clone(), credentials }
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        let sent = self.credentials.iter().filter_map(|(_, value)| value.to_str().ok());
        let sent = sent.map(|value| value.rsplit(' ').next().unwrap_or_default());
        self.model.secrets().into_iter().chain(sent).filter(|key| key.len() >= SHORTEST)
    }

    /// A text without the keys.
    pub(crate) fn text(&self, mut text: String) -> String {
        for key in self.keys() {
            if text.contains(key) {
                text = text.replace(key, INSTEAD);
            }
        }
        text
    }

    /// Bytes without the keys; untouched, and not copied, where there are none.
    pub(crate) fn bytes(&self, bytes: Bytes) -> Bytes {
        let text = String::from_utf8_lossy(&bytes);
        if self.keys().any(|key| text.contains(key)) { self.text(text.into_owned()).into() } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::model::{Call, ModelError, Reply};
    use async_trait::async_trait;
    use dialect::{Dialect, Quirks};

    struct Keyed(Arc<str>, Quirks);

    #[async_trait]
    impl Model for Keyed {
        fn dialect(&self) -> Dialect {
            Dialect::Chat
        }
        fn name(&self) -> &Arc<str> {
            &self.0
        }
        fn model_for<'a>(&'a self, asked: Option<&'a str>) -> Option<Cow<'a, str>> {
            asked.map(Cow::Borrowed)
        }
        fn quirks(&self) -> &Quirks {
            &self.1
        }
        fn secrets(&self) -> Vec<&str> {
            vec!["sk-upstream-canary", "short"]
        }
        async fn send(&self, _: Call) -> Result<Reply, ModelError> {
            Err(ModelError::Timeout { name: String::new(), seconds: 0 })
        }
    }

    #[test]
    fn keys_of_the_provider_and_of_the_caller_go_and_everything_else_stays() {
        let model: Arc<dyn Model> = Arc::new(Keyed("k".into(), Quirks::default()));
        let credentials = vec![("authorization", HeaderValue::from_static("Bearer sk-callers-canary"))];
        let conceal = Conceal::new(&model, credentials);
        let text = "a short key: sk-upstream-canary, and sk-callers-canary.".to_owned();
        assert_eq!(conceal.text(text.clone()), "a short key: [key], and [key].");
        assert_eq!(conceal.bytes(text.into()), "a short key: [key], and [key].");
        for plain in [Bytes::from_static(b"nothing here"), Bytes::from_static(b"\xff\xfe no text")] {
            assert_eq!(conceal.bytes(plain.clone()).as_ptr(), plain.as_ptr());
        }
        assert_eq!(conceal.bytes(Bytes::from_static(b"\xff sk-upstream-canary")), "\u{fffd} [key]");
    }
}
