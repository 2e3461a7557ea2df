//! The network: from tokens to the scores of the next one. Reads its shape and weights from a GGUF file.

use crate::attend::{Cache, Heads};
use crate::blocks::ROWS;
use crate::dot::Sums;
use crate::error::Fault;
use crate::gguf::{Gguf, Kind, Value};
use crate::half::rounded;
use crate::matrix::{Acts, Matrix, multiply};
use crate::wide::{Norm, Silu, wide};

/// Tokens that go through the network at once. Between two such batches, and between layers, a request can end.
pub(crate) const BATCH: usize = 64;

/// Largest width of a layer, and longest context: several times those of the largest models there are.
const WIDEST: usize = 1 << 18;
const LONGEST: usize = 1 << 22;
/// How many times as wide as a layer all its heads may be; in models in use it is once or twice.
const WIDER: usize = 4;

/// The family of a file's model, if it is one that is built here.
pub(crate) fn family(file: &Gguf) -> Result<String, Fault> {
    let family = file.text("general.architecture").ok_or_else(|| Fault::Missing("general.architecture".to_owned()))?;
    if !["llama", "qwen2", "qwen3"].contains(&family) {
        return Err(Fault::Architecture(family.to_owned()));
    }
    Ok(family.to_owned())
}

/// A network with its weights.
#[derive(Debug)]
pub(crate) struct Net {
    width: usize,
    inner: usize,
    heads: Heads,
    eps: f32,
    turn: Turn,
    /// Longest text it was trained on, in tokens.
    pub(crate) context: usize,
    /// Tokens it knows.
    pub(crate) vocabulary: usize,
    embedding: Matrix,
    /// The same as `embedding` in many models.
    output: Option<Matrix>,
    last_norm: Vec<f32>,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Vec<f32>,
    question: Matrix,
    key: Matrix,
    value: Matrix,
    biases: Option<Vec<f32>>,
    question_norm: Option<Vec<f32>>,
    key_norm: Option<Vec<f32>>,
    out: Matrix,
    inner_norm: Vec<f32>,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

/// How positions turn questions and keys.
#[derive(Debug)]
struct Turn {
    /// Pairs are the two halves of a head rather than neighbours.
    halves: bool,
    /// Pairs that turn.
    pairs: usize,
    /// From one pair to the next.
    factor: f32,
    scale: f32,
    /// Divides each pair's angle.
    divisors: Option<Vec<f32>>,
}

/// Room that a run through the network needs.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Vec<f32>,
    row: Vec<f32>,
    inner: Vec<f32>,
    up: Vec<f32>,
    sums: Vec<Sums>,
    acts: Acts,
    answers: Vec<f32>,
    angles: Vec<(f32, f32)>,
    logits: Vec<f32>,
}

impl Desk {
    /// The scores of the token that would come next.
    pub(crate) fn scores(&mut self) -> &mut [f32] {
        &mut self.logits
    }
}

fn floats(file: &mut Gguf, name: &str, length: usize) -> Result<Vec<f32>, Fault> {
    let (kind, bytes) = file.load(name, &[length])?;
    let halves = || bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    match kind {
        Kind::F32 => Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()),
        Kind::F16 => Ok(halves().map(crate::half::f32_of).collect()),
        Kind::Bf16 => Ok(halves().map(crate::half::f32_of_bf16).collect()),
        other => Err(Fault::Format { tensor: name.to_owned(), format: format!("{other:?}") }),
    }
}

