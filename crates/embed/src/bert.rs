//! The encoder of BERT and its descendants: Devlin et al. 2018, <https://arxiv.org/abs/1810.04805>. Weights are held as
//! f32; the table of words, most of a multilingual model, stays on disk and only the rows of a text are read.

use std::path::Path;

use rayon::prelude::*;
use serde::Deserialize;

use crate::tensors::{Table, Tensors};
use crate::tokens::Tokenizer;
use crate::wide::{Gelu, Products, Softmax, wide};
use crate::{Error, Side, Vector};

/// Longest text in tokens, whatever the model takes: what is longer says too many things for one vector.
const LONGEST: usize = 512;
/// Rows of a matrix that one thread takes at a time.
const ROWS: usize = 96;

#[derive(Deserialize)]
struct Config {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    max_position_embeddings: usize,
    #[serde(default = "eps")]
    layer_norm_eps: f32,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default)]
    pad_token_id: usize,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

fn eps() -> f32 {
    1e-12
}

fn gelu() -> String {
    "gelu".to_owned()
}

/// How sentence-transformers makes one vector of many.
#[derive(Deserialize, Default)]
struct Pooling {
    #[serde(default)]
    pooling_mode_cls_token: bool,
}

#[derive(Deserialize, Default)]
struct Prompts {
    #[serde(default)]
    prompts: std::collections::HashMap<String, String>,
}

