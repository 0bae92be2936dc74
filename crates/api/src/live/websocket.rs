//! The same in messages of a WebSocket (RFC 6455).

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::json;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::reader::{Event, Reader};
use super::{GRACE, LONGEST};
use crate::points::LivePoint;
use crate::wrong::{Done, Wrong};

/// What a client may choose as the protocol within; it has to offer it to have its token among the protocols.
const PROTOCOL: &str = "selvedge.live";

/// A client has nothing to say here.
const INCOMING_MAX_BYTES: usize = 1_024;

/// Time for a message to leave; longer stalls end the connection.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// What an upgrade is accepted by.
pub(super) struct Accept {
    key: String,
    has_protocol: bool,
}

/// What the request for a WebSocket is accepted by; `None`: it is none.
pub(super) fn accepted(headers: &HeaderMap) -> Done<Option<Accept>> {
    let has = |name, word: &str| {
        let value = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let mut words = value.unwrap_or_default().split(',');
        words.any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    if !has(header::UPGRADE, "websocket") {
        return Ok(None);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.filter(|_| has(header::CONNECTION, "upgrade") && has(header::SEC_WEBSOCKET_VERSION, "13"));
    let key = key.ok_or_else(|| Wrong::request("no request for a WebSocket of version 13 (RFC 6455, section 4.1)"))?;
    Ok(Some(Accept {
        key: derive_accept_key(key.as_bytes()),
        has_protocol: has(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL),
    }))
}

/// Switches over, and has the reader's events sent from then on.
pub(super) fn answer(request: &mut Request, accept: &Accept, reader: Reader) -> Response {
    let upgrading = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let served = async {
            if let Ok(upgraded) = upgrading.await {
                serve(upgraded, reader).await;
            }
        };
        // One that stalls is left when its token is over.
        let _ = tokio::time::timeout(LONGEST + GRACE, served).await;
    });
    let mut response = (StatusCode::SWITCHING_PROTOCOLS, Body::empty()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    let key = HeaderValue::from_str(&accept.key).expect("base64 is a header's value");
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    if accept.has_protocol {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    response
}

async fn serve(upgraded: Upgraded, mut reader: Reader) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(INCOMING_MAX_BYTES))
        .max_frame_size(Some(INCOMING_MAX_BYTES));
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
    let (mut sink, mut stream) = socket.split();
    // Answers to pings go out with what is sent next.
    let gone = async { while let Some(Ok(_)) = stream.next().await {} };
    let sending = async {
        while let Some(event) = reader.next().await {
            let sent = tokio::time::timeout(SEND_TIMEOUT, sink.send(message(&event))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
        let _: Result<(), Error> = sink.close().await;
    };
    tokio::select! {
        () = gone => {}
        () = sending => {}
    }
}

#[derive(Serialize)]
struct Told<'a> {
    id: &'a Option<String>,
    point: &'a LivePoint,
}

fn message(event: &Event) -> Message {
    let text = match event {
        // As the device wrote it: a value between would not keep every digit.
        Event::Point(id, point) => serde_json::to_string(&Told { id, point }),
        Event::Lost(points) => Ok(json!({"lost": points}).to_string()),
        Event::End(reason) => Ok(json!({"end": reason}).to_string()),
        Event::Beat => return Message::Ping(Vec::new().into()),
    };
    Message::text(text.expect("an event is JSON"))
}
