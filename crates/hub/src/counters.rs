//! What a shard counts. Plain numbers of its own thread; a copy is handed out on request.

use broker::{Dropped, RefusedFilter};

use crate::refused::RefusedCounts;

/// Counts since the start of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections taken over from the doors.
    pub connects: u64,
    /// Clients that a door let in and the shard refused, by [`Refused`](crate::Refused).
    pub refused: RefusedCounts,
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
    /// Messages that waited until the log had room again.
    pub waits_for_log: u64,
    /// Promises refused because the log had no room.
    pub refused_by_log: u64,
    /// Changes of twins refused: no room, or no patch that can be understood.
    pub refused_twins: u64,
    /// Edits of desired states that were given up for others, made on the other side of a link.
    pub twin_conflicts: u64,
    /// Method calls refused: no ids, time or Correlation Data that may be, one with that id waited already, or as many
    /// waited for results as may.
    pub refused_calls: u64,
    /// Copies that routes asked for beyond the bound for one message.
    pub copies_over_limit: u64,
    /// Messages of QoS 2 and copies of them that were refused after others of the same message had been taken.
    pub copies_refused: u64,
    /// Results of method calls that came after the call had ended, or without one.
    pub late_results: u64,
    /// Method calls answered 404 because the device was away, and 504 because it did not answer.
    pub calls_away: u64,
    /// See `calls_away`.
    pub calls_timed_out: u64,
    /// Messages not delivered to a session that asked for them, by [`Dropped`].
    pub dropped: [u64; Dropped::ALL.len()],
    /// Topic filters of SUBSCRIBE packets that were refused, by [`RefusedFilter`].
    pub refused_filters: [u64; RefusedFilter::ALL.len()],
}
