//! From a URL to a stream of bytes: TCP, a proxy's tunnel where one stands between, TLS, WebSocket.

mod prompt;
mod proxy;
mod target;
mod tcp;
mod tls;
mod websocket;

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use hub::Place;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::either::Either;

use self::prompt::Prompt;
pub use self::proxy::{Proxies, WrongProxy};
pub use self::target::{Target, WrongTarget};

/// A connection, whatever lies below. What is written leaves without a flush.
pub type Stream = Box<dyn ReadWrite>;

/// Bytes both ways.
pub trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {
    /// Has the loop of a shard watch the socket below from now on; from then on it serves the task there alone.
    ///
    /// # Errors
    /// The loop cannot watch it.
    fn move_to(&mut self, place: &Place) -> io::Result<()>;
}

/// The socket below: where tokio watches it, or on a shard.
type Socket = Either<TcpStream, hub::Socket>;

impl ReadWrite for Socket {
    fn move_to(&mut self, place: &Place) -> io::Result<()> {
        if let Either::Left(socket) = self {
            let socket = socket.as_fd().try_clone_to_owned()?;
            *self = Either::Right(hub::Socket::new(socket, place)?);
        }
        Ok(())
    }
}

/// Where to, through what, and whom to believe.
pub(super) struct Ways<'a> {
    pub(super) target: &'a Target,
    pub(super) proxies: &'a Proxies,
    pub(super) tls: &'a Arc<rustls::ClientConfig>,
}

/// Connects to a server of HTTPS ([`Target::https`]), within `timeout`; the same ways as those of a link.
///
/// # Errors
/// In words, why there is no connection.
pub async fn connect(
    target: &Target,
    proxies: &Proxies,
    tls: &Arc<rustls::ClientConfig>,
    timeout: Duration,
) -> Result<Stream, String> {
    let ways = Ways { target, proxies, tls };
    dial(&ways, timeout).await.map_err(|error| error.to_string())
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error(transparent)]
    Tcp(#[from] tcp::TcpError),
    #[error(transparent)]
    NoProxy(#[from] WrongProxy),
    #[error(transparent)]
    Proxy(#[from] proxy::ProxyError),
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error(transparent)]
    WebSocket(#[from] websocket::WebSocketError),
    #[error("{place}: {what} within {timeout_s} s")]
    Late {
        place: String,
        what: &'static str,
        timeout_s: u64,
    },
    #[error("{place}: {source}")]
    Socket { place: String, source: io::Error },
}

/// Connects to where the link goes, within `timeout`.
pub(super) async fn dial(ways: &Ways<'_>, timeout: Duration) -> Result<Stream, DialError> {
    let target = ways.target;
    let limit = Limit {
        timeout,
        deadline: Instant::now() + timeout,
    };
    let socket = reach(ways, &limit).await?;
    let place = target.place();
    if !target.is_secure() {
        return open(socket, target, &limit).await;
    }
    let shaking_hands = tls::secure(socket, target, ways.tls);
    let stream = limit.hold(&place, "no end of the TLS handshake", shaking_hands).await?;
    open(stream, target, &limit).await
}

/// A socket whose other end is the target: straight, or through a proxy.
async fn reach(ways: &Ways<'_>, limit: &Limit) -> Result<Socket, DialError> {
    let target = ways.target;
    let proxy = ways.proxies.between(target)?;
    let (host, port) = proxy
        .as_ref()
        .map_or((target.host(), target.port()), |proxy| (proxy.host(), proxy.port()));
    let place = target::place(host, port);
    let mut socket = limit.hold(&place, "no connection", tcp::connect(host, port)).await?;
    tcp::set_options(&socket).map_err(|source| DialError::Socket {
        place: place.clone(),
        source,
    })?;
    if let Some(proxy) = proxy {
        let tunnel = proxy.tunnel(&mut socket, target);
        limit.hold(&place, "no answer of the proxy to CONNECT", tunnel).await?;
    }
    Ok(Either::Left(socket))
}

/// Opens the WebSocket, where the target is one.
async fn open<S: ReadWrite + 'static>(stream: S, target: &Target, limit: &Limit) -> Result<Stream, DialError> {
    let Some(path) = target.websocket_path() else {
        return Ok(Box::new(Prompt::new(stream)));
    };
    let opening = websocket::open(stream, target, path);
    let stream = limit
        .hold(&target.place(), "no answer to the request for a WebSocket", opening)
        .await?;
    Ok(Box::new(Prompt::new(stream)))
}

/// Time that all steps have together.
struct Limit {
    timeout: Duration,
    deadline: Instant,
}

impl Limit {
    async fn hold<T, E: Into<DialError>>(
        &self,
        place: &str,
        what: &'static str,
        step: impl Future<Output = Result<T, E>>,
    ) -> Result<T, DialError> {
        match timeout_at(self.deadline, step).await {
            Ok(ended) => ended.map_err(Into::into),
            Err(_) => Err(DialError::Late {
                place: place.to_owned(),
                what,
                timeout_s: self.timeout.as_secs(),
            }),
        }
    }
}
