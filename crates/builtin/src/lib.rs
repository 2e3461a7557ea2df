//! A small language model inside MetaClaw, for trying the product without a key and for testing it: GGUF weights of the
//! Llama and Qwen families, their own tokenizer and chat template, inference on the processor. Requests and answers are
//! those of OpenAI's Chat Completions; whoever owns a [`Room`] hands them in and out.

mod act;
mod apart;
mod attend;
mod blocks;
mod chat;
mod dot;
mod error;
mod gguf;
mod half;
mod matrix;
mod model;
mod net;
mod reply;
mod room;
mod sample;
mod say;
mod split;
mod template;
mod vocab;
mod wide;
mod work;

pub use apart::{rendered, renderer};
pub use chat::Refusal;
pub use error::{Fault, ModelFault};
pub use model::check;
pub use room::{Answer, Look, Outside, Phase, Room, Settings};
