//! Where devices are reached.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use hub::Location;

use crate::desk::Desk;
use crate::twins::known_device;
use crate::types::LocationInfo;
use crate::wrong::{Done, Wrong};

/// Where a device is reached at this moment.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/devices/{id}/location", tag = "clients",
    operation_id = "locate_device", responses((status = 200, body = LocationInfo)))]
pub(crate) async fn locate(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id)): Path<(String, String)>,
) -> Done<Json<LocationInfo>> {
    let device = known_device(&desk, &tenant, &id).await?;
    let located = desk.hub().await?.locate(device.tenant(), device.id()).await;
    Ok(Json(match located.ok_or_else(Wrong::no_answer)? {
        Location::Here => LocationInfo::Here,
        Location::Nowhere => LocationInfo::Nowhere,
        Location::Edge(edge) => {
            let presence = desk.connected.as_ref().map(|connected| connected.presence(&edge));
            LocationInfo::Edge {
                is_connected: presence.is_some_and(|presence| presence.is_connected),
                last_heard_s: presence
                    .and_then(|presence| presence.heard_ago)
                    .map(|ago| ago.as_secs()),
                edge: edge.to_string(),
            }
        }
    }))
}
