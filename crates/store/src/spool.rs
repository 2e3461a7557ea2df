//! Finished turns on their way into the database: written to a small file the moment they finish, so that a killed process
//! loses none of them, and taken over by the writer a moment later. One write into the page cache, whatever SQLite, its
//! checkpoints or another process are doing meanwhile. What a killed process leaves here, the next start takes over.
//!
//! The file has two halves, each a chain of records from its beginning; numbers rise by one from record to record and are
//! never used twice, so a chain ends where an older record follows. A half whose records are all taken over is written anew
//! from its beginning.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::NewTurn;

const MAGIC: u32 = u32::from_le_bytes(*b"MCs1");
/// Magic, length of the turn, length of the body, zero, number, database, checksum of turn and body; little-endian.
const HEAD: usize = 40;
/// Records larger than this go straight to the database.
const LARGEST: u64 = 8 << 20;
/// Where the halves begin, and how long one may grow before the other is used, if that one is free, …
const HALVES: [u64; 2] = [0, 32 << 20];
const TURN_OVER: u64 = 2 << 20;
/// … and at all. Beyond it turns wait for the database.
const FULL: u64 = HALVES[1];
/// Bodies from this size on are written by a call of their own instead of being copied first.
const ASIDE: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    db: i64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Number of the next record.
    next: i64,
    /// The half in use, and how long it is.
    half: usize,
    len: u64,
    /// Number of the last record in the other half.
    other_last: i64,
    /// Every record up to this number is in the database, or will never be.
    settled: i64,
}

/// A turn that an earlier process wrote here and did not bring into the database.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) seq: i64,
    pub(crate) turn: NewTurn,
    pub(crate) body: Bytes,
}

/// What [`Spool::read`] found.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) spool: Spool,
    pub(crate) left: Vec<Left>,
}

/// The spool of a database.
pub(crate) fn path_of(db: &Path) -> PathBuf {
    let mut name = db.to_owned().into_os_string();
    name.push("-spool");
    PathBuf::from(name)
}

/// True if a process that was killed may have left turns there: a clean end leaves it empty.
pub(crate) fn is_left(db: &Path) -> bool {
    std::fs::metadata(path_of(db)).is_ok_and(|file| file.len() > 0)
}

impl Spool {
    /// Opens the spool of the database at `path`. `None`: another process has it.
    pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path_of(path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reads a locked spool, whose database says `db` and `done` of it.
    pub(crate) fn read(file: File, db: i64, done: i64) -> io::Result<Opened> {
        let [one, two] = [read_chain(&file, db, HALVES[0])?, read_chain(&file, db, HALVES[1])?];
        // Writing goes on behind the newest record.
        let half = usize::from(two.last > one.last);
        let (len, other_last) = if half == 1 { (two.len, one.last) } else { (one.len, two.last) };
        let next = one.last.max(two.last).max(done) + 1;
        let mut left: Vec<Left> = one.records.into_iter().chain(two.records).filter(|r| r.seq > done).collect();
        left.sort_by_key(|record| record.seq);
        let settled = if left.is_empty() { next - 1 } else { done };
        let state = State { next, half, len, other_last, settled };
        Ok(Opened { spool: Self { file, db, state: Mutex::new(state) }, left })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a turn, then hands its number to `queue`: turns are queued in the order in which they stand here. False, and
    /// nothing done, where there is no room for it.
    pub(crate) fn put(&self, record: Record, queue: impl FnOnce(i64)) -> io::Result<bool> {
        let Record { mut bytes, mut head, aside } = record;
        let mut state = self.state();
        if state.settled + 1 == state.next {
            state.len = 0;
        } else if state.len >= TURN_OVER && state.other_last <= state.settled {
            state.other_last = state.next - 1;
            state.half = 1 - state.half;
            state.len = 0;
        }
        let len = (HEAD + head.turn_len + head.body_len) as u64;
        if len > LARGEST || state.len + len > FULL {
            return Ok(false);
        }
        (head.seq, head.db) = (state.next, self.db);
        head.write(&mut bytes);
        let at = HALVES[state.half & 1] + state.len;
        write_all_at(&self.file, &bytes, at)?;
        if let Some(body) = aside {
            write_all_at(&self.file, &body, at + bytes.len() as u64)?;
        }
        state.next += 1;
        state.len += len;
        queue(head.seq);
        Ok(true)
    }

    /// Everything up to `seq` is in the database, or was given up.
    pub(crate) fn settle(&self, seq: i64) {
        let mut state = self.state();
        state.settled = state.settled.max(seq);
    }

    /// At the end: the next process may have it.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.file.unlock()
    }

    /// Takes all bytes out of the file. False, and nothing done, while there is something in it that the database lacks.
    pub(crate) fn wipe(&self) -> io::Result<bool> {
        let mut state = self.state();
        if state.settled + 1 != state.next {
            return Ok(false);
        }
        self.file.set_len(0)?;
        state.len = 0;
        Ok(true)
    }
}

/// A turn as the spool keeps it, without its number.
#[derive(Debug)]
pub(crate) struct Record {
    bytes: Vec<u8>,
    head: Head,
    /// A large body, not copied.
    aside: Option<Bytes>,
}

impl Record {
    /// # Errors
    /// The turn cannot be written as JSON.
    pub(crate) fn new(turn: &NewTurn, body: &Bytes) -> io::Result<Self> {
        let aside = (body.len() >= ASIDE).then(|| body.clone());
        let mut bytes = Vec::with_capacity(HEAD + 2048 + if aside.is_some() { 0 } else { body.len() });
        bytes.resize(HEAD, 0);
        serde_json::to_writer(&mut bytes, turn)?;
        let turn_len = bytes.len() - HEAD;
        if aside.is_none() {
            bytes.extend_from_slice(body);
        }
        let mut hash = Xxh3::new();
        hash.update(bytes.get(HEAD..).unwrap_or_default());
        hash.update(aside.as_deref().unwrap_or_default());
        let head = Head { turn_len, body_len: body.len(), seq: 0, db: 0, hash: hash.digest() };
        Ok(Self { bytes, head, aside })
    }
}

#[derive(Debug)]
struct Head {
    turn_len: usize,
    body_len: usize,
    seq: i64,
    db: i64,
    hash: u64,
}

impl Head {
    fn write(&self, record: &mut [u8]) {
        let Some(head) = record.first_chunk_mut::<HEAD>() else { return };
        let [turn_len, body_len] = [self.turn_len, self.body_len].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        head[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&turn_len.to_le_bytes());
        head[8..12].copy_from_slice(&body_len.to_le_bytes());
        head[16..24].copy_from_slice(&self.seq.to_le_bytes());
        head[24..32].copy_from_slice(&self.db.to_le_bytes());
        head[32..40].copy_from_slice(&self.hash.to_le_bytes());
    }

