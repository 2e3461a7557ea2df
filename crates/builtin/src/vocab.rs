//! From text to tokens and back, by the vocabulary in the model's file. Two kinds: byte pairs with ranked merges (GPT-2,
//! Llama 3, Qwen, SmolLM) and pieces with scores (Llama 1 and 2).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::{Xxh3Builder, xxh3_64};

use crate::error::Fault;
use crate::gguf::{Gguf, Texts, Value};
use crate::split::Rules;

/// Stands in user text behind the first character of what would be read as a special token; see [`Vocab::defuse`].
const DEFUSED: char = '\u{f8ff}';

/// Stands for a byte that the vocabulary has no token for: it merges with nothing and is left out, as llama.cpp does.
/// Control characters, which SmolLM2 was never shown, are such bytes.
const UNKNOWN: u32 = u32::MAX - 1;

/// Bytes of the longest special token, and of all of them; those of models in use are a tenth of it.
const LONGEST_SPECIAL: usize = 256;
const ALL_SPECIAL: usize = 256 << 10;

/// Merges between two looks whether anybody still waits.
const LONG: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Vocab {
    /// What each token says, in bytes.
    bytes: Texts,
    by_bytes: HashTable<u32>,
    kind: Kind,
    /// Finds tokens that are read and never spoken, or written as a whole; the longest of those that begin together.
    special: AhoCorasick,
    special_tokens: Vec<u32>,
    /// Bytes of the longest token of plain text.
    longest: usize,
    is_control: Vec<bool>,
    begin: Option<u32>,
    /// Tokens that end an answer.
    pub(crate) ends: Vec<u32>,
}

/// Why a text was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It has more tokens than were allowed.
    TooLong,
    /// Nobody waits for it any more.
    Ended,
}

/// How far reading may go, and how far it is.
struct Reading<'a> {
    tokens: Vec<u32>,
    most: usize,
    ended: &'a dyn Fn() -> bool,
    stopped: Option<Unread>,
}

impl Reading<'_> {
    /// Looks whether to go on.
    fn goes_on(&mut self) -> bool {
        if self.stopped.is_none() {
            if self.tokens.len() > self.most {
                self.stopped = Some(Unread::TooLong);
            } else if (self.ended)() {
                self.stopped = Some(Unread::Ended);
            }
        }
        self.stopped.is_none()
    }
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per model")]
enum Kind {
    Pairs { rules: Rules, merges: HashMap<(u32, u32), (u32, u32), Xxh3Builder>, singles: Vec<u32>, whole_words: bool },
    Pieces { scores: Vec<f32>, bytes: Vec<u32>, space_first: bool },
}

/// A mergeable pair: the best first, the leftmost of equals.
type Candidate = Reverse<(u32, usize, usize, u32)>;

