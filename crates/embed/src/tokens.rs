//! Text to token ids, as `tokenizer.json` says: pieces with scores (SentencePiece's unigram model, as multilingual models
//! have it), or WordPiece (as English BERT has it).

mod normalise;
mod unigram;
mod vocab;
mod wordpiece;

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Error;
use normalise::CharsMap;
use unigram::Unigram;
use vocab::Vocab;
use wordpiece::WordPiece;

/// Characters of a text that are looked at, for each token that the model takes.
const CHARS_PER_TOKEN: usize = 8;

#[derive(Deserialize)]
struct Form<'a> {
    #[serde(default, borrow)]
    normalizer: Option<&'a RawValue>,
    #[serde(borrow)]
    model: &'a RawValue,
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct UnigramForm<'a> {
    #[serde(borrow)]
    vocab: Vec<(Cow<'a, str>, f32)>,
    unk_id: Option<u32>,
}

#[derive(Deserialize)]
struct WordPieceForm {
    vocab: std::collections::HashMap<String, u32>,
    unk_token: String,
    #[serde(default = "continuing")]
    continuing_subword_prefix: String,
}

fn continuing() -> String {
    "##".to_owned()
}

#[derive(Deserialize)]
struct NormalizerForm {
    #[serde(default)]
    normalizers: Vec<NormalizerForm>,
    #[serde(default)]
    precompiled_charsmap: Option<String>,
    #[serde(default)]
    lowercase: Option<bool>,
    #[serde(default)]
    strip_accents: Option<bool>,
}

impl NormalizerForm {
    /// This one and those in it.
    fn find<T>(&self, ask: &impl Fn(&Self) -> Option<T>) -> Option<T> {
        ask(self).or_else(|| self.normalizers.iter().find_map(|inner| inner.find(ask)))
    }
}

enum Model {
    Unigram(Unigram),
    WordPiece(WordPiece),
}

/// See the module.
pub(crate) struct Tokenizer {
    model: Model,
    first: u32,
    last: u32,
}

impl Tokenizer {
    pub(crate) fn open(file: &Path) -> Result<Self, Error> {
        let failed = |what: String| Error::Model { file: file.to_owned(), what };
        let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
        Self::read(&text).map_err(failed)
    }

    fn read(text: &str) -> Result<Self, String> {
        let said = |error: serde_json::Error| error.to_string();
        let form: Form<'_> = serde_json::from_str(text).map_err(said)?;
        let normalizer: Option<NormalizerForm> =
            form.normalizer.map(|raw| serde_json::from_str(raw.get())).transpose().map_err(said)?.flatten();
        let kind: Kind = serde_json::from_str(form.model.get()).map_err(said)?;
        let special = |names: [&str; 2]| {
            let found = form.added_tokens.iter().find(|token| names.contains(&token.content.as_str()));
            found.map(|token| token.id).ok_or_else(|| format!("the special token {} is missing", names[0]))
        };
        let (first, last) = (special(["<s>", "[CLS]"])?, special(["</s>", "[SEP]"])?);
        let model = match kind.kind.as_deref() {
            Some("Unigram") => {
                let form: UnigramForm<'_> = serde_json::from_str(form.model.get()).map_err(said)?;
                let map = normalizer.as_ref().and_then(|all| all.find(&|one| one.precompiled_charsmap.clone()));
                let map = map.map(|map| CharsMap::read(&map)).transpose()?;
                let (pieces, scores): (Vec<_>, Vec<_>) = form.vocab.into_iter().unzip();
                let unknown = form.unk_id.ok_or("it names no token for unknown text")?;
                Model::Unigram(Unigram::new(Vocab::new(pieces.iter().map(AsRef::as_ref))?, scores, unknown, map))
            }
            Some("WordPiece") => {
                let form: WordPieceForm = serde_json::from_str(form.model.get()).map_err(said)?;
                let lower = normalizer.as_ref().and_then(|all| all.find(&|one| one.lowercase)).unwrap_or(true);
                let bare = normalizer.as_ref().and_then(|all| all.find(&|one| one.strip_accents)).unwrap_or(lower);
                let mut pieces: Vec<(String, u32)> = form.vocab.into_iter().collect();
                pieces.sort_unstable_by_key(|(_, id)| *id);
                if !pieces.iter().zip(0..).all(|((_, id), at)| *id == at) {
                    return Err("its token ids have gaps".to_owned());
                }
                let vocab = Vocab::new(pieces.iter().map(|(piece, _)| piece.as_str()))?;
                let unknown = vocab.find(&form.unk_token).ok_or("it names no token for unknown text")?;
                Model::WordPiece(WordPiece::new(vocab, unknown, form.continuing_subword_prefix, lower, bare))
            }
            other => {
                let other = other.unwrap_or("none");
                return Err(format!("its model is of kind {other}; Unigram and WordPiece are known"));
            }
        };
        Ok(Self { model, first, last })
    }

