//! MQTT inside a WebSocket (MQTT 5.0, section 6): packets lie in binary frames, cut anywhere.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::{Sink, Stream};
use hub::Place;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Response, Uri};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::ReadWrite;
use super::target::Target;
use super::tcp::UNSENT_BYTES_MAX;

/// Bytes of a frame that the other end may send: as many as a packet, and some to spare.
const FRAME_BYTES_MAX: usize = 2 << 20;
/// Bytes of what a server says with a refusal that are shown.
const REASON_BYTES_MAX: usize = 200;
/// The header that names the protocol inside a WebSocket, and its name (MQTT-6.0.0-3).
const SUBPROTOCOL: (&str, &str) = ("Sec-WebSocket-Protocol", "mqtt");

/// Why no WebSocket was opened.
#[derive(Debug, thiserror::Error)]
pub(in crate::edge) enum WebSocketError {
    #[error("{place}: no request for a WebSocket can be made of {path:?}: {source}")]
    Request {
        place: String,
        path: String,
        source: Box<Error>,
    },
    #[error("{place}: the server answers {status} to the request for a WebSocket at {path}{said}")]
    Refused {
        place: String,
        path: String,
        status: String,
        /// What it says besides, behind a colon.
        said: String,
    },
    #[error("{place}: no WebSocket was opened: {source}")]
    Other { place: String, source: Box<Error> },
}

/// Asks for a WebSocket.
pub(super) async fn open<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    target: &Target,
    path: &str,
) -> Result<WebSocket<S>, WebSocketError> {
    let place = target.place();
    let request = Uri::builder()
        .scheme(if target.is_secure() { "wss" } else { "ws" })
        .authority(&*place)
        .path_and_query(path)
        .build();
    let request = request
        .map_err(Error::from)
        .and_then(IntoClientRequest::into_client_request);
    let mut request = request.map_err(|error| WebSocketError::Request {
        place: place.clone(),
        path: path.to_owned(),
        source: error.into(),
    })?;
    let (name, value) = SUBPROTOCOL;
    request.headers_mut().insert(name, HeaderValue::from_static(value));
    match client_async_with_config(request, stream, Some(bounds())).await {
        Ok((frames, _)) => Ok(WebSocket {
            frames,
            rest: Bytes::new(),
        }),
        Err(Error::Http(response)) => Err(refused(place, path, &response)),
        Err(error) => Err(WebSocketError::Other {
            place,
            source: error.into(),
        }),
    }
}

/// Frames are written at once, and no more of them wait than one piece with its header and a pong.
fn bounds() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(UNSENT_BYTES_MAX)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * UNSENT_BYTES_MAX)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
}

fn refused(place: String, path: &str, response: &Response<Option<Vec<u8>>>) -> WebSocketError {
    let body = response.body().as_deref().unwrap_or_default();
    let said = String::from_utf8_lossy(&body[..body.len().min(REASON_BYTES_MAX)]);
    // A page of HTML is for a browser.
    let is_plain = !said.is_empty() && !said.contains('<');
    let said = said.lines().next().unwrap_or_default().replace(char::is_control, "");
    WebSocketError::Refused {
        place,
        path: path.to_owned(),
        status: response.status().to_string(),
        said: if is_plain { format!(": {said}") } else { String::new() },
    }
}

/// The bytes inside a WebSocket.
pub(super) struct WebSocket<S> {
    frames: WebSocketStream<S>,
    /// Of the frame that is being read.
    rest: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.frames).poll_next(cx)) {
                Some(Ok(message)) => self.rest = binary(message)?,
                Some(Err(error)) => return Poll::Ready(Err(to_io(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = self.rest.len().min(out.remaining());
        out.put_slice(&self.rest.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: ReadWrite> ReadWrite for WebSocket<S> {
    fn move_to(&mut self, place: &Place) -> io::Result<()> {
        self.frames.get_mut().move_to(place)
    }
}

/// The bytes of a message; of those that carry none, nothing.
fn binary(message: Message) -> io::Result<Bytes> {
    match message {
        Message::Binary(bytes) => Ok(bytes),
        Message::Close(Some(why)) => Err(io::Error::other(format!(
            "the server closed the WebSocket: {} {}",
            why.code,
            why.reason.chars().take(REASON_BYTES_MAX).collect::<String>()
        ))),
        Message::Text(_) => Err(io::Error::other("the server sent text, and MQTT is binary")),
        Message::Close(None) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(Bytes::new()),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.frames).poll_ready(cx)).map_err(to_io)?;
        let frame = Message::Binary(Bytes::copy_from_slice(bytes));
        Pin::new(&mut self.frames).start_send(frame).map_err(to_io)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.frames).poll_flush(cx).map_err(to_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.frames).poll_close(cx).map_err(to_io)
    }
}

fn to_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