    fn read(head: &[u8; HEAD]) -> Option<Self> {
        let word = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let long = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        (word(0)? == MAGIC).then_some(())?;
        let head = Self {
            turn_len: word(4)? as usize,
            body_len: word(8)? as usize,
            seq: long(16)?.cast_signed(),
            db: long(24)?.cast_signed(),
            hash: long(32)?,
        };
        ((HEAD + head.turn_len + head.body_len) as u64 <= LARGEST && head.seq > 0).then_some(head)
    }
}

#[derive(Default)]
struct Chain {
    records: Vec<Left>,
    /// Number of the last record.
    last: i64,
    /// Its length in bytes.
    len: u64,
}

/// The records from the beginning of a half, as far as one follows the other.
fn read_chain(file: &File, db: i64, begin: u64) -> io::Result<Chain> {
    let mut chain = Chain::default();
    let size = file.metadata()?.len().saturating_sub(begin);
    let mut head = [0; HEAD];
    while chain.len + HEAD as u64 <= size {
        read_exact_at(file, &mut head, begin + chain.len)?;
        let Some(head) = Head::read(&head) else { break };
        let payload_len = (head.turn_len + head.body_len) as u64;
        let len = chain.len + HEAD as u64 + payload_len;
        if head.db != db || (chain.last > 0 && head.seq != chain.last + 1) || len > size {
            break;
        }
        let mut payload = vec![0; head.turn_len + head.body_len];
        read_exact_at(file, &mut payload, begin + chain.len + HEAD as u64)?;
        let mut hash = Xxh3::new();
        hash.update(&payload);
        // A record that was being written when the process died: nobody was told that it is safe.
        if hash.digest() != head.hash {
            break;
        }
        let payload = Bytes::from(payload);
        match serde_json::from_slice(payload.get(..head.turn_len).unwrap_or_default()) {
            Ok(turn) => chain.records.push(Left { seq: head.seq, turn, body: payload.slice(head.turn_len..) }),
            Err(error) => {
                tracing::error!(seq = head.seq, %error, "a turn that was set aside cannot be read; it is lost");
            }
        }
        chain.last = head.seq;
        chain.len = len;
    }
    Ok(chain)
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
        at += written as u64;
    }
    Ok(())
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, bytes, at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = bytes.get_mut(read..).unwrap_or_default();
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(words: &str) -> NewTurn {
        let hash = Some(u128::MAX - 5);
        NewTurn { session: "s".into(), user_text: Some(words.into()), prior_state: hash, ..NewTurn::default() }
    }

    fn open(path: &Path, done: i64) -> Opened {
        let file = Spool::lock(path).expect("opens").expect("is free");
        Spool::read(file, 7, done).expect("reads")
    }

    fn put(spool: &Spool, words: &str, body: &[u8]) -> i64 {
        let mut number = 0;
        let record = Record::new(&turn(words), &Bytes::copy_from_slice(body)).expect("is JSON");
        assert!(spool.put(record, |seq| number = seq).expect("writes"));
        number
    }

