//! The single pass that turns bytes into spans and refuses what is not JSON. Eight bytes of a string at a time.

use super::{Kind, MAX_DEPTH, MAX_VALUES, Node, TOO_MANY};

type Failure = (usize, &'static str);

/// Scans one whole document; on failure says at which byte and why.
pub(super) fn scan(bytes: &[u8]) -> Result<Vec<Node>, Failure> {
    let mut scan = Scan { bytes, nodes: Vec::with_capacity(bytes.len().min(MAX_VALUES) / 32 + 16) };
    let mut open: Vec<u32> = Vec::with_capacity(16);
    let mut at = skip_space(bytes, 0);
    loop {
        if scan.nodes.len() >= MAX_VALUES {
            return Err((at, TOO_MANY));
        }
        // A value must stand at `at`.
        match bytes.get(at) {
            Some(b'"') => at = scan.string(at)?,
            Some(b'{') => {
                open.push(scan.open(at, Kind::Object, open.len())?);
                at = skip_space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    at = scan.key(at)?;
                    continue;
                }
            }
            Some(b'[') => {
                open.push(scan.open(at, Kind::Array, open.len())?);
                at = skip_space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    continue;
                }
            }
            Some(b'-' | b'0'..=b'9') => at = scan.number(at)?,
            Some(b't') => at = scan.literal(at, b"true", Kind::Bool)?,
            Some(b'f') => at = scan.literal(at, b"false", Kind::Bool)?,
            Some(b'n') => at = scan.literal(at, b"null", Kind::Null)?,
            Some(_) => return Err((at, "expected a value")),
            None => return Err((at, "the text ends where a value should be")),
        }
        // A value (or an opening bracket directly followed by its end) is complete: close what closes here.
        loop {
            at = skip_space(bytes, at);
            let Some(&container) = open.last() else {
                return if at == bytes.len() { Ok(scan.nodes) } else { Err((at, "text after the end of the value")) };
            };
            let object = scan.nodes[container as usize].kind == Kind::Object;
            match bytes.get(at) {
                Some(b',') if object => {
                    at = scan.key(skip_space(bytes, at + 1))?;
                    break;
                }
                Some(b',') => {
                    at = skip_space(bytes, at + 1);
                    break;
                }
                Some(b'}') if object => {}
                Some(b']') if !object => {}
                Some(_) if object => return Err((at, "expected `,` or `}`")),
                Some(_) => return Err((at, "expected `,` or `]`")),
                None if object => return Err((at, "the text ends inside an object")),
                None => return Err((at, "the text ends inside an array")),
            }
            at += 1;
            let next = scan.nodes.len() as u32;
            let node = &mut scan.nodes[container as usize];
            node.end = at as u32;
            node.next = next;
            open.pop();
        }
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node>,
}

impl Scan<'_> {
    fn push(&mut self, start: usize, end: usize, kind: Kind, escaped: bool) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { start: start as u32, end: end as u32, next, kind, escaped });
    }

    fn open(&mut self, at: usize, kind: Kind, depth: usize) -> Result<u32, Failure> {
        if depth >= MAX_DEPTH {
            return Err((at, "nested too deeply"));
        }
        let position = self.nodes.len() as u32;
        self.push(at, at, kind, false);
        Ok(position)
    }

    /// A key and its colon; returns where the value starts.
    fn key(&mut self, at: usize) -> Result<usize, Failure> {
        if self.bytes.get(at) != Some(&b'"') {
            return Err((at, "expected a key in double quotes"));
        }
        let at = skip_space(self.bytes, self.string(at)?);
        if self.bytes.get(at) != Some(&b':') {
            return Err((at, "expected `:` after a key"));
        }
        Ok(skip_space(self.bytes, at + 1))
    }

    fn string(&mut self, start: usize) -> Result<usize, Failure> {
        let mut at = start + 1;
        let mut escaped = false;
        loop {
            at = skip_plain(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.push(start, at + 1, Kind::String, escaped);
                    return Ok(at + 1);
                }
                Some(b'\\') => {
                    escaped = true;
                    at = escape(self.bytes, at)?;
                }
                Some(_) => return Err((at, "control characters in a string must be escaped")),
                None => return Err((at, "the text ends inside a string")),
            }
        }
    }

    fn number(&mut self, start: usize) -> Result<usize, Failure> {
        let mut at = start + usize::from(self.bytes[start] == b'-');
        match self.bytes.get(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = digits(self.bytes, at)?,
            _ => return Err((at, "expected a digit")),
        }
        if self.bytes.get(at) == Some(&b'.') {
            at = digits(self.bytes, at + 1)?;
        }
        if matches!(self.bytes.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(self.bytes.get(at), Some(b'+' | b'-')));
            at = digits(self.bytes, at)?;
        }
        self.push(start, at, Kind::Number, false);
        Ok(at)
    }

    fn literal(&mut self, start: usize, word: &'static [u8], kind: Kind) -> Result<usize, Failure> {
        if !self.bytes[start..].starts_with(word) {
            return Err((start, "expected a value"));
        }
        self.push(start, start + word.len(), kind, false);
        Ok(start + word.len())
    }
}

/// One or more digits.
fn digits(bytes: &[u8], start: usize) -> Result<usize, Failure> {
    let count = bytes[start.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 { Err((start, "expected a digit")) } else { Ok(start + count) }
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// One escape sequence, from its backslash; returns what follows it.
fn escape(bytes: &[u8], at: usize) -> Result<usize, Failure> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match bytes.get(at + 2..at + 6) {
            Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            Some(_) => Err((at, "`\\u` needs four hexadecimal digits")),
            None => Err((bytes.len(), "the text ends inside a string")),
        },
        Some(_) => Err((at, "unknown escape")),
        None => Err((at + 1, "the text ends inside a string")),
    }
}

/// The first quote, backslash or control character from `at` on, or the end.
fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    const LOW: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    const QUOTE: u64 = u64::from_le_bytes([b'"'; 8]);
    const BACKSLASH: u64 = u64::from_le_bytes([b'\\'; 8]);
    const SPACE: u64 = u64::from_le_bytes([0x20; 8]);

    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // Classic "has a zero byte" and "has a byte below" tests. A borrow may mark bytes above the first true hit
        // only, and the lowest mark is the one taken.
        let quote = word ^ QUOTE;
        let backslash = word ^ BACKSLASH;
        let hit = (quote.wrapping_sub(LOW) & !quote)
            | (backslash.wrapping_sub(LOW) & !backslash)
            | (word.wrapping_sub(SPACE) & !word);
        let hit = hit & HIGH;
        if hit != 0 {
            return at + hit.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if *byte == b'"' || *byte == b'\\' || *byte < 0x20 {
            break;
        }
        at += 1;
    }
    at
}
