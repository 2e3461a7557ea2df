//! Long-term memory. What was said comes from the journal (`store`); it is kept as windows, verbatim, and as facts with their
//! history, and recalled as dated, quoted background data. Nothing here changes what was said, and reading changes nothing.

mod absorb;
mod common;
mod echo;
mod error;
mod export;
mod extract;
pub mod facts;
mod flush;
mod live;
mod meaning;
mod memory;
mod passage;
mod pool;
mod recall;
mod render;
mod scope;
mod score;
mod terms;
mod time;
mod trust;

pub use absorb::{Absorption, Utterance};
pub use error::{Error, Result};
pub use export::{Line, Summary, UNVERIFIED};
pub use extract::{Batch, INSTRUCTIONS};
pub use flush::Flushed;
pub use live::UNNUMBERED;
pub use meaning::{Meant, Progress};
pub use memory::{Memory, NewMemory, Settings};
pub use recall::{Ask, Known, Recalled, Source, Weights};
pub use render::{HEADING, LEAD, section};
pub use scope::{DEFAULT_SCOPE, base_scope, scope_of};
pub use text::redact;
pub use time::{Span, When, absolute, spans};
pub use trust::{Suspicion, suspicion};
