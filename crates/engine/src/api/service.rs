//! Stop and restart. The service ends itself; whoever hosts it (command line or window) decides what follows.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Code, Problem};
use crate::core::{Core, End};

/// The request was taken; the service ends within ten seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Process that ends or restarts.
    pub pid: u32,
}

/// Ends the service: running answers are finished, at most for some seconds, and everything is recorded.
#[utoipa::path(post, path = "/api/v1/stop", operation_id = "stop", tag = "service",
    responses((status = 200, body = Accepted), (status = "default", body = Problem)))]
pub(super) async fn stop(State(core): State<Core>) -> Result<Json<Accepted>, Problem> {
    end(&core, End::Stop)
}

/// Ends the service and starts it again with the same options. Refused, and nothing ends, if the start would fail:
/// the config file cannot be used, or its address cannot be had.
#[utoipa::path(post, path = "/api/v1/restart", operation_id = "restart", tag = "service",
    responses((status = 200, body = Accepted), (status = "default", body = Problem)))]
pub(super) async fn restart(State(core): State<Core>) -> Result<Json<Accepted>, Problem> {
    core.running()?;
    crate::restart::check(&core).await?;
    end(&core, End::Restart)
}

fn end(core: &Core, how: End) -> Result<Json<Accepted>, Problem> {
    match core.running()?.ask_end(how) {
        counts if counts == how => Ok(Json(Accepted { pid: std::process::id() })),
        End::Stop => Err(Problem::new(Code::Conflict, "The service is stopping already.")
            .hint("When it has ended: metaclaw start --daemon")),
        End::Restart => {
            Err(Problem::new(Code::Conflict, "The service is restarting just now.").hint("Try again in a moment."))
        }
    }
}
