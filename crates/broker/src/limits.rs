//! The bound of everything that grows.

use std::num::NonZeroU16;

use crate::Broker;

/// Bounds of one broker, each with what happens at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions, connected or not. A CONNECT that needs one more is refused with Quota exceeded.
    pub sessions: usize,
    /// Bytes of memory that all sessions may take: each counts as 1,024 bytes and its names and will, 320 bytes for
    /// each message that waits in it or is in flight, beside the message itself, or 48 where only the log has that, and
    /// 32 for each packet identifier of QoS 2 that its client has not released. A CONNECT that needs more is refused
    /// with Quota exceeded; a message that would have to wait is dropped, what can leave at once does. What a log
    /// brings back is counted, and stays.
    pub session_bytes: u64,
    /// Subscriptions of one session. One more is refused with Quota exceeded in the SUBACK.
    pub subscriptions_per_session: usize,
    /// Bytes of memory that the subscriptions of all sessions may take. One more is refused in the same way; those that
    /// a log brings back are not.
    pub subscription_bytes: u64,
    /// Levels of a topic or filter. A deeper one is refused as invalid.
    pub topic_levels: usize,
    /// Messages of QoS 1 and 2 that wait in one session. At the bound `queue_policy` decides.
    pub queue_messages: usize,
    /// Their bytes.
    pub queue_bytes: u64,
    /// What becomes of a message that finds such a queue full.
    pub queue_policy: QueuePolicy,
    /// Bytes at the head of one session's queue that stay in memory; the rest is read back from the log.
    pub queue_memory_bytes: u64,
    /// Bytes of queued messages in memory, in all sessions together, each counted once. Half of them are for messages
    /// that the log has as well: more are read back when it is their turn, of which each session may always have one.
    /// Others, for sessions that end with their connection, may take what is left: one session no more than that leaves
    /// free, so that it cannot take the room of all others. What would go beyond is handled by `queue_policy`.
    pub memory_bytes: u64,
    /// Messages sent to one session and not acknowledged; a smaller Receive Maximum of the client wins. More wait.
    pub in_flight: NonZeroU16,
    /// Receive Maximum told to clients: one that holds more QoS 2 packet identifiers is disconnected.
    pub receive_maximum: NonZeroU16,
    /// Maximum Packet Size in bytes told to clients; the reader of packets enforces it.
    pub maximum_packet_size: u32,
    /// Topic Alias Maximum told to clients. A larger alias disconnects.
    pub topic_alias_maximum: u16,
    /// Aliases given to topics that go to one client; a smaller Topic Alias Maximum of the client wins.
    pub topic_aliases_outgoing: u16,
    /// Retained messages of clients. One more is delivered but not retained, and counted. What the caller itself
    /// retains ([`Keep::Memory`](crate::Keep::Memory)) is bounded by the caller.
    pub retained_messages: usize,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Bytes of all messages that wait or are retained, in memory or in the log, each counted once. What would go
    /// beyond is dropped, or delivered but not retained, and counted.
    pub kept_bytes: u64,
    /// Longest Session Expiry Interval in seconds that is granted; `u32::MAX` is for ever.
    pub session_expiry_s: u32,
    /// Longest Keep Alive in seconds; a client of version 5 that asks for more, or none, is told this one.
    pub keep_alive_s: Option<NonZeroU16>,
}

/// What becomes of a message for a session whose queue is full, or that would have to wait in memory where that is
/// full. Either way it is counted as [`Dropped::QueueFull`](crate::Dropped::QueueFull) or
/// [`Dropped::MemoryFull`](crate::Dropped::MemoryFull), and no other session that is connected waits for it or goes
/// without, but for QoS 2 under `Refuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePolicy {
    /// That session does not get it; its publisher is not told.
    #[default]
    DropNewest,
    /// Its publisher is told: Quota exceeded to version 5, to 3.x no acknowledgement and a close. It is not kept for
    /// anybody who is away, nor retained. At QoS 1 it still goes to all that are connected; at QoS 2 to nobody, since
    /// they would have it twice when it comes again.
    Refuse,
}

impl Broker {
    /// Other limits from now on. What exceeds a lowered one stays; what clients were told when they connected (receive
    /// maximum, topic alias maximum; in-flight, too) holds for them until they connect again.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Another [`Limits::kept_bytes`] from now on.
    pub fn set_kept_bytes(&mut self, kept_bytes: u64) {
        self.limits.kept_bytes = kept_bytes;
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 100_000,
            session_bytes: u64::MAX,
            subscriptions_per_session: 10_000,
            subscription_bytes: u64::MAX,
            topic_levels: 128,
            queue_messages: 100_000,
            queue_bytes: 64 << 20,
            queue_policy: QueuePolicy::DropNewest,
            queue_memory_bytes: 1 << 20,
            memory_bytes: 64 << 20,
            in_flight: NonZeroU16::new(1024).expect("not zero"),
            receive_maximum: NonZeroU16::new(1024).expect("not zero"),
            maximum_packet_size: 1 << 20,
            topic_alias_maximum: 16,
            topic_aliases_outgoing: 16,
            retained_messages: 100_000,
            retained_bytes: 64 << 20,
            kept_bytes: u64::MAX,
            session_expiry_s: u32::MAX,
            keep_alive_s: None,
        }
    }
}
