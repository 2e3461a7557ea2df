//! Request bodies as deltas: a conversation's next request repeats the last one and grows at the end, so a row keeps
//! only the common prefix and suffix lengths and the bytes between. Encoded before the turn is written, rebuilt on reading.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use lru::LruCache;
use xxhash_rust::xxh3::xxh3_64;

/// Middles shorter than this are kept as they are: compressing them costs more than it saves.
const COMPRESS_FROM: usize = 2048;
/// Level 1 of zstd: a third of the size at several hundred MB/s.
const LEVEL: i32 = 1;
/// Compressors kept for reuse; one costs about half a megabyte.
const IDLE_COMPRESSORS: usize = 2;

/// The last committed body of a session: what the next delta stands on.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) turn: i64,
    /// Deltas between this body and its keyframe.
    pub(crate) depth: u32,
    pub(crate) bytes: Bytes,
}

/// One body as its row keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Turn the delta stands on; `None` = keyframe.
    pub(crate) base: Option<i64>,
    pub(crate) depth: u32,
    pub(crate) prefix: usize,
    pub(crate) suffix: usize,
    pub(crate) len: usize,
    pub(crate) hash: u64,
    pub(crate) compressed: bool,
    pub(crate) middle: Vec<u8>,
}

/// Why a stored body could not be rebuilt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RebuildError {
    #[error("the stored body does not decompress: {0}")]
    Zstd(std::io::Error),
    #[error("the stored body does not fit its base")]
    Shape,
    #[error("the rebuilt body does not match its checksum")]
    Checksum,
}

/// Encodes `body` against `base`, or whole where there is none, the chain is `keyframe_every` long, or little is shared.
pub(crate) fn encode(body: &[u8], base: Option<&Base>, keyframe_every: u32) -> Encoded {
    let mut encoded = Encoded {
        base: None,
        depth: 0,
        prefix: 0,
        suffix: 0,
        len: body.len(),
        hash: xxh3_64(body),
        compressed: false,
        middle: Vec::new(),
    };
    if let Some(base) = base.filter(|b| b.depth + 1 < keyframe_every) {
        let prefix = common_prefix(&base.bytes, body);
        let suffix = common_suffix(&base.bytes[prefix..], &body[prefix..]);
        if prefix + suffix >= body.len() / 2 && prefix + suffix > 0 {
            encoded.base = Some(base.turn);
            encoded.depth = base.depth + 1;
            encoded.prefix = prefix;
            encoded.suffix = suffix;
        }
    }
    let middle = &body[encoded.prefix..body.len() - encoded.suffix];
    if middle.len() >= COMPRESS_FROM
        && let Some(smaller) = compress(middle)
    {
        encoded.compressed = true;
        encoded.middle = smaller;
    } else {
        encoded.middle = middle.to_vec();
    }
    encoded
}

/// True if `encode` may take long enough to be kept off the async threads.
pub(crate) fn is_heavy(body: &[u8], base: Option<&Base>) -> bool {
    match base {
        // Comparing runs at memory speed; the middle of a grown conversation is about what it grew by.
        Some(base) => body.len() >= 64 * 1024 || body.len().abs_diff(base.bytes.len()) >= COMPRESS_FROM,
        None => body.len() >= COMPRESS_FROM,
    }
}

/// The body that `encoded` stands for, given the body it stands on (ignored for a keyframe).
pub(crate) fn rebuild(encoded: &Encoded, base: &[u8]) -> Result<Vec<u8>, RebuildError> {
    let (prefix, suffix) = (encoded.prefix, encoded.suffix);
    let base: &[u8] = if encoded.base.is_some() { base } else { &[] };
    let shared =
        prefix.checked_add(suffix).filter(|n| *n <= base.len() && *n <= encoded.len).ok_or(RebuildError::Shape)?;
    let wanted = encoded.len - shared;
    let mut body = Vec::with_capacity(encoded.len);
    body.extend_from_slice(&base[..prefix]);
    middle(encoded, wanted, &mut body)?;
    body.extend_from_slice(&base[base.len() - suffix..]);
    if body.len() != encoded.len {
        return Err(RebuildError::Shape);
    }
    if xxh3_64(&body) != encoded.hash { Err(RebuildError::Checksum) } else { Ok(body) }
}

/// Adds the middle of a body, `wanted` bytes long, to `body`.
pub(crate) fn middle(encoded: &Encoded, wanted: usize, body: &mut Vec<u8>) -> Result<(), RebuildError> {
    if encoded.compressed {
        let middle = zstd::bulk::decompress(&encoded.middle, wanted).map_err(RebuildError::Zstd)?;
        body.extend_from_slice(&middle);
    } else {
        body.extend_from_slice(&encoded.middle);
    }
    Ok(())
}

/// Length of the common start, compared in blocks that the compiler turns into wide compares.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let n = a.len().min(b.len());
    let whole = a[..n].chunks_exact(BLOCK).zip(b[..n].chunks_exact(BLOCK)).take_while(|(x, y)| x == y).count() * BLOCK;
    whole + a[whole..n].iter().zip(&b[whole..n]).take_while(|(x, y)| x == y).count()
}

/// Length of the common end.
fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let n = a.len().min(b.len());
    let (a, b) = (&a[a.len() - n..], &b[b.len() - n..]);
    let whole = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK)).take_while(|(x, y)| x == y).count() * BLOCK;
    let rest = n - whole;
    whole + a[..rest].iter().rev().zip(b[..rest].iter().rev()).take_while(|(x, y)| x == y).count()
}

static COMPRESSORS: Mutex<Vec<zstd::bulk::Compressor<'static>>> = Mutex::new(Vec::new());

