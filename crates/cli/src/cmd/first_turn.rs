//! The first turns of somebody who tries MetaClaw: sent to the agent port as any agent would, shown as they stream, and
//! then as the journal has them. The second one, in a conversation of its own, is there for what memory adds to it.

use std::time::Duration;

use bytes::Bytes;
use engine::api::{Setting, Status, TurnRow};
use engine::client::Client;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::ctx::Ctx;
use crate::exit::Fail;
use crate::out::Tone;

/// A question that a built-in skill applies to.
const QUESTION: &str = "Write a polite email to my landlord, Mr Brown. The heating in my flat has been broken since Monday, and it is cold.";
/// A question that what was said in the first turn answers.
const LATER: &str = "What is broken in my flat, and since when?";
/// Longest answers, tokens.
const LONGEST: u32 = 120;
const LONGEST_LATER: u32 = 48;
/// The longest silence.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn run(ctx: &Ctx, status: &Status) -> Result<(), Fail> {
    let api = ctx.running().await?;
    let key: Setting = api.get("/api/v1/config/proxy.api_key?reveal=true").await?;
    let key = key.value.as_str().unwrap_or_default();
    let memory: Setting = api.get("/api/v1/config/memory.enabled").await?;
    turn(ctx, &api, status, key, (QUESTION, LONGEST)).await?;
    if memory.value == true {
        ctx.out.line("");
        ctx.out.line("Another conversation, which knows of the first one only what memory adds:");
        turn(ctx, &api, status, key, (LATER, LONGEST_LATER)).await?;
    }
    ctx.out.line("");
    ctx.out.note("The built-in model is for trying MetaClaw out. For work choose a provider: metaclaw setup. What is learned stays.");
    Ok(())
}

async fn turn(ctx: &Ctx, api: &Client, status: &Status, key: &str, asked: (&str, u32)) -> Result<(), Fail> {
    let out = &ctx.out;
    out.line("");
    out.line(&format!("{} {}", out.paint(Tone::Strong, "You:"), asked.0));
    out.raw(format!("{} ", out.paint(Tone::Strong, "Model:")).as_bytes());
    let said = ask(status, key, asked, |words| out.raw(words.as_bytes())).await;
    out.line("");
    said.map_err(|problem| Fail::failed(format!("The turn did not work: {problem}.")).hint("metaclaw doctor"))?;
    shown(ctx, api).await
}

/// Asks as an agent does, and hands on the words as they come.
async fn ask(
    status: &Status,
    key: &str,
    (question, longest): (&str, u32),
    mut words: impl FnMut(&str),
) -> Result<(), String> {
    let base = status.base_url.as_deref().unwrap_or_default();
    let addr = base.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/v1")).unwrap_or_default();
    let body = json!({
        "model": "default", "stream": true, "max_tokens": longest,
        // As a very small model writes best; the seed makes it the same for everyone.
        "temperature": 0.3, "frequency_penalty": 0.3, "seed": 1,
        "messages": [{"role": "user", "content": question}],
    });
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/chat/completions")
        .header(header::HOST, addr)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, format!("Bearer {key}"))
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| error.to_string())?;
    let stream = TcpStream::connect(addr).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let talk = async move {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let ok = response.status().is_success();
        let mut body = response.into_body();
        let mut text = Vec::new();
        loop {
            let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
            let frame = match frame.map_err(|_| format!("it was silent for {} s", PATIENCE.as_secs()))? {
                None => break,
                Some(frame) => frame.map_err(|error| error.to_string())?,
            };
            text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            // Whole lines only; the rest waits.
            while ok && let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                if let Some(delta) = delta(&line) {
                    words(&crate::out::printable(&delta));
                }
            }
        }
        if ok { Ok(()) } else { Err(refusal(&text)) }
    };
    tokio::pin!(talk, connection);
    tokio::select! {
        said = &mut talk => said,
        // The connection is over; what it brought is still read.
        _ = &mut connection => talk.await,
    }
}

fn delta(line: &[u8]) -> Option<String> {
    let event: Value = serde_json::from_slice(line.strip_prefix(b"data: ")?).ok()?;
    event.pointer("/choices/0/delta/content")?.as_str().map(str::to_owned)
}

fn refusal(body: &[u8]) -> String {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let said = error
        .pointer("/error/message")
        .and_then(Value::as_str)
        .map_or_else(|| String::from_utf8_lossy(body), Into::into);
    said.trim_end_matches('.').to_owned()
}

/// The turn as the journal has it.
async fn shown(ctx: &Ctx, api: &Client) -> Result<(), Fail> {
    let turns: Vec<TurnRow> = api.get("/api/v1/turns?limit=1").await?;
    let Some(turn) = turns.first() else {
        return Err(Fail::failed("The turn is not in the journal.").hint("metaclaw doctor"));
    };
    let added: Vec<String> = turn.additions.iter().map(|added| format!("{} {}", added.kind, added.id)).collect();
    let added = if added.is_empty() { "nothing was added".to_owned() } else { format!("added: {}", added.join(", ")) };
    let took = crate::out::duration(turn.finished_ms - turn.started_ms);
    ctx.out.line("");
    ctx.out.line(&format!(
        "This was turn {} of the journal: {added}; {took}. All of it: metaclaw turns show {}",
        turn.id, turn.id
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_refusals_are_read() {
        assert_eq!(delta(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n").as_deref(), Some("Hi"));
        assert_eq!(delta(b"data: [DONE]\n"), None);
        assert_eq!(refusal(br#"{"error":{"message":"No model."}}"#), "No model");
    }
}
