//! Method calls to devices.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use device::LONGEST_TIMEOUT_MS;
use hub::CALL_TIMEOUT_MS;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::desk::Desk;
use crate::twins::known_device;
use crate::wrong::{Done, Wrong};

/// Characters of a wrong value that an error repeats.
const SHOWN_CHARS: usize = 32;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Timeout {
    /// How long to wait for the result, in milliseconds; 5 s where nothing is said.
    #[param(value_type = Option<u64>, minimum = 1, maximum = 600_000)]
    timeout_ms: Option<String>,
}

impl Timeout {
    fn get(&self) -> Done<Duration> {
        let Some(text) = &self.timeout_ms else {
            return Ok(Duration::from_millis(CALL_TIMEOUT_MS));
        };
        let timeout_ms = text.parse().ok().filter(|ms| (1..=LONGEST_TIMEOUT_MS).contains(ms));
        timeout_ms.map(Duration::from_millis).ok_or_else(|| {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            Wrong::request(format!(
                "timeout_ms is \"{shown}\"; it must be a whole number from 1 to {LONGEST_TIMEOUT_MS}"
            ))
        })
    }
}

/// Calls a method of a device: the result, the device's own or the hub's in its place.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/devices/{id}/methods/{name}", tag = "methods", operation_id = "call_method",
    params(Timeout), request_body(content = serde_json::Value, content_type = "application/json"), responses((status = 200, body = serde_json::Value)))]
pub(crate) async fn call(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id, method)): Path<(String, String, String)>,
    Query(timeout): Query<Timeout>,
    payload: Bytes,
) -> Done<impl IntoResponse> {
    if let Err(error) = device::topic::validate_id(&method) {
        return Err(Wrong::request(format!("method \"{method}\": {error}")));
    }
    let timeout = timeout.get()?;
    let device = known_device(&desk, &tenant, &id).await?;
    desk.account_for_call(&device, &method);
    let hub = desk.hub().await?;
    let asked = hub
        .call(device.tenant(), device.id(), &method, payload.into(), timeout)
        .await;
    let result = asked.await.ok_or_else(Wrong::no_answer)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], result))
}
