//! The connection of an edge, which brings messages of several tenants: a task of the one serves it whose shard that
//! is.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use identity::{DEFAULT_TENANT, Principal};
use mqtt::{Connect, Packet, Version};
use tokio::sync::OwnedSemaphorePermit;

use super::stream::Stream;
use crate::routing::LabelSource;
use crate::shard::connection::Peer;
use crate::shard::link::{Arrived, Link};
use crate::shard::tasks::{Place, Readiness};

/// An edge that a door let in. Its CONNECT waits for an answer.
pub struct EdgeConnection {
    pub(super) transport: Transport,
    pub(super) peer: Peer,
    pub(super) connect: Vec<u8>,
    pub(super) early: Vec<u8>,
    pub(super) labels: LabelSource,
    /// Number of the last change of the registry before its credentials were checked.
    pub(super) seen_change: u64,
    pub(super) _place: OwnedSemaphorePermit,
}

/// What its bytes come by.
pub(super) enum Transport {
    /// Where the door has it.
    Door(Stream),
    /// On the loop of a shard.
    Shard(Box<Link>, Arc<Readiness>),
}

/// Bytes read at once on a shard.
const READ_BYTES: usize = 16 << 10;

impl EdgeConnection {
    /// Who it is.
    pub fn principal(&self) -> &Principal {
        &self.peer.principal
    }

    /// Its name, as everybody calls it: `{id}` in the default tenant, else `{tenant}/{id}`.
    pub fn name(&self) -> Arc<str> {
        let principal = self.principal();
        match &*principal.tenant {
            DEFAULT_TENANT => Arc::clone(&principal.id),
            tenant => format!("{tenant}/{}", principal.id).into(),
        }
    }

    /// Where it connects from; `None`: over a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.peer.address
    }

    /// Its CONNECT.
    ///
    /// # Panics
    /// Never: the door has decoded it before.
    pub fn connect(&self) -> Connect<'_> {
        match Packet::decode(0x10, &self.connect, Version::V5) {
            Ok(Packet::Connect(connect)) => *connect,
            _ => unreachable!("the door decoded this CONNECT before"),
        }
    }

    /// Whether the credential that it came in by is worth nothing any more.
    pub fn is_revoked(&self) -> bool {
        self.labels.is_revoked_since(self.seen_change, &self.peer)
    }

    /// Names of the tenants that it may speak for: its own, and those that its label `tenants` names, with commas
    /// between them.
    pub fn tenants(&self) -> Vec<String> {
        let principal = self.principal();
        let others = self.labels.label(&principal.tenant, &principal.id, "tenants");
        let tenants = identity::tenants_of_edge(&principal.tenant, others.as_deref());
        tenants.map(str::to_owned).collect()
    }

    /// Has the loop of a shard watch it, for the task there that it moves to.
    ///
    /// # Errors
    /// The loop cannot watch it.
    pub fn move_to(mut self, place: &Place) -> io::Result<Self> {
        if let Transport::Door(stream) = self.transport {
            let mut link = Box::new(stream.into_link()?);
            let readiness = place.watch(link.socket())?;
            let early = std::mem::take(&mut self.early);
            // The end of it is seen again by whoever reads on.
            let _ = link.take_early(&early, &mut self.early);
            self.transport = Transport::Shard(link, readiness);
        }
        Ok(self)
    }

    /// Appends some bytes of MQTT, waiting for them; the end of the stream is an error. May be given up at any await.
    ///
    /// # Errors
    /// The connection is no more.
    pub async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        if !self.early.is_empty() {
            bytes.append(&mut self.early);
            return Ok(());
        }
        match &mut self.transport {
            Transport::Door(stream) => stream.read(bytes).await,
            Transport::Shard(link, readiness) => poll_fn(|_| read(link, readiness, bytes)).await,
        }
    }

    /// Sends bytes of MQTT.
    ///
    /// # Errors
    /// The connection is no more.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.transport {
            Transport::Door(stream) => stream.write(bytes).await,
            Transport::Shard(link, readiness) => {
                link.write(bytes, &[])?;
                poll_fn(|_| send_rest(link, readiness)).await
            }
        }
    }
}

fn read(link: &mut Link, readiness: &Readiness, bytes: &mut Vec<u8>) -> Poll<io::Result<()>> {
    let before = bytes.len();
    while readiness.may_read() {
        let arrived = link.read(bytes, READ_BYTES);
        if link.is_blocked() {
            // Answers of the layers below; what the socket does not take goes with what is written next.
            link.write(&[], &[])?;
        }
        match arrived {
            _ if link.is_closing() => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Arrived::End if bytes.len() > before => return Poll::Ready(Ok(())),
            Arrived::End => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Arrived::Bytes => readiness.has_read_all(),
            Arrived::BytesOfMore => {}
        }
        if bytes.len() > before {
            return Poll::Ready(Ok(()));
        }
    }
    Poll::Pending
}

fn send_rest(link: &mut Link, readiness: &Readiness) -> Poll<io::Result<()>> {
    while link.is_blocked() {
        if !readiness.may_write() {
            return Poll::Pending;
        }
        link.write(&[], &[])?;
        if link.is_blocked() {
            readiness.is_full();
        }
    }
    Poll::Ready(Ok(()))
}
