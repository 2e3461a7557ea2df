//! For any answer, any chunking and any pair of dialects: the folded stream is the translated whole body.

use crate::support::providers::{Piece, Sample, Why};
use crate::support::{clients, run, spec};
use bytes::Bytes;
use metaclaw_dialect::{Dialect, End, relay_whole};
use proptest::prelude::*;
use serde_json::Value;

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(
        prop_oneof![Just("né 漢字 🦀".to_owned()), Just("\"\\\n\u{2028}".to_owned()), "[ -~]{1,9}"],
        1..4,
    )
}

fn arguments() -> impl Strategy<Value = Vec<String>> {
    let object = prop::collection::btree_map(
        "[a-z]{1,4}",
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
            "[ -~é漢]{0,8}".prop_map(Value::from),
            Just(serde_json::json!([{"}": "{"}])),
        ],
        0..4,
    );
    (object, 1_usize..7).prop_map(|(object, size)| {
        let text = serde_json::to_string(&object).unwrap();
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(size).map(|part| part.iter().collect()).collect()
    })
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        words().prop_map(Piece::Text),
        (words(), prop::option::of("[A-Za-z0-9+/]{4,20}"))
            .prop_map(|(parts, signature)| Piece::Reasoning { parts, signature }),
        ("[a-z_]{1,8}", arguments()).prop_map(|(name, parts)| Piece::Tool { id: String::new(), name, parts }),
    ];
    prop::collection::vec(piece, 1..6).prop_map(|mut pieces| {
        for (index, piece) in pieces.iter_mut().enumerate() {
            if let Piece::Tool { id, .. } = piece {
                *id = format!("call_{index}");
            }
        }
        pieces
    })
}

fn samples() -> impl Strategy<Value = Sample> {
    (pieces(), any::<bool>(), 0..5000_u64, 0..5000_u64, 1..5000_u64).prop_map(
        |(pieces, length, fresh, cached, output)| {
            let tools = pieces.iter().any(|piece| matches!(piece, Piece::Tool { .. }));
            let why = if length {
                Why::Length
            } else if tools {
                Why::Tools
            } else {
                Why::End
            };
            Sample { fresh, cached, output, reasoning: output / 2, ..Sample::new(pieces, why) }
        },
    )
}

/// What a stream cannot carry where the whole body does, or the other way round.
fn comparable(client: Dialect, mut body: Value) -> Value {
    if client == Dialect::Messages {
        body["usage"].as_object_mut().unwrap().shift_remove("cache_creation");
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn the_folded_stream_is_the_whole_answer(sample in samples(), sizes in prop::collection::vec(1_usize..200, 1..8)) {
        for upstream in Dialect::ALL {
            let stream = sample.stream(upstream);
            let body = Bytes::from(sample.whole(upstream).to_string());
            for client in Dialect::ALL {
                let spec = spec(upstream, client);
                let (whole, whole_answer) = relay_whole(&spec, &body).unwrap();
                let (out, finished) = run(spec, stream.as_bytes(), &sizes, End::Clean);
                prop_assert_eq!(&finished.problem, &None);
                prop_assert_eq!(&finished.error, &None);
                prop_assert_eq!(&finished.answer.blocks, &whole_answer.blocks);
                prop_assert_eq!(&finished.answer.stop, &whole_answer.stop);
                prop_assert_eq!(&finished.answer.usage, &whole_answer.usage);
                if upstream == client {
                    prop_assert_eq!(&out[..], stream.as_bytes(), "{:?} passes unchanged", upstream);
                    prop_assert_eq!(&whole, &body);
                } else {
                    let folded = clients::fold(client, &out);
                    let whole: Value = serde_json::from_slice(&whole).unwrap();
                    prop_assert_eq!(comparable(client, folded), comparable(client, whole), "{:?} to {:?}", upstream, client);
                }
            }
        }
    }

    #[test]
    fn a_whole_body_answering_a_stream_request_becomes_a_good_stream(sample in samples()) {
        for upstream in Dialect::ALL {
            let body = sample.whole(upstream).to_string();
            for client in Dialect::ALL {
                let (out, finished) = run(spec(upstream, client), body.as_bytes(), &[50], End::Clean);
                prop_assert_eq!(&finished.error, &None);
                let folded = clients::fold(client, &out);
                let (whole, _) = relay_whole(&spec(upstream, client), &Bytes::from(body.clone())).unwrap();
                let whole: Value = serde_json::from_slice(&whole).unwrap();
                if upstream != client {
                    prop_assert_eq!(comparable(client, folded), comparable(client, whole));
                }
            }
        }
    }

    #[test]
    fn an_unasked_stream_becomes_a_whole_body(sample in samples()) {
        for upstream in Dialect::ALL {
            let stream = Bytes::from(sample.stream(upstream));
            let body = Bytes::from(sample.whole(upstream).to_string());
            for client in Dialect::ALL {
                let (_, from_stream) = relay_whole(&spec(upstream, client), &stream).unwrap();
                let (_, from_body) = relay_whole(&spec(upstream, client), &body).unwrap();
                prop_assert_eq!(from_stream.blocks, from_body.blocks);
            }
        }
    }

    #[test]
    fn any_bytes_and_any_cut_are_survived(
        sample in samples(), junk in prop::collection::vec(any::<u8>(), 0..64), at in any::<prop::sample::Index>(),
        upstream in prop::sample::select(&Dialect::ALL[..]), client in prop::sample::select(&Dialect::ALL[..]),
    ) {
        let stream = sample.stream(upstream).into_bytes();
        let at = at.index(stream.len());
        let mut bytes = stream[..at].to_vec();
        bytes.extend_from_slice(&junk);
        bytes.extend_from_slice(&stream[at..]);
        run(spec(upstream, client), &bytes, &[17], End::Clean);
        let (out, finished) = run(spec(upstream, client), &stream[..at], &[17], End::Cut { reason: "reset".to_owned() });
        // A cut before the answer was complete never looks like a normal end.
        if let Some(error) = finished.error {
            prop_assert_eq!(error.status, 502);
            let out = String::from_utf8_lossy(&out).into_owned();
            for end in ["[DONE]", "message_stop", "response.completed"] {
                prop_assert!(!out.contains(end), "{} after a cut", end);
            }
        }
        _ = relay_whole(&spec(upstream, client), &Bytes::from(bytes));
    }
}
