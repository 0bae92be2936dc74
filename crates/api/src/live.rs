//! What devices say, as it comes in: by Server-Sent Events, or by WebSocket where the request asks for one.

mod events;
mod reader;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cloud::{Cursor, Filter};
use identity::ACCESS_TOKEN_VALID_S;
use serde::Deserialize;
use utoipa::IntoParams;

use self::reader::Reader;
use crate::desk::Desk;
use crate::doors::Patience;
use crate::guard::Pass;
use crate::points::LivePoint;
use crate::wrong::{Done, Wrong};

/// An answer lasts no longer, whether its caller's token is looked at or not: as long as the newest token is valid.
const LONGEST: Duration = Duration::from_secs(ACCESS_TOKEN_VALID_S as u64);

/// Time beyond it to say so.
const GRACE: Duration = Duration::from_secs(30);

/// The header in which a client of Server-Sent Events says what it has seen (HTML Living Standard, section 9.2.4).
const LAST_EVENT_ID: &str = "last-event-id";

/// What is watched, and from where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Watched {
    /// One device; all of the tenant where nothing is said.
    device: Option<String>,
    /// One stream; all where nothing is said.
    stream: Option<String>,
    /// The `id` of the last event that was seen: those that are in the database since then come first. Clients of
    /// Server-Sent Events say it in `Last-Event-ID`.
    after: Option<String>,
}

/// Points as they come in: as Server-Sent Events, or, where the request is an upgrade to WebSocket, in messages.
///
/// Of Server-Sent Events each point is a `message` with an `id` and a [`LivePoint`]; `event: lost` says in
/// `{"points": N}` how many points came faster than they were read, or `null` where that cannot be told; `event: end`
/// says in `{"reason": …}` why nothing more comes, such as a token that is over. A comment every 5 s says that the
/// connection lives. By WebSocket each message is JSON: `{"id": …, "point": …}`, `{"lost": …}` or `{"end": …}`.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/telemetry/live", tag = "live", operation_id = "live_telemetry",
    params(Watched), responses(
        (status = 200, body = LivePoint, content_type = "text/event-stream"),
        (status = 101, description = "A WebSocket.")))]
pub(crate) async fn watch(
    State(desk): State<Arc<Desk>>,
    Path(tenant): Path<String>,
    Query(watched): Query<Watched>,
    pass: Option<Extension<Pass>>,
    mut request: Request,
) -> Done<Response> {
    let after = after(&watched, request.headers())?;
    let filter = Filter {
        tenant,
        device: watched.device,
        stream: watched.stream,
    };
    let pass = pass.map(|Extension(pass)| pass);
    let accept = websocket::accepted(request.headers())?;
    let reader = Reader::new(desk, filter, after, pass)?;
    if let Some(accept) = accept {
        return Ok(websocket::answer(&mut request, &accept, reader));
    }
    if let Some(patience) = request.extensions().get::<Patience>() {
        patience.extend_to(LONGEST + GRACE);
    }
    Ok(events::answer(reader).into_response())
}

fn after(watched: &Watched, headers: &HeaderMap) -> Done<Option<Cursor>> {
    let header = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let given = watched.after.as_deref().or(header).filter(|given| !given.is_empty());
    let cursor = given.map(str::parse).transpose();
    cursor.map_err(|error| Wrong::request(format!("after: {error}")))
}

impl From<cloud::TooMany> for Wrong {
    fn from(error: cloud::TooMany) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()).retry_after(10)
    }
}

/// Nobody between may keep, change or hold it back (nginx: `X-Accel-Buffering`).
const UNBUFFERED: [(header::HeaderName, &str); 2] = [
    (header::CACHE_CONTROL, "no-store, no-transform"),
    (header::HeaderName::from_static("x-accel-buffering"), "no"),
];
