//! One row of the inverted index: which windows of a chunk have a term, and how much it says there. A posting is the
//! distance to the window before it as a varint, then its impact as one byte.

/// Window numbers that share a row of the index.
pub const CHUNK: i64 = 1 << 14;

/// A window that has a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// Place within the chunk, below [`CHUNK`].
    pub place: u16,
    /// How much the term says there: 255 is saturated.
    pub impact: u8,
}

/// Reads a row; stops at what it cannot read.
pub fn decode(data: &[u8], mut each: impl FnMut(Posting)) {
    let mut place = 0u16;
    let mut at = 0;
    while let Some(first) = data.get(at) {
        let mut step = u16::from(first & 0x7f);
        at += 1;
        if first & 0x80 != 0 {
            let Some(second) = data.get(at) else { return };
            step |= u16::from(*second) << 7;
            at += 1;
        }
        let Some(impact) = data.get(at) else { return };
        at += 1;
        place = place.wrapping_add(step);
        each(Posting { place, impact: *impact });
    }
}

/// Writes postings, which rise by place.
pub fn encode(postings: &[Posting]) -> Vec<u8> {
    let mut data = Vec::with_capacity(postings.len() * 3);
    let mut before = 0;
    for posting in postings {
        let step = posting.place - before;
        before = posting.place;
        let low = (step & 0x7f) as u8;
        if step < 0x80 {
            data.push(low);
        } else {
            data.extend([low | 0x80, (step >> 7) as u8]);
        }
        data.push(posting.impact);
    }
    data
}

/// Adds and takes away; the result rises by place.
pub(super) fn merge(data: &[u8], add: &[Posting], remove: &[u16]) -> Vec<Posting> {
    let mut all = Vec::with_capacity(data.len() / 2 + add.len());
    decode(data, |posting| all.push(posting));
    all.extend_from_slice(add);
    all.sort_by_key(|posting| posting.place);
    all.dedup_by_key(|posting| posting.place);
    all.retain(|posting| !remove.contains(&posting.place));
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn postings_come_back_as_they_went_in(places in proptest::collection::btree_map(0u16..16384, 0u8.., 0..200)) {
            let postings: Vec<_> = places.into_iter().map(|(place, impact)| Posting { place, impact }).collect();
            let mut back = Vec::new();
            decode(&encode(&postings), |p| back.push(p));
            prop_assert_eq!(back, postings);
        }

        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(0u8.., 0..100)) {
            decode(&data, |_| ());
        }
    }

    #[test]
    fn merging_adds_in_order_and_takes_away() {
        let p = |place, impact| Posting { place, impact };
        let first = encode(&[p(3, 9), p(400, 1)]);
        assert_eq!(merge(&first, &[p(7, 2)], &[3]), [p(7, 2), p(400, 1)]);
    }
}
