//! Many connections at once: wrk for rates, and an exact number of turns by our own hands.

use std::process::Stdio;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use metaclaw_tests::product::PROXY_KEY;
use metaclaw_tests::wire::Conn;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::direct::Target;

/// Requests per second over `seconds`, as wrk counts them; every request is one of a kind.
pub(crate) async fn wrk(target: &Target, connections: usize, seconds: usize, run: usize) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("chat.lua");
    let body = crate::body(123_456_789, false);
    let (head, tail) = body.split_once("123456789").context("the number")?;
    // LuaJIT puts the request together; the head is made once.
    std::fs::write(
        &script,
        format!(
            "local n = {run} * 10000000\nlocal head = [==[{head}]==]\nlocal tail = [==[{tail}]==]\n\
             wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
             wrk.headers['authorization'] = 'Bearer {PROXY_KEY}'\n\
             request = function() n = n + 1; return wrk.format(nil, nil, nil, head .. n .. tail) end\n\
             response = nil\n\
             done = function(s) io.write('\\nerrors ', s.errors.connect + s.errors.read + s.errors.write + s.errors.status + s.errors.timeout, '\\n') end\n"
        ),
    )?;
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "-s"])
        .arg(&script)
        .arg(format!("http://{}/v1/chat/completions", target.addr))
        .stdin(Stdio::null())
        .output()
        .await
        .context("wrk is missing; `make bench` installs it on Debian")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let after = |name: &str| {
        text.split(name).nth(1).and_then(|t| t.split_whitespace().next()).and_then(|t| t.parse::<f64>().ok())
    };
    anyhow::ensure!(after("\nerrors ") == Some(0.0), "wrk met errors at {}:\n{text}", target.addr);
    after("Requests/sec:").with_context(|| format!("no rate from wrk: {text}"))
}

/// Exactly `count` turns over `connections` connections.
pub(crate) async fn turns(target: &Target, connections: usize, count: usize) -> Result<()> {
    let next = Rc::new(AtomicUsize::new(0));
    let local = tokio::task::LocalSet::new();
    let addr = target.addr.clone();
    local
        .run_until(async move {
            let mut tasks = JoinSet::new();
            for _ in 0..connections {
                let (next, addr) = (Rc::clone(&next), addr.clone());
                tasks.spawn_local(async move {
                    let target = Target::new(&addr);
                    let mut conn = Conn::connect(&addr).await?;
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= count {
                            return Ok::<(), anyhow::Error>(());
                        }
                        conn.send(&target.request(&crate::body(n, false))).await?;
                        let head = conn.response_head("POST").await?;
                        while conn.piece().await?.is_some() {}
                        anyhow::ensure!(head.status == 200, "{head:?}");
                    }
                });
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            Ok(())
        })
        .await
}
