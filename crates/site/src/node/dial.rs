//! How nodes come to be connected: somebody connects, or is dialled, and both show who they are.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use identity::NodeKeys;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tokio_util::either::Either;

use super::known::addresses;
use super::{Event, Running, Way, now};
use crate::line::{Stream, peer};

/// Handshakes at once of those who connect; more are closed at once.
pub(super) const MAX_HANDSHAKES: usize = 64;
/// For a connection to be there and both to have shown who they are.
pub(super) const DIAL_PATIENCE: Duration = Duration::from_secs(3);
/// Dials at once; more wait for the next round.
pub(super) const MAX_DIALS: usize = 16;
/// The first pause after a dial that failed; each further one doubles it, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Pause after a failed accept (no descriptors left, say), so that the door does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What two nodes speak TLS over: a connection of their own, or a stream through another node.
pub(super) type Socket = Either<TcpStream, Stream>;
pub(super) type Tls = Box<TlsStream<Socket>>;

/// Somebody who is to be reached at a place.
pub(super) struct Dial {
    /// Until then it is not dialled again; `None`: it is being dialled.
    not_before: Option<Instant>,
    pause: Duration,
}

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

impl Running {
    /// Has a place be dialled again after a pause, if it is to be then: who is let in may be put out at once.
    pub(super) fn put_off(&mut self, place: &str) {
        if let Some(dial) = self.dials.get_mut(place) {
            dial.not_before = Some(Instant::now() + dial.pause.mul_f64(rand::random_range(0.5..1.0)));
            dial.pause = (dial.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Dials those who are to be connected and are not, at all of their places.
    pub(super) fn dial(&mut self) {
        let wanted = self.wanted();
        let is_over = |dial: &Dial| dial.not_before.is_some_and(|at| at <= Instant::now());
        self.dials
            .retain(|place, dial| !is_over(dial) || wanted.contains(place));
        self.led_to
            .retain(|place, _| wanted.contains(place) || self.seeds.contains(place) || self.found.contains_key(place));
        for place in wanted {
            let dialling = self.dials.values().filter(|dial| dial.not_before.is_none()).count();
            let dial = self.dials.entry(place.clone()).or_insert(Dial {
                not_before: Some(Instant::now()),
                pause: FIRST_PAUSE,
            });
            let is_due = dial.not_before.is_some_and(|at| at <= Instant::now());
            if !is_due || dialling >= MAX_DIALS {
                continue;
            }
            dial.not_before = None;
            let (connector, events) = (self.connector.clone(), self.events.clone());
            self.tasks.spawn(async move {
                let reached = timeout(DIAL_PATIENCE, reach(&place, connector)).await;
                let event = match reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok((node, tls)) => Event::Greeted {
                        node,
                        tls,
                        way: Way::Dialled(place),
                    },
                    Err(error) => Event::NotReached {
                        place,
                        why: error.to_string(),
                    },
                };
                let _ = events.send(event).await;
            });
        }
    }

    /// Where somebody may be who is not connected, or only through another.
    fn wanted(&self) -> BTreeSet<String> {
        let is_there = |place: &String| {
            let node = self.led_to.get(place);
            node.is_some_and(|node| *node == self.node || self.is_direct(node))
        };
        let told = self.seeds.iter().chain(self.found.keys());
        let told = told.filter(|place| !is_there(place)).cloned();
        let members = self.gossip.members(now()).filter(|member| !self.is_direct(member.node));
        let members = members
            .flat_map(|member| addresses(member.content))
            .map(|address| address.to_string());
        told.chain(members.filter(|place| !is_there(place))).collect()
    }
}
