//! SentencePiece's precompiled map of characters: a double-array trie over UTF-8 keys, and the texts they become.
//! The form is that of `darts-clone`, which SentencePiece uses.

use base64::Engine as _;

/// See the module.
pub(crate) struct CharsMap {
    trie: Vec<u32>,
    texts: String,
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

impl CharsMap {
    /// The map as `tokenizer.json` has it: the trie's size in bytes, the trie, texts that end with a zero byte; in base64.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let wrong = || "its map of characters cannot be read".to_owned();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| wrong())?;
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
        let size = usize::try_from(u32::from_le_bytes(*size)).map_err(|_| wrong())?;
        let (trie, texts) = rest.split_at_checked(size).ok_or_else(wrong)?;
        let trie = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Ok(Self { trie, texts: String::from_utf8(texts.to_vec()).map_err(|_| wrong())? })
    }

    /// The longest key at the beginning of a text: its length, and what it becomes.
    fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let mut found = None;
        let mut at = offset(*self.trie.first()?);
        for (position, byte) in text.iter().enumerate() {
            at ^= usize::from(*byte);
            let Some(unit) = self.trie.get(at).copied() else { break };
            if unit & 0x8000_00ff != u32::from(*byte) {
                break;
            }
            at ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                let value = self.trie.get(at).copied()? & 0x7fff_ffff;
                found = Some((position + 1, value));
            }
        }
        let (length, value) = found?;
        let text = self.texts.get(usize::try_from(value).ok()?..)?;
        Some((length, text.split('\0').next().unwrap_or_default()))
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            // A key that ends inside a character is none.
            match self.longest(rest.as_bytes()).filter(|(length, _)| rest.is_char_boundary(*length)) {
                Some((length, becomes)) => {
                    out.push_str(becomes);
                    rest = &rest[length..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// "Ａ" → "A" and "①" → "1", written down as SentencePiece does.
    pub(crate) fn map() -> String {
        // A unit's number is the base of the place before it and its byte, exclusively or-ed; every place has a block of 256.
        let keys: [(&[u8], u32); 2] = [("Ａ".as_bytes(), 0), ("①".as_bytes(), 2)];
        let mut trie = vec![0u32; 256 * 8];
        let mut bases = 1usize;
        let mut base = || {
            bases += 1;
            (bases - 1) * 256
        };
        let root = base();
        trie[0] = (root as u32) << 10;
        for (key, value) in keys {
            let mut here = root;
            for (position, byte) in key.iter().enumerate() {
                let at = here ^ usize::from(*byte);
                let last = position + 1 == key.len();
                let next = base();
                trie[at] = ((at ^ next) as u32) << 10 | u32::from(last) << 8 | u32::from(*byte);
                here = next;
            }
            trie[here] = value | 1 << 31;
        }
        let mut bytes = u32::try_from(trie.len() * 4).unwrap().to_le_bytes().to_vec();
        bytes.extend(trie.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(b"A\x001\x00");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    #[test]
    fn keys_become_their_texts_and_the_rest_stays() {
        let map = CharsMap::read(&map()).unwrap();
        assert_eq!(map.apply("xＡ①Ｂ日"), "xA1Ｂ日");
    }

    #[test]
    fn damaged_maps_are_refused_or_harmless() {
        assert!(CharsMap::read("###").is_err());
        assert!(CharsMap::read(&base64::engine::general_purpose::STANDARD.encode([9, 0, 0, 0, 1])).is_err());
        let mut bytes = vec![16, 0, 0, 0];
        bytes.extend([0xff; 16]);
        let map = CharsMap::read(&base64::engine::general_purpose::STANDARD.encode(bytes)).unwrap();
        assert_eq!(map.apply("Ａ日 x"), "Ａ日 x");
    }
}
