//! Telemetry that devices post, each with its own credential.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64ct::{Base64, Encoding};
use hub::Posted;
use identity::{Identity, Presented, Principal, PrincipalKind, Secret};

use crate::desk::Desk;
use crate::doors::Peer;
use crate::guard::{bearer, unauthorized};
use crate::logins::attempt;
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// Where tokens without a user name are counted when they fail.
const TOKENS: &str = "(token)";

/// What a device sends of itself.
struct Shown {
    user_name: Option<String>,
    secret: Secret,
}

/// Lets a request through that is of the device in its path; the handler finds a [`Principal`] with it.
pub(crate) async fn check(
    State(desk): State<Arc<Desk>>,
    params: RawPathParams,
    Peer(address): Peer,
    mut request: Request,
    next: Next,
) -> Done<Response> {
    let shown = shown(request.headers())
        .ok_or_else(|| unauthorized("a device shows its user name and password (Basic), or its token (Bearer)"))?;
    let name = shown.user_name.clone().unwrap_or_else(|| TOKENS.to_owned());
    let authenticate = move |identity: &Identity| {
        let presented = Presented {
            user_name: shown.user_name.as_deref(),
            password: Some(shown.secret.expose().as_bytes()),
            certificate: None,
        };
        identity.authenticate(&presented, unix_now_s())
    };
    let who = attempt(&desk, address, &name, authenticate).await?.principal;
    let is_own = |(name, value): (&str, &str)| match name {
        "tenant" => *who.tenant == *value,
        "id" => *who.id == *value,
        _ => true,
    };
    if who.kind != PrincipalKind::Device || !params.iter().all(is_own) {
        return Err(Wrong::new(StatusCode::FORBIDDEN, "a device speaks for itself alone"));
    }
    request.extensions_mut().insert(who);
    Ok(next.run(request).await)
}

fn shown(headers: &HeaderMap) -> Option<Shown> {
    if let Some(token) = bearer(headers) {
        return Some(Shown {
            user_name: None,
            secret: Secret::new(token.to_owned()),
        });
    }
    let (scheme, encoded) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let decoded = Base64::decode_vec(encoded.trim()).ok()?;
    let decoded = Secret::new(String::from_utf8(decoded).ok()?);
    let (user_name, password) = decoded.expose().split_once(':')?;
    scheme.eq_ignore_ascii_case("basic").then(|| Shown {
        user_name: Some(user_name.to_owned()),
        secret: Secret::new(password.to_owned()),
    })
}

/// A message of the device whose credential it comes with, as its PUBLISH to `devices/{id}/telemetry` with QoS 1: 204
/// once it is safe, 429 where its tenant sends too fast, 507 where there is no room.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/devices/{id}/telemetry", tag = "devices",
    operation_id = "post_telemetry", params(("tenant" = String, Path), ("id" = String, Path)),
    request_body(content = serde_json::Value, content_type = "application/json"), responses((status = 204)))]
pub(crate) async fn post(
    State(desk): State<Arc<Desk>>,
    Extension(device): Extension<Principal>,
    payload: Bytes,
) -> Done<StatusCode> {
    take(&desk, &device, payload).await
}

/// The same, where the credential alone says of which tenant the device is.
#[utoipa::path(post, path = "/v1/devices/{id}/telemetry", tag = "devices",
    operation_id = "post_own_telemetry", params(("id" = String, Path)),
    request_body(content = serde_json::Value, content_type = "application/json"), responses((status = 204)))]
pub(crate) async fn post_own(
    State(desk): State<Arc<Desk>>,
    Extension(device): Extension<Principal>,
    payload: Bytes,
) -> Done<StatusCode> {
    take(&desk, &device, payload).await
}

async fn take(desk: &Desk, device: &Principal, payload: Bytes) -> Done<StatusCode> {
    let posted = desk.hub().await?.post(&device.tenant, &device.id, payload.into()).await;
    match posted.ok_or_else(Wrong::no_answer)? {
        Posted::Taken => Ok(StatusCode::NO_CONTENT),
        Posted::TooFast => {
            let message = format!("tenant {} sends faster than its quotas allow", device.tenant);
            Err(Wrong::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(1))
        }
        Posted::NoRoom => {
            let message = "the log is full, or the tenant has as much stored as it may";
            Err(Wrong::new(StatusCode::INSUFFICIENT_STORAGE, message))
        }
    }
}
