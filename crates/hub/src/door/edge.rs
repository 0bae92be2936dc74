//! The connection of an edge, which no shard serves: it brings messages of several tenants.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use identity::{DEFAULT_TENANT, Principal};
use mqtt::{Connect, Packet, Version};
use tokio::sync::OwnedSemaphorePermit;

use super::stream::Stream;
use crate::routing::LabelSource;
use crate::shard::connection::Peer;

/// An edge that a door let in. Its CONNECT waits for an answer.
pub struct EdgeConnection {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    pub(super) connect: Vec<u8>,
    pub(super) early: Vec<u8>,
    pub(super) labels: LabelSource,
    /// Number of the last change of the registry before its credentials were checked.
    pub(super) seen_change: u64,
    pub(super) _place: OwnedSemaphorePermit,
}

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

    /// Appends some bytes of MQTT, waiting for them; the end of the stream is an error. May be given up at any await.
    ///
    /// # Errors
    /// The connection is no more.
    pub async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        if !self.early.is_empty() {
            bytes.append(&mut self.early);
            return Ok(());
        }
        self.stream.read(bytes).await
    }

    /// Sends bytes of MQTT.
    ///
    /// # Errors
    /// The connection is no more.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write(bytes).await
    }
}
