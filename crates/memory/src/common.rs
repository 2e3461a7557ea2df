//! What a model's vectors have in common, and how near a question must be to a memory for it to be an answer.
//!
//! A model's cosines of unlike things are near those of like things, nearer in one language than across two, and in another
//! place for questions than for what is told. So what the vectors of a language have in common is taken from them, from
//! those of questions and from those of passages each their own. And whether a question is answered at all is measured by
//! questions that no memory answers: how near these come to a store's memories is its bar.

use embed::{Embedder, Side, Vector, dot};
use store::WindowVector;

use crate::Result;

/// What being asked as only memory can be asked counts beside being near a memory.
const OWN: f32 = 0.3;
/// The share of the questions without an answer that a question must lead.
const LEADS: f32 = 0.85;
/// The same where commonplaces are all the memories: the least bar, for stores of a few things.
const LEADS_LITTLE: f32 = 0.5;
/// Texts that are turned into vectors at once.
const AT_ONCE: usize = 32;
/// Blocks of a language in `asked.txt`.
const BLOCKS: usize = 3;

/// Blocks of lines of a file.
fn blocks(file: &'static str) -> Vec<Vec<&'static str>> {
    let lines = |block: &'static str| block.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
    file.split("\n\n").map(lines).filter(|lines| !lines.is_empty()).collect()
}

/// Sentences that answer nothing, a language a block.
fn commonplaces() -> Vec<Vec<&'static str>> {
    blocks(include_str!("commonplace.txt"))
}

/// What is asked by language: what no memory answers, and what only memory does.
fn asked() -> Vec<[Vec<&'static str>; 2]> {
    let of = |blocks: &[Vec<&'static str>]| match blocks {
        [general, own @ ..] => [general.clone(), own.concat()],
        [] => [Vec::new(), Vec::new()],
    };
    blocks(include_str!("asked.txt")).chunks(BLOCKS).map(of).collect()
}

/// A sentence that every model can take.
pub(crate) fn plain() -> String {
    commonplaces().concat().first().map_or_else(String::new, |line| (*line).to_owned())
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Common {
    /// Of passages, by language.
    told: Vec<Vec<f32>>,
    /// Of questions, by language.
    asked: Vec<Vec<f32>>,
    /// From the questions that no memory answers to those that only memory answers.
    own: Vec<f32>,
    /// The former, with how far each leans towards the latter.
    general: Vec<Question>,
    /// How near they come to commonplaces.
    least: Vec<f32>,
}

/// What is left of a question's vector.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) vector: Vector,
    /// What it has for being asked as only memory can be asked.
    pub(crate) lean: f32,
}

/// How near questions that no memory answers come to some memories.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usual(Vec<f32>);

impl Usual {
    pub(crate) fn add(&mut self, more: &Self) {
        self.0.resize(self.0.len().max(more.0.len()), f32::NEG_INFINITY);
        self.0.iter_mut().zip(&more.0).for_each(|(most, near)| *most = most.max(*near));
    }
}

/// The number that leads `share` of the others.
fn leading(numbers: &[f32], share: f32) -> f32 {
    let mut numbers = numbers.to_vec();
    numbers.sort_by(f32::total_cmp);
    let at = ((numbers.len() as f32 * share) as usize).min(numbers.len().saturating_sub(1));
    numbers.get(at).copied().unwrap_or(f32::NEG_INFINITY)
}

/// The mean of vectors.
fn mean<'a>(vectors: impl ExactSizeIterator<Item = &'a Vector>) -> Vec<f32> {
    let count = vectors.len().max(1) as f32;
    let mut centre = Vec::new();
    for vector in vectors {
        centre.resize(vector.numbers().len(), 0.0);
        centre.iter_mut().zip(vector.numbers()).for_each(|(sum, x)| *sum += x / count);
    }
    centre
}

/// A vector without what those of its language have in common: the language whose centre is nearest.
fn leave(vector: &Vector, centres: &[Vec<f32>]) -> Vector {
    let apart =
        |centre: &&Vec<f32>| -> f32 { centre.iter().zip(vector.numbers()).map(|(c, x)| (x - c) * (x - c)).sum() };
    match centres.iter().min_by(|a, b| apart(a).total_cmp(&apart(b))) {
        Some(centre) if centre.len() == vector.numbers().len() => {
            Vector::of(vector.numbers().iter().zip(centre).map(|(x, c)| x - c).collect())
        }
        _ => vector.clone(),
    }
}

