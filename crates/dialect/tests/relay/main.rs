//! Answers on their way from provider to agent: every pair of dialects, any chunking, and what odd providers send.
#![expect(clippy::expect_used, clippy::needless_pass_by_value, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod odd_upstreams;
mod pairs;
mod properties;
mod support;