impl Vocab {
    /// Takes the vocabulary out of a file.
    pub(crate) fn load(file: &mut Gguf) -> Result<Self, Fault> {
        let missing = |key: &str| Fault::Missing(key.to_owned());
        let model = file.text("tokenizer.ggml.model").ok_or_else(|| missing("tokenizer.ggml.model"))?.to_owned();
        let pairs = match model.as_str() {
            "gpt2" => true,
            "llama" => false,
            other => return Err(Fault::Tokenizer(other.to_owned())),
        };
        let Some(Value::Texts(texts)) = file.take("tokenizer.ggml.tokens") else {
            return Err(missing("tokenizer.ggml.tokens"));
        };
        let types = match file.take("tokenizer.ggml.token_type") {
            Some(Value::Wholes(types)) if types.len() == texts.len() => types,
            _ => vec![1; texts.len()],
        };
        let mut special = Vec::new();
        let mut bytes = Texts::default();
        for (token, (text, kind)) in texts.iter().zip(&types).enumerate() {
            let written = String::from_utf8_lossy(text);
            match kind {
                3 | 4 => {
                    special.push((written.clone().into_owned(), token as u32));
                    bytes.push(text);
                }
                _ if pairs => bytes.push(&byte_text(&written)),
                6 => bytes.push(&hex_byte(&written).map_or_else(Vec::new, |byte| vec![byte])),
                _ => bytes.push(written.replace('\u{2581}', " ").as_bytes()),
            }
        }
        special.retain(|(text, _)| !text.is_empty());
        let longest = special.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
        let all: usize = special.iter().map(|(text, _)| text.len()).sum();
        if longest > LONGEST_SPECIAL || all > ALL_SPECIAL {
            return Err(Fault::Damaged(format!("its special tokens are up to {longest} bytes long, {all} in all")));
        }
        // The smaller of the automata: the faster one takes a kilobyte for each byte.
        let found = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(special.iter().map(|(text, _)| text));
        let found = found.map_err(|error| Fault::Damaged(format!("its special tokens cannot be used ({error})")))?;
        let mut by_bytes = HashTable::with_capacity(bytes.len());
        for token in 0..bytes.len() as u32 {
            let text = bytes.get(token as usize);
            // Special and byte tokens are not found by what they say.
            if types[token as usize] != 1 {
                continue;
            }
            by_bytes.insert_unique(xxh3_64(text), token, |other| xxh3_64(bytes.get(*other as usize)));
        }
        let find = |text: &[u8]| by_bytes.find(xxh3_64(text), |token| bytes.get(*token as usize) == text).copied();
        let kind = if pairs {
            let pre = file.text("tokenizer.ggml.pre").unwrap_or("default");
            let rules = Rules::named(pre).ok_or_else(|| Fault::Tokenizer(format!("gpt2/{pre}")))?;
            let whole_words = rules == Rules::Llama3;
            let Some(Value::Texts(lines)) = file.take("tokenizer.ggml.merges") else {
                return Err(missing("tokenizer.ggml.merges"));
            };
            let mut merges = HashMap::with_capacity_and_hasher(lines.len(), Xxh3Builder::new());
            for (rank, line) in lines.iter().enumerate() {
                let line = String::from_utf8_lossy(line);
                let Some((left, right)) = line.split_once(' ') else { continue };
                let (left, right) = (byte_text(left), byte_text(right));
                let whole = [left.as_slice(), &right].concat();
                if let (Some(left), Some(right), Some(whole)) = (find(&left), find(&right), find(&whole)) {
                    merges.entry((left, right)).or_insert((rank as u32, whole));
                }
            }
            let singles = (0..=u8::MAX).map(|byte| find(&[byte]).unwrap_or(UNKNOWN)).collect();
            Kind::Pairs { rules, merges, singles, whole_words }
        } else {
            let scores = match file.take("tokenizer.ggml.scores") {
                Some(Value::Reals(scores)) if scores.len() == bytes.len() => scores,
                _ => return Err(missing("tokenizer.ggml.scores")),
            };
            let mut singles = vec![u32::MAX; 256];
            for (token, kind) in types.iter().enumerate() {
                if let (6, [byte]) = (kind, bytes.get(token)) {
                    singles[usize::from(*byte)] = token as u32;
                }
            }
            let space_first = file.truth("tokenizer.ggml.add_space_prefix").unwrap_or(true);
            Kind::Pieces { scores, bytes: singles, space_first }
        };
        let token = |file: &Gguf, key: &str| {
            let token = file.whole(&format!("tokenizer.ggml.{key}"))?;
            (token < bytes.len()).then_some(token as u32)
        };
        let begins = file.truth("tokenizer.ggml.add_bos_token").unwrap_or(!pairs);
        let begin = if begins { token(file, "bos_token_id") } else { None };
        let mut ends: Vec<u32> =
            ["eos_token_id", "eot_token_id", "eom_token_id"].into_iter().filter_map(|key| token(file, key)).collect();
        let known_ends = ["<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "</s>"];
        ends.extend(special.iter().filter(|(text, _)| known_ends.contains(&text.as_str())).map(|(_, token)| *token));
        ends.sort_unstable();
        ends.dedup();
        if ends.is_empty() {
            return Err(missing("tokenizer.ggml.eos_token_id"));
        }
        let is_control = types.iter().map(|kind| *kind == 3).collect();
        let plain = (0..bytes.len()).filter(|token| types[*token] == 1);
        let longest = plain.map(|token| bytes.get(token).len()).max().unwrap_or(0).max(1);
        let special_tokens = special.into_iter().map(|(_, token)| token).collect();
        Ok(Self { bytes, by_bytes, kind, special: found, special_tokens, longest, is_control, begin, ends })
    }

    fn find(&self, text: &[u8]) -> Option<u32> {
        self.by_bytes.find(xxh3_64(text), |token| self.bytes.get(*token as usize) == text).copied()
    }

    /// What a token says; tokens that steer say nothing.
    pub(crate) fn says(&self, token: u32) -> &[u8] {
        if self.is_control.get(token as usize).copied().unwrap_or(true) { &[] } else { self.bytes.get(token as usize) }
    }

    /// A token as it is written, steering ones too.
    pub(crate) fn written(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize)
    }

    /// The text of the token that begins every text, for templates.
    pub(crate) fn begin_text(&self, file: &Gguf, key: &str) -> String {
        let token = file.whole(&format!("tokenizer.ggml.{key}"));
        token.map(|token| String::from_utf8_lossy(self.bytes.get(token)).into_owned()).unwrap_or_default()
    }