/// `None` if it cannot be made smaller.
fn compress(data: &[u8]) -> Option<Vec<u8>> {
    let idle = COMPRESSORS.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut compressor = match idle {
        Some(compressor) => compressor,
        None => zstd::bulk::Compressor::new(LEVEL).ok()?,
    };
    let out = compressor.compress(data).ok();
    let mut idle = COMPRESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() < IDLE_COMPRESSORS {
        idle.push(compressor);
    }
    drop(idle);
    out.filter(|out| out.len() < data.len()).map(|mut out| {
        out.shrink_to_fit();
        out
    })
}

/// Last committed bodies, by session, main and side calls apart; the longest unused go when the total grows over the limit.
#[derive(Debug)]
pub(crate) struct Bases {
    bodies: LruCache<(String, bool), Base>,
    bytes: usize,
    limit: usize,
}

/// What an entry costs beside its body.
const ENTRY_COST: usize = 160;
/// Entries at most, whatever their size.
const ENTRIES: usize = 8192;

impl Bases {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bodies: LruCache::unbounded(), bytes: 0, limit }
    }

    pub(crate) fn get(&mut self, key: &(String, bool)) -> Option<Base> {
        self.bodies.get(key).cloned()
    }

    pub(crate) fn put(&mut self, key: (String, bool), base: Base) {
        if base.bytes.len() + ENTRY_COST > self.limit {
            self.remove(&key);
            return;
        }
        self.bytes += base.bytes.len() + ENTRY_COST;
        if let Some((_, old)) = self.bodies.push(key, base) {
            self.bytes -= old.bytes.len() + ENTRY_COST;
        }
        while self.bytes > self.limit || self.bodies.len() > ENTRIES {
            let Some((_, old)) = self.bodies.pop_lru() else { break };
            self.bytes -= old.bytes.len() + ENTRY_COST;
        }
    }

    pub(crate) fn remove(&mut self, key: &(String, bool)) {
        if let Some(old) = self.bodies.pop(key) {
            self.bytes -= old.bytes.len() + ENTRY_COST;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bodies.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base(turn: i64, depth: u32, bytes: &[u8]) -> Base {
        Base { turn, depth, bytes: Bytes::copy_from_slice(bytes) }
    }

    /// Pieces repeated and cut, so that prefixes, suffixes and their overlap occur.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"abc".to_vec()),
            Just(vec![b'x'; 700]),
            Just(vec![0]),
            proptest::collection::vec(any::<u8>(), 0..40),
            proptest::collection::vec(any::<u8>(), 2000..2600),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_body_of_a_chain_is_rebuilt_byte_for_byte(bodies in proptest::collection::vec(body(), 1..12), every in 1..6u32) {
            let mut last: Option<Base> = None;
            let mut chain: Vec<u8> = Vec::new();
            for (turn, bytes) in (1..).zip(&bodies) {
                let encoded = encode(bytes, last.as_ref(), every);
                prop_assert!(encoded.depth < every);
                prop_assert_eq!(encoded.base.is_none(), encoded.depth == 0);
                let rebuilt = rebuild(&encoded, &chain).map_err(|e| TestCaseError::fail(e.to_string()))?;
                prop_assert_eq!(&rebuilt, bytes);
                last = Some(base(turn, encoded.depth, bytes));
                chain = rebuilt;
            }
        }

        #[test]
        fn a_changed_byte_is_noticed(bytes in body(), at in any::<prop::sample::Index>()) {
            let mut encoded = encode(&bytes, None, 32);
            prop_assume!(!encoded.middle.is_empty());
            let at = at.index(encoded.middle.len());
            encoded.middle[at] ^= 1;
            // A changed byte of zstd's frame may leave the content as it was; then it has to be the right content.
            if let Ok(rebuilt) = rebuild(&encoded, &[]) {
                prop_assert_eq!(rebuilt, bytes);
            }
        }
    }

    #[test]
    fn a_grown_conversation_keeps_only_what_is_new() {
        let old = format!("{{\"messages\":[{}],\"stream\":true}}", "{\"role\":\"user\"},".repeat(1000));
        let new = old.replace("],", "{\"role\":\"tool\"}],");
        let encoded = encode(new.as_bytes(), Some(&base(4, 0, old.as_bytes())), 32);
        assert_eq!((encoded.base, encoded.depth, encoded.compressed), (Some(4), 1, false));
        assert_eq!(encoded.middle.len(), new.len() - old.len());
    }

    #[test]
    fn the_same_body_again_keeps_nothing() {
        let encoded = encode(b"{}", Some(&base(4, 0, b"{}")), 32);
        assert_eq!((encoded.prefix, encoded.suffix, encoded.middle.len()), (2, 0, 0));
    }

    #[test]
    fn bases_stay_under_their_limit_and_the_longest_unused_go_first() {
        let mut bases = Bases::new(10_000);
        let key = |n: u32| (n.to_string(), true);
        for n in 0..20 {
            bases.put(key(n), base(1, 0, &[0; 1000]));
            assert!(bases.get(&key(0)).is_some());
            assert!(bases.bytes <= 10_000);
        }
        assert_eq!(bases.bodies.len(), 8);
        assert!(bases.get(&key(19)).is_some() && bases.get(&key(5)).is_none());
        bases.put(key(19), base(2, 0, &[0; 20_000]));
        assert!(bases.get(&key(19)).is_none(), "one that does not fit must not leave an older one standing");
        while let Some((key, _)) = bases.bodies.peek_lru() {
            let key = key.clone();
            bases.remove(&key);
        }
        assert_eq!(bases.bytes, 0);
    }
}
