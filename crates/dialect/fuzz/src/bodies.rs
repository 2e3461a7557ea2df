//! What must hold for any bytes at all. Run by the fuzz targets and, over the corpus, by the crate's tests.
#![allow(dead_code, clippy::allow_attributes, reason = "each fuzz target uses one of these")]

use bytes::Bytes;
use metaclaw_dialect::edit::Edits;
use metaclaw_dialect::json::{Kind, MAX_DEPTH};
use metaclaw_dialect::sse::{Frame, Splitter};
use metaclaw_dialect::{
    Answer, Dialect, End, Json, Quirks, Relay, RelaySpec, Request, Role, Value, count_tokens_estimate, relay_whole,
    side_kind, translate_request, user_words,
};

/// The scanner accepts what `serde_json` accepts, and reads in it what `serde_json` reads.
pub(crate) fn json(data: &[u8]) {
    let ours = Json::parse(Bytes::copy_from_slice(data));
    let theirs =
        std::str::from_utf8(data).ok().is_some_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
    match ours {
        Ok(json) => {
            assert!(theirs, "accepted what is not JSON");
            assert_eq!(json.bytes(), data);
            assert_eq!(json.root().raw().as_bytes(), data.trim_ascii());
            values(json.root(), 0);
            if let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) {
                same(json.root(), &value);
            }
            assert_eq!(Edits::new(&json).apply().as_ptr(), json.bytes().as_ptr());
        }
        Err(error) => {
            assert!(!theirs || error.message == "nested too deeply", "refused JSON: {error}");
            assert!(error.offset <= data.len() && error.line >= 1 && error.column >= 1);
        }
    }
}

/// Every value's text is JSON by itself, and lies inside its parent's.
fn values(value: Value<'_>, depth: usize) {
    assert!(depth <= MAX_DEPTH);
    let inside = |child: Value<'_>| {
        assert!(child.span().start > value.span().start && child.span().end < value.span().end);
    };
    match value.kind() {
        Kind::Array => {
            for element in value.elements() {
                inside(element);
                values(element, depth + 1);
            }
        }
        Kind::Object => {
            for (key, member) in value.members() {
                inside(key);
                inside(member);
                assert_eq!(key.kind(), Kind::String);
                values(member, depth + 1);
            }
        }
        Kind::String => {
            let text = value.as_str().unwrap_or_default();
            assert!(value.is_text(&text));
        }
        Kind::Null | Kind::Bool | Kind::Number => assert!(value.members().next().is_none()),
    }
}

fn same(ours: Value<'_>, theirs: &serde_json::Value) {
    match theirs {
        serde_json::Value::Null => assert!(ours.is_null()),
        serde_json::Value::Bool(value) => assert_eq!(ours.as_bool(), Some(*value)),
        serde_json::Value::Number(value) => {
            assert_eq!(ours.as_i64(), value.as_i64());
            assert!(ours.as_f64().is_some());
        }
        serde_json::Value::String(value) => assert_eq!(ours.as_str().as_deref(), Some(value.as_str())),
        serde_json::Value::Array(values) => {
            assert_eq!(ours.elements().count(), values.len());
            for (ours, theirs) in ours.elements().zip(values) {
                same(ours, theirs);
            }
        }
        serde_json::Value::Object(members) => {
            for (key, theirs) in members {
                match ours.get(key) {
                    Some(ours) => same(ours, theirs),
                    None => assert!(ours.get(key).is_some(), "lost the member {key:?}"),
                }
            }
        }
    }
}

/// Reading never panics; edits give a readable request in which everything else is as it was.
pub(crate) fn request(dialect: Dialect, data: &[u8]) {
    let Ok(request) = Request::parse(dialect, Bytes::copy_from_slice(data)) else { return };
    assert_eq!(request.edit().finish().as_ptr(), request.bytes().as_ptr());
    let _ = (request.model(), request.stream(), request.wants_usage(), request.is_tool_step());
    let _ = (request.hints(), side_kind(&request), count_tokens_estimate(&request));
    for message in request.messages() {
        assert!(data.get(message.span.clone()).is_some());
        let text = request.message_text(message.index);
        assert!(message.role != Role::User || message.has_words || user_words(&text).len() <= text.len());
    }
    if let Some(start) = request.turn_start() {
        assert_eq!(request.messages()[start].role, Role::User);
        injection(&request, start);
    }
    all_edits(&request);
    translation(dialect, data);
}

