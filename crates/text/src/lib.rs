//! Text for searching and for quoting. Pure: `skills` and `memory` index with the same words and quote by the same rules.

mod quote;
mod redact;
mod simplified;
mod stop_words;
mod words;

pub use quote::{TAG, escape, visible};
pub use redact::redact;
pub use simplified::simplify;
pub use words::{Side, Term, Weight, fold, has_cjk, terms};
