//! What an edge has of its outbox: on the way, or next to go.

use std::collections::{BTreeMap, VecDeque};

use hub::{Lane, Outgoing};

/// Of what goes, the live lane has four parts where the backlog has one, while both have something.
const LIVE_PARTS: i64 = 4;

/// Messages by where they are.
#[derive(Debug, Default)]
pub(crate) struct Load {
    live: VecDeque<Outgoing>,
    backlog: VecDeque<Outgoing>,
    /// By the number of the packet that they went in.
    on_the_way: BTreeMap<u16, Sent>,
    on_the_way_bytes: usize,
    /// Above zero while it is the backlog's turn, in bytes.
    live_ahead_bytes: i64,
}

/// A packet that waits for its acknowledgement.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) messages: Vec<Outgoing>,
    /// Bytes of the packet.
    pub(crate) bytes: usize,
    /// Bytes that were on the way when it was sent, its own among them.
    pub(crate) ahead_bytes: usize,
    pub(crate) at: tokio::time::Instant,
}

impl Load {
    pub(crate) fn push(&mut self, message: Outgoing) {
        match message.lane {
            Lane::Live => self.live.push_back(message),
            Lane::Backlog => self.backlog.push_back(message),
        }
    }

    pub(crate) fn has_next(&self) -> bool {
        !self.live.is_empty() || !self.backlog.is_empty()
    }

    /// Bytes of packets on the way.
    pub(crate) fn on_the_way_bytes(&self) -> usize {
        self.on_the_way_bytes
    }

    /// Packets on the way.
    pub(crate) fn packets_on_the_way(&self) -> usize {
        self.on_the_way.len()
    }

    /// The lane that goes next.
    pub(crate) fn next_lane(&self) -> Option<Lane> {
        match (self.live.is_empty(), self.backlog.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Lane::Live),
            (true, false) => Some(Lane::Backlog),
            (false, false) if self.live_ahead_bytes > 0 => Some(Lane::Backlog),
            (false, false) => Some(Lane::Live),
        }
    }

    pub(crate) fn front(&self, lane: Lane) -> Option<&Outgoing> {
        match lane {
            Lane::Live => self.live.front(),
            Lane::Backlog => self.backlog.front(),
        }
    }

    pub(crate) fn pop(&mut self, lane: Lane) -> Option<Outgoing> {
        match lane {
            Lane::Live => self.live.pop_front(),
            Lane::Backlog => self.backlog.pop_front(),
        }
    }

    /// The messages went in this packet.
    pub(crate) fn sent(&mut self, packet_id: u16, lane: Lane, sent: Sent) {
        self.on_the_way_bytes += sent.bytes;
        let bytes = sent.bytes as i64;
        self.live_ahead_bytes += match lane {
            Lane::Live => bytes,
            Lane::Backlog => -bytes * LIVE_PARTS,
        };
        if self.live.is_empty() || self.backlog.is_empty() {
            self.live_ahead_bytes = 0;
        }
        self.on_the_way.insert(packet_id, sent);
    }

    /// Whether a packet of this number is on the way.
    pub(crate) fn is_on_the_way(&self, packet_id: u16) -> bool {
        self.on_the_way.contains_key(&packet_id)
    }

    /// The packet was acknowledged.
    pub(crate) fn acknowledged(&mut self, packet_id: u16) -> Option<Sent> {
        let sent = self.on_the_way.remove(&packet_id)?;
        self.on_the_way_bytes -= sent.bytes;
        Some(sent)
    }

    /// The connection is no more: all that is here, or was on the way.
    pub(crate) fn take_all(&mut self) -> Vec<Outgoing> {
        let last = std::mem::take(self);
        let on_the_way = last.on_the_way.into_values().flat_map(|sent| sent.messages);
        on_the_way.chain(last.live).chain(last.backlog).collect()
    }
}