impl Common {
    /// Of what [`Common::made`] made, or [`Common::unpacked`] found.
    fn new(vectors: &[Vector]) -> Self {
        let mut left = vectors;
        let mut take = |count: usize| {
            let (of, after) = left.split_at(count.min(left.len()));
            left = after;
            of
        };
        let told: Vec<&[Vector]> = commonplaces().iter().map(|block| take(block.len())).collect();
        let asks: Vec<[&[Vector]; 2]> = asked().iter().map(|[a, b]| [take(a.len()), take(b.len())]).collect();
        let centre = |[general, own]: &[&[Vector]; 2]| {
            let both = mean(general.iter()).into_iter().zip(mean(own.iter()));
            both.map(|(a, b)| f32::midpoint(a, b)).collect()
        };
        let mut common = Self {
            told: told.iter().map(|block| mean(block.iter())).collect(),
            asked: asks.iter().map(centre).collect(),
            own: Vec::new(),
            general: Vec::new(),
            least: Vec::new(),
        };
        let ends = [0, 1].map(|end| {
            let of = asks.iter().filter_map(|blocks| blocks.get(end)).flat_map(|block| block.iter());
            let left: Vec<Vector> = of.map(|vector| leave(vector, &common.asked)).collect();
            mean(left.iter())
        });
        let [general, own] = &ends;
        common.own =
            Vector::of(own.iter().zip(general).map(|(own, general)| own - general).collect()).numbers().to_vec();
        let of = asks.iter().flat_map(|[general, _]| general.iter());
        common.general = of.map(|vector| common.question(vector)).collect();
        let rest: Vec<Vector> = told.iter().flat_map(|block| block.iter()).map(|v| common.passage(v)).collect();
        let nearest = |question: &Question| rest.iter().map(|v| dot(&question.vector, v)).fold(-1.0, f32::max);
        common.least = common.general.iter().map(|question| nearest(question) + question.lean).collect();
        common
    }

    pub(crate) fn width(&self) -> usize {
        self.told.first().map_or(0, Vec::len)
    }

    /// A passage without what passages have in common.
    pub(crate) fn passage(&self, vector: &Vector) -> Vector {
        leave(vector, &self.told)
    }

    /// A question without what questions have in common.
    pub(crate) fn question(&self, vector: &Vector) -> Question {
        let vector = leave(vector, &self.asked);
        let lean = OWN * vector.numbers().iter().zip(&self.own).map(|(x, own)| x * own).sum::<f32>();
        Question { vector, lean }
    }

    /// How near questions that no memory answers come to these vectors.
    pub(crate) fn usual(&self, vectors: &[&WindowVector]) -> Usual {
        let nearest = |question: &Question| {
            let near = vectors.iter().filter_map(|vector| question.vector.near(&vector.data));
            near.fold(f32::NEG_INFINITY, f32::max) + question.lean
        };
        Usual(self.general.iter().map(nearest).collect())
    }

    /// How near a question must be to one of the memories that have this in common.
    pub(crate) fn bar(&self, usual: &Usual) -> f32 {
        leading(&usual.0, LEADS).max(leading(&self.least, LEADS_LITTLE)).max(f32::EPSILON)
    }

    /// Of a model, with its vectors in one piece.
    pub(crate) async fn made(embedder: &dyn Embedder) -> Result<(Self, Vec<u8>)> {
        let (told, asked) = texts();
        let mut vectors = Vec::with_capacity(told.len() + asked.len());
        for (side, texts) in [(Side::Passage, &told), (Side::Query, &asked)] {
            for some in texts.chunks(AT_ONCE) {
                vectors.extend(embedder.embed(side, some).await?);
            }
        }
        Ok((Self::new(&vectors), pack(&vectors)))
    }

    /// Of what [`Common::made`] gave, if it was made of the same texts.
    pub(crate) fn unpacked(packed: &[u8]) -> Option<Self> {
        let (hash, mut rest) = packed.split_first_chunk::<8>()?;
        let mut vectors = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (data, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
            vectors.push(Vector::unpacked(data)?);
            rest = after;
        }
        let (told, asked) = texts();
        (u64::from_le_bytes(*hash) == texts_hash() && vectors.len() == told.len() + asked.len())
            .then(|| Self::new(&vectors))
    }
}

/// What is turned into vectors: passages, and questions.
fn texts() -> (Vec<String>, Vec<String>) {
    let owned = |lines: Vec<&str>| lines.into_iter().map(str::to_owned).collect();
    (owned(commonplaces().concat()), owned(asked().concat().concat()))
}

