//! Which request goes where.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};

use crate::desk::Desk;
use crate::types::EdgeInfo;
use crate::wrong::Wrong;
use crate::{applying, calling, clients, credentials, health, links, metrics, routes, sessions, tenants, twins};

/// Bytes of a request's body: a manifest of the longest kind, as a JSON string.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// All that operators ask, under `/v1`; for the control socket alone, since whoever reaches it may do anything.
pub fn control_router(desk: Arc<Desk>) -> Router {
    let tenant = Router::new()
        .route("/", get(tenants::show).patch(tenants::change).delete(tenants::remove))
        .route("/sessions", get(sessions::list))
        .route("/routes", get(routes::list))
        .route("/routes/{name}", get(routes::show).delete(routes::remove))
        .route("/devices/{id}/twin", get(twins::get).patch(twins::patch))
        .route("/devices/{id}/methods/{name}", post(calling::call))
        .route("/{kinds}", get(clients::list).post(clients::add))
        .route(
            "/{kinds}/{id}",
            get(clients::show).patch(clients::change).delete(clients::remove),
        )
        .route(
            "/{kinds}/{id}/credentials",
            get(credentials::list).post(credentials::add).put(credentials::replace),
        )
        .route("/{kinds}/{id}/credentials/{credential}", delete(credentials::revoke));
    let control = Router::new()
        .route("/v1/edge", get(edge))
        .route("/v1/configuration", get(configuration))
        .route("/v1/log", get(log))
        .route("/v1/link", get(links::show))
        .route("/v1/edges", get(links::list))
        .route("/v1/tenants", get(tenants::list).post(tenants::add))
        .route("/v1/apply", post(applying::apply))
        .nest("/v1/tenants/{tenant}", tenant);
    control
        .merge(public())
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(desk)
}

/// Health, readiness and metrics.
pub fn public_router(desk: Arc<Desk>) -> Router {
    public().with_state(desk)
}

fn public() -> Router<Arc<Desk>> {
    Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .fallback(nothing_here)
}

async fn nothing_here() -> Wrong {
    Wrong::new(
        StatusCode::NOT_FOUND,
        "nothing here; there are /healthz, /readyz and /metrics",
    )
}

async fn edge(State(desk): State<Arc<Desk>>) -> Json<EdgeInfo> {
    Json(desk.about.edge.clone())
}

async fn configuration(State(desk): State<Arc<Desk>>) -> String {
    desk.configuration()
}

async fn log(State(desk): State<Arc<Desk>>) -> String {
    desk.about.log.read()
}