    /// The fewest tokens that so many bytes of plain text can be.
    pub(crate) fn least(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.longest)
    }

    /// User text that cannot be mistaken for special tokens: wherever one begins, the mark stands behind its first
    /// character. `None`: it has none.
    pub(crate) fn defuse(&self, text: &str) -> Option<String> {
        let (mut changed, mut copied, mut from) = (String::new(), 0, 0);
        // Others may begin within one that was found, so the search goes on right behind its first character.
        while let Some(found) = self.special.find(Input::new(text).range(from..)) {
            let first = text[found.start()..].chars().next().map_or(1, char::len_utf8);
            from = found.start() + first;
            let steers = self.is_control[self.special_tokens[found.pattern().as_usize()] as usize];
            if found.len() > first || steers {
                changed.push_str(&text[copied..from]);
                changed.push(DEFUSED);
                copied = from;
            }
        }
        if copied == 0 {
            return None;
        }
        changed.push_str(&text[copied..]);
        Some(changed)
    }

    /// The tokens of a text in which special tokens count, if they are not more than `most`.
    pub(crate) fn tokens(&self, text: &str, most: usize, ended: &dyn Fn() -> bool) -> Result<Vec<u32>, Unread> {
        let mut reading = Reading { tokens: Vec::new(), most, ended, stopped: None };
        reading.tokens.extend(self.begin);
        let (mut from, mut first) = (0, true);
        for found in self.special.find_iter(text) {
            let rest = &text[found.end()..];
            // One character cannot be broken up: with the mark behind it, it is plain.
            if rest.starts_with(DEFUSED) && text[found.range()].chars().nth(1).is_none() {
                continue;
            }
            self.between(&text[from..found.start()], first, &mut reading);
            (from, first) = (found.end(), false);
            if !reading.goes_on() {
                break;
            }
            let token = self.special_tokens[found.pattern().as_usize()];
            // A template that writes the beginning itself does not get a second one.
            if !(reading.tokens.len() == 1 && Some(token) == self.begin && reading.tokens[0] == token) {
                reading.tokens.push(token);
            }
        }
        self.between(&text[from..], first, &mut reading);
        reading.goes_on();
        reading.stopped.map_or(Ok(reading.tokens), Err)
    }

    /// Reads what stands between special tokens.
    fn between(&self, plain: &str, first: bool, reading: &mut Reading<'_>) {
        if plain.is_empty() || reading.stopped.is_some() {
            return;
        }
        match plain.contains(DEFUSED) {
            true => self.plain(&plain.replace(DEFUSED, ""), first, reading),
            false => self.plain(plain, first, reading),
        }
    }

    fn plain(&self, text: &str, first: bool, reading: &mut Reading<'_>) {
        match &self.kind {
            Kind::Pairs { rules, merges, singles, whole_words } => rules.split(text, |piece| {
                if !self.fits(piece.len(), reading) {
                    return;
                }
                if *whole_words && let Some(token) = self.find(piece.as_bytes()) {
                    reading.tokens.push(token);
                    return;
                }
                let symbols = piece.bytes().map(|byte| singles[usize::from(byte)]).collect();
                let merge = |left: u32, right: u32| merges.get(&(left, right)).copied();
                let Some(merged) = merged(symbols, merge, reading.ended) else {
                    reading.stopped = Some(Unread::Ended);
                    return;
                };
                reading.tokens.extend(merged.into_iter().filter(|token| *token != UNKNOWN));
            }),
            Kind::Pieces { scores, bytes, space_first } => {
                if !self.fits(text.len(), reading) {
                    return;
                }
                let text = if *space_first && first { format!(" {text}") } else { text.to_owned() };
                if self.pieces(&text, scores, bytes, reading).is_none() {
                    reading.stopped = Some(Unread::Ended);
                }
            }
        }
    }

    /// Whether so many more bytes can still be few enough tokens.
    fn fits(&self, bytes: usize, reading: &mut Reading<'_>) -> bool {
        if reading.stopped.is_none() && reading.tokens.len() + self.least(bytes) > reading.most {
            reading.stopped = Some(Unread::TooLong);
        }
        // A short piece is read sooner than the question whether to go on is answered.
        reading.stopped.is_none() && (bytes < LONG || reading.goes_on())
    }

    /// `None`: nobody waits any more.
    fn pieces(&self, text: &str, scores: &[f32], bytes: &[u32], reading: &mut Reading<'_>) -> Option<()> {
        // Characters without a token become bytes at the end; until then they stand for themselves, above all tokens.
        let known = self.bytes.len() as u32;
        let mut strangers = Vec::new();
        let mut buffer = [0; 4];
        let symbols = text
            .chars()
            .map(|c| {
                self.find(c.encode_utf8(&mut buffer).as_bytes()).unwrap_or_else(|| {
                    strangers.push(c);
                    known + strangers.len() as u32 - 1
                })
            })
            .collect();
        let merge = |left: u32, right: u32| {
            if left >= known || right >= known {
                return None;
            }
            let whole = self.find(&[self.bytes.get(left as usize), self.bytes.get(right as usize)].concat())?;
            // A higher score is a lower rank: the order of floats as whole numbers.
            let bits = (-scores[whole as usize]).to_bits();
            let rank = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            Some((rank, whole))
        };
        for token in merged(symbols, merge, reading.ended)? {
            match token.checked_sub(known) {
                None => reading.tokens.push(token),
                Some(nth) => {
                    let text = strangers[nth as usize].encode_utf8(&mut buffer).as_bytes();
                    let known = text.iter().map(|byte| bytes[usize::from(*byte)]);
                    reading.tokens.extend(known.filter(|token| *token != u32::MAX));
                }
            }
        }
        Some(())
    }
}

