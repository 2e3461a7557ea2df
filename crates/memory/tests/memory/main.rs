//! Memory from outside, in one test program: what it keeps, what it recalls, what it forgets.
#![expect(clippy::expect_used, reason = "a test stops at what it did not expect")]

mod across;
mod common;
mod extract;
mod facts;
mod forget;
#[cfg(unix)]
mod kill;
mod languages;
mod live;
mod meaning;
mod recall;
mod retire;
mod statements;
mod summary;
mod tidy;
