//! Twins of devices.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use identity::{ClientKind, ClientName};
use serde_json::Value;

use crate::clients::{self, date_time};
use crate::desk::Desk;
use crate::types::{Page, TwinConflict};
use crate::wrong::{Done, Wrong};

/// Both states of a device's twin with their versions.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/devices/{id}/twin", tag = "twins", operation_id = "show_twin",
    responses((status = 200, body = serde_json::Value)))]
pub(crate) async fn get(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id)): Path<(String, String)>,
) -> Done<impl IntoResponse> {
    let device = known_device(&desk, &tenant, &id).await?;
    let hub = desk.hub().await?;
    let twin = hub.twin(device.tenant(), device.id()).await;
    let twin = twin.ok_or_else(Wrong::no_answer)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], twin))
}

/// Edits of the desired state that were given up for others, on the other side of a link between edge and cloud: the
/// newest 32. Of a value of more than 512 bytes its beginning is shown.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/devices/{id}/twin/conflicts", tag = "twins",
    operation_id = "list_twin_conflicts", responses((status = 200, body = Page<TwinConflict>)))]
pub(crate) async fn conflicts(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id)): Path<(String, String)>,
) -> Done<Json<Page<TwinConflict>>> {
    let device = known_device(&desk, &tenant, &id).await?;
    let hub = desk.hub().await?;
    let edits = hub.lost_edits(device.tenant(), device.id()).await;
    let edits = edits.ok_or_else(Wrong::no_answer)?;
    let edits: Vec<hub::LostEdit> = serde_json::from_slice(&edits).map_err(|error| Wrong::here(error.to_string()))?;
    Ok(Json(Page {
        items: edits.into_iter().map(conflict).collect(),
        has_more: false,
    }))
}

fn conflict(edit: hub::LostEdit) -> TwinConflict {
    TwinConflict {
        at: date_time((edit.at_ms / 1_000) as i64),
        side: edit.side,
        number: edit.number,
        pointer: edit.pointer,
        kept: edit.kept,
        lost: edit.lost,
    }
}

/// A merge patch of the desired state (RFC 7396); the answer is that of `twin/desired/set/result`, once it is safe.
#[utoipa::path(patch, path = "/v1/tenants/{tenant}/devices/{id}/twin", tag = "twins", operation_id = "set_desired",
    request_body(content = serde_json::Value, content_type = "application/merge-patch+json"), responses((status = 200, body = serde_json::Value)))]
pub(crate) async fn patch(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id)): Path<(String, String)>,
    patch: Bytes,
) -> Done<Response> {
    let device = known_device(&desk, &tenant, &id).await?;
    let answer = set_desired(&desk, &device, patch.into()).await?;
    let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    Ok((status.unwrap_or(StatusCode::OK), axum::Json(answer)).into_response())
}

/// The hub's answer to a patch of the desired state, whichever it is.
pub(crate) async fn set_desired(desk: &Desk, device: &ClientName, patch: Vec<u8>) -> Done<Value> {
    let hub = desk.hub().await?;
    let answer = hub.set_twin(device.tenant(), device.id(), patch).await;
    let answer = answer.ok_or_else(Wrong::no_answer)?;
    serde_json::from_slice(&answer).map_err(|error| Wrong::here(error.to_string()))
}

/// The device, if it is registered, or if the edge lets devices in that are not.
pub(crate) async fn known_device(desk: &Desk, tenant: &str, id: &str) -> Done<ClientName> {
    let name = ClientName::new(tenant, id)?;
    if !desk.about.edge.allow_anonymous {
        clients::find(desk, &name, ClientKind::Device).await?;
    }
    Ok(name)
}