/// Merges neighbours, the lowest rank first, until nothing can be merged. `None`: `ended` said so.
fn merged(
    symbols: Vec<u32>,
    merge: impl Fn(u32, u32) -> Option<(u32, u32)>,
    ended: &dyn Fn() -> bool,
) -> Option<Vec<u32>> {
    const GONE: u32 = u32::MAX;
    let count = symbols.len();
    let mut symbols = symbols;
    let mut next: Vec<usize> = (1..=count).collect();
    let mut before: Vec<usize> = (0..count).map(|at| at.wrapping_sub(1)).collect();
    let mut queue: BinaryHeap<Candidate> = BinaryHeap::with_capacity(count);
    let offer = |queue: &mut BinaryHeap<Candidate>, symbols: &[u32], left: usize, right: usize| {
        if left < count
            && right < count
            && let Some((rank, _)) = merge(symbols[left], symbols[right])
        {
            queue.push(Reverse((rank, left, right, symbols[left] ^ symbols[right].rotate_left(16))));
        }
    };
    for left in 0..count.saturating_sub(1) {
        offer(&mut queue, &symbols, left, left + 1);
    }
    let mut until_asked = LONG;
    while let Some(Reverse((rank, left, right, mark))) = queue.pop() {
        until_asked -= 1;
        if until_asked == 0 {
            if ended() {
                return None;
            }
            until_asked = LONG;
        }
        // What was merged meanwhile no longer looks as it did.
        if symbols[left] == GONE
            || symbols[right] == GONE
            || next[left] != right
            || symbols[left] ^ symbols[right].rotate_left(16) != mark
        {
            continue;
        }
        let Some((now, whole)) = merge(symbols[left], symbols[right]) else { continue };
        if now != rank {
            continue;
        }
        symbols[left] = whole;
        symbols[right] = GONE;
        next[left] = next[right];
        if next[left] < count {
            before[next[left]] = left;
        }
        offer(&mut queue, &symbols, before[left], left);
        offer(&mut queue, &symbols, left, next[left]);
    }
    symbols.retain(|symbol| *symbol != GONE);
    Some(symbols)
}

/// Bytes of a text in which every byte is written as a printable character.
fn byte_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut buffer = [0; 4];
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
        }
    }
    bytes
}

/// GPT-2 writes printable bytes as themselves and the others, in order, from U+0100 on.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

fn hex_byte(text: &str) -> Option<u8> {
    u8::from_str_radix(text.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character_of_its_own() {
        let mut found: Vec<u8> = (0x21..0x144).filter_map(char::from_u32).filter_map(byte_of).collect();
        found.sort_unstable();
        assert_eq!(found, (0..=u8::MAX).collect::<Vec<_>>());
    }

    #[test]
    fn the_lowest_rank_is_merged_first() {
        // 1+2 = 3 (rank 5), 2+2 = 4 (rank 1), 1+4 = 5 (rank 2)
        let merge = |left, right| match (left, right) {
            (1, 2) => Some((5, 3)),
            (2, 2) => Some((1, 4)),
            (1, 4) => Some((2, 5)),
            _ => None,
        };
        let merged = |symbols| merged(symbols, merge, &|| false).unwrap();
        assert_eq!(merged(vec![1, 2, 2]), [5]);
        assert_eq!(merged(vec![1, 2, 1]), [3, 1]);
        assert_eq!(merged(vec![2, 2, 2, 2]), [4, 4]);
        assert_eq!(merged(Vec::new()), Vec::<u32>::new());
    }
}
