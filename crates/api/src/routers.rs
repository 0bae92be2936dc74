//! Which request goes where, and who may send it.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::{get, put};
use axum::{Json, Router};
use identity::Role;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::desk::Desk;
use crate::edge_manifests::for_edges;
use crate::guard::Needs;
use crate::types::EdgeInfo;
use crate::wrong::Wrong;
use crate::{
    applications, applying, bodies, calling, clients, credentials, document, enrolment, guard, health, joining, links,
    live, locating, logins, logs, methods, metrics, nodes, posting, routes as flows, services, sessions, snapshots,
    telemetry, tenants, token_keys, twins, users,
};

/// Bytes of a request's body on the control socket: a manifest of the longest kind, as a JSON string.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of the body of a user's request on a port.
const USER_BODY_MAX_BYTES: usize = 1024 * 1024;

/// Bytes of the body of a request on a port of somebody who is not known yet.
const OPEN_BODY_MAX_BYTES: usize = 16 * 1024;

type Routes = OpenApiRouter<Arc<Desk>>;

/// Routes for users, by what each asks of its caller.
fn guarded() -> Vec<(Needs, Routes)> {
    vec![
        (Needs::of_cloud(Role::Viewer), of_cloud()),
        (
            Needs::of_cloud(Role::Operator),
            Routes::new()
                .routes(routes!(applying::apply))
                .routes(routes!(snapshots::restoring::restore))
                .routes(routes!(for_edges::apply))
                .routes(routes!(for_edges::remove)),
        ),
        (Needs::of_cloud(Role::Admin), administering_cloud()),
        (Needs::in_tenant(Role::Viewer), viewing()),
        (Needs::in_tenant(Role::Operator), operating()),
        (Needs::in_tenant(Role::Admin), administering()),
    ]
}

fn of_cloud() -> Routes {
    Routes::new()
        .routes(routes!(edge))
        .routes(routes!(links::show))
        .routes(routes!(links::list))
        .routes(routes!(nodes::list))
        .routes(routes!(tenants::list))
}

fn administering_cloud() -> Routes {
    Routes::new()
        .routes(routes!(tenants::add))
        .routes(routes!(tenants::change, tenants::remove))
        .routes(routes!(enrolment::invite, enrolment::withdraw))
        .routes(routes!(nodes::ban, nodes::lift_ban))
        .routes(routes!(users::list_of_cloud, users::add_to_cloud))
        .routes(routes!(users::change_in_cloud, users::remove_from_cloud))
        .routes(routes!(users::set_password_in_cloud))
        .routes(routes!(token_keys::list, token_keys::rotate))
}

fn viewing() -> Routes {
    Routes::new()
        .routes(routes!(tenants::show))
        .routes(routes!(links::of_tenant))
        .routes(routes!(sessions::list))
        .routes(routes!(flows::list))
        .routes(routes!(flows::show))
        .routes(routes!(applications::list))
        .routes(routes!(applications::show))
        .routes(routes!(logs::show))
        .routes(routes!(applications::events))
        .routes(routes!(applications::usage))
        .routes(routes!(services::list))
        .routes(routes!(snapshots::list))
        .routes(routes!(applications::config_maps))
        .routes(routes!(applications::secrets))
        .routes(routes!(applications::manifest))
        .routes(routes!(for_edges::list))
        .routes(routes!(for_edges::show))
        .routes(routes!(clients::list))
        .routes(routes!(clients::show))
        .routes(routes!(credentials::list))
        .routes(routes!(locating::locate))
        .routes(routes!(twins::get))
        .routes(routes!(twins::conflicts))
        .routes(routes!(telemetry::latest))
        .routes(routes!(telemetry::stream))
        .routes(routes!(live::watch))
}

fn operating() -> Routes {
    Routes::new()
        .routes(routes!(flows::remove))
        .routes(routes!(applications::remove))
        .routes(routes!(snapshots::taking::take))
        .routes(routes!(snapshots::downloads::download))
        .routes(routes!(snapshots::downloads::download_latest))
        .routes(routes!(snapshots::remove))
        .routes(routes!(clients::add))
        .routes(routes!(clients::change, clients::remove))
        .routes(routes!(credentials::add, credentials::replace))
        .routes(routes!(credentials::revoke))
        .routes(routes!(twins::patch))
        .routes(routes!(calling::call))
}