    fn words(opened: &Opened) -> Vec<(i64, &str, usize)> {
        let words = |left: &Left| (left.seq, left.body.len());
        let texts = opened.left.iter().map(|left| left.turn.user_text.as_deref().unwrap_or_default());
        opened.left.iter().map(words).zip(texts).map(|((seq, len), text)| (seq, text, len)).collect()
    }

    #[test]
    fn what_was_not_taken_over_is_there_after_a_crash() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let path = dir.path().join("x.db");
        let spool = open(&path, 0).spool;
        let large = vec![b'x'; ASIDE + 1];
        assert_eq!((put(&spool, "one", b"1"), put(&spool, "two", &large), put(&spool, "three", b"")), (1, 2, 3));
        drop(spool);
        let again = open(&path, 1);
        assert_eq!(words(&again), [(2, "two", ASIDE + 1), (3, "three", 0)]);
        assert_eq!(again.left[0].body, large);
        assert_eq!(again.left[0].turn.prior_state, Some(u128::MAX - 5));
        assert!(!again.spool.wipe().expect("looks"), "the database lacks two turns");
        assert_eq!(put(&again.spool, "four", b"4"), 4);
        drop(again);
        assert_eq!(words(&open(&path, 2)), [(3, "three", 0), (4, "four", 1)]);
    }

    #[test]
    fn the_file_is_written_over_once_everything_is_taken_over() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let path = dir.path().join("x.db");
        let spool = open(&path, 0).spool;
        for round in 0..50 {
            let (a, b) = (put(&spool, "a longer first one", b"abc"), put(&spool, "b", b"d"));
            assert_eq!((a, b), (round * 2 + 1, round * 2 + 2));
            spool.settle(b);
        }
        let len = std::fs::metadata(path_of(&path)).expect("is there").len();
        assert!(len < 2000, "{len}");
        // A new, shorter record at the beginning; what follows is older and no part of the chain.
        assert_eq!(put(&spool, "new", b""), 101);
        drop(spool);
        let again = open(&path, 100);
        assert_eq!(words(&again), [(101, "new", 0)]);
        again.spool.settle(101);
        assert!(again.spool.wipe().expect("wipes"));
        assert_eq!(std::fs::metadata(path_of(&path)).expect("is there").len(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn the_halves_take_turns_while_something_always_waits() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let path = dir.path().join("x.db");
        let spool = open(&path, 0).spool;
        let body = vec![b'x'; 100 << 10];
        for n in 1..=400 {
            assert_eq!(put(&spool, "words", &body), n);
            // The database is always three turns behind.
            spool.settle(n - 3);
        }
        // 40 MB went through; blocks that were never written take no room.
        let used = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path_of(&path)).expect("is there")) * 512;
        assert!(used < 2 * (TURN_OVER + (1 << 20)), "{used}");
        drop(spool);
        let again = open(&path, 397);
        assert_eq!(again.left.iter().map(|left| left.seq).collect::<Vec<_>>(), [398, 399, 400]);
        assert_eq!(put(&again.spool, "next", b""), 401);
        drop(again);
        assert_eq!(open(&path, 399).left.len(), 2);
    }

    #[test]
    fn half_a_record_and_the_records_of_another_database_are_no_turns() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let path = dir.path().join("x.db");
        let spool = open(&path, 0).spool;
        put(&spool, "one", b"1");
        put(&spool, "two", b"2");
        drop(spool);
        let whole = std::fs::read(path_of(&path)).expect("reads");
        for cut in [0, 1, HEAD - 1, HEAD + 3, whole.len() / 2 - 1] {
            std::fs::write(path_of(&path), &whole[..cut]).expect("writes");
            assert!(open(&path, 0).left.is_empty(), "{cut}");
        }
        std::fs::write(path_of(&path), &whole[..whole.len() - 1]).expect("writes");
        assert_eq!(words(&open(&path, 0)), [(1, "one", 1)]);
        std::fs::write(path_of(&path), &whole).expect("writes");
        let file = Spool::lock(&path).expect("opens").expect("is free");
        assert!(Spool::read(file, 8, 0).expect("reads").left.is_empty());
    }

    #[test]
    fn a_second_process_gets_no_spool() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let path = dir.path().join("x.db");
        let first = open(&path, 0);
        assert!(Spool::lock(&path).expect("looks").is_none());
        drop(first);
        assert!(Spool::lock(&path).expect("opens").is_some());
    }

    #[test]
    fn what_is_too_large_goes_elsewhere() {
        let dir = tempfile::tempdir().expect("makes a folder");
        let spool = open(&dir.path().join("x.db"), 0).spool;
        let record = Record::new(&turn("large"), &Bytes::from(vec![0; 8 << 20])).expect("is JSON");
        assert!(!spool.put(record, |_| panic!("was queued")).expect("looks"));
    }
}
