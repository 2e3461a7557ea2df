//! Upstream bytes to client bytes, with the answer folded beside them.
//! Same dialect: the bytes go out as they came, decoding only listens. Other dialect: decoder → events → encoder.
//! The end of the answer is held back for `finish`, so that the turn can be recorded before the client sees it.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::decode::{self, Decoder, Decoding, Seen, upstream_fault};
use crate::encode::{self, Encoder, Wire};
use crate::ir::{Answer, Event, Fold, Stop};
use crate::json::read_lossy;
use crate::sequence::Sequencer;
use crate::sse::{Frame, Splitter};
use crate::{ApiError, Dialect};

mod outgoing;

use outgoing::Outgoing;

/// What a relay has to know about the two sides.
#[derive(Clone, Debug)]
pub struct RelaySpec {
    /// What the provider speaks.
    pub upstream: Dialect,
    /// What the agent speaks.
    pub client: Dialect,
    /// The client asked for token counts in the stream (Chat only; the others always carry them).
    pub client_wants_usage: bool,
    /// Put `"session_id"` at the top level of the body and of every stream event (old MetaClaw clients read it).
    pub session_id: Option<String>,
    /// The model the client asked for: named in translated answers where the upstream names none.
    pub request_model: Option<String>,
    /// Unix seconds: the time of translated answers where the upstream tells none.
    pub now: i64,
    /// Id of translated answers where the upstream gives none; letters, digits, `-` and `_`.
    pub fallback_id: String,
    /// Free-text tools the client declared (`translate::custom_tools`); Responses clients get their calls as such.
    pub custom_tools: Vec<String>,
}

impl RelaySpec {
    /// A relay without extras.
    #[must_use]
    pub fn new(upstream: Dialect, client: Dialect) -> Self {
        Self {
            upstream,
            client,
            client_wants_usage: client != Dialect::Chat,
            session_id: None,
            request_model: None,
            now: 0,
            fallback_id: "answer".to_owned(),
            custom_tools: Vec::new(),
        }
    }
}

/// What one chunk became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Bytes for the client; may be empty.
    pub out: Bytes,
    /// The upstream has ended its answer; the end is held back for `finish`.
    pub finished: bool,
}

/// How the upstream's stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The body was complete as far as HTTP can tell, or its end marker was seen.
    Clean,
    /// The connection broke or timed out.
    Cut {
        /// What happened, for the client's eyes.
        reason: String,
    },
}

/// The end of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The held-back end, or an error event.
    pub out: Bytes,
    /// The answer, as far as it came.
    pub answer: Answer,
    /// What was wrong with the upstream's stream, if anything. For the journal.
    pub problem: Option<String>,
    /// The answer failed. If nothing has been sent to the client yet, answer with this instead of `out`.
    pub error: Option<ApiError>,
}

/// A stream on its way from provider to agent.
#[derive(Debug)]
pub struct Relay {
    spec: RelaySpec,
    wire: Wire,
    splitter: Splitter,
    frames: Vec<Frame>,
    decoder: Decoder,
    seq: Sequencer,
    fold: Fold,
    /// `None`: same dialect.
    encoder: Option<Encoder>,
    mode: Mode,
    /// Raw end events, same dialect only.
    held: Vec<u8>,
    ended: bool,
    sent: bool,
    error: Option<ApiError>,
    problem: Option<String>,
    /// A part of the answer could not be read, and the client did not get it either.
    lost: bool,
}

#[derive(Debug)]
enum Mode {
    /// Nothing but white space so far.
    Undecided(BytesMut),
    Events,
    /// Not an event stream: the whole body, to be converted at its end.
    Whole(BytesMut),
}

/// Largest body that is taken for an answer although an event stream was expected.
const MAX_WHOLE: usize = 256 * 1024 * 1024;

