//! What must hold for any bytes as a model: it answers, or is refused with a reason; its thread never ends for it. Used by
//! the fuzz target and, over the corpus and mutations of it, by `tests/fuzz_replay.rs`.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use metaclaw_builtin::{Outside, Room, Settings};

struct Still;

impl Outside for Still {
    fn now_s(&self) -> i64 {
        0
    }

    fn random(&self) -> u64 {
        7
    }
}

/// What it answers, or why it does not. Panics where something does not hold.
pub(crate) fn check(data: &[u8]) -> Result<serde_json::Value, String> {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("any.gguf");
    std::fs::write(&file, data).expect("the file");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let room = Room::new(Still);
    room.configure(Settings { threads: 1, context: 256, idle: Duration::from_secs(60) });
    let body = &Bytes::from_static(
        br#"{"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi 12"}],
        "max_tokens": 3, "temperature": 0, "logprobs": true}"#,
    );
    let said = runtime.block_on(async {
        match room.chat(&file, "any", body, false).await {
            Err(refusal) => {
                assert_ne!(refusal.code, "internal", "the thread of the model ended");
                Err(refusal.message)
            }
            Ok(answer) => {
                let parts: Vec<_> = answer.body.collect().await;
                let whole: Result<Vec<_>, _> = parts.into_iter().collect();
                let whole = whole.expect("an answer that was begun is ended").concat();
                Ok(serde_json::from_slice(&whole).expect("JSON"))
            }
        }
    });
    room.close();
    said
}
