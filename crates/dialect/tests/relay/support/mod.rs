//! Two things no encoder of ours had a hand in: provider streams and bodies written from samples, and strict clients
//! that fold a stream the way the official SDKs do and object to whatever those would object to.

pub(crate) mod clients;
pub(crate) mod providers;

use bytes::Bytes;
use metaclaw_dialect::{Dialect, End, Finished, Relay, RelaySpec};

/// Feeds a stream in pieces of the given sizes (cycled) and collects what the client gets.
pub(crate) fn run(spec: RelaySpec, stream: &[u8], sizes: &[usize], end: End) -> (Vec<u8>, Finished) {
    let mut relay = Relay::new(spec);
    let mut out = Vec::new();
    let mut at = 0;
    let mut sizes = sizes.iter().cycle();
    while at < stream.len() {
        let size = (*sizes.next().unwrap()).clamp(1, stream.len() - at);
        let relayed = relay.push(&Bytes::copy_from_slice(&stream[at..at + size]));
        out.extend_from_slice(&relayed.out);
        at += size;
    }
    let finished = relay.finish(end);
    out.extend_from_slice(&finished.out);
    (out, finished)
}

pub(crate) fn spec(upstream: Dialect, client: Dialect) -> RelaySpec {
    RelaySpec {
        client_wants_usage: true,
        now: 1_700_000_000,
        fallback_id: "turn7".to_owned(),
        ..RelaySpec::new(upstream, client)
    }
}

/// One SSE event.
pub(crate) fn sse(name: &str, data: &str) -> String {
    if name.is_empty() { format!("data: {data}\n\n") } else { format!("event: {name}\ndata: {data}\n\n") }
}