impl Relay {
    /// A relay before its first byte.
    #[must_use]
    pub fn new(spec: RelaySpec) -> Self {
        let encoder = (spec.upstream != spec.client).then(|| Encoder::new(&spec));
        Self {
            wire: Wire::new(&spec),
            splitter: Splitter::default(),
            frames: Vec::new(),
            decoder: Decoder::new(spec.upstream),
            seq: Sequencer::default(),
            fold: Fold::default(),
            encoder,
            mode: Mode::Undecided(BytesMut::new()),
            held: Vec::new(),
            ended: false,
            sent: false,
            error: None,
            problem: None,
            lost: false,
            spec,
        }
    }

    /// Takes the next bytes of the upstream's body.
    pub fn push(&mut self, chunk: &Bytes) -> Relayed {
        let out = match &mut self.mode {
            Mode::Events => self.events(chunk),
            Mode::Whole(body) => {
                if body.len() + chunk.len() <= MAX_WHOLE {
                    body.extend_from_slice(chunk);
                }
                Bytes::new()
            }
            Mode::Undecided(leading) => {
                let first = if leading.is_empty() {
                    chunk.clone()
                } else {
                    leading.extend_from_slice(chunk);
                    std::mem::take(leading).freeze()
                };
                let text = first.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&first);
                match text.trim_ascii_start().first() {
                    None => {
                        self.mode = Mode::Undecided(BytesMut::from(&first[..]));
                        Bytes::new()
                    }
                    Some(b'{' | b'[' | b'<') => {
                        self.mode = Mode::Whole(BytesMut::from(&first[..]));
                        Bytes::new()
                    }
                    Some(_) => {
                        self.mode = Mode::Events;
                        self.events(&first)
                    }
                }
            }
        };
        self.sent |= !out.is_empty();
        Relayed { out, finished: self.ended || self.error.is_some() }
    }

    /// The end marker was seen, but the token counts asked for may still follow it: read on for a moment.
    #[must_use]
    pub fn needs_grace(&self) -> bool {
        self.ended && self.error.is_none() && self.decoder.usage_may_follow()
    }

    /// The model has said all it had to say, even if the end marker has not come yet.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.error.is_none() && (self.ended || self.decoder.finish_seen())
    }

    /// Everything is there but the end marker, which some servers never send.
    #[must_use]
    pub fn lacks_only_its_marker(&self) -> bool {
        self.error.is_none() && !self.ended && self.decoder.finish_seen() && !self.decoder.usage_may_follow()
    }

    /// The answer holds something that is none: an error, or text that is no event. What goes out of it is to be looked
    /// through for what nobody may see.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        self.error.is_some() || self.problem.is_some()
    }

    /// The answer so far.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        self.fold.answer()
    }

    /// Ends the stream.
    #[must_use]
    pub fn finish(mut self, end: End) -> Finished {
        let mut out = Vec::new();
        match std::mem::replace(&mut self.mode, Mode::Events) {
            Mode::Whole(body) => self.finish_whole(&body.freeze(), end, &mut out),
            Mode::Undecided(_) | Mode::Events => self.finish_events(end, &mut out),
        }
        if let Some(error) = &self.error {
            self.problem.get_or_insert_with(|| error.message.clone());
        }
        let answer = self.fold.finish(self.error.is_some());
        Finished { out: Bytes::from(out), answer, problem: self.problem, error: self.error }
    }

    fn events(&mut self, chunk: &Bytes) -> Bytes {
        let mut frames = std::mem::take(&mut self.frames);
        let split = self.splitter.push(chunk, &mut frames);
        let parent = match &split {
            Ok(parent) => parent,
            Err(_) => &Bytes::new(),
        };
        let mut outgoing = Outgoing::of(parent);
        for frame in &frames {
            if self.error.is_some() {
                break;
            }
            self.frame(frame, &mut outgoing);
        }
        frames.clear();
        self.frames = frames;
        if let Err(error) = &split
            && self.error.is_none()
        {
            let fault = upstream_fault(error.to_string());
            return self.fail(fault);
        }
        outgoing.finish()
    }

    fn frame(&mut self, frame: &Frame, outgoing: &mut Outgoing<'_>) {
        let Some(data) = &frame.data else {
            if self.encoder.is_none() || frame.raw.starts_with(b":") {
                outgoing.forward(frame.at..frame.at + frame.raw.len());
                if self.encoder.is_some() {
                    outgoing.built(|out| out.extend_from_slice(b"\n"));
                }
            }
            return;
        };
        let ended = self.ended;
        let seen = self.decoder.event(frame.event.as_deref(), data, &mut self.seq);
        let late = ended && seen != Seen::UsageOnly;
        for event in self.seq.drain() {
            if let Event::Error(error) = event {
                self.error = Some(error);
                continue;
            }
            self.fold.push(&event);
            if let Some(encoder) = &mut self.encoder {
                outgoing.built(|out| encoder.event(&event, out));
            }
        }
        match seen {
            Seen::Terminal => self.ended = true,
            Seen::Garbage => {
                let problem = format!("a stream event is not JSON: {}", excerpt(data));
                // Whatever it was a part of is lost to a client of another dialect.
                self.lost |= self.encoder.is_some() && data.trim_ascii_start().starts_with(b"{");
                self.problem.get_or_insert(problem);
            }
            _ => {}
        }
        if let Some(encoder) = &mut self.encoder {
            if let Some(error) = self.error.as_ref().filter(|_| self.sent || !outgoing.is_empty()) {
                outgoing.built(|out| encoder.error(error, out));
            } else if seen == Seen::Nothing && frame.event.as_deref() == Some(b"ping") {
                outgoing.built(|out| out.extend_from_slice(keepalive(self.spec.client)));
            }
            return;
        }
        match seen {
            Seen::UsageOnly if !self.spec.client_wants_usage => {}
            _ if late => {}
            Seen::Error => {
                let mut told = self.upstream_error(frame);
                if self.sent || !outgoing.is_empty() {
                    outgoing.built(|out| out.append(&mut told));
                } else {
                    // The caller may still answer with the error itself.
                    self.held.append(&mut told);
                }
            }
            Seen::Terminal => self.raw(frame),
            Seen::Garbage => outgoing.forward(frame.at..frame.at + frame.raw.len()),
            _ if self.wire.adds_session() => outgoing.built(|out| edited(&self.wire, frame, out)),
            _ => outgoing.forward(frame.at..frame.at + frame.raw.len()),
        }
    }

    /// Holds a frame back for `finish`.
    fn raw(&mut self, frame: &Frame) {
        edited(&self.wire, frame, &mut self.held);
    }

    /// The upstream's own error event. A client of Anthropic's hears only one that is named so.
    fn upstream_error(&mut self, frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        let heard = self.spec.client != Dialect::Messages || frame.event.as_deref() == Some(b"error");
        match self.error.clone().filter(|_| !heard) {
            Some(error) => self.write_error(&error, &mut out),
            None => edited(&self.wire, frame, &mut out),
        }
        out
    }

    /// Ends the answer with an error of ours; the event goes out only if the client has seen a part of the answer.
    fn fail(&mut self, error: ApiError) -> Bytes {
        let mut out = Vec::new();
        if self.sent {
            self.write_error(&error, &mut out);
        }
        self.error = Some(error);
        Bytes::from(out)
    }

    fn write_error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        if let Some(encoder) = &mut self.encoder {
            encoder.error(error, out);
            return;
        }
        let mut encoder = Encoder::new(&self.spec);
        if let (Encoder::Responses(machine), Decoding::Responses(decoder)) = (&mut encoder, &self.decoder.dialect)
            && self.seq.started()
        {
            // The failed response names what came before it.
            let mut unsent = Vec::new();
            for event in self.fold.answer().events() {
                machine.event(&event, &mut unsent);
            }
            machine.resume(decoder.sequence());
        }
        encoder.error(error, out);
    }

    fn finish_events(&mut self, end: End, out: &mut Vec<u8>) {
        let last = self.splitter.finish().filter(|_| !self.ended && self.error.is_none());
        let (last, cut) = match last {
            Some(last) if last.data.as_deref().is_some_and(is_whole_json) => (Some(last), None),
            last => (None, last.and_then(|last| last.data)),
        };
        if let Some(data) = cut.filter(|data| end == End::Clean && !data.trim_ascii().is_empty()) {
            let problem = format!("the stream ends in the middle of an event: {}", excerpt(&data));
            self.problem.get_or_insert(problem);
        }
        if let Some(last) = last {
            let parent = last.raw.clone();
            let mut outgoing = Outgoing::of(&parent);
            self.frame(&last, &mut outgoing);
            let sent = outgoing.finish();
            out.extend_from_slice(&sent);
            let tail = if self.held.is_empty() { &mut *out } else { &mut self.held };
            if self.encoder.is_none() && !tail.is_empty() {
                while !tail.ends_with(b"\n\n") && !tail.ends_with(b"\r\n\r\n") {
                    tail.push(b'\n');
                }
            }
            self.sent |= !out.is_empty();
        }
        if self.error.is_none() && !self.ended && self.decoder.end_without_marker(&mut self.seq) {
            self.ended = true;
            self.listen(out);
            if self.spec.upstream == Dialect::Messages && self.encoder.is_none() {
                self.wire.send("message_stop", b"{\"type\":\"message_stop\"}", &mut self.held);
            }
        }
        let told = self.error.is_some();
        if !told {
            self.error = self.fault(end);
        }
        match self.error.clone() {
            None => match &mut self.encoder {
                Some(encoder) => encoder.end(out),
                None => out.append(&mut self.held),
            },
            // The upstream's own error event, held because nothing had been sent before it.
            Some(_) if told && !self.held.is_empty() => out.append(&mut self.held),
            Some(_) if told && self.sent => {}
            Some(error) => {
                self.seq.close_all();
                self.listen(out);
                self.write_error(&error, out);
            }
        }
    }

    /// Passes what the sequencer still had to the fold and the client.
    fn listen(&mut self, out: &mut Vec<u8>) {
        for event in self.seq.drain() {
            self.fold.push(&event);
            if let Some(encoder) = &mut self.encoder {
                encoder.event(&event, out);
            }
        }
    }

    /// Why a stream without an error event is no good answer all the same.
    fn fault(&self, end: End) -> Option<ApiError> {
        if !self.ended {
            return Some(match end {
                End::Cut { reason } => upstream_fault(reason),
                End::Clean if self.seq.started() => {
                    upstream_fault("the provider closed the stream before the end of the answer")
                }
                End::Clean => upstream_fault("the provider's answer is empty or not an event stream"),
            });
        }
        if self.lost {
            return Some(upstream_fault(self.problem.as_deref().unwrap_or("a part of the answer could not be read")));
        }
        if !self.seq.has_content() && !self.decoder.reason_seen() {
            return Some(upstream_fault("the provider ended the stream without an answer"));
        }
        (self.encoder.is_some() && is_hollow(self.fold.answer())).then(hollow)
    }

    fn finish_whole(&mut self, body: &Bytes, end: End, out: &mut Vec<u8>) {
        // What broke off is told as such, not as the odd text that is there; unless all of it is there.
        let answer = read_whole(&self.spec, body).map_err(|error| match end {
            End::Cut { reason } => upstream_fault(reason),
            End::Clean => error,
        });
        match answer {
            Ok(answer) => {
                let mut encoder = Encoder::new(&self.spec);
                for event in answer.events() {
                    self.fold.push(&event);
                    encoder.event(&event, out);
                }
                encoder.end(out);
                self.problem = Some("the provider answered a stream request with a whole body".to_owned());
            }
            Err(error) => {
                self.write_error(&error, out);
                self.error = Some(error);
            }
        }
    }
}

