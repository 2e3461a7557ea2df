//! Asks an agent port whether it answers: one `GET /healthz` over a plain connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long the port may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether `addr` answers `GET /healthz` with 200. "Any address" is asked on loopback.
pub async fn answers(addr: SocketAddr) -> bool {
    tokio::time::timeout(PATIENCE, ask(reachable(addr))).await.is_ok_and(|answer| answer.unwrap_or(false))
}

/// Where a listener of this machine can be reached from this machine.
#[must_use]
pub fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

async fn ask(addr: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(addr).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0_u8; 12];
    stream.read_exact(&mut head).await?;
    Ok(&head == b"HTTP/1.1 200")
}