fn texts_hash() -> u64 {
    let (told, asked) = texts();
    xxhash_rust::xxh3::xxh3_64([told, asked].concat().join("\n").as_bytes())
}

/// Vectors in one piece, behind a hash of their texts.
fn pack(vectors: &[Vector]) -> Vec<u8> {
    let mut packed = texts_hash().to_le_bytes().to_vec();
    for data in vectors.iter().map(Vector::packed) {
        packed.extend(u32::try_from(data.len()).unwrap_or_default().to_le_bytes());
        packed.extend(data);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many languages, each with what it needs, and no line twice.
    #[test]
    fn every_language_has_its_lines() {
        let (told, asked) = (commonplaces(), asked());
        assert_eq!((told.len(), asked.len()), (3, 3));
        assert!(told.iter().all(|block| block.len() == told[0].len()));
        for [general, own] in &asked {
            assert!(general.len() > 30 && own.len() > 20, "{general:?} {own:?}");
        }
        let (told, asked) = texts();
        let mut lines = [told, asked].concat();
        let count = lines.len();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), count);
    }

    /// A made-up model: a language is a direction, asking is one, asking for one's own is one, and what a line is about is one
    /// of its own.
    fn common() -> Common {
        let mut vectors = Vec::new();
        let mut line = |language: usize, asking: f32, own: f32| {
            let mut numbers = vec![0.0; 400];
            (numbers[language], numbers[3], numbers[4]) = (3.0, asking, own);
            numbers[5 + vectors.len()] = 1.0;
            vectors.push(Vector::of(numbers));
        };
        for (language, block) in commonplaces().iter().enumerate() {
            block.iter().for_each(|_| line(language, 0.0, 0.0));
        }
        for (language, [general, own]) in asked().iter().enumerate() {
            general.iter().for_each(|_| line(language, 2.0, 0.0));
            own.iter().for_each(|_| line(language, 2.0, 1.0));
        }
        Common::new(&vectors)
    }

    fn vector(language: usize, asking: f32, own: f32, about: usize) -> Vector {
        let mut numbers = vec![0.0; 400];
        (numbers[language], numbers[3], numbers[4], numbers[about]) = (3.0, asking, own, 1.0);
        Vector::of(numbers)
    }

    #[test]
    fn languages_do_not_stand_between_a_question_and_its_answer() {
        let common = common();
        let passages = [vector(0, 0.0, 0.0, 398), vector(1, 0.0, 0.0, 399)].map(|v| common.passage(&v));
        for language in 0..3 {
            let question = common.question(&vector(language, 2.0, 1.0, 398));
            let near = passages.each_ref().map(|passage| dot(&question.vector, passage));
            assert!(near[0] > 0.7 && near[1] < 0.2, "{near:?}");
        }
    }

    #[test]
    fn what_only_memory_can_answer_leans_to_it() {
        let common = common();
        let lean = |own| common.question(&vector(2, 2.0, own, 399)).lean;
        assert!(lean(1.0) > 0.0 && lean(0.0) < 0.0, "{} {}", lean(1.0), lean(0.0));
    }

    #[test]
    fn the_bar_is_what_most_questions_without_an_answer_do_not_reach() {
        let common = common();
        let least = common.bar(&Usual::default());
        assert!(least > 0.0);
        let memory = |near: &Vector| WindowVector { window: 1, scope: 1, data: near.packed() };
        // A store in which each of them finds something near.
        let all: Vec<WindowVector> = common.general.iter().map(|question| memory(&question.vector)).collect();
        let (some, rest) = all.split_at(all.len() / 20);
        let mut usual = common.usual(&some.iter().collect::<Vec<_>>());
        assert!(common.bar(&usual) < 0.5, "few of them raise it");
        usual.add(&common.usual(&rest.iter().collect::<Vec<_>>()));
        assert!(common.bar(&usual) > 0.5, "all of them do");
    }

    #[test]
    fn what_was_made_of_other_texts_is_made_anew() {
        let vectors: Vec<Vector> = (0..texts().0.len() + texts().1.len()).map(|n| vector(0, 0.0, 0.0, 5 + n)).collect();
        let packed = pack(&vectors);
        assert!(Common::unpacked(&packed).is_some());
        assert!(Common::unpacked(&packed[..packed.len() - 1]).is_none());
        let mut other = packed;
        other[0] ^= 1;
        assert!(Common::unpacked(&other).is_none() && Common::unpacked(&[]).is_none());
    }
}