/// A frame with the session id in its data, where that is wanted and the data is an object.
fn edited(wire: &Wire, frame: &Frame, out: &mut Vec<u8>) {
    let (head, data) = frame.raw.split_at(frame.data_at);
    out.extend_from_slice(head);
    wire.object(data, out);
}

/// A whole upstream body to the client's body, and the answer in it. Same dialect: the bytes as they came.
///
/// # Errors
/// The body is no answer (502), or reports an error of the upstream's own.
pub fn relay_whole(spec: &RelaySpec, body: &Bytes) -> Result<(Bytes, Answer), ApiError> {
    let streamed = is_event_stream(body);
    let answer = if streamed { read_stream(spec.upstream, body)? } else { read_whole(spec, body)? };
    if spec.upstream != spec.client || streamed {
        let out = encode::whole(spec, &answer);
        return Ok((Bytes::from(out), answer));
    }
    let wire = Wire::new(spec);
    if !wire.adds_session() {
        return Ok((body.clone(), answer));
    }
    let mut out = Vec::with_capacity(body.len() + 64);
    wire.object(body, &mut out);
    Ok((Bytes::from(out), answer))
}

/// The body of a run that a Responses provider reports as failed, for a client of the same dialect: it says all the
/// client has to know, and comes with status 200, which no client tries again.
#[must_use]
pub fn failed_run(spec: &RelaySpec, body: &Bytes) -> Option<Bytes> {
    if (spec.upstream, spec.client) != (Dialect::Responses, Dialect::Responses) {
        return None;
    }
    let run: Value = read_lossy(body, None).ok()?;
    let failed = run.get("status")? == "failed" && run.get("id").is_some_and(Value::is_string);
    let wire = Wire::new(spec);
    failed.then(|| if wire.adds_session() { wire.body(body.to_vec()).into() } else { body.clone() })
}

