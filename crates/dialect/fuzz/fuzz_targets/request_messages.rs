#![no_main]

#[path = "../src/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::request(metaclaw_dialect::Dialect::Messages, data));