impl Net {
    /// Reads a network out of a file.
    pub(crate) fn load(file: &mut Gguf) -> Result<Self, Fault> {
        let family = family(file)?;
        let optional = |file: &Gguf, key: &str| file.whole(&format!("{family}.{key}"));
        let needed = |file: &Gguf, key: &str| {
            let key = format!("{family}.{key}");
            file.whole(&key).filter(|number| *number > 0).ok_or(Fault::Missing(key))
        };
        if optional(file, "expert_count").is_some_and(|experts| experts > 0) {
            return Err(Fault::Unsupported("a mixture of experts".to_owned()));
        }
        let width = needed(file, "embedding_length")?;
        let asking = needed(file, "attention.head_count")?;
        let asked = optional(file, "attention.head_count_kv").unwrap_or(asking);
        let size = optional(file, "attention.key_length").unwrap_or(width / asking);
        let heads = Heads { asking, asked, size };
        if size == 0 || size % 32 != 0 || asked == 0 || asking % asked != 0 {
            return Err(Fault::Unsupported(format!("{asking} heads of {size} numbers that share {asked}")));
        }
        if optional(file, "attention.value_length").is_some_and(|value| value != size) {
            return Err(Fault::Unsupported("keys and values of different length".to_owned()));
        }
        let inner = needed(file, "feed_forward_length")?;
        let all = asking.saturating_mul(size);
        if let Some(widest) = [width, inner, all].into_iter().max().filter(|widest| *widest > WIDEST) {
            return Err(Fault::Damaged(format!("it claims layers of {widest} numbers")));
        }
        // Keys and values are kept for every position, so the file's length does not bound them; width does.
        if all > WIDER * width {
            return Err(Fault::Damaged(format!("it claims {asking} heads of {size} numbers in layers of {width}")));
        }
        let key = format!("{family}.attention.layer_norm_rms_epsilon");
        let eps = file.real(&key).ok_or(Fault::Missing(key))?;
        let vocabulary = match file.value("tokenizer.ggml.tokens") {
            Some(Value::Texts(texts)) => texts.len(),
            _ => return Err(Fault::Missing("tokenizer.ggml.tokens".to_owned())),
        };
        let turn = Turn::load(file, &family, size)?;
        let layers = needed(file, "block_count")?;
        let layer = |file: &mut Gguf, number: usize| Layer::load(file, number, width, inner, heads);
        let layers = (0..layers).map(|number| layer(file, number)).collect::<Result<Vec<_>, _>>()?;
        let output = match file.tensor("output.weight") {
            Some(_) => Some(Matrix::load(file, "output.weight", vocabulary, width)?),
            None => None,
        };
        Ok(Self {
            width,
            inner,
            heads,
            eps,
            turn,
            context: optional(file, "context_length").unwrap_or(2048).min(LONGEST),
            vocabulary,
            embedding: Matrix::load(file, "token_embd.weight", vocabulary, width)?,
            output,
            last_norm: floats(file, "output_norm.weight", width)?,
            layers,
        })
    }

    /// An empty cache for it.
    pub(crate) fn cache(&self) -> Cache {
        Cache::new(self.heads, self.layers.len())
    }

    /// Runs up to [`BATCH`] tokens behind those of the cache through the network and leaves the scores of the token that
    /// would come next on the desk. `None`: `ended` said so; the cache is as before.
    pub(crate) fn run(
        &self,
        tokens: &[u32],
        cache: &mut Cache,
        desk: &mut Desk,
        wants_scores: bool,
        ended: &dyn Fn() -> bool,
    ) -> Option<()> {
        let width = self.width;
        desk.state.resize(tokens.len() * width, 0.0);
        for (token, state) in tokens.iter().zip(desk.state.chunks_exact_mut(width)) {
            self.embedding.row(*token as usize, state);
        }
        self.turn.angles(cache.len(), tokens.len(), &mut desk.angles);
        for (number, layer) in self.layers.iter().enumerate() {
            if ended() {
                return None;
            }
            self.attention(number, layer, cache, desk);
            self.feed_forward(layer, desk);
        }
        cache.advance(tokens.len());
        if !wants_scores {
            return Some(());
        }
        desk.row.clear();
        desk.row.extend_from_slice(&desk.state[(tokens.len() - 1) * width..]);
        wide(Norm { rows: &mut desk.row, weights: &self.last_norm, eps: self.eps });
        let output = self.output.as_ref().unwrap_or(&self.embedding);
        desk.acts.take(&desk.row, width, &[output]);
        multiply(&[output], &desk.acts, &mut desk.sums);
        desk.logits.clear();
        desk.logits.extend(desk.sums.iter().flatten().take(self.vocabulary));
        Some(())
    }

