//! Where HTTP comes in: a port or a Unix socket, with bounds on how much, how long and how many at once.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use hub::TlsSource;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tower::ServiceExt;

/// Time for the head of a request to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a request's head.
const HEAD_MAX_BYTES: usize = 16 * 1024;

/// Pause after a failed accept (no descriptors left, say), so that the door does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket.
pub struct Door {
    listener: Either<TcpListener, UnixListener>,
    /// What each connection begins with; `None`: HTTP is spoken as it is.
    tls: Option<TlsSource>,
}

/// What connections may take. Each serves one request; one more connection waits in the kernel's backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at once.
    pub connections: usize,
    /// Time from the accept to the end of the answer.
    pub total: Duration,
    /// The same, where the request is that of a user who is logged in.
    pub total_of_users: Duration,
}

/// Where a request comes from; a Unix socket counts as this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    /// What came through no door is of this machine too.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let here = Peer(Ipv4Addr::LOCALHOST.into());
        Ok(parts.extensions.get().copied().unwrap_or(here))
    }
}

/// How long the answer to a request may take.
#[derive(Clone, Debug)]
pub(crate) struct Patience(Arc<State>);

#[derive(Debug)]
struct State {
    bounds: Bounds,
    begun: Instant,
    total_ms: AtomicU64,
}

impl Patience {
    fn new(bounds: Bounds) -> Self {
        Self(Arc::new(State {
            bounds,
            begun: Instant::now(),
            total_ms: AtomicU64::new(bounds.total.as_millis() as u64),
        }))
    }

    /// It is the request of a user.
    pub(crate) fn extend(&self) {
        self.extend_to(self.0.bounds.total_of_users);
    }

    /// It may take so long, counted from its beginning.
    pub(crate) fn extend_to(&self, total: Duration) {
        self.0.total_ms.fetch_max(total.as_millis() as u64, Ordering::Relaxed);
    }

    /// Ends when the answer has had its time.
    async fn end(&self) {
        loop {
            let until = self.0.begun + Duration::from_millis(self.0.total_ms.load(Ordering::Relaxed));
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Bounds {
    /// For a port: scrapes and probes, and of users the longest method call and some more.
    pub const PUBLIC: Bounds = Bounds {
        connections: 256,
        total: Duration::from_secs(30),
        total_of_users: Duration::from_secs(660),
    };
    /// For the control socket: the longest method call and some more.
    pub const CONTROL: Bounds = Bounds {
        connections: 64,
        total: Duration::from_secs(660),
        total_of_users: Duration::from_secs(660),
    };
}

impl Door {
    /// Listens on a port, with TLS as `tls` has it at each connection.
    ///
    /// # Errors
    /// What the system says.
    pub async fn tcp(address: SocketAddr, tls: Option<TlsSource>) -> io::Result<Self> {
        let listener = Either::Left(TcpListener::bind(address).await?);
        Ok(Self { listener, tls })
    }

    /// Listens on a Unix socket that its owner alone may use. One that is there is replaced: the caller holds the lock
    /// of its directory.
    ///
    /// # Errors
    /// What the system says.
    pub fn unix(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            listener: Either::Right(listener),
            tls: None,
        })
    }

    /// The address of a port, with the number that port 0 became.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Either::Left(listener) => listener.local_addr().ok(),
            Either::Right(_) => None,
        }
    }

    /// What a browser is told; `None` for a Unix socket.
    pub fn url(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.local_address().map(|address| format!("{scheme}://{address}"))
    }

    async fn accept(&self) -> io::Result<(Either<TcpStream, UnixStream>, Peer)> {
        match &self.listener {
            Either::Left(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Either::Left(stream), Peer(address.ip())))
            }
            Either::Right(listener) => {
                let here = Peer(Ipv4Addr::LOCALHOST.into());
                Ok((Either::Right(listener.accept().await?.0), here))
            }
        }
    }
}

/// Answers requests until the task is dropped.
pub async fn serve(door: Door, router: Router, bounds: Bounds) {
    let places = Arc::new(Semaphore::new(bounds.connections));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
        match door.accept().await {
            Ok((stream, peer)) => {
                let patience = Patience::new(bounds);
                let tls = door.tls.as_ref().map(|tls| TlsAcceptor::from(tls.load_full()));
                let answering = begin(stream, tls, peer, patience.clone(), router.clone());
                tokio::spawn(async move {
                    let _place = place;
                    tokio::select! {
                        () = answering => {}
                        // A client that is too slow is left.
                        () = patience.end() => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers, after the handshake of TLS where there is one.
async fn begin(
    stream: Either<TcpStream, UnixStream>,
    tls: Option<TlsAcceptor>,
    peer: Peer,
    patience: Patience,
    router: Router,
) {
    let Some(tls) = tls else {
        return answer(stream, peer, patience, router).await;
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, peer, patience, router).await,
        Ok(Err(error)) => tracing::debug!(%error, "a handshake of HTTPS failed"),
        Err(_) => tracing::debug!("a handshake of HTTPS took too long"),
    }
}

async fn answer<S>(stream: S, peer: Peer, patience: Patience, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = router.map_request(move |mut request: Request<_>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(patience.clone());
        request
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_MAX_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
