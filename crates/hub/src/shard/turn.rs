//! One turn of the loop for one tenant, as the broker sees the world from it.

use std::sync::Arc;

use broker::{ConnId, Dropped, Full, Now, OwnedMessage, Position, Record, RefusedFilter, Sink};
use device::Author;
use mqtt::{ConnAck, Packet, Publish, ReasonCode};
use tokio::sync::mpsc;

use super::connection::Phase;
use super::connections::Connections;
use super::journal::Journal;
use crate::arrivals::Provenance;
use crate::call_log::CallLog;
use crate::counters::Counters;
use crate::edge_calls::EdgeCalls;
use crate::outbox::Queues;
use crate::overheard::Ear;
use crate::refused::Refused;
use crate::routing::LabelSource;
use crate::twin_sync::TwinChange;

/// Time in milliseconds that a connection has to take what was written before it ends.
pub(crate) const LINGER_MS: u64 = 2_000;

pub(crate) struct Turn<'a> {
    pub(crate) now: Now,
    /// The tenant's number in this shard and its log.
    pub(crate) tenant: u32,
    pub(crate) connections: &'a mut Connections,
    pub(crate) journal: &'a mut Journal,
    /// What leaves the hub; `None`: nothing does.
    pub(crate) queues: Option<&'a mut Queues>,
    /// Who looks on at telemetry; `None`: nobody ever does.
    pub(crate) ear: Option<&'a mut Ear>,
    /// Where the message comes from that is being routed; `None`: from a client.
    pub(crate) provenance: Option<Provenance>,
    /// Whose edits those of this hub are.
    pub(crate) author: Author,
    /// Where is told which twins were changed here; `None`: nobody asks.
    pub(crate) twin_changes: Option<&'a mpsc::Sender<TwinChange>>,
    /// Who reaches devices behind edges; `None`: there are no edges.
    pub(crate) edge_calls: Option<&'a Arc<dyn EdgeCalls>>,
    pub(crate) counters: &'a mut Counters,
    /// Wills that came due: they go the way of any message once the broker is done.
    pub(crate) wills: &'a mut Vec<OwnedMessage>,
    pub(crate) labels: &'a LabelSource,
    pub(crate) call_log: &'a mut CallLog,
}

impl Sink for Turn<'_> {
    fn has_room(&self, conn: ConnId) -> bool {
        self.connections
            .get(conn)
            .is_some_and(|connection| connection.has_room())
    }

    fn publish(&mut self, conn: ConnId, publish: &Publish<'_>) {
        self.counters.messages_sent += 1;
        self.connections.publish(conn, publish);
    }

    fn reply(&mut self, conn: ConnId, packet: &Packet<'_>, after: Position) {
        if let Packet::ConnAck(acknowledgement) = packet {
            self.greet(conn, acknowledgement);
        }
        self.connections.reply(conn, packet, after);
    }

    fn close(&mut self, conn: ConnId, reason: ReasonCode) {
        self.connections.end(conn, reason, self.now.monotonic_ms + LINGER_MS);
    }

    fn durable(&self) -> Position {
        self.journal.durable()
    }

    fn await_commit(&mut self) {
        self.journal.await_commit(self.tenant);
    }

    fn log(&mut self, record: &Record<'_>) -> Result<Position, Full> {
        let logged = self.journal.append_record(self.tenant, record);
        self.counters.refused_by_log += u64::from(logged.is_err());
        logged
    }

    fn replace(&mut self, record: &Record<'_>, old: Position) -> Result<Position, Full> {
        let position = self.journal.replace_record(self.tenant, record)?;
        self.journal.release(old);
        Ok(position)
    }

    fn cancel(&mut self, position: Position) -> bool {
        let is_cancelled = self.journal.cancel(position);
        if is_cancelled {
            self.connections.cancel(position);
        }
        is_cancelled
    }

    fn release(&mut self, position: Position) {
        self.journal.release(position);
    }

    fn load(&mut self, position: Position) {
        self.journal.load(self.tenant, position);
    }

    fn will(&mut self, will: OwnedMessage) {
        self.wills.push(will);
    }

    fn dropped(&mut self, why: Dropped) {
        self.counters.dropped[why as usize] += 1;
    }

    fn refused_filter(&mut self, why: RefusedFilter) {
        self.counters.refused_filters[why as usize] += 1;
    }
}

impl Turn<'_> {
    fn greet(&mut self, conn: ConnId, acknowledgement: &ConnAck<'_>) {
        if let Some(connection) = self.connections.get_mut(conn)
            && acknowledgement.reason != ReasonCode::Success
        {
            connection.phase = Phase::Refused;
            self.counters.refused[Refused::by_answer(acknowledgement.reason) as usize] += 1;
        }
    }
}