    fn attention(&self, number: usize, layer: &Layer, cache: &mut Cache, desk: &mut Desk) {
        let Heads { asking, asked, size } = self.heads;
        let (width, share) = (asking * size, asked * size);
        let tokens = desk.state.len() / self.width;
        desk.row.clone_from(&desk.state);
        wide(Norm { rows: &mut desk.row, weights: &layer.attention_norm, eps: self.eps });
        let matrices = [&layer.question, &layer.key, &layer.value];
        desk.acts.take(&desk.row, self.width, &matrices);
        multiply(&matrices, &desk.acts, &mut desk.sums);
        // Questions of all tokens come to lie in `inner`; keys and values go to the cache.
        desk.inner.resize(tokens * width, 0.0);
        desk.row.resize(2 * share, 0.0);
        for token in 0..tokens {
            let all = desk.sums[token..].iter().step_by(tokens).flatten().copied();
            let mut all = all.enumerate().map(|(at, x)| x + layer.biases.as_ref().map_or(0.0, |biases| biases[at]));
            let question = &mut desk.inner[token * width..(token + 1) * width];
            question.iter_mut().zip(all.by_ref()).for_each(|(to, x)| *to = x);
            desk.row.iter_mut().zip(all).for_each(|(to, x)| *to = x);
            let (key, value) = desk.row.split_at_mut(share);
            if let Some(weights) = &layer.question_norm {
                wide(Norm { rows: question, weights, eps: self.eps });
            }
            if let Some(weights) = &layer.key_norm {
                wide(Norm { rows: key, weights, eps: self.eps });
            }
            let angles = &desk.angles[token * self.turn.pairs..(token + 1) * self.turn.pairs];
            for head in question.chunks_exact_mut(size).chain(key.chunks_exact_mut(size)) {
                self.turn.apply(head, angles);
            }
            question.iter_mut().for_each(|x| *x = rounded(*x));
            cache.put(number, token, key, value);
        }
        cache.attend(number, &desk.inner, &mut desk.answers);
        // From head, token to token, head.
        let group = width / asked;
        let rows = if tokens == 1 {
            &desk.answers
        } else {
            for (at, answer) in desk.answers.chunks_exact(group).enumerate() {
                let (head, token) = (at / tokens, at % tokens);
                desk.inner[token * width + head * group..][..group].copy_from_slice(answer);
            }
            &desk.inner
        };
        desk.acts.take(rows, width, &[&layer.out]);
        multiply(&[&layer.out], &desk.acts, &mut desk.sums);
        add(&mut desk.state, &desk.sums, self.width);
    }

    fn feed_forward(&self, layer: &Layer, desk: &mut Desk) {
        let tokens = desk.state.len() / self.width;
        desk.row.clone_from(&desk.state);
        wide(Norm { rows: &mut desk.row, weights: &layer.inner_norm, eps: self.eps });
        let matrices = [&layer.gate, &layer.up];
        desk.acts.take(&desk.row, self.width, &matrices);
        multiply(&matrices, &desk.acts, &mut desk.sums);
        desk.inner.resize(tokens * self.inner, 0.0);
        desk.up.resize(tokens * self.inner, 0.0);
        let (gates, ups) = desk.sums.split_at(layer.gate.groups() * tokens);
        by_token(gates, &mut desk.inner, self.inner);
        by_token(ups, &mut desk.up, self.inner);
        wide(Silu { gate: &mut desk.inner, up: &desk.up });
        desk.acts.take(&desk.inner, self.inner, &[&layer.down]);
        multiply(&[&layer.down], &desk.acts, &mut desk.sums);
        add(&mut desk.state, &desk.sums, self.width);
    }
}

/// From group, token to token, group.
fn by_token(sums: &[Sums], to: &mut [f32], width: usize) {
    let tokens = to.len() / width;
    for (group, sums) in sums.chunks_exact(tokens).enumerate() {
        for (token, sums) in sums.iter().enumerate() {
            let at = group * ROWS;
            let count = ROWS.min(width - at);
            to[token * width + at..][..count].copy_from_slice(&sums[..count]);
        }
    }
}

/// As [`by_token`], added to what is there.
fn add(to: &mut [f32], sums: &[Sums], width: usize) {
    let tokens = to.len() / width;
    for (group, sums) in sums.chunks_exact(tokens).enumerate() {
        for (token, sums) in sums.iter().enumerate() {
            for (to, x) in to[token * width..(token + 1) * width][group * ROWS..].iter_mut().zip(sums) {
                *to += x;
            }
        }
    }
}

