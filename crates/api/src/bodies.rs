//! Bodies of requests and answers on a port: read whole within a time and a size, and never an error without JSON.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::wrong::{Done, Wrong};

/// Time for the body of a request to arrive.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a library's words about a request that it could not read.
const WORDS_MAX_BYTES: usize = 16 * 1024;

/// Reads the body before the request goes on: at most `max_bytes`, and not for long.
pub(crate) async fn bound(State(max_bytes): State<usize>, request: Request, next: Next) -> Done<Response> {
    let (parts, body) = request.into_parts();
    // What its length says alone is refused before a byte of it is read.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(too_long(max_bytes));
    }
    let body = read(body, max_bytes).await?;
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}

async fn read(body: Body, max_bytes: usize) -> Done<Bytes> {
    let reading = Limited::new(body, max_bytes).collect();
    match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long(max_bytes)),
        Ok(Err(error)) => Err(Wrong::request(format!("the body cannot be read: {error}"))),
        Err(_) => {
            let message = format!("the body has not come within {} s", TIMEOUT.as_secs());
            Err(Wrong::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

fn too_long(max_bytes: usize) -> Wrong {
    let message = format!("the body is longer than {max_bytes} bytes");
    Wrong::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Says in JSON what a library said in plain words, or in none.
pub(crate) async fn errors_in_json(response: Response) -> Response {
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_error || is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let words = Limited::new(body, WORDS_MAX_BYTES).collect().await;
    let words = words.map(|words| words.to_bytes()).unwrap_or_default();
    let message = match words.is_empty() {
        true => parts.status.canonical_reason().unwrap_or_default().to_owned(),
        false => String::from_utf8_lossy(&words).into_owned(),
    };
    let (status, body) = Wrong::new(parts.status, message).into_response().into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(status.headers);
    Response::from_parts(parts, body)
}
