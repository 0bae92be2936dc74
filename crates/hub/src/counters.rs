//! What a shard counts. Plain numbers of its own thread; a copy is handed out on request.

use std::sync::atomic::{AtomicU64, Ordering};

use broker::Dropped;

/// Counts since the start of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections taken over from the doors.
    pub connects: u64,
    /// Connections that ended, for whatever reason.
    pub disconnects: u64,
    /// PUBLISH packets that clients sent.
    pub messages_received: u64,
    /// PUBLISH packets sent to clients.
    pub messages_sent: u64,
    /// Bytes of MQTT that clients sent.
    pub bytes_received: u64,
    /// Packets that the standard forbids; each ended its connection.
    pub malformed: u64,
    /// PUBLISH packets outside of what their sender may publish.
    pub refused_publishes: u64,
    /// Copies that routes asked for beyond the bound for one message.
    pub copies_over_limit: u64,
    /// Results of method calls that came after the call had ended, or without one.
    pub late_results: u64,
    /// Method calls answered 404 because the device was away, and 504 because it did not answer.
    pub calls_away: u64,
    /// See `calls_away`.
    pub calls_timed_out: u64,
    /// Messages not delivered to a session that asked for them, by [`Dropped`].
    pub dropped: [u64; Dropped::ALL.len()],
}

/// What the doors count; each of them adds to it.
#[derive(Debug, Default)]
pub(crate) struct DoorCounters {
    pub(crate) accepted: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) refused_logins: AtomicU64,
    pub(crate) throttled_logins: AtomicU64,
    pub(crate) over_limit: AtomicU64,
}

/// What the doors have counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorFigures {
    /// Sockets accepted.
    pub accepted: u64,
    /// Clients that did not finish their CONNECT in time, or were given up for newer ones.
    pub abandoned: u64,
    /// Clients whose first packet was no CONNECT that can be understood.
    pub malformed: u64,
    /// Logins refused for what was presented.
    pub refused_logins: u64,
    /// Logins refused unseen, after too many failed ones.
    pub throttled_logins: u64,
    /// Clients refused because as many connections were open as may be.
    pub over_limit: u64,
}

impl DoorCounters {
    pub(crate) fn figures(&self) -> DoorFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DoorFigures {
            accepted: read(&self.accepted),
            abandoned: read(&self.abandoned),
            malformed: read(&self.malformed),
            refused_logins: read(&self.refused_logins),
            throttled_logins: read(&self.throttled_logins),
            over_limit: read(&self.over_limit),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
