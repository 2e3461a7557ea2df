//! The nearest key to a wrong one, for "did you mean".

use crate::table::rows;

/// The key, or the section of keys, that was probably meant.
pub(crate) fn nearest(path: &str) -> Option<&'static str> {
    let asked = path.to_ascii_lowercase().replace('-', "_");
    let leaf = leaf_of(&asked);
    let mut best: Option<(usize, &'static str)> = None;
    for row in rows() {
        let known = row.key.path;
        let whole = distance(&asked, known);
        // The right name in the wrong section, e.g. a top-level `api_key`.
        let moved = (leaf_of(known) == leaf && leaf.len() > 3).then_some(2);
        let score = moved.map_or(whole, |moved| whole.min(moved + usize::from(!known.starts_with("llm."))));
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, known));
        }
        for (dot, _) in known.match_indices('.') {
            let section = &known[..dot];
            let score = distance(&asked, section);
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, section));
            }
        }
    }
    best.filter(|(score, known)| *score <= (known.len() / 3).clamp(1, 4)).map(|(_, known)| known)
}

/// The nearest of some words.
pub(crate) fn nearest_of<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    let word = word.to_ascii_lowercase();
    words
        .iter()
        .map(|known| (distance(&word, known), *known))
        .min()
        .filter(|(score, known)| *score <= (known.len() / 3).max(1))
        .map(|(_, known)| known)
}

fn leaf_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Edits between two words (insert, remove, replace, swap of neighbours).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(80).collect();
    let b: Vec<char> = b.chars().take(80).collect();
    let width = b.len() + 1;
    let mut table = vec![0; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = table[(i - 1) * width + j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(table[(i - 1) * width + j] + 1).min(table[i * width + j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(table[(i - 2) * width + j - 2] + 1);
                }
                least
            };
        }
    }
    table[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn keys_and_sections_are_suggested() {
        assert_eq!(nearest("skills.topk"), Some("skills.top_k"));
        assert_eq!(nearest("proxi"), Some("proxy"));
        assert_eq!(nearest("scheduler.calender"), Some("scheduler.calendar"));
        assert_eq!(nearest("entirely.different"), None);
    }
}
