//! Connections of a door to whom it leads requests of HTTP, for the next ones.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::client::conn::http2;
use tokio::time::{Instant, sleep};

use super::driven::Driven;
use super::plain::{self, Asking};
use super::request::Upload;
use crate::held;
use crate::nodes::Speaks;

/// Connections to one endpoint or node that are kept while nobody needs them, for plain requests and for others.
const MAX_FREE: usize = 64;
const MAX_FREE_STREAMS: usize = 8;
/// For so long: shorter than servers keep theirs (five seconds, the shortest of those that are common).
const KEPT_FOR: Duration = Duration::from_secs(4);
/// Between two looks at whether they are, while there are any.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);
/// Requests at once of one connection of HTTP/2: as many as all servers allow (RFC 9113, 6.5.2).
const MAX_SHARED: usize = 100;

/// Whom a connection is to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// An endpoint of this node.
    Endpoint(SocketAddrV4),
    /// Another node.
    Node(String),
}

/// A connection by which somebody is asked.
pub(super) enum Sender {
    /// One request after the other.
    Http1(Driven),
    /// Many at once, each of which has one more of the count.
    Http2(http2::SendRequest<Upload>, Arc<()>),
}

/// Connections that nobody needs at present, and those that more may use.
#[derive(Default)]
pub(super) struct Kept {
    driven: Free<Driven>,
    plain: Free<Asking>,
    shared: Mutex<BTreeMap<Peer, Shared>>,
    is_swept: AtomicBool,
}

/// Connections that take one request after the other, and from when on nobody has needed them.
struct Free<C>(Mutex<BTreeMap<Peer, VecDeque<(Instant, C)>>>);

struct Shared {
    sender: http2::SendRequest<Upload>,
    users: Arc<()>,
    used_at: Instant,
}

impl Kept {
    /// The one that was needed last.
    pub(super) fn take(&self, peer: &Peer, speaks: Speaks) -> Option<Sender> {
        if speaks == Speaks::Http2 {
            let mut shared = held(&self.shared);
            let of_peer = shared.get_mut(peer)?;
            if of_peer.sender.is_closed() || Arc::strong_count(&of_peer.users) > MAX_SHARED {
                return None;
            }
            of_peer.used_at = Instant::now();
            return Some(Sender::Http2(of_peer.sender.clone(), Arc::clone(&of_peer.users)));
        }
        self.driven.take(peer, Driven::is_open).map(Sender::Http1)
    }

    /// The same for plain requests.
    pub(super) fn take_plain(&self, peer: &Peer) -> Option<Asking> {
        self.plain.take(peer, plain::is_open)
    }

    /// A new one, which others may use from now on, if many can at once.
    pub(super) fn share(self: &Arc<Self>, peer: &Peer, sender: &Sender) {
        if let Sender::Http2(sender, users) = sender {
            let shared = Shared {
                sender: sender.clone(),
                users: Arc::clone(users),
                used_at: Instant::now(),
            };
            held(&self.shared).insert(peer.clone(), shared);
            self.sweep_while_any();
        }
    }

    /// One that nobody needs any more.
    pub(super) fn keep(self: &Arc<Self>, peer: Peer, sender: Sender) {
        if let Sender::Http1(driven) = sender {
            self.driven.keep(peer, driven, Driven::is_open);
            self.sweep_while_any();
        }
    }

    /// The same of plain requests.
    pub(super) fn keep_plain(self: &Arc<Self>, peer: Peer, asking: Asking) {
        self.plain.keep(peer, asking, plain::is_open);
        self.sweep_while_any();
    }

    /// Of this node's endpoints to these alone: others take no further request, and what is under way there goes on.
    pub(super) fn keep_to(&self, endpoints: &[SocketAddrV4]) {
        let stays = |peer: &Peer| match peer {
            Peer::Endpoint(at) => endpoints.contains(at),
            Peer::Node(_) => true,
        };
        held(&self.driven.0).retain(|peer, _| stays(peer));
        held(&self.plain.0).retain(|peer, _| stays(peer));
        held(&self.shared).retain(|peer, _| stays(peer));
    }

    /// Ends all that nobody needs at present.
    pub(super) fn clear(&self) {
        held(&self.driven.0).clear();
        held(&self.plain.0).clear();
        held(&self.shared).clear();
    }

    fn sweep_while_any(self: &Arc<Self>) {
        if self.is_swept.swap(true, Ordering::AcqRel) {
            return;
        }
        let kept = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                sleep(SWEEP_PAUSE).await;
                match kept.upgrade() {
                    Some(kept) if kept.sweep() => {}
                    _ => return,
                }
            }
        });
    }

    /// Ends those that nobody has needed for long, and says whether there are others that nobody else sweeps.
    fn sweep(&self) -> bool {
        // Who adds one from now on finds that nobody sweeps, and begins.
        self.is_swept.store(false, Ordering::Release);
        let is_any = [self.driven.sweep(Driven::is_open), self.plain.sweep(plain::is_open)];
        let mut shared = held(&self.shared);
        shared.retain(|_, shared| {
            let is_used = Arc::strong_count(&shared.users) > 1 || shared.used_at.elapsed() < KEPT_FOR;
            is_used && !shared.sender.is_closed()
        });
        let is_any = is_any.contains(&true) || !shared.is_empty();
        is_any && !self.is_swept.swap(true, Ordering::AcqRel)
    }
}

impl<C> Default for Free<C> {
    fn default() -> Self {
        Free(Mutex::default())
    }
}

impl<C> Free<C> {
    /// The one that was needed last.
    fn take(&self, peer: &Peer, is_open: impl Fn(&mut C) -> bool) -> Option<C> {
        let mut free = held(&self.0);
        let of_peer = free.get_mut(peer)?;
        while let Some((since, mut connection)) = of_peer.pop_back() {
            if since.elapsed() < KEPT_FOR && is_open(&mut connection) {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, peer: Peer, mut connection: C, is_open: impl Fn(&mut C) -> bool) {
        if !is_open(&mut connection) {
            return;
        }
        let most = match peer {
            Peer::Endpoint(_) => MAX_FREE,
            Peer::Node(_) => MAX_FREE_STREAMS,
        };
        let mut free = held(&self.0);
        let of_peer = free.entry(peer).or_default();
        of_peer.push_back((Instant::now(), connection));
        if of_peer.len() > most {
            of_peer.pop_front();
        }
    }

    /// Ends those that nobody has needed for long, and says whether there are others.
    fn sweep(&self, is_open: impl Fn(&mut C) -> bool) -> bool {
        let mut free = held(&self.0);
        free.retain(|_, of_peer| {
            of_peer.retain_mut(|(since, connection)| since.elapsed() < KEPT_FOR && is_open(connection));
            !of_peer.is_empty()
        });
        !free.is_empty()
    }
}
