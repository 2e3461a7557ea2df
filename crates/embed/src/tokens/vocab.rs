//! Pieces of text with their numbers, in as little room as they need: a vocabulary has a quarter of a million.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// See the module.
pub(crate) struct Vocab {
    text: String,
    /// Where each piece ends.
    ends: Vec<u32>,
    by_text: HashTable<u32>,
    /// Characters of the longest piece.
    pub(crate) longest: usize,
}

impl Vocab {
    /// Pieces in the order of their ids; of two that are the same, the first counts.
    pub(crate) fn new<'a>(pieces: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut vocab = Self { text: String::new(), ends: Vec::new(), by_text: HashTable::new(), longest: 0 };
        for piece in pieces {
            vocab.text.push_str(piece);
            vocab.ends.push(u32::try_from(vocab.text.len()).map_err(|_| "its vocabulary is too large")?);
            vocab.longest = vocab.longest.max(piece.chars().count());
        }
        vocab.text.shrink_to_fit();
        vocab.ends.shrink_to_fit();
        let mut by_text = HashTable::with_capacity(vocab.ends.len());
        for id in 0..u32::try_from(vocab.ends.len()).map_err(|_| "its vocabulary is too large")? {
            let piece = vocab.piece(id);
            let hash = xxh3_64(piece.as_bytes());
            if by_text.find(hash, |known| vocab.piece(*known) == piece).is_none() {
                by_text.insert_unique(hash, id, |known| xxh3_64(vocab.piece(*known).as_bytes()));
            }
        }
        vocab.by_text = by_text;
        Ok(vocab)
    }

    fn piece(&self, id: u32) -> &str {
        let id = id as usize;
        let from = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        &self.text[from..self.ends[id] as usize]
    }

    /// The id of a piece.
    pub(crate) fn find(&self, piece: &str) -> Option<u32> {
        self.by_text.find(xxh3_64(piece.as_bytes()), |id| self.piece(*id) == piece).copied()
    }
}
