//! A service that has to end under a whole answer: its agent is told in its own form, the journal says why.

use std::sync::Arc;

use dialect::Dialect;
use futures::future::join;
use metaclaw_proxy::Settings;
use serde_json::json;
use store::Outcome;

use crate::port::{Fake, port, request, settle, user};

#[tokio::test]
async fn who_waits_for_a_whole_answer_is_told_that_the_service_stops() {
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        let model = Arc::new(Fake::new(Dialect::Chat));
        let _silent = model.streams();
        let port = port(&model, Settings::default()).await;
        let body = match path {
            "/v1/messages" => json!({"model": "m", "max_tokens": 9, "messages": [user("hi")]}),
            "/v1/responses" => json!({"model": "m", "input": "hi"}),
            _ => request(&[user("hi")], false),
        };
        let cancel = port.deps.cancel.clone();
        let stop = async {
            while model.count() == 0 {
                settle().await;
            }
            cancel.cancel();
        };
        let (got, ()) = join(port.ask("POST", path, &[], body.to_string()), stop).await;
        assert_eq!(got.status, 503, "{path}");
        assert!(got.json()["error"]["message"].as_str().unwrap().contains("being stopped"), "{path}: {}", got.text());
        let turns = port.turns().await;
        assert_eq!(turns[0].outcome, Outcome::Cut, "{path}");
        assert!(turns[0].error.as_deref().unwrap().contains("being stopped"), "{path}");
    }
}
