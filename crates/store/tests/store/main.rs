//! The store from outside, in one test program: what it promises, how it fails, and what survives a kill.
#![expect(clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

mod common;
#[cfg(unix)]
mod failures;
mod journal;
#[cfg(unix)]
mod kill;
mod replays;
