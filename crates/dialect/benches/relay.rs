//! What one streamed chunk costs on its way through, for every pair of dialects. `cargo bench -p metaclaw-dialect --bench relay`

#![expect(clippy::print_stdout, clippy::disallowed_types, reason = "a benchmark measures and prints")]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use metaclaw_dialect::{Dialect, End, Relay, RelaySpec};

const CHUNKS: u32 = 2000;
const ROUNDS: u32 = 30;

fn main() {
    for upstream in Dialect::ALL {
        let (head, delta) = stream(upstream);
        for client in Dialect::ALL {
            let mut best = f64::MAX;
            for _ in 0..ROUNDS {
                let mut relay = Relay::new(RelaySpec::new(upstream, client));
                relay.push(&head);
                let start = Instant::now();
                for _ in 0..CHUNKS {
                    black_box(relay.push(&delta));
                }
                best = best.min(start.elapsed().as_secs_f64() / f64::from(CHUNKS));
                black_box(relay.finish(End::Clean));
            }
            println!(
                "{:<20} to {:<20} {:>7.2} µs a chunk of {} bytes",
                upstream.as_str(),
                client.as_str(),
                best * 1e6,
                delta.len()
            );
        }
    }
}

fn stream(dialect: Dialect) -> (Bytes, Bytes) {
    let (head, delta) = match dialect {
        Dialect::Chat => (
            r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"data: {"id":"chatcmpl-9f2c7d1e","object":"chat.completion.chunk","created":1700000000,"model":"qwen3-235b-a22b","system_fingerprint":"fp_1a2b","choices":[{"index":0,"delta":{"content":" some words"},"logprobs":null,"finish_reason":null}]}"#,
        ),
        Dialect::Messages => (
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" some words\"}}",
        ),
        Dialect::Responses => (
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"output\":[]}}",
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":7,\"item_id\":\"msg_68af4030baa48193\",\"output_index\":0,\"content_index\":0,\"delta\":\" some words\",\"logprobs\":[],\"obfuscation\":\"x7Yq\"}",
        ),
    };
    (Bytes::from(format!("{head}\n\n")), Bytes::from(format!("{delta}\n\n")))
}