/// A matrix with what is added to its products.
struct Dense {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

struct Norm {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

struct Layer {
    query: Dense,
    key: Dense,
    value: Dense,
    attended: Dense,
    attended_norm: Norm,
    up: Dense,
    down: Dense,
    norm: Norm,
}

/// See the module.
pub(crate) struct Bert {
    tokenizer: Tokenizer,
    tensors: Tensors,
    words: Table,
    positions: Vec<f32>,
    /// The number of the first position.
    first_position: usize,
    kind: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    hidden: usize,
    heads: usize,
    eps: f32,
    longest: usize,
    /// The first token's vector instead of the mean.
    first_token: bool,
    prefixes: [String; 2],
    pool: rayon::ThreadPool,
}

impl Bert {
    /// Reads the model of a folder.
    pub(crate) fn open(folder: &Path, threads: usize) -> Result<Self, Error> {
        let file = folder.join("config.json");
        let failed = |what: String| Error::Model { file: file.clone(), what };
        let text = std::fs::read_to_string(&file).map_err(|error| failed(error.to_string()))?;
        let config: Config = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let first_position = match config.model_type.as_str() {
            "bert" => 0,
            "roberta" | "xlm-roberta" => config.pad_token_id + 1,
            other => return Err(failed(format!("a model of kind {other}; bert and xlm-roberta are known"))),
        };
        if config.hidden_act != "gelu" || config.position_embedding_type.is_some_and(|kind| kind != "absolute") {
            return Err(failed("only models with the gelu activation and absolute positions are known".to_owned()));
        }
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        let longest = config.max_position_embeddings.saturating_sub(first_position).min(LONGEST);
        if heads == 0 || hidden == 0 || hidden % heads != 0 || longest < 2 {
            return Err(failed(format!("{hidden} numbers cannot be shared by {heads} heads")));
        }
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        let mut tensors = Tensors::open(&folder.join("model.safetensors"))?;
        let words = tensors.table("embeddings.word_embeddings.weight")?;
        if words.shape[1] != hidden {
            return Err(failed(format!("hidden_size is {hidden}, but the words have {} numbers", words.shape[1])));
        }
        let norm = |tensors: &mut Tensors, name: &str| -> Result<Norm, Error> {
            Ok(Norm {
                weights: tensors.numbers(&format!("{name}.weight"), &[hidden])?,
                bias: tensors.numbers(&format!("{name}.bias"), &[hidden])?,
            })
        };
        let dense = |tensors: &mut Tensors, name: &str, to: usize, from: usize| -> Result<Dense, Error> {
            Ok(Dense {
                weights: tensors.numbers(&format!("{name}.weight"), &[to, from])?,
                bias: tensors.numbers(&format!("{name}.bias"), &[to])?,
            })
        };
        let wide = config.intermediate_size;
        let layers = (0..config.num_hidden_layers)
            .map(|number| {
                let name = |part: &str| format!("encoder.layer.{number}.{part}");
                Ok(Layer {
                    query: dense(&mut tensors, &name("attention.self.query"), hidden, hidden)?,
                    key: dense(&mut tensors, &name("attention.self.key"), hidden, hidden)?,
                    value: dense(&mut tensors, &name("attention.self.value"), hidden, hidden)?,
                    attended: dense(&mut tensors, &name("attention.output.dense"), hidden, hidden)?,
                    attended_norm: norm(&mut tensors, &name("attention.output.LayerNorm"))?,
                    up: dense(&mut tensors, &name("intermediate.dense"), wide, hidden)?,
                    down: dense(&mut tensors, &name("output.dense"), hidden, wide)?,
                    norm: norm(&mut tensors, &name("output.LayerNorm"))?,
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let places = [config.max_position_embeddings, hidden];
        let kinds = tensors.table("embeddings.token_type_embeddings.weight")?;
        let mut kind = vec![0.0; hidden];
        tensors.add_row(&kinds, 0, &mut kind)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|n| format!("embed-{n}"))
            .build()
            .map_err(|error| failed(format!("no threads for it: {error}")))?;
        Ok(Self {
            positions: tensors.numbers("embeddings.position_embeddings.weight", &places)?,
            norm: norm(&mut tensors, "embeddings.LayerNorm")?,
            first_token: read_or_default::<Pooling>(&folder.join("1_Pooling/config.json")).pooling_mode_cls_token,
            prefixes: prefixes(folder),
            eps: config.layer_norm_eps,
            tokenizer,
            tensors,
            words,
            first_position,
            kind,
            layers,
            hidden,
            heads,
            longest,
            pool,
        })
    }

    /// The vector of a text.
    pub(crate) fn embed(&mut self, side: Side, text: &str) -> Result<Vector, Error> {
        let prefix = &self.prefixes[usize::from(side == Side::Passage)];
        let ids = self.tokenizer.encode(&format!("{prefix}{text}"), self.longest);
        let hidden = self.hidden;
        let mut state = vec![0.0f32; ids.len() * hidden];
        for (position, (row, id)) in state.chunks_exact_mut(hidden).zip(&ids).enumerate() {
            self.tensors.add_row(&self.words, *id as usize, row)?;
            let place = &self.positions[(self.first_position + position) * hidden..][..hidden];
            for ((x, place), kind) in row.iter_mut().zip(place).zip(&self.kind) {
                *x += place + kind;
            }
        }
        self.norm.apply(&mut state, self.eps);
        let (layers, eps, heads) = (&self.layers, self.eps, self.heads);
        self.pool.install(|| {
            for layer in layers {
                layer.apply(&mut state, hidden, heads, eps);
            }
        });
        if self.first_token {
            return Ok(Vector::of(state[..hidden].to_vec()));
        }
        let mut mean = vec![0.0f32; hidden];
        for row in state.chunks_exact(hidden) {
            for (sum, x) in mean.iter_mut().zip(row) {
                *sum += x;
            }
        }
        Ok(Vector::of(mean))
    }
}

/// What stands before a query and before a passage: as the folder says, or as the E5 models, which do not say it, want it.
fn prefixes(folder: &Path) -> [String; 2] {
    let mut told = read_or_default::<Prompts>(&folder.join("config_sentence_transformers.json")).prompts;
    let mut of = |names: &[&str]| names.iter().find_map(|name| told.remove(*name)).unwrap_or_default();
    let found = [of(&["query"]), of(&["passage", "document"])];
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    let is_e5 = name.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == "e5");
    if found.iter().all(String::is_empty) && is_e5 { ["query: ", "passage: "].map(str::to_owned) } else { found }
}

fn read_or_default<T: Default + serde::de::DeserializeOwned>(file: &Path) -> T {
    std::fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

impl Norm {
    fn apply(&self, rows: &mut [f32], eps: f32) {
        for row in rows.chunks_exact_mut(self.weights.len()) {
            let count = row.len() as f32;
            let mean = row.iter().sum::<f32>() / count;
            let spread = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
            let scale = 1.0 / (spread + eps).sqrt();
            for ((x, weight), bias) in row.iter_mut().zip(&self.weights).zip(&self.bias) {
                *x = (*x - mean) * scale * weight + bias;
            }
        }
    }
}

impl Dense {
    /// The products with every token, token by token.
    fn apply(&self, tokens: &[f32], width: usize) -> Vec<f32> {
        let (count, rows) = (tokens.len() / width, self.bias.len());
        let mut by_row = vec![0.0f32; rows * count];
        let parts = self.weights.par_chunks(ROWS * width).zip(by_row.par_chunks_mut(ROWS * count));
        parts.for_each(|(rows, out)| wide(Products { width, rows, tokens, out }));
        let mut out = vec![0.0f32; rows * count];
        for (token, out) in out.chunks_exact_mut(rows).enumerate() {
            for ((x, row), bias) in out.iter_mut().zip(by_row.chunks_exact(count)).zip(&self.bias) {
                *x = row[token] + bias;
            }
        }
        out
    }
}

impl Layer {
    fn apply(&self, state: &mut [f32], hidden: usize, heads: usize, eps: f32) {
        let attended = self.attend(state, hidden, heads);
        add(state, &self.attended.apply(&attended, hidden));
        self.attended_norm.apply(state, eps);
        let mut inner = self.up.apply(state, hidden);
        wide(Gelu(&mut inner));
        add(state, &self.down.apply(&inner, self.up.bias.len()));
        self.norm.apply(state, eps);
    }

    fn attend(&self, state: &[f32], hidden: usize, heads: usize) -> Vec<f32> {
        let (count, width) = (state.len() / hidden, hidden / heads);
        let query = self.query.apply(state, hidden);
        let key = self.key.apply(state, hidden);
        let value = self.value.apply(state, hidden);
        let scale = 1.0 / (width as f32).sqrt();
        let by_head: Vec<Vec<f32>> = (0..heads)
            .into_par_iter()
            .map(|head| {
                let part = |all: &[f32]| -> Vec<f32> {
                    all.chunks_exact(hidden).flat_map(|row| &row[head * width..(head + 1) * width]).copied().collect()
                };
                let (query, key, value) = (part(&query), part(&key), part(&value));
                let mut scores = vec![0.0f32; count * count];
                wide(Products { width, rows: &query, tokens: &key, out: &mut scores });
                let mut out = vec![0.0f32; count * width];
                for (scores, out) in scores.chunks_exact_mut(count).zip(out.chunks_exact_mut(width)) {
                    scores.iter_mut().for_each(|score| *score *= scale);
                    wide(Softmax(scores));
                    for (share, value) in scores.iter().zip(value.chunks_exact(width)) {
                        for (x, value) in out.iter_mut().zip(value) {
                            *x += share * value;
                        }
                    }
                }
                out
            })
            .collect();
        let mut all = vec![0.0f32; state.len()];
        for (token, row) in all.chunks_exact_mut(hidden).enumerate() {
            for (out, head) in row.chunks_exact_mut(width).zip(&by_head) {
                out.copy_from_slice(&head[token * width..(token + 1) * width]);
            }
        }
        all
    }
}

fn add(to: &mut [f32], what: &[f32]) {
    for (x, y) in to.iter_mut().zip(what) {
        *x += y;
    }
}