fn read_whole(spec: &RelaySpec, body: &[u8]) -> Result<Answer, ApiError> {
    let text = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let Ok(Value::Object(object)) = read_lossy(text, None) else { return Err(not_json(text)) };
    let answer = decode::whole(spec.upstream, &object)?;
    if spec.upstream != spec.client && is_hollow(&answer) {
        return Err(hollow());
    }
    Ok(answer)
}

/// Some servers stream although nobody asked for it.
fn is_event_stream(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    [&b"data:"[..], b"event:", b":", b"id:", b"retry:"].iter().any(|field| start.starts_with(field))
}

fn read_stream(upstream: Dialect, body: &Bytes) -> Result<Answer, ApiError> {
    let mut relay = Relay::new(RelaySpec::new(upstream, upstream));
    relay.push(body);
    let finished = relay.finish(End::Clean);
    finished.error.map_or(Ok(finished.answer), Err)
}

/// Tokens were produced and none of them arrived. A few tokens are what an honest empty answer costs.
fn is_hollow(answer: &Answer) -> bool {
    const EMPTY_ANSWER_COST: u64 = 4;
    answer.blocks.is_empty()
        && matches!(answer.stop, Stop::EndTurn | Stop::ToolUse)
        && answer.usage.output > EMPTY_ANSWER_COST
        && answer.usage.reasoning.unwrap_or_default() == 0
}

