//! The agent port in process, against a model that does what the test says.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod forwarding;
mod injection;
mod port;
mod sessions;
mod stopping;
mod streaming;
mod upstream;
