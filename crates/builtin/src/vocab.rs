//! From text to tokens and back, by the vocabulary in the model's file. Two kinds: byte pairs with ranked merges (GPT-2,
//! Llama 3, Qwen, SmolLM) and pieces with scores (Llama 1 and 2).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// See the module.
#[derive(Debug)]
pub(crate) struct Vocab {
    /// What each token says, in bytes.
    bytes: Texts,
    by_bytes: HashTable<u32>,
    kind: Kind,
    /// Tokens that are read and never spoken, or written as a whole: longest first.
    special: Vec<(String, u32)>,
    is_control: Vec<bool>,
    begin: Option<u32>,
    /// Tokens that end an answer.
    pub(crate) ends: Vec<u32>,
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
        special.sort_by_key(|(text, _)| Reverse(text.len()));
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
        Ok(Self { bytes, by_bytes, kind, special, is_control, begin, ends })
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

    /// User text that cannot be mistaken for special tokens. `None`: it has none.
    pub(crate) fn defuse(&self, text: &str) -> Option<String> {
        let mut changed: Option<String> = None;
        for (special, _) in &self.special {
            let now = changed.as_deref().unwrap_or(text);
            if !now.contains(special.as_str()) {
                continue;
            }
            let mut letters = special.chars();
            let first = letters.next().unwrap_or(DEFUSED);
            changed = Some(now.replace(special.as_str(), &format!("{first}{DEFUSED}{}", letters.as_str())));
        }
        changed
    }

    /// The tokens of a text in which special tokens count.
    pub(crate) fn tokens(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::with_capacity(text.len() / 3 + 8);
        tokens.extend(self.begin);
        let mut rest = text;
        let mut first = true;
        while !rest.is_empty() {
            let next = self.next_special(rest);
            let plain = &rest[..next.map_or(rest.len(), |(at, _, _)| at)];
            if !plain.is_empty() {
                match plain.contains(DEFUSED) {
                    true => self.plain(&plain.replace(DEFUSED, ""), first, &mut tokens),
                    false => self.plain(plain, first, &mut tokens),
                }
            }
            first = false;
            let Some((at, length, token)) = next else { break };
            // A template that writes the beginning itself does not get a second one.
            if !(tokens.len() == 1 && Some(token) == self.begin && tokens[0] == token) {
                tokens.push(token);
            }
            rest = &rest[at + length..];
        }
        tokens
    }

    /// The first special token in a text: where, how long, which.
    fn next_special(&self, text: &str) -> Option<(usize, usize, u32)> {
        let mut best: Option<(usize, usize, u32)> = None;
        for (special, token) in &self.special {
            // Only what begins before the best so far is of interest; equal beginnings go to the longer one.
            let end = best.map_or(text.len(), |(at, _, _)| text.len().min(at + special.len() - 1));
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
            if let Some(at) = text[..end].find(special.as_str())
                && best.is_none_or(|(before, _, _)| at < before)
            {
                best = Some((at, special.len(), *token));
            }
        }
        best
    }

    fn plain(&self, text: &str, first: bool, tokens: &mut Vec<u32>) {
        match &self.kind {
            Kind::Pairs { rules, merges, singles, whole_words } => rules.split(text, |piece| {
                if *whole_words && let Some(token) = self.find(piece.as_bytes()) {
                    tokens.push(token);
                    return;
                }
                let symbols = piece.bytes().map(|byte| singles[usize::from(byte)]).collect();
                let merge = |left: u32, right: u32| merges.get(&(left, right)).copied();
                tokens.extend(merged(symbols, merge).into_iter().filter(|token| *token != UNKNOWN));
            }),
            Kind::Pieces { scores, bytes, space_first } => {
                let text = if *space_first && first { format!(" {text}") } else { text.to_owned() };
                self.pieces(&text, scores, bytes, tokens);
            }
        }
    }

    fn pieces(&self, text: &str, scores: &[f32], bytes: &[u32], tokens: &mut Vec<u32>) {
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
        for token in merged(symbols, merge) {
            match token.checked_sub(known) {
                None => tokens.push(token),
                Some(nth) => {
                    let text = strangers[nth as usize].encode_utf8(&mut buffer).as_bytes();
                    tokens.extend(text.iter().map(|byte| bytes[usize::from(*byte)]).filter(|token| *token != u32::MAX));
                }
            }
        }
    }
}

/// Merges neighbours, the lowest rank first, until nothing can be merged.
fn merged(symbols: Vec<u32>, merge: impl Fn(u32, u32) -> Option<(u32, u32)>) -> Vec<u32> {
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
    while let Some(Reverse((rank, left, right, mark))) = queue.pop() {
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
    symbols
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
        assert_eq!(merged(vec![1, 2, 2], merge), [5]);
        assert_eq!(merged(vec![1, 2, 1], merge), [3, 1]);
        assert_eq!(merged(vec![2, 2, 2, 2], merge), [4, 4]);
        assert_eq!(merged(Vec::new(), merge), Vec::<u32>::new());
    }
}
