//! Splitting event streams at any byte.
#![expect(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use metaclaw_dialect::sse::{Frame, Splitter};
use proptest::prelude::*;

fn split(stream: &[u8], sizes: &[usize]) -> Vec<Frame> {
    let mut splitter = Splitter::default();
    let mut frames = Vec::new();
    let mut at = 0;
    let mut sizes = sizes.iter().cycle();
    while at < stream.len() {
        let size = (*sizes.next().unwrap()).clamp(1, stream.len() - at);
        splitter.push(&Bytes::copy_from_slice(&stream[at..at + size]), &mut frames).unwrap();
        at += size;
    }
    frames.extend(splitter.finish());
    frames
}

fn data(frames: &[Frame]) -> Vec<(String, String)> {
    let text = |bytes: &Option<Bytes>| {
        bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    frames.iter().filter(|frame| frame.data.is_some()).map(|frame| (text(&frame.event), text(&frame.data))).collect()
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn fields_are_read_as_the_standard_says() {
    let stream = "\u{FEFF}: hello\n\nevent: a\nid: 7\ndata: one\ndata:two\ndata\nretry: 5\n\ndata:  spaced\r\n\r\n\n\nevent: x\n\ndata: last";
    let expected = [pair("a", "one\ntwo\n"), pair("", " spaced"), pair("", "last")];
    assert_eq!(data(&split(stream.as_bytes(), &[1000])), expected);
    assert_eq!(data(&split(stream.as_bytes(), &[1])), expected);
    let old = stream.replace("\r\n", "\n").replace('\n', "\r");
    assert_eq!(data(&split(old.as_bytes(), &[3])), expected, "a bare CR ends a line too");
}

#[test]
fn a_comment_leaves_before_its_blank_line() {
    let mut frames = Vec::new();
    Splitter::default().push(&Bytes::from(": ping\n"), &mut frames).unwrap();
    assert_eq!(frames.len(), 1);
}

#[test]
fn a_frame_larger_than_any_chunk_is_put_together() {
    let long = "x".repeat(300_000);
    let stream = format!("data: {long}\n\ndata: y\n\n");
    assert_eq!(data(&split(stream.as_bytes(), &[1400])), [pair("", &long), pair("", "y")]);
}

const PIECES: &[&[u8]] = &[
    b"\n",
    b"\r",
    b"\r\n",
    b"data: ",
    b"data:",
    b"event: e",
    b": c",
    b"{\"a\":1}",
    "é漢🦀".as_bytes(),
    b"\xEF\xBB\xBF",
    b"\xFF\x00",
];

proptest! {
    #[test]
    fn chunking_changes_nothing_and_no_byte_is_lost(
        stream in prop::collection::vec(prop::sample::select(PIECES), 0..40),
        sizes in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let stream = stream.concat();
        let whole = split(&stream, &[usize::MAX]);
        let pieces = split(&stream, &sizes);
        prop_assert_eq!(data(&whole), data(&pieces));
        let joined: Vec<u8> = pieces.iter().flat_map(|frame| frame.raw.to_vec()).collect();
        prop_assert_eq!(joined, stream);
    }
}
