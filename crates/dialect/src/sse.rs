//! Server-sent events, split incrementally: any byte boundary, CR, LF or CRLF, comments, a missing last newline.
//! Every frame keeps its raw bytes (a slice of the input where it lies in one chunk), so a relay can pass it on unchanged.

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

/// Longest event we hold while waiting for its end, in bytes. A picture in one event is some MB.
pub const MAX_FRAME: usize = 64 * 1024 * 1024;

/// One event, comment or stray blank line, with all its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The bytes as they came, line ends and closing blank line included.
    pub raw: Bytes,
    /// The last `event:` field, if any.
    pub event: Option<Bytes>,
    /// Where `raw` begins in the bytes that `push` returned.
    pub at: usize,
    /// Where the first `data:` value begins in `raw`; 0 without data.
    pub data_at: usize,
    /// The `data:` lines joined by a newline; `None` for comments and blank lines.
    pub data: Option<Bytes>,
}

/// The stream holds an event longer than `MAX_FRAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provider sent one stream event of more than {} MiB", MAX_FRAME / 1024 / 1024)]
pub struct FrameTooLong;

/// Cuts a byte stream into frames.
#[derive(Debug, Default)]
pub struct Splitter {
    /// Bytes of the frame that is not complete yet.
    held: BytesMut,
    /// How much of `held` was scanned and holds whole lines only.
    scanned: usize,
    /// The held frame has a field line already.
    fields: bool,
    /// The last line ended in CR at the end of a chunk: a LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
}

impl Splitter {
    /// Takes the next chunk and appends the frames it completes. Returns the bytes the frames are slices of:
    /// the chunk itself, with what was held of the last one before it.
    ///
    /// # Errors
    /// `FrameTooLong`: nothing more can be read from this stream.
    pub fn push(&mut self, chunk: &Bytes, frames: &mut Vec<Frame>) -> Result<Bytes, FrameTooLong> {
        let bytes = if self.held.is_empty() {
            chunk.clone()
        } else {
            self.held.extend_from_slice(chunk);
            std::mem::take(&mut self.held).freeze()
        };
        let used = self.split(&bytes, self.scanned, frames);
        self.scanned -= used;
        if used == 0 {
            // A long frame grows in place: nobody else holds these bytes, unless they are the caller's chunk.
            self.held = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
            return if self.held.len() > MAX_FRAME { Err(FrameTooLong) } else { Ok(Bytes::new()) };
        }
        self.held.extend_from_slice(&bytes[used..]);
        if self.held.len() > MAX_FRAME { Err(FrameTooLong) } else { Ok(bytes) }
    }

    /// The frame that lacks its closing blank line, if one is held.
    pub fn finish(&mut self) -> Option<Frame> {
        let raw = std::mem::take(&mut self.held).freeze();
        (!raw.is_empty()).then(|| Self::frame(raw, 0))
    }

    /// Emits every complete frame of `bytes`, scanning from `from`; returns where the first incomplete one starts.
    /// `self.scanned` is left as an offset into `bytes`.
    fn split(&mut self, bytes: &Bytes, from: usize, frames: &mut Vec<Frame>) -> usize {
        let mut start = 0;
        let mut line = from;
        while line < bytes.len() {
            if self.after_cr {
                self.after_cr = false;
                if bytes[line] == b'\n' {
                    line += 1;
                    if !self.fields {
                        frames.push(Self::frame(bytes.slice(start..line), start));
                        start = line;
                    }
                    continue;
                }
            }
            let Some(found) = memchr2(b'\n', b'\r', &bytes[line..]) else { break };
            let end = line + found;
            let mut next = end + 1;
            if bytes[end] == b'\r' {
                match bytes.get(next) {
                    Some(b'\n') => next += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            let mut content = &bytes[line..end];
            if !self.begun {
                self.begun = true;
                content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
            }
            let blank = content.is_empty();
            if blank || (content[0] == b':' && !self.fields) {
                frames.push(Self::frame(bytes.slice(start..next), start));
                start = next;
                self.fields = false;
            } else {
                self.fields = true;
            }
            line = next;
        }
        self.scanned = line.min(bytes.len());
        start
    }

    /// Reads the fields of one frame's lines.
    fn frame(raw: Bytes, place: usize) -> Frame {
        let mut event = None;
        let mut data_at = 0;
        let mut data: Option<Bytes> = None;
        let mut joined: Option<BytesMut> = None;
        let mut at = if raw.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        while at < raw.len() {
            let end = memchr2(b'\n', b'\r', &raw[at..]).map_or(raw.len(), |i| at + i);
            let line = &raw[at..end];
            let (name, value) = match memchr::memchr(b':', line) {
                Some(colon) => {
                    let skip = usize::from(line.get(colon + 1) == Some(&b' '));
                    (&line[..colon], at + colon + 1 + skip..end)
                }
                None => (line, end..end),
            };
            match name {
                b"event" => event = Some(raw.slice(value)),
                b"data" => match (&mut joined, &data) {
                    (Some(all), _) => {
                        all.extend_from_slice(b"\n");
                        all.extend_from_slice(&raw[value]);
                    }
                    (None, Some(first)) => {
                        let mut all = BytesMut::from(&first[..]);
                        all.extend_from_slice(b"\n");
                        all.extend_from_slice(&raw[value]);
                        joined = Some(all);
                    }
                    (None, None) => {
                        data_at = value.start;
                        data = Some(raw.slice(value));
                    }
                },
                _ => {}
            }
            at = end + 1;
            if raw.get(end) == Some(&b'\r') && raw.get(at) == Some(&b'\n') {
                at += 1;
            }
        }
        Frame { raw, event, at: place, data_at, data: joined.map(BytesMut::freeze).or(data) }
    }
}
