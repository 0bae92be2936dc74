//! What the broker asks of the world.

use mqtt::{Packet, Publish, ReasonCode};

use crate::{ConnId, OwnedMessage, Position, Record};

/// What the broker asks of the world, in the order in which it asks.
pub trait Sink {
    /// Whether the connection takes more now. If not, QoS 0 messages to it are dropped and counted, others stay in
    /// the session until [`Broker::writable`](crate::Broker::writable). False until its CONNACK is on its way:
    /// nothing may come before that (MQTT-3.2.0-1); `writable` is due once it is.
    fn has_room(&self, conn: ConnId) -> bool;
    /// A forwarded message: these go first in a turn's write.
    fn publish(&mut self, conn: ConnId, publish: &Publish<'_>);
    /// Any other packet: these go last in a turn's write, in their order, and each only once all up to `after` is
    /// durable (MQTT-4.6.0-2 holds for the order). `Position(0)` waits for nothing.
    fn reply(&mut self, conn: ConnId, packet: &Packet<'_>, after: Position);
    /// Ends the connection after what was written; a client of version 5 gets a DISCONNECT with `reason` before
    /// unless it is `Success`, or its CONNECT was refused. The broker has forgotten the connection by then.
    fn close(&mut self, conn: ConnId, reason: ReasonCode);
    /// The log's records up to here outlast a crash.
    fn durable(&self) -> Position;
    /// A message waits for the log: [`Broker::committed`](crate::Broker::committed) is to be called, once, when more of
    /// it is durable.
    fn await_commit(&mut self);
    /// Appends to the log; what it promises is kept once that position is durable. Records must outlast a crash
    /// together or not at all, if they are of one call of the broker, of the way of one message from
    /// [`Broker::receive`](crate::Broker::receive) to [`Broker::acknowledge`](crate::Broker::acknowledge), or of the
    /// wills that came of a call: else a QoS 2 message could arrive twice, or a will be lost.
    ///
    /// # Errors
    /// [`Full`]: the disk or the quota is; the promise must be refused. [`Record::frees_space`] tells the records
    /// that ought to be taken from a reserve even then.
    fn log(&mut self, record: &Record<'_>) -> Result<Position, Full>;
    /// Appends the present value of what the record at `old` says, and releases that one. A log may take it from its
    /// reserve when it is full: the files do not grow by it for long.
    ///
    /// # Errors
    /// [`Full`], as [`Sink::log`]; nothing is released then.
    fn replace(&mut self, record: &Record<'_>, old: Position) -> Result<Position, Full> {
        let position = self.log(record)?;
        self.release(old);
        Ok(position)
    }
    /// The record need not be written any more. True if that was in time: then acknowledgements that wait for
    /// exactly this position are free. False: it is written, [`Sink::release`] it as any other.
    fn cancel(&mut self, position: Position) -> bool;
    /// Nothing needs the record at this position any more; its bytes are garbage, but only once all that was logged
    /// before this call is durable: until then a crash would bring back what the record says, so it must still be
    /// there. Once for each record that is no tombstone ([`Record::is_tombstone`]): those go by themselves once all
    /// that they speak of, which lies before them, is gone.
    fn release(&mut self, position: Position);
    /// Reads the body of the record back, to be given to [`Broker::loaded`](crate::Broker::loaded) later.
    fn load(&mut self, position: Position);
    /// The will of a client is due: the hub sends it the way of any message. The log has it no more once what the
    /// broker logs next is durable.
    fn will(&mut self, will: OwnedMessage);
    /// A message was not delivered to a session that asked for it.
    fn dropped(&mut self, why: Dropped);
    /// A topic filter of a SUBSCRIBE was refused.
    fn refused_filter(&mut self, why: RefusedFilter);
}

/// The log takes no more: the promise that the record stood for must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Why a message was not delivered to a session that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dropped {
    /// QoS 0, and the connection does not take more now.
    SlowReader,
    /// QoS 0 or never to be kept, and no connection.
    Offline,
    /// The session's queue is at its bound in messages or bytes.
    QueueFull,
    /// Its Message Expiry Interval or deadline has passed.
    Expired,
    /// Larger than the client's Maximum Packet Size (MQTT-3.1.2-24).
    TooLarge,
    /// The log is full and the session has no connection.
    LogFull,
    /// What the log gave back is not what was written.
    Damaged,
    /// Its session ended, or was removed, before it was delivered.
    SessionEnded,
    /// A retained message over the bound on their number or bytes.
    RetainedFull,
    /// All messages that wait or are retained are at the bound on their bytes.
    TenantFull,
    /// All sessions are at the bound on what they take of memory, places in their queues included.
    SessionsFull,
    /// It would have to wait in memory alone, and that is at its bound for all sessions or for this one.
    MemoryFull,
}

impl Dropped {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Dropped; 12] = [
        Dropped::SlowReader,
        Dropped::Offline,
        Dropped::QueueFull,
        Dropped::Expired,
        Dropped::TooLarge,
        Dropped::LogFull,
        Dropped::Damaged,
        Dropped::SessionEnded,
        Dropped::RetainedFull,
        Dropped::TenantFull,
        Dropped::SessionsFull,
        Dropped::MemoryFull,
    ];

    /// The reason as a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Dropped::SlowReader => "slow_reader",
            Dropped::Offline => "offline",
            Dropped::QueueFull => "queue_full",
            Dropped::Expired => "expired",
            Dropped::TooLarge => "too_large",
            Dropped::LogFull => "log_full",
            Dropped::Damaged => "damaged",
            Dropped::SessionEnded => "session_ended",
            Dropped::RetainedFull => "retained_full",
            Dropped::TenantFull => "tenant_full",
            Dropped::SessionsFull => "sessions_full",
            Dropped::MemoryFull => "memory_full",
        }
    }
}

/// Why a topic filter of a SUBSCRIBE was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusedFilter {
    /// Its sender may not subscribe to it.
    NotAuthorized,
    /// It is none, or has more levels than may be.
    Invalid,
    /// Its session has as many subscriptions as may be.
    SessionFull,
    /// The subscriptions of all sessions are at the bound on their bytes.
    TenantFull,
    /// The log takes no more.
    LogFull,
}

impl RefusedFilter {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [RefusedFilter; 5] = [
        RefusedFilter::NotAuthorized,
        RefusedFilter::Invalid,
        RefusedFilter::SessionFull,
        RefusedFilter::TenantFull,
        RefusedFilter::LogFull,
    ];

    /// The reason as a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            RefusedFilter::NotAuthorized => "not_authorized",
            RefusedFilter::Invalid => "invalid",
            RefusedFilter::SessionFull => "session_full",
            RefusedFilter::TenantFull => "tenant_full",
            RefusedFilter::LogFull => "log_full",
        }
    }

    /// What SUBACK says of it (section 3.9.3).
    pub(crate) fn reason(self) -> ReasonCode {
        match self {
            RefusedFilter::NotAuthorized => ReasonCode::NotAuthorized,
            RefusedFilter::Invalid => ReasonCode::TopicFilterInvalid,
            RefusedFilter::SessionFull | RefusedFilter::TenantFull | RefusedFilter::LogFull => {
                ReasonCode::QuotaExceeded
            }
        }
    }
}

impl From<Full> for RefusedFilter {
    fn from(_: Full) -> Self {
        RefusedFilter::LogFull
    }
}
