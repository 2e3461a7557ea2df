//! The agent port in process, against a model that does what the test says.

mod forwarding;
mod injection;
mod port;
mod sessions;
mod streaming;
mod upstream;