impl Layer {
    fn load(file: &mut Gguf, number: usize, width: usize, inner: usize, heads: Heads) -> Result<Self, Fault> {
        let name = |part: &str| format!("blk.{number}.{part}");
        let (all, share) = (heads.asking * heads.size, heads.asked * heads.size);
        let norm = |file: &mut Gguf, part: &str, length: usize| match file.tensor(&name(part)) {
            Some(_) => floats(file, &name(part), length).map(Some),
            None => Ok(None),
        };
        let mut biases = Vec::new();
        for (part, length) in [("attn_q.bias", all), ("attn_k.bias", share), ("attn_v.bias", share)] {
            biases.extend(norm(file, part, length)?.unwrap_or_default());
        }
        if ![0, all + 2 * share].contains(&biases.len()) {
            return Err(Fault::Missing(name("attn_q.bias, attn_k.bias or attn_v.bias")));
        }
        // Any other addition would be left out silently.
        for part in ["attn_output.bias", "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias", "ffn_gate_inp.weight"] {
            if file.tensor(&name(part)).is_some() {
                return Err(Fault::Unsupported(format!("the part {}", name(part))));
            }
        }
        Ok(Self {
            attention_norm: floats(file, &name("attn_norm.weight"), width)?,
            question: Matrix::load(file, &name("attn_q.weight"), all, width)?,
            key: Matrix::load(file, &name("attn_k.weight"), share, width)?,
            value: Matrix::load(file, &name("attn_v.weight"), share, width)?,
            biases: Some(biases).filter(|biases| !biases.is_empty()),
            question_norm: norm(file, "attn_q_norm.weight", heads.size)?,
            key_norm: norm(file, "attn_k_norm.weight", heads.size)?,
            out: Matrix::load(file, &name("attn_output.weight"), width, all)?,
            inner_norm: floats(file, &name("ffn_norm.weight"), width)?,
            gate: Matrix::load(file, &name("ffn_gate.weight"), inner, width)?,
            up: Matrix::load(file, &name("ffn_up.weight"), inner, width)?,
            down: Matrix::load(file, &name("ffn_down.weight"), width, inner)?,
        })
    }
}

impl Turn {
    fn load(file: &mut Gguf, family: &str, size: usize) -> Result<Self, Fault> {
        let dimension = file.whole(&format!("{family}.rope.dimension_count")).unwrap_or(size);
        if dimension == 0 || dimension > size || !dimension.is_multiple_of(2) {
            return Err(Fault::Unsupported(format!("positions in {dimension} of {size} numbers")));
        }
        let base = file.real(&format!("{family}.rope.freq_base")).unwrap_or(10_000.0);
        let scaling = file.text(&format!("{family}.rope.scaling.type")).unwrap_or("none");
        let scale = match scaling {
            "none" => 1.0,
            "linear" => 1.0 / file.real(&format!("{family}.rope.scaling.factor")).unwrap_or(1.0),
            // Inside the trained context the other kinds change nothing, or bring their own divisors.
            _ if file.tensor("rope_freqs.weight").is_some() => 1.0,
            other => return Err(Fault::Unsupported(format!("positions scaled by \"{other}\""))),
        };
        let divisors = match file.tensor("rope_freqs.weight") {
            Some(_) => Some(floats(file, "rope_freqs.weight", dimension / 2)?),
            None => None,
        };
        Ok(Self {
            halves: family != "llama",
            pairs: dimension / 2,
            factor: base.powf(-2.0 / dimension as f32),
            scale,
            divisors,
        })
    }

    /// Cosines and sines of the pairs at `count` positions.
    fn angles(&self, first: usize, count: usize, angles: &mut Vec<(f32, f32)>) {
        angles.clear();
        for position in first..first + count {
            let mut angle = position as f32;
            for pair in 0..self.pairs {
                let divisor = self.divisors.as_ref().map_or(1.0, |divisors| divisors[pair]);
                let turned = angle / divisor * self.scale;
                angles.push((turned.cos(), turned.sin()));
                angle *= self.factor;
            }
        }
    }

    fn apply(&self, head: &mut [f32], angles: &[(f32, f32)]) {
        if self.halves {
            let (first, second) = head[..self.pairs * 2].split_at_mut(self.pairs);
            for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(angles) {
                (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
            }
        } else {
            for (pair, (cos, sin)) in head.chunks_exact_mut(2).zip(angles) {
                let (a, b) = (pair[0], pair[1]);
                (pair[0], pair[1]) = (a * cos - b * sin, a * sin + b * cos);
            }
        }
    }
}