/// A block comes into the triggering message only, and nothing before it changes.
fn injection(request: &Request, start: usize) {
    let mut edit = request.edit();
    let injected = edit.inject_turn(start, "<metaclaw-context>\n\"b\"\n</metaclaw-context>");
    assert!(injected);
    let out = edit.finish();
    let before = &request.bytes()[..];
    let same_start = before.iter().zip(&out[..]).take_while(|(a, b)| a == b).count();
    let same_end = before.iter().rev().zip(out.iter().rev()).take_while(|(a, b)| a == b).count();
    assert!(same_start >= request.messages()[start].span.start);
    assert!(same_start + same_end >= before.len(), "an injection only adds");
    match Request::parse(request.dialect(), out) {
        Ok(after) => {
            let hashes = |request: &Request| request.messages().iter().map(|one| one.hash).collect::<Vec<_>>();
            let (mut before, mut after) = (hashes(request), hashes(&after));
            // An image alone is named by its bytes, so that one name may change.
            before.remove(start);
            after.remove(start);
            assert_eq!(before, after);
        }
        Err(error) => assert_eq!(error.to_string(), "", "an injection broke the request"),
    }
}

fn all_edits(request: &Request) {
    let mut edit = request.edit();
    edit.set_model("another \"model\"");
    edit.strip_aliases();
    edit.request_usage();
    edit.inject_system("notes");
    edit.apply_quirks(&Quirks {
        developer_role: false,
        store: false,
        session_start_prompt: false,
        max_output_tokens: Some(100),
        max_tokens_field: metaclaw_dialect::MaxTokensField::MaxTokens,
        drop_fields: vec!["seed".to_owned()],
        ..Quirks::default()
    });
    match Request::parse(request.dialect(), edit.finish()) {
        Ok(after) => {
            assert_eq!(after.model().as_deref(), Some("another \"model\""));
            assert!(after.hints().session_id.is_none() && after.json().root().get("seed").is_none());
            let added = after.messages().len() - request.messages().len();
            assert!(added <= 1, "only a system message may be new");
        }
        Err(error) => assert_eq!(error.to_string(), "", "edits broke the request"),
    }
}

/// However a stream is cut into chunks, the same events come out and no byte is lost.
pub(crate) fn sse(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let split = |size: usize| {
        let mut splitter = Splitter::default();
        let mut frames: Vec<Frame> = Vec::new();
        for chunk in stream.chunks(size) {
            if splitter.push(&Bytes::copy_from_slice(chunk), &mut frames).is_err() {
                return frames;
            }
        }
        frames.extend(splitter.finish());
        frames
    };
    let pieces = split(usize::from(*size) + 1);
    assert_eq!(pieces.iter().flat_map(|frame| &frame.raw[..]).copied().collect::<Vec<_>>(), stream);
    let events = |frames: &[Frame]| {
        let events = frames.iter().filter(|frame| frame.data.is_some());
        events.map(|frame| (frame.event.clone(), frame.data.clone())).collect::<Vec<_>>()
    };
    assert_eq!(events(&pieces), events(&split(stream.len().max(1))));
}

/// However an answer is cut into chunks, the client gets the same bytes; nothing a provider sends makes us fall.
pub(crate) fn relay(data: &[u8]) {
    let [pair, size, stream @ ..] = data else { return };
    let pair = usize::from(*pair);
    let spec = RelaySpec {
        client_wants_usage: pair & 0x10 != 0,
        session_id: (pair & 0x20 != 0).then(|| "s".to_owned()),
        ..RelaySpec::new(Dialect::ALL[pair % 3], Dialect::ALL[pair / 3 % 3])
    };
    let end = if pair & 0x40 == 0 { End::Clean } else { End::Cut { reason: "reset".to_owned() } };
    let run = |size: usize| -> (Vec<u8>, Answer) {
        let mut relay = Relay::new(spec.clone());
        let mut out = Vec::new();
        for chunk in stream.chunks(size) {
            out.extend_from_slice(&relay.push(&Bytes::copy_from_slice(chunk)).out);
        }
        let finished = relay.finish(end.clone());
        out.extend_from_slice(&finished.out);
        assert!(finished.error.is_none() || finished.problem.is_some());
        (out, finished.answer)
    };
    let (pieces, whole) = (run(usize::from(*size) + 1), run(stream.len().max(1)));
    assert_eq!(String::from_utf8_lossy(&pieces.0), String::from_utf8_lossy(&whole.0));
    assert_eq!(pieces.1, whole.1);
    if let Ok((body, _)) = relay_whole(&spec, &Bytes::copy_from_slice(stream)) {
        assert!(spec.upstream == spec.client || serde_json::from_slice::<serde_json::Value>(&body).is_ok());
    }
}

/// A request that can be read can be translated, and what comes out can be read.
pub(crate) fn translation(dialect: Dialect, data: &[u8]) {
    let Ok(request) = Request::parse(dialect, Bytes::copy_from_slice(data)) else { return };
    for to in Dialect::ALL {
        if let Ok(body) = translate_request(&request, to, &Quirks::default()) {
            assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
        }
    }
}
