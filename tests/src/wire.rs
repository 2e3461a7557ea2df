//! HTTP/1.1 by hand, both sides: the fake provider and the test client read and write the same bytes a socket carries, so
//! that a test can split, cut or repeat them anywhere. Heads are parsed by `httparse`.

use std::io::{Error, ErrorKind, Result};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_HEAD: usize = 256 * 1024;
const MAX_HEADERS: usize = 128;

/// A request or response head.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// Request method; empty for a response.
    pub method: String,
    /// Request target as sent; empty for a response.
    pub target: String,
    /// Response status; 0 for a request.
    pub status: u16,
    /// Name and value as sent, in order.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// First value of a header, name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    fn framing(&self, to_request: Option<&str>) -> Result<Framing> {
        if self.status != 0 && (matches!(self.status, 100..200 | 204 | 304) || to_request == Some("HEAD")) {
            return Ok(Framing::Length(0));
        }
        if self.header("transfer-encoding").is_some_and(|v| v.to_ascii_lowercase().contains("chunked")) {
            return Ok(Framing::Chunked);
        }
        match self.header("content-length") {
            Some(n) => n.trim().parse().map(Framing::Length).map_err(|e| Error::new(ErrorKind::InvalidData, e)),
            None if self.status == 0 => Ok(Framing::Length(0)),
            None => Ok(Framing::UntilClose),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
    Done,
}

/// One connection with its read buffer.
#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
    buf: BytesMut,
    framing: Framing,
}

impl Conn {
    /// Wraps a connected socket.
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).ok();
        Self { stream, buf: BytesMut::with_capacity(16 * 1024), framing: Framing::Done }
    }

    /// Connects to `host:port`.
    pub async fn connect(addr: &str) -> Result<Self> {
        Ok(Self::new(TcpStream::connect(addr).await?))
    }

    /// Writes bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Says that we write no more (half close).
    pub async fn end_writing(&mut self) -> Result<()> {
        self.stream.shutdown().await
    }

    /// Closes with a TCP reset instead of an orderly end.
    pub fn reset(self) {
        self.stream.set_zero_linger().ok();
    }

    async fn fill(&mut self) -> Result<usize> {
        self.stream.read_buf(&mut self.buf).await
    }

    /// Waits until the other side closes or resets; bytes that come first are kept for the next head.
    pub async fn closed(&mut self) {
        while !matches!(self.fill().await, Ok(0) | Err(_)) {}
    }

    /// The next request head; `None` at an orderly end of the connection.
    pub async fn request_head(&mut self) -> Result<Option<Head>> {
        loop {
            if !self.buf.is_empty() {
                let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
                let mut request = httparse::Request::new(&mut headers);
                if let httparse::Status::Complete(n) = request.parse(&self.buf).map_err(invalid)? {
                    let head = Head {
                        method: request.method.unwrap_or_default().to_owned(),
                        target: request.path.unwrap_or_default().to_owned(),
                        status: 0,
                        headers: owned(request.headers),
                    };
                    self.buf.advance(n);
                    self.framing = head.framing(None)?;
                    return Ok(Some(head));
                }
            }
            self.more_head().await?;
            if self.buf.is_empty() {
                return Ok(None);
            }
        }
    }

    /// The next response head that is not a 1xx. `method` is the request's, since a HEAD reply has no body.
    pub async fn response_head(&mut self, method: &str) -> Result<Head> {
        loop {
            if !self.buf.is_empty() {
                let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
                let mut response = httparse::Response::new(&mut headers);
                if let httparse::Status::Complete(n) = response.parse(&self.buf).map_err(invalid)? {
                    let head = Head {
                        status: response.code.unwrap_or_default(),
                        headers: owned(response.headers),
                        ..Head::default()
                    };
                    self.buf.advance(n);
                    if head.status >= 200 {
                        self.framing = head.framing(Some(method))?;
                        return Ok(head);
                    }
                    continue;
                }
            }
            self.more_head().await?;
            if self.buf.is_empty() {
                return Err(Error::new(ErrorKind::UnexpectedEof, "closed before a response head"));
            }
        }
    }

    async fn more_head(&mut self) -> Result<()> {
        if self.buf.len() > MAX_HEAD {
            return Err(Error::new(ErrorKind::InvalidData, "head too long"));
        }
        if self.fill().await? == 0 && !self.buf.is_empty() {
            return Err(Error::new(ErrorKind::UnexpectedEof, "closed inside a head"));
        }
        Ok(())
    }

    /// The next piece of the body as it came (with chunked framing: one HTTP chunk or the part of it that is here), `None`
    /// at its proper end.
    ///
    /// # Errors
    /// When the connection ends before the body does.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.framing {
                Framing::Done | Framing::Length(0) => {
                    self.framing = Framing::Done;
                    return Ok(None);
                }
                Framing::Length(left) if !self.buf.is_empty() => {
                    let n = self.buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.framing = Framing::Length(left - n as u64);
                    return Ok(Some(self.buf.split_to(n).freeze()));
                }
                Framing::UntilClose if !self.buf.is_empty() => return Ok(Some(self.buf.split().freeze())),
                Framing::Chunked => {
                    if let Some((start, size)) = chunk_line(&self.buf)?
                        && self.buf.len() >= start + size + 2
                    {
                        self.buf.advance(start);
                        let data = self.buf.split_to(size).freeze();
                        self.buf.advance(2);
                        if size == 0 {
                            self.framing = Framing::Done;
                            return Ok(None);
                        }
                        return Ok(Some(data));
                    }
                }
                Framing::Length(_) | Framing::UntilClose => {}
            }
            if self.fill().await? == 0 {
                if self.framing == Framing::UntilClose {
                    self.framing = Framing::Done;
                    return Ok(None);
                }
                return Err(Error::new(ErrorKind::UnexpectedEof, "closed inside a body"));
            }
        }
    }

    /// All that is left of the body.
    pub async fn body(&mut self) -> Result<Bytes> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if all.is_empty() && self.framing == Framing::Length(0) {
                return Ok(piece);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }
}

