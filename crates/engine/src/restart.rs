//! Whether a restart would come back: asked before anything ends, so that a mistake in the config file never takes a
//! healthy service away from its agents.

use std::net::SocketAddr;

use crate::api::{Code, Problem};
use crate::core::{Core, sentence};

/// Reads the config as the next start will, and tries every address that start would need and this run does not hold.
pub(crate) async fn check(core: &Core) -> Result<(), Problem> {
    let run = core.running()?;
    let overrides = core.0.overrides.clone();
    let read = core.files().config(core.config_path(), move |path| crate::core::read(path, &overrides)).await;
    let config = match read {
        Ok(reading) => reading.loaded.config,
        // The next start writes a first one.
        Err(config::ConfigError::Missing { .. }) => return Ok(()),
        Err(error) => {
            return Err(Problem::invalid(format!("{} The service runs on as it is.", sentence(&error)))
                .hint("Mend that place, then look again: metaclaw config validate"));
        }
    };
    let mut wanted = vec![(config.listen().addr, run.addr)];
    if run.ui_asked.is_none() && config.control.tcp {
        let asked = SocketAddr::from(([127, 0, 0, 1], config.control.tcp_port));
        wanted.push((asked, run.ui.get().copied().unwrap_or(run.addr)));
    }
    for (addr, held) in wanted {
        // The port we hold ourselves is free again when we have ended; its new address must be one of this machine.
        let probe = if addr.port() == held.port() { SocketAddr::new(addr.ip(), 0) } else { addr };
        if let Err(source) = std::net::TcpListener::bind(probe) {
            let error = crate::engine::listen_error(addr, source);
            return Err(Problem::new(Code::Conflict, format!("{} The service runs on as it is.", sentence(&error)))
                .hint("Choose another: metaclaw config set proxy.port N"));
        }
    }
    Ok(())
}