fn hollow() -> ApiError {
    upstream_fault("the provider counted output tokens but its answer holds no content")
}

fn not_json(body: &[u8]) -> ApiError {
    let text = body.trim_ascii();
    if text.is_empty() {
        return upstream_fault("the provider's answer is empty");
    }
    if text.first() == Some(&b'<') {
        return upstream_fault(format!("the provider answered with a web page instead of JSON: {}", page_title(text)));
    }
    upstream_fault(format!("the provider's answer is not a JSON object: {}", excerpt(text)))
}

fn page_title(page: &[u8]) -> String {
    let text = String::from_utf8_lossy(page);
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|at| {
        let from = at + "<title>".len();
        let to = from + lower[from..].find("</title>")?;
        text.get(from..to)
    });
    title.map_or_else(|| excerpt(page), |title| excerpt(title.trim().as_bytes()))
}

fn excerpt(text: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(&text[..text.len().min(400)]);
    let mut short: String = lossy.chars().take(160).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if lossy.chars().count() > 160 || text.len() > 400 {
        short.push('…');
    }
    short
}

fn is_whole_json(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    data == b"[DONE]" || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}

/// What to send a client while the upstream is silent: a comment, or Anthropic's own ping.
#[must_use]
pub fn keepalive(client: Dialect) -> &'static [u8] {
    match client {
        Dialect::Chat | Dialect::Responses => b": ping\n\n",
        Dialect::Messages => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
    }
}
