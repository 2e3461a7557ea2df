//! llama.cpp's server with the small model, as an upstream and as a yardstick.

use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::peers::peer;
use crate::product::Product;
use crate::until;
use crate::wire::Conn;

/// Starts it with further arguments; `None` where it is not installed. Ends when the child is dropped.
///
/// # Panics
/// When it does not start.
pub async fn llama(more: &[&str]) -> Option<(Child, String)> {
    let server = peer("llm", "build/bin/llama-server")?;
    let model = peer("llm", "smollm2-135m-instruct.gguf")?;
    let port = Product::bare().port();
    let mut command = Command::new(&server);
    command
        .env("LD_LIBRARY_PATH", server.parent().unwrap_or(Path::new(".")))
        .arg("-m")
        .arg(model)
        .args(["--alias", "smollm2", "--host", "127.0.0.1", "--port", &port.to_string(), "-c", "8192", "--jinja"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let child = command.spawn().expect("llama-server runs");
    let addr = format!("127.0.0.1:{port}");
    until("llama-server is ready", || async {
        let mut conn = Conn::connect(&addr).await.ok()?;
        conn.send(format!("GET /health HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .ok()?;
        conn.response_head("GET").await.ok().filter(|h| h.status == 200)
    })
    .await;
    Some((child, addr))
}
