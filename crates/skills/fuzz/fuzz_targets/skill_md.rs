//! `cargo +nightly fuzz run skill_md` in `crates/skills`.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::skill_md(bytes));
