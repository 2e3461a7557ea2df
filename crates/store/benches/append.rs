//! Appends per second and time of a single append.
fn main() {}
