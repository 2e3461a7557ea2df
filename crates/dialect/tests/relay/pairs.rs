//! One answer with thinking, text and two parallel tool calls, streamed through each of the nine pairs of dialects.

use crate::support::providers::{Piece, Sample, Why};
use crate::support::{run, spec};
use bytes::Bytes;
use metaclaw_dialect::{Dialect, End, relay_whole};
use rstest::rstest;

fn parts(all: &[&str]) -> Vec<String> {
    all.iter().map(|part| (*part).to_owned()).collect()
}

fn answer() -> Sample {
    let tool = |id: &str, arguments: &[&str]| Piece::Tool {
        id: id.to_owned(),
        name: "weather".to_owned(),
        parts: parts(arguments),
    };
    Sample::new(
        vec![
            Piece::Reasoning { parts: parts(&["Two ", "cities."]), signature: Some("EqQB".to_owned()) },
            Piece::Text(parts(&["I look ", "out. 🌦"])),
            tool("call_1", &["{\"city\":", "\"Oslo\"}"]),
            tool("call_2", &["{\"city\":", "\"Rome\"}"]),
        ],
        Why::Tools,
    )
}

#[rstest]
fn a_stream_in_every_pair(
    #[values(Dialect::Chat, Dialect::Responses, Dialect::Messages)] upstream: Dialect,
    #[values(Dialect::Chat, Dialect::Responses, Dialect::Messages)] client: Dialect,
) {
    let (out, finished) = run(spec(upstream, client), answer().stream(upstream).as_bytes(), &[97], End::Clean);
    assert_eq!(finished.problem, None);
    let name = format!("stream_{}_to_{}", upstream.as_str(), client.as_str());
    insta::assert_snapshot!(name, String::from_utf8(out).unwrap());
}

#[rstest]
fn a_whole_body_in_every_pair(
    #[values(Dialect::Chat, Dialect::Responses, Dialect::Messages)] upstream: Dialect,
    #[values(Dialect::Chat, Dialect::Responses, Dialect::Messages)] client: Dialect,
) {
    let body = Bytes::from(answer().whole(upstream).to_string());
    let (out, _) = relay_whole(&spec(upstream, client), &body).unwrap();
    let name = format!("whole_{}_to_{}", upstream.as_str(), client.as_str());
    let out: serde_json::Value = serde_json::from_slice(&out).unwrap();
    insta::assert_json_snapshot!(name, out);
}
