//! Events: the kept ones as a list, everything live as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::sse;
use futures::Stream;
use futures::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use super::{Asked, Problem};
use crate::bus::Event;
use crate::core::Core;

/// Which events.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Of this kind.
    pub kind: Option<String>,
    /// Older than this one.
    pub before: Option<i64>,
    /// At most so many; 50 if absent, 1,000 at most.
    pub limit: Option<u32>,
}

/// Kept events, newest first.
#[utoipa::path(get, path = "/api/v1/events", operation_id = "events", tag = "events", params(EventsQuery),
    responses((status = 200, body = Vec<Event>), (status = "default", body = Problem)))]
pub(super) async fn list(
    State(core): State<Core>,
    Asked(query): Asked<EventsQuery>,
) -> Result<Json<Vec<Event>>, Problem> {
    let Some(store) = core.journal().await? else { return Ok(Json(Vec::new())) };
    let limit = query.limit.unwrap_or(50).clamp(1, 1000);
    let before = query.before.unwrap_or(i64::MAX);
    let found = store.events_before(before, query.kind.as_deref(), limit).await.map_err(super::store_problem)?;
    Ok(Json(found.into_iter().map(event).collect()))
}

fn event(kept: store::Event) -> Event {
    let data = serde_json::from_str(&kept.json).unwrap_or_default();
    Event { id: Some(kept.id), at_ms: kept.at_ms, kind: kept.kind, data }
}

/// Everything that happens from now on, as server-sent events: `event:` is the kind, `data:` the event as JSON. A
/// listener that falls too far behind gets an event `missed` with the number of events it did not hear.
#[utoipa::path(get, path = "/api/v1/events/stream", operation_id = "eventStream", tag = "events",
    responses((status = 200, description = "Events", body = Event, content_type = "text/event-stream"),
              (status = "default", body = Problem)))]
pub(super) async fn live(
    State(core): State<Core>,
) -> Result<sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Problem> {
    let run = core.running()?;
    let (bus, ending) = (run.bus.listen(), run.control.quit.clone());
    let events = stream::unfold((bus, ending), |(mut bus, ending)| async move {
        let next = tokio::select! {
            biased;
            () = ending.cancelled() => return None,
            next = bus.recv() => next,
        };
        let event = match next {
            Ok(event) => sse::Event::default().event(&event.kind).json_data(&event).unwrap_or_default(),
            Err(RecvError::Lagged(count)) => {
                sse::Event::default().event("missed").data(format!("{{\"count\":{count}}}"))
            }
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(event), (bus, ending)))
    });
    Ok(sse::Sse::new(events).keep_alive(sse::KeepAlive::new().interval(Duration::from_secs(15))))
}
