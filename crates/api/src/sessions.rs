//! Sessions, as they are now.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};

use crate::desk::Desk;
use crate::types::{Page, SessionInfo};
use crate::wrong::{Done, Wrong};

/// The sessions of a tenant, as they are now.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/sessions", tag = "sessions", operation_id = "list_sessions",
    responses((status = 200, body = Page<SessionInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<SessionInfo>>> {
    desk.check_tenant(&tenant).await?;
    let sessions = desk.hub().await?.sessions(&tenant).await;
    let sessions = sessions.ok_or_else(Wrong::no_answer)?;
    let items = sessions.into_iter().map(info).collect();
    Ok(Json(Page { items, has_more: false }))
}

fn info(session: hub::SessionInfo) -> SessionInfo {
    SessionInfo {
        owner: session.owner,
        client_id: session.client_id,
        address: session.address.map(|address| address.to_string()),
        is_connected: session.is_connected,
        subscriptions: session.subscriptions,
        queued_messages: session.queued_messages,
        queued_bytes: session.queued_bytes,
        in_flight: session.in_flight,
    }
}
