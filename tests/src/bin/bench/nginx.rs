//! A plain nginx reverse proxy: what a byte pump costs on this machine.

use std::process::Stdio;

use anyhow::{Context, Result};
use metaclaw_tests::wire::Conn;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// nginx in the foreground with a folder of its own; it ends with this value.
pub(crate) struct Nginx {
    addr: String,
    _process: Child,
    _folder: TempDir,
}

impl Nginx {
    pub(crate) async fn start(upstream: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let at = folder.path().display();
        let config = format!(
            "worker_processes 1;\ndaemon off;\nmaster_process off;\npid {at}/pid;\nerror_log stderr crit;\n\
             events {{ worker_connections 1024; }}\nhttp {{\n  access_log off;\n  client_body_temp_path {at}/body;\n  \
             proxy_temp_path {at}/proxy;\n  fastcgi_temp_path {at}/f;\n  uwsgi_temp_path {at}/u;\n  scgi_temp_path {at}/s;\n  \
             client_max_body_size 64m;\n  client_body_buffer_size 1m;\n  keepalive_requests 100000000;\n  \
             upstream provider {{ server {upstream}; keepalive 64; keepalive_requests 100000000; }}\n  \
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://provider; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; proxy_buffering off; }} }}\n}}\n"
        );
        let path = folder.path().join("nginx.conf");
        std::fs::write(&path, config)?;
        let program = if std::path::Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let process = Command::new(program)
            .arg("-c")
            .arg(&path)
            .arg("-p")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("nginx is missing; `make bench` installs it on Debian")?;
        let addr = format!("127.0.0.1:{port}");
        metaclaw_tests::until("nginx listens", || async { Conn::connect(&addr).await.ok() }).await;
        Ok(Self { addr, _process: process, _folder: folder })
    }

    pub(crate) fn addr(&self) -> &str {
        &self.addr
    }
}
