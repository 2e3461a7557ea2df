//! Where the proxy listens: what the settings say, unless that would open the user's key to the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

use crate::Config;

/// The address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listen {
    /// Where to bind.
    pub addr: SocketAddr,
    /// Why it is not the configured address, and how to open that safely.
    pub refused: Option<String>,
    /// A reason to look again, though it was done as configured.
    pub concern: Option<String>,
}

impl Config {
    /// The address to listen on. An address that others can reach needs `proxy.api_key`; without one it is this
    /// machine only.
    #[must_use]
    pub fn listen(&self) -> Listen {
        let asked = host_ip(&self.proxy.host);
        let port = self.proxy.port;
        if asked.is_loopback() {
            return Listen { addr: SocketAddr::new(asked, port), refused: None, concern: None };
        }
        let key = self.proxy.api_key.expose();
        if key.is_empty() {
            let reason = format!(
                "proxy.host is {} but proxy.api_key is empty: anyone in the network could spend your provider's key, so \
                 only this machine can reach port {port}. To open it, set a key first (metaclaw config set \
                 proxy.api_key), give it to your agents, and restart. To end this message, set proxy.host to 127.0.0.1",
                self.proxy.host
            );
            let addr = if asked.is_ipv6() && !asked.is_unspecified() {
                Ipv6Addr::LOCALHOST.into()
            } else {
                Ipv4Addr::LOCALHOST.into()
            };
            return Listen { addr: SocketAddr::new(addr, port), refused: Some(reason), concern: None };
        }
        let concern = (key.len() < 16).then(|| {
            "proxy.api_key is short for a port that others can reach; a key of 16 or more random characters is not guessed".to_owned()
        });
        Listen { addr: SocketAddr::new(asked, port), refused: None, concern }
    }
}

/// The address behind `proxy.host`; what is none (it was refused when the file was read) is this machine.
fn host_ip(host: &str) -> IpAddr {
    match host.trim() {
        "*" => Ipv4Addr::UNSPECIFIED.into(),
        host => host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    }
}
