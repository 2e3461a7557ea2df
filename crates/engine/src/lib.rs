//! Puts the rooms together: lifecycle, event bus, background work, the control API.
//! The command line and the window start an [`Engine`], or open the same API [`Cold`] when none runs; both speak to it
//! through a [`client::Client`].

pub mod api;
mod bus;
pub mod client;
mod core;
mod diff;
mod doctor;
mod doors;
mod engine;
mod evolve;
mod files;
pub mod health;
mod judge;
mod local;
pub mod lock;
pub mod logs;
mod meanings;
mod memory_import;
mod memory_meaning;
mod port;
mod provider;
mod redact;
mod remember;
mod replay;
mod restart;
mod retention;
mod run;
mod score;
mod serve;
mod setup;
mod sidecar;
mod skills_edit;
mod skills_learn;
mod socket;
pub mod token;
pub mod uninstall;
mod watch;

use std::sync::Arc;

pub use builtin::rendered;

pub use crate::core::{End, Overrides};
pub use crate::engine::{Cold, Engine, StartError, StartOptions};
pub use crate::port::Listener;
pub use crate::redact::redact;
pub use crate::sidecar::{SIDECAR_PORT, Sidecar};

/// Wall time and randomness, handed in so that tests can choose them.
pub type Clock = Arc<dyn proxy::Clock>;

/// Chooses the TLS implementation of this process, once.
pub fn install_tls() {
    // A second call finds one installed and changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The HTTP client for looking at providers.
pub(crate) fn http_client(config: &config::Config) -> Result<reqwest::Client, api::Problem> {
    install_tls();
    proxy::http_client(config).map_err(api::Problem::internal)
}

/// A moment as people write it, in the machine's own time zone.
pub(crate) fn when(at: jiff::Timestamp) -> String {
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
