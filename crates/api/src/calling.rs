//! Method calls to devices.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use device::LONGEST_TIMEOUT_MS;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::desk::Desk;
use crate::twins::known_device;
use crate::wrong::{Done, Wrong};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Timeout {
    /// How long to wait for the result, in milliseconds.
    timeout_ms: u64,
}

/// Calls a method of a device: the result, the device's own or the hub's in its place.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/devices/{id}/methods/{name}", tag = "methods", operation_id = "call_method",
    params(Timeout), request_body(content = serde_json::Value, content_type = "application/json"), responses((status = 200, body = serde_json::Value)))]
pub(crate) async fn call(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id, method)): Path<(String, String, String)>,
    Query(Timeout { timeout_ms }): Query<Timeout>,
    payload: Bytes,
) -> Done<impl IntoResponse> {
    if let Err(error) = device::topic::validate_id(&method) {
        return Err(Wrong::request(format!("method \"{method}\": {error}")));
    }
    if !(1..=LONGEST_TIMEOUT_MS).contains(&timeout_ms) {
        return Err(Wrong::request(format!(
            "timeout_ms is {timeout_ms}; it must be from 1 to {LONGEST_TIMEOUT_MS}"
        )));
    }
    let device = known_device(&desk, &tenant, &id).await?;
    desk.account_for_call(&device, &method);
    let hub = desk.hub().await?;
    let timeout = Duration::from_millis(timeout_ms);
    let called = hub
        .call(device.tenant(), device.id(), &method, payload.into(), timeout)
        .await;
    let result = called.ok_or_else(Wrong::no_answer)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], result))
}
