//! How nodes come to be connected: somebody connects, or is dialled, and both show who they are.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use identity::NodeKeys;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tokio_util::either::Either;

use super::{Event, Way};
use crate::line::{Stream, peer};

/// Handshakes at once of those who connect; more are closed at once.
pub(super) const MAX_HANDSHAKES: usize = 64;
/// For a connection to be there and both to have shown who they are.
pub(super) const DIAL_PATIENCE: Duration = Duration::from_secs(3);
/// Pause after a failed accept (no descriptors left, say), so that the door does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What two nodes speak TLS over: a connection of their own, or a stream through another node.
pub(super) type Socket = Either<TcpStream, Stream>;
pub(super) type Tls = Box<TlsStream<Socket>>;

/// A door for other nodes.
pub(super) struct Accepting {
    pub(super) listener: TcpListener,
    pub(super) acceptor: TlsAcceptor,
    pub(super) handshakes: Arc<Semaphore>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Accepting {
    pub(super) async fn run(self) {
        loop {
            match self.listener.accept().await {
                Ok((tcp, _)) => {
                    let _ = tcp.set_nodelay(true);
                    if let Ok(place) = Arc::clone(&self.handshakes).try_acquire_owned() {
                        let (acceptor, events) = (self.acceptor.clone(), self.events.clone());
                        tokio::spawn(greet(Either::Left(tcp), Way::Accepted, place, acceptor, events));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a node's connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Has somebody who connects show which node he is.
pub(super) async fn greet(
    socket: Socket,
    way: Way,
    _place: OwnedSemaphorePermit,
    acceptor: TlsAcceptor,
    events: mpsc::Sender<Event>,
) {
    let tls = match timeout(DIAL_PATIENCE, acceptor.accept(socket)).await {
        Ok(Ok(tls)) => Box::new(TlsStream::from(tls)),
        Ok(Err(error)) => return tracing::debug!(%error, "somebody who is no node of the site was refused"),
        Err(_) => return tracing::debug!("somebody did not show in time that he is a node of the site"),
    };
    if let Some(node) = peer(&tls) {
        let _ = events.send(Event::Greeted { node, tls, way }).await;
    }
}

/// Connects to a place, and finds which node is there.
pub(super) async fn reach(place: &str, connector: TlsConnector) -> io::Result<(String, Tls)> {
    let tcp = TcpStream::connect(place).await?;
    tcp.set_nodelay(true)?;
    shake_hands(Either::Left(tcp), connector).await
}

/// Finds which node is at the other end.
pub(super) async fn shake_hands(socket: Socket, connector: TlsConnector) -> io::Result<(String, Tls)> {
    let tls = connector.connect(NodeKeys::server_name(), socket).await?;
    let tls = Box::new(TlsStream::from(tls));
    let node = peer(&tls).ok_or_else(|| io::Error::other("who answers is no node of the site"))?;
    Ok((node, tls))
}
