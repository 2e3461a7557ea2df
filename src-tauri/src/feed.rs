//! What happens in the service, for everything in this process that wants to know: one event stream of the control API,
//! read again whenever the service changes.

use std::time::Duration;

use engine::api::Event;
use futures::StreamExt;
use http::Method;
use tokio::sync::broadcast;

use crate::host::Host;

/// How many events a slow listener may fall behind.
const BACKLOG: usize = 1024;
/// First and longest pause before a broken stream is opened again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

/// What a listener hears.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    /// The stream was opened: from now on everything is heard, and what is known may be old.
    Open,
    /// Nothing serves now: it begins, ends, or has ended.
    Quiet,
    /// Something happened: as a value, and as the JSON text the service sent.
    Event(Box<Event>, String),
    /// Events were missed.
    Missed,
}

/// The sending side, to listen on.
pub(crate) fn channel() -> broadcast::Sender<Heard> {
    broadcast::channel(BACKLOG).0
}

/// Reads the stream for ever; the caller drops the future when the program ends.
pub(crate) async fn read(host: Host, out: broadcast::Sender<Heard>) {
    let mut view = host.view();
    let mut pause = PAUSE.0;
    loop {
        let serves = view.borrow_and_update().serves();
        if serves && let Ok(response) = host.client().send(Method::GET, "/api/v1/events/stream", None).await {
            let _ = out.send(Heard::Open);
            pause = PAUSE.0;
            let mut body = response.into_body().into_data_stream();
            let mut lines = Lines::default();
            loop {
                let chunk = tokio::select! {
                    chunk = body.next() => chunk,
                    // The service is another one now, or none.
                    changed = view.changed() => {
                        if changed.is_err() { return; }
                        None
                    }
                };
                let Some(Ok(chunk)) = chunk else { break };
                for heard in lines.take(&chunk) {
                    let _ = out.send(heard);
                }
            }
            continue;
        }
        if !serves {
            let _ = out.send(Heard::Quiet);
        }
        let again = tokio::time::sleep(pause);
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            () = again, if serves => pause = PAUSE.1.min(pause * 2),
        }
    }
}

/// The events of a `text/event-stream` body, which comes in any pieces.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    kind: String,
    data: String,
}

impl Lines {
    fn take(&mut self, chunk: &[u8]) -> Vec<Heard> {
        self.rest.extend_from_slice(chunk);
        let mut found = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                found.extend(self.event());
            } else if let Some(kind) = line.strip_prefix("event:") {
                self.kind = kind.trim_start().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            }
        }
        found
    }

    fn event(&mut self) -> Option<Heard> {
        let (kind, data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
        if data.is_empty() {
            return None;
        }
        if kind == "missed" {
            return Some(Heard::Missed);
        }
        match serde_json::from_str(&data) {
            Ok(event) => Some(Heard::Event(Box::new(event), data)),
            Err(error) => {
                tracing::warn!(%error, kind, "an event of the service was not understood");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Order, View};
    use config::Home;
    use engine::logs::LogControl;

    async fn until(heard: &mut broadcast::Receiver<Heard>, wanted: impl Fn(&Heard) -> bool) -> Heard {
        loop {
            let next = heard.recv().await.unwrap();
            if wanted(&next) {
                return next;
            }
        }
    }

    #[test]
    fn events_come_out_whole_however_they_are_cut() {
        let text = ": \n\nevent: config_changed\ndata: {\"id\":7,\"at_ms\":1,\"kind\":\"config_changed\",\"data\":{\"keys\":[\"日\"]}}\n\n\
                    event: missed\ndata: {\"count\":3}\n\n";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let found: Vec<Heard> = text.as_bytes().chunks(size).flat_map(|chunk| lines.take(chunk)).collect();
            let [Heard::Event(event, raw), Heard::Missed] = &found[..] else { panic!("{size}: {found:?}") };
            assert_eq!((event.id, event.kind.as_str()), (Some(7), "config_changed"));
            assert_eq!(event.data["keys"][0], "日");
            assert!(raw.starts_with("{\"id\":7"));
        }
    }

    #[tokio::test]
    async fn listeners_hear_the_service_begin_end_and_begin_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), "proxy:\n  port: 0\n").unwrap();
        let (host, work) = Host::new(Home::at(dir.path()), LogControl::default());
        let out = channel();
        let mut heard = out.subscribe();
        let reading = read(host.clone(), out);
        let seen = std::cell::Cell::new(false);
        let test = async {
            let set = async |level: &str| -> serde_json::Value {
                let body = serde_json::json!({ "value": level });
                host.client().call(Method::PUT, "/api/v1/config/log.level", Some(&body)).await.unwrap()
            };
            until(&mut heard, |heard| *heard == Heard::Open).await;
            set("debug").await;
            let event =
                until(&mut heard, |heard| matches!(heard, Heard::Event(event, _) if event.kind == "config_changed"));
            let Heard::Event(event, _) = event.await else { panic!("no event") };
            assert_eq!(event.data["keys"][0], "log.level");
            host.order(Order::Stop);
            until(&mut heard, |heard| *heard == Heard::Quiet).await;
            host.view().wait_for(|view| *view == View::Stopped { problem: None }).await.unwrap();
            host.order(Order::Start);
            until(&mut heard, |heard| *heard == Heard::Open).await;
            set("info").await;
            until(&mut heard, |heard| matches!(heard, Heard::Event(event, _) if event.kind == "config_changed")).await;
            seen.set(true);
            host.quit().await;
        };
        tokio::select! {
            // It ends with the service's keeper, and not before.
            () = reading => assert!(seen.get(), "the feed ended"),
            ((), ()) = async { tokio::join!(work, test) } => {}
        }
    }
}
