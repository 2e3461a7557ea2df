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
mod retire;
mod scope;
mod score;
mod summary;
mod terms;
mod tidy;
mod time;
mod trust;

pub use absorb::{Absorption, Utterance};
pub use error::{Error, Result};
pub use export::{Line, Summary, UNVERIFIED};
pub use extract::{Batch, INSTRUCTIONS, question, summary_in};
pub use flush::Flushed;
pub use live::UNNUMBERED;
pub use meaning::{Meant, Progress};
pub use memory::{Memory, NewMemory, Settings};
pub use recall::{Ask, Known, Recalled, Source, Weights};
pub use render::{HEADING, LEAD, section};
pub use retire::Keep;
pub use scope::{DEFAULT_SCOPE, Within, base_scope, is_agents, is_groups, narrow, scope_of, widen};
pub use summary::{SUMMARY_INSTRUCTIONS, Session};
pub use text::redact;
pub use tidy::Tidied;
pub use time::{Span, When, absolute, spans};
pub use trust::{Suspicion, suspicion};