    /// At most `longest` ids, the special ones at both ends included.
    pub(crate) fn encode(&self, text: &str, longest: usize) -> Vec<u32> {
        let end = text.char_indices().nth(longest * CHARS_PER_TOKEN).map_or(text.len(), |(at, _)| at);
        let mut ids = vec![self.first];
        match &self.model {
            Model::Unigram(model) => model.encode(&text[..end], &mut ids),
            Model::WordPiece(model) => model.encode(&text[..end], &mut ids),
        }
        ids.truncate(longest.saturating_sub(1));
        ids.push(self.last);
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// "Ａ" is "A" and "①" is "1" to this map: the array of `normalise`'s own test.
    fn unigram() -> Tokenizer {
        let text = serde_json::json!({
            "added_tokens": [{"id": 0, "content": "<s>"}, {"id": 1, "content": "</s>"}, {"id": 2, "content": "<unk>"}],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": normalise::tests::map()},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
            "model": {"type": "Unigram", "unk_id": 2, "vocab": [
                ["<s>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -3.0], ["▁un", -2.0], ["known", -2.5], ["▁unknown", -6.0],
                ["k", -9.0], ["now", -9.0], ["n", -9.0], ["A", -4.0], ["日本", -3.0], ["日", -5.0], ["本", -5.0]]},
        });
        Tokenizer::read(&text.to_string()).unwrap()
    }

    fn wordpiece() -> Tokenizer {
        let vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##known", "cafe", "!", "日", "the"];
        let vocab: serde_json::Map<_, _> =
            vocab.iter().zip(0..).map(|(piece, id)| ((*piece).to_owned(), id.into())).collect();
        let text = serde_json::json!({
            "added_tokens": [{"id": 2, "content": "[CLS]"}, {"id": 3, "content": "[SEP]"}],
            "normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocab},
        });
        Tokenizer::read(&text.to_string()).unwrap()
    }

    #[test]
    fn the_best_sum_of_pieces_wins() {
        let tokens = unigram();
        assert_eq!(tokens.encode("  unknown  日本", 99), [0, 4, 5, 3, 11, 1]);
        assert_eq!(tokens.encode("Ａ", 99), [0, 3, 10, 1]);
        // Unknown characters beside each other are one token.
        assert_eq!(tokens.encode("зъ日", 99), [0, 3, 2, 12, 1]);
        assert_eq!(tokens.encode("", 99), [0, 1]);
        assert_eq!(tokens.encode("unknown unknown", 4), [0, 4, 5, 1]);
    }

    #[test]
    fn words_are_cut_from_the_left() {
        let tokens = wordpiece();
        assert_eq!(tokens.encode("The UNKNOWN café! 日\u{200b}", 99), [2, 9, 4, 5, 6, 7, 8, 3]);
        assert_eq!(tokens.encode("unknownx", 99), [2, 1, 3]);
        assert_eq!(tokens.encode(&"un".repeat(80), 99), [2, 1, 3]);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let with = |model: serde_json::Value| {
            let tokens =
                [serde_json::json!({"id": 0, "content": "<s>"}), serde_json::json!({"id": 1, "content": "</s>"})];
            Tokenizer::read(&serde_json::json!({"added_tokens": tokens, "model": model}).to_string()).err().unwrap()
        };
        assert!(with(serde_json::json!({"type": "BPE", "vocab": {}, "merges": []})).contains("BPE"));
        assert!(with(serde_json::json!({"type": "Unigram", "vocab": [["a", 0.0]]})).contains("unknown text"));
        assert!(Tokenizer::read(r#"{"model":{"type":"Unigram"}}"#).err().unwrap().contains("<s>"));
        assert!(Tokenizer::read("[]").is_err());
    }

    proptest! {
        #[test]
        fn every_text_has_tokens_and_not_too_many(text in "\\PC{0,200}", longest in 2..40_usize) {
            for tokens in [unigram(), wordpiece()] {
                let ids = tokens.encode(&text, longest);
                prop_assert!(ids.len() >= 2 && ids.len() <= longest);
            }
        }
    }
}
