//! Routes: what each did, its manifest, its end.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::applying::{self, Removal};
use crate::desk::Desk;
use crate::edge_manifests::Key;
use crate::types::{LastFailureInfo, Page, RouteInfo};
use crate::wrong::{Done, Wrong};

/// The routes of a tenant, and what each did.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/routes", tag = "routes", operation_id = "list_routes",
    responses((status = 200, body = Page<RouteInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<RouteInfo>>> {
    desk.check_tenant(&tenant).await?;
    let items = routes_of(&desk, &tenant).await?;
    Ok(Json(Page { items, has_more: false }))
}

/// The routes as they were applied, with what each did where the edge runs.
pub(crate) async fn routes_of(desk: &Desk, tenant: &str) -> Done<Vec<RouteInfo>> {
    let did: HashMap<String, hub::RouteInfo> = match desk.running_hub() {
        None => HashMap::new(),
        Some(hub) => {
            let did = hub.routes(tenant).await.ok_or_else(Wrong::no_answer)?;
            did.into_iter().map(|route| (route.name.clone(), route)).collect()
        }
    };
    let kept = desk.manifests.routes_of(tenant).into_iter();
    let mut routes: Vec<RouteInfo> = kept.map(|route| info(&route, did.get(&route.name))).collect();
    routes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(routes)
}

fn info(route: &manifest::Route, did: Option<&hub::RouteInfo>) -> RouteInfo {
    let counters = did.map(|did| did.counters).unwrap_or_default();
    let last_failure = did.and_then(|did| did.last_failure.as_ref());
    RouteInfo {
        tenant: route.tenant.clone(),
        name: route.name.clone(),
        from: route.from.clone(),
        matched: counters.matched,
        not_met: counters.not_met,
        delivered: counters.delivered,
        failed: counters.failed,
        hop_limit: counters.hop_limit,
        last_failure: last_failure.map(|failure| LastFailureInfo {
            topic: failure.topic.clone(),
            reason: failure.reason.clone(),
        }),
    }
}

/// The manifest of a route.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/routes/{name}", tag = "routes", operation_id = "show_route",
    responses((status = 200, body = String, content_type = "application/yaml")))]
pub(crate) async fn show(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<impl IntoResponse> {
    check_names(&tenant, &name)?;
    let kept = desk.manifests.get(&tenant, "Route", &name).await?;
    let route = kept.ok_or_else(|| absent(&desk, &tenant, &name))?;
    Ok(([(header::CONTENT_TYPE, "application/yaml")], route.to_yaml()))
}

/// Deletes a route.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/routes/{name}", tag = "routes", operation_id = "remove_route",
    params(Removal), responses((status = 204)))]
pub(crate) async fn remove(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
    Query(Removal { take_over }): Query<Removal>,
) -> Done<StatusCode> {
    check_names(&tenant, &name)?;
    let key = Key {
        tenant: tenant.clone(),
        kind: "Route".to_owned(),
        name: name.clone(),
    };
    match applying::delete(&desk, &key, take_over).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(absent(&desk, &tenant, &name)),
    }
}

fn check_names(tenant: &str, name: &str) -> Done<()> {
    identity::check_name("tenant", tenant)?;
    Ok(identity::check_name("route", name)?)
}

fn absent(desk: &Desk, tenant: &str, name: &str) -> Wrong {
    let known = desk.manifests.routes_of(tenant);
    let near = manifest::nearest(name, known.iter().map(|route| &*route.name));
    let hint = near.map_or("; see: selvedge get routes".to_owned(), |near| {
        format!("; did you mean \"{near}\"?")
    });
    Wrong::absent(format!("no route \"{name}\" in tenant {tenant}{hint}"))
}
