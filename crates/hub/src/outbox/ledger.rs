//! What became of the messages of a queue: `received = delivered + queued + dropped`, at every moment. What is queued
//! is counted in the queue itself ([`QueueFigures::queued`](super::QueueFigures::queued)).

use serde::{Deserialize, Serialize};

/// Why a message that was to leave the hub never will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discarded {
    /// There was no room: the oldest went, or the newest, as its route says.
    Full,
    /// It waited longer than its route lets it, or than its Message Expiry Interval says.
    Expired,
    /// The other end will never take it.
    Refused,
    /// The log had no room for it.
    LogFull,
    /// What the log gave back is not what was written.
    Damaged,
}

impl Discarded {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Discarded; 5] = [
        Discarded::Full,
        Discarded::Expired,
        Discarded::Refused,
        Discarded::LogFull,
        Discarded::Damaged,
    ];

    /// The reason as a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Discarded::Full => "full",
            Discarded::Expired => "expired",
            Discarded::Refused => "refused",
            Discarded::LogFull => "log_full",
            Discarded::Damaged => "damaged",
        }
    }
}

/// What became of the messages of a queue since it is there, restarts included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Messages that were to leave.
    pub received: u64,
    /// Of these, those that the other end has.
    pub delivered: u64,
    /// Those that never will, by [`Discarded`].
    pub dropped: [u64; Discarded::ALL.len()],
}

impl Ledger {
    /// Messages that have to be there still.
    pub(crate) fn unsettled(&self) -> u64 {
        let settled = self.delivered + self.dropped.iter().sum::<u64>();
        self.received.saturating_sub(settled)
    }

    pub(crate) fn drop(&mut self, why: Discarded, messages: u64) {
        self.dropped[why as usize] += messages;
    }
}