/// Offset of the data and size of the chunk whose size line starts the buffer; `None` while that line is incomplete.
fn chunk_line(buf: &[u8]) -> Result<Option<(usize, usize)>> {
    match httparse::parse_chunk_size(buf) {
        Ok(httparse::Status::Complete((start, size))) => Ok(Some((start, usize::try_from(size).map_err(invalid)?))),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(Error::new(ErrorKind::InvalidData, "bad chunk size")),
    }
}

fn owned(headers: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    headers.iter().map(|h| (h.name.to_owned(), String::from_utf8_lossy(h.value).into_owned())).collect()
}

fn invalid(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::InvalidData, e)
}

/// A chunk in chunked framing.
pub fn chunk(data: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
    out
}

/// The end of a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// The `event:` field, empty where the stream has none.
    pub name: String,
    /// The `data:` lines joined by line feeds.
    pub data: String,
    /// Text of the comment lines before and in it.
    pub comments: Vec<String>,
}

impl Event {
    /// The data as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("event data is not JSON ({e}): {:?}", self.data))
    }
}

/// Splits a byte stream into events, wherever the pieces are cut.
#[derive(Debug, Default)]
pub struct Events {
    buf: Vec<u8>,
    now: Event,
    open: bool,
}

impl Events {
    /// Takes the next piece and returns the events that it completes. An event of comments only has no data.
    pub fn push(&mut self, piece: &[u8]) -> Vec<Event> {
        self.buf.extend_from_slice(piece);
        let mut out = Vec::new();
        while let Some(end) = self.buf.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.buf.drain(..=end).collect();
            let line = String::from_utf8(line).expect("an SSE stream is UTF-8");
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if self.open {
                    out.push(std::mem::take(&mut self.now));
                }
                self.open = false;
                continue;
            }
            self.open = true;
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => self.now.comments.push(value.to_owned()),
                "event" => self.now.name = value.to_owned(),
                "data" if self.now.data.is_empty() => self.now.data = value.to_owned(),
                "data" => {
                    self.now.data.push('\n');
                    self.now.data.push_str(value);
                }
                _ => {}
            }
        }
        out
    }

    /// All events of a whole body.
    pub fn of(body: &[u8]) -> Vec<Event> {
        Self::default().push(body).into_iter().filter(|e| !e.data.is_empty()).collect()
    }
}