fn administering() -> Routes {
    Routes::new()
        .routes(routes!(users::list_of_tenant, users::add_to_tenant))
        .routes(routes!(users::change_in_tenant, users::remove_from_tenant))
        .routes(routes!(users::set_password_in_tenant))
}

/// Routes for those who are not known yet.
fn open() -> Routes {
    Routes::new()
        .routes(routes!(logins::log_in))
        .routes(routes!(logins::refresh))
        .routes(routes!(enrolment::authority))
        .routes(routes!(enrolment::join))
        .routes(routes!(enrolment::renew))
        .routes(routes!(document::show))
}

/// For devices.
fn posting() -> Routes {
    Routes::new()
        .routes(routes!(posting::post))
        .routes(routes!(posting::post_own))
}

/// For users of every tenant and role.
fn own() -> (Needs, Routes) {
    (
        Needs::in_tenant(Role::Viewer),
        Routes::new().routes(routes!(logins::log_out)),
    )
}

/// What a port serves under `/v1`, described.
pub(crate) fn described() -> OpenApi {
    let mut all = open();
    for (_, mut routes) in guarded().into_iter().chain([own()]) {
        document::require_login(routes.get_openapi_mut());
        all = all.merge(routes);
    }
    let mut posting = posting();
    document::require_device(posting.get_openapi_mut());
    all.merge(posting).into_openapi()
}

/// All that operators ask, under `/v1`; for the control socket alone, since whoever reaches it may do anything.
pub fn control_router(desk: Arc<Desk>) -> Router {
    let all = guarded()
        .into_iter()
        .fold(Routes::new(), |all, (_, routes)| all.merge(routes));
    let (all, _) = all.split_for_parts();
    all.route("/v1/configuration", get(configuration))
        .route("/v1/log", get(log))
        .route("/v1/link", put(joining::join))
        .route("/v1/site", put(nodes::join))
        .merge(probes())
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(desk)
}

/// For a port: `/v1` for users who log in; health, readiness and metrics for all.
pub fn public_router(desk: Arc<Desk>) -> Router {
    let bounded = |max_bytes: usize| from_fn_with_state(max_bytes, bodies::bound);
    let mut all = open().route_layer(bounded(OPEN_BODY_MAX_BYTES));
    for (needs, routes) in guarded().into_iter().chain([own()]) {
        let check = from_fn_with_state((Arc::clone(&desk), needs), guard::check);
        // The outer one first: nothing is read of whoever may not ask.
        all = all.merge(routes.route_layer(bounded(USER_BODY_MAX_BYTES)).route_layer(check));
    }
    let posting = posting()
        .route_layer(bounded(USER_BODY_MAX_BYTES))
        .route_layer(from_fn_with_state(Arc::clone(&desk), posting::check));
    let (all, _) = all.merge(posting).split_for_parts();
    all.layer(from_fn(methods::check))
        .layer(map_response(bodies::errors_in_json))
        .merge(probes())
        .with_state(desk)
}

/// Health, readiness and metrics.
fn probes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .fallback(nothing_here)
}

async fn nothing_here() -> Wrong {
    Wrong::new(
        StatusCode::NOT_FOUND,
        "nothing here; there are /healthz, /readyz, /metrics, and what /v1/openapi.json describes",
    )
}

/// Which edge or cloud this is.
#[utoipa::path(get, path = "/v1/edge", tag = "edges", operation_id = "show_edge",
    responses((status = 200, body = EdgeInfo)))]
async fn edge(State(desk): State<Arc<Desk>>) -> Json<EdgeInfo> {
    Json(desk.about.edge.clone())
}

async fn configuration(State(desk): State<Arc<Desk>>) -> String {
    desk.configuration()
}

async fn log(State(desk): State<Arc<Desk>>) -> String {
    desk.about.log.read()
}
