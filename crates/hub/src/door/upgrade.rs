//! The HTTP request that opens a WebSocket (RFC 6455 section 4.2): answered, or refused in the words of HTTP.

use std::io;

use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::uri::Authority;
use tungstenite::http::{HeaderValue, StatusCode, Uri};

use super::stream::Stream;
use crate::config::WebDoor;

/// Bytes of a request.
const REQUEST_MAX_BYTES: usize = 8 * 1024;

/// Where MQTT is.
const PATH: &str = "/mqtt";

/// The header that names the protocol inside a WebSocket.
const SUBPROTOCOL: &str = "Sec-WebSocket-Protocol";

/// Longest text of a client, in characters, that is said again.
const MAX_TEXT_CHARS: usize = 200;

/// Why no WebSocket was opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoUpgrade {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("no request for a WebSocket")]
    NoWebSocket,
    #[error("no WebSocket at this path; it is at {PATH}")]
    Path,
    #[error("a web page of {0:?}, which listen.websocket_origins does not have")]
    Origin(String),
}

impl NoUpgrade {
    /// What the client is told; nothing where it is gone.
    fn status(&self) -> Option<StatusCode> {
        match self {
            NoUpgrade::Socket(_) => None,
            NoUpgrade::NoWebSocket => Some(StatusCode::BAD_REQUEST),
            NoUpgrade::Path => Some(StatusCode::NOT_FOUND),
            NoUpgrade::Origin(_) => Some(StatusCode::FORBIDDEN),
        }
    }
}

/// Opens the WebSocket of a client, subprotocol `mqtt` (MQTT-6.0.0-3).
pub(crate) async fn upgrade(stream: &mut Stream, door: &WebDoor) -> Result<(), NoUpgrade> {
    let answer = match read(stream).await {
        Ok(request) => answer(&request, door),
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) => {
            stream.write(&answer).await?;
            stream.begin_frames();
            Ok(())
        }
        Err(error) => {
            if let Some(status) = error.status() {
                // The client may be gone; it is refused either way.
                let _ = stream.write(&refusal(status, &error)).await;
            }
            Err(error)
        }
    }
}

async fn read(stream: &mut Stream) -> Result<Request, NoUpgrade> {
    let mut head = Vec::new();
    while head.len() <= REQUEST_MAX_BYTES {
        stream.read(&mut head).await?;
        match Request::try_parse(&head).map_err(|_| NoUpgrade::NoWebSocket)? {
            // A client waits for the answer before it sends frames.
            Some((size, request)) if size == head.len() => return Ok(request),
            Some(_) => break,
            None => {}
        }
    }
    Err(NoUpgrade::NoWebSocket)
}

fn answer(request: &Request, door: &WebDoor) -> Result<Vec<u8>, NoUpgrade> {
    if request.uri().path() != PATH {
        return Err(NoUpgrade::Path);
    }
    let mut response = create_response(request).map_err(|_| NoUpgrade::NoWebSocket)?;
    check_origin(request, door)?;
    if let Some(name) = subprotocol(request) {
        let name = HeaderValue::from_static(name);
        response.headers_mut().insert(SUBPROTOCOL, name);
    }
    let mut answer = Vec::new();
    write_response(&mut answer, &response).map_err(|_| NoUpgrade::NoWebSocket)?;
    Ok(answer)
}

/// A browser says which page opens a WebSocket, and lets every page do so: the server is to judge (RFC 6455 section
/// 10.2). Programs say nothing.
fn check_origin(request: &Request, door: &WebDoor) -> Result<(), NoUpgrade> {
    let Some(origin) = request.headers().get("Origin") else {
        return Ok(());
    };
    let origin = String::from_utf8_lossy(origin.as_bytes());
    let is_listed = door.origins.iter().any(|known| known.eq_ignore_ascii_case(&origin));
    if is_listed || is_of_host(&origin, request) {
        return Ok(());
    }
    Err(NoUpgrade::Origin(origin.chars().take(MAX_TEXT_CHARS).collect()))
}

/// Whether the page is of the host that the WebSocket is asked of; its port may be another, since no page is served
/// here.
fn is_of_host(origin: &str, request: &Request) -> bool {
    let page = origin.parse::<Uri>().ok();
    let asked = request.headers().get("Host").and_then(|host| host.to_str().ok());
    let asked = asked.and_then(|host| host.parse::<Authority>().ok());
    match (page.as_ref().and_then(Uri::host), &asked) {
        (Some(page), Some(asked)) => page.eq_ignore_ascii_case(asked.host()),
        _ => false,
    }
}

/// The subprotocol to agree on: `mqtt`, or `mqttv3.1` with clients of MQTT 3.1.
fn subprotocol(request: &Request) -> Option<&'static str> {
    let offers = |name: &&str| {
        let mut values = request
            .headers()
            .get_all(SUBPROTOCOL)
            .iter()
            .filter_map(|value| value.to_str().ok());
        values.any(|names| names.split(',').any(|offered| offered.trim() == *name))
    };
    ["mqtt", "mqttv3.1"].into_iter().find(offers)
}

fn refusal(status: StatusCode, why: &NoUpgrade) -> Vec<u8> {
    let body = format!("{why}\n");
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_for(origin: &str, host: &str) -> Option<u16> {
        let request = Request::builder()
            .uri("/mqtt")
            .header("Connection", "keep-alive, Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("Origin", origin)
            .header("Host", host)
            .body(())
            .unwrap();
        let door = WebDoor {
            origins: ["https://dash.example".to_owned()].into(),
        };
        let refused = answer(&request, &door).err()?;
        refused.status().map(|status| status.as_u16())
    }

    #[test]
    fn a_page_of_another_host_opens_no_websocket_unless_it_is_listed() {
        let cases = [
            ("http://edge.example", "edge.example:8083", None),
            ("http://EDGE.example:8080", "edge.example", None),
            ("http://[::1]:8080", "[::1]:8083", None),
            ("https://dash.example", "edge.example:8083", None),
            ("https://Dash.Example", "edge.example:8083", None),
            ("http://dash.example", "edge.example:8083", Some(403)),
            ("https://dash.example:444", "edge.example:8083", Some(403)),
            ("https://evil.example", "edge.example:8083", Some(403)),
            ("https://edge.example.evil.example", "edge.example", Some(403)),
            ("https://edge.example@evil.example", "edge.example", Some(403)),
            ("null", "edge.example", Some(403)),
            ("", "edge.example", Some(403)),
            ("http://edge.example", "", Some(403)),
        ];
        for (origin, host, expected) in cases {
            assert_eq!(status_for(origin, host), expected, "{origin} at {host}");
        }
    }
}
