//! What must outlast a restart, as records of a log; the last record of a key wins.

use std::num::NonZeroU64;

use mqtt::{PacketId, QoS, SubscriptionOptions};

use crate::Now;
use crate::deliveries::Deliveries;
use crate::held::NEVER_MS;

/// A persistent session in the log; never used again for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// When a message in the log expires. Over a restart only the wall clock tells how long ago it was logged, and that may
/// have been set back meanwhile: what was left then bounds what is left after (MQTT 5, section 3.3.2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Wall-clock instant.
    pub unix_ms: u64,
    /// Time from the logging to it.
    pub left_ms: u64,
}

impl Deadline {
    /// Of a deadline on the monotonic clock, for the log.
    pub(crate) fn logged(now: Now, at_ms: u64) -> Option<Deadline> {
        let left_ms = at_ms.saturating_sub(now.monotonic_ms);
        let unix_ms = now.unix_ms.saturating_add(left_ms);
        (at_ms != NEVER_MS).then_some(Deadline { unix_ms, left_ms })
    }

    /// As a deadline on the monotonic clock, from the log.
    pub(crate) fn restored(now: Now, deadline: Option<Deadline>) -> u64 {
        deadline.map_or(NEVER_MS, |Deadline { unix_ms, left_ms }| {
            let left_ms = unix_ms.saturating_sub(now.unix_ms).min(left_ms);
            now.monotonic_ms.saturating_add(left_ms)
        })
    }
}

/// One change of what must outlast a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message that persistent sessions must get. Key: each (session, seq) of `deliveries`.
    Message {
        /// To whom, and how.
        deliveries: Deliveries<'a>,
        /// When it expires, if it does.
        expires: Option<Deadline>,
        /// The message; empty while only the meta is known.
        body: &'a [u8],
    },
    /// The session has acknowledged this message, or will never get it.
    Done {
        /// Whose.
        session: SessionId,
        /// Which.
        seq: u64,
    },
    /// PUBREC has come, PUBREL is owed: the message itself is needed no more.
    Released {
        /// Whose.
        session: SessionId,
        /// Which.
        seq: u64,
    },
    /// A session exists.
    Session {
        /// Its key.
        session: SessionId,
        /// To whom it belongs.
        owner: &'a str,
        /// Its client identifier.
        client_id: &'a str,
        /// Session Expiry Interval in seconds.
        expiry_s: u32,
        /// When its connection ended; `None` while connected.
        ended_unix_ms: Option<u64>,
        /// No message with a larger seq had been sent when its connection ended.
        sent_seq: u64,
        /// Seq of the next message.
        next_seq: u64,
        /// What is still to be said when the client is gone (MQTT-3.1.2-7).
        will: Option<LoggedWill<'a>>,
    },
    /// A session, with all that is its, is no more.
    SessionGone {
        /// Which.
        session: SessionId,
    },
    /// A subscription. Key: session and filter.
    Subscription {
        /// Whose.
        session: SessionId,
        /// The whole filter, `$share/…` included.
        filter: &'a str,
        /// Its options.
        options: SubscriptionOptions,
        /// Its Subscription Identifier.
        subscription_id: Option<u32>,
        /// Number of its group, if it is a shared one; messages that wait name the group by it.
        group: Option<NonZeroU64>,
    },
    /// A subscription is no more.
    SubscriptionGone {
        /// Whose.
        session: SessionId,
        /// Which.
        filter: &'a str,
    },
    /// A retained message. Key: topic.
    Retained {
        /// Its topic.
        topic: &'a str,
        /// QoS as published.
        qos: QoS,
        /// When it expires, if it does.
        expires: Option<Deadline>,
        /// The message; empty while only the meta is known.
        body: &'a [u8],
    },
    /// A retained message is no more.
    RetainedGone {
        /// Its topic.
        topic: &'a str,
    },
    /// A QoS 2 message with this packet identifier came from the session; its PUBREL has not.
    Received {
        /// From whom.
        session: SessionId,
        /// Which.
        packet_id: PacketId,
    },
    /// Its PUBREL has come.
    ReceivedGone {
        /// From whom.
        session: SessionId,
        /// Which.
        packet_id: PacketId,
    },
}

/// A will, as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedWill<'a> {
    /// Will Delay Interval in seconds.
    pub delay_s: u32,
    /// Will QoS.
    pub qos: QoS,
    /// Will Retain.
    pub retain: bool,
    /// The message.
    pub body: &'a [u8],
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a record of a broker")
    }
}

impl std::error::Error for Damaged {}

impl Record<'_> {
    /// Whether it makes others garbage and promises nothing new, so that it is taken even when the log is full.
    pub fn frees_space(&self) -> bool {
        self.is_tombstone() || matches!(self, Record::Released { .. })
    }

    /// Whether it only says that others are over. All that it speaks of lies before it, so that the log can forget it
    /// by itself.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Record::Done { .. } | Record::SessionGone { .. } => true,
            Record::SubscriptionGone { .. } | Record::RetainedGone { .. } | Record::ReceivedGone { .. } => true,
            Record::Message { .. } | Record::Session { .. } | Record::Subscription { .. } => false,
            Record::Retained { .. } | Record::Received { .. } | Record::Released { .. } => false,
        }
    }
}
