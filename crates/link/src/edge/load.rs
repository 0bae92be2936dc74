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
    /// Of these, those of live packets.
    live_on_the_way_bytes: usize,
    /// Above zero while it is the backlog's turn, in bytes.
    live_ahead_bytes: i64,
}

/// A packet that waits for its acknowledgement.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) lane: Lane,
    pub(crate) messages: Vec<Outgoing>,
    /// Bytes of the packet.
    pub(crate) bytes: usize,
    /// Bytes that were on the way when it was sent, its own among them.
    pub(crate) ahead_bytes: usize,
    pub(crate) at: tokio::time::Instant,
}

impl Sent {
    fn live_bytes(&self) -> usize {
        match self.lane {
            Lane::Live => self.bytes,
            Lane::Backlog => 0,
        }
    }
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

    /// Bytes of live packets on the way.
    pub(crate) fn live_on_the_way_bytes(&self) -> usize {
        self.live_on_the_way_bytes
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
    pub(crate) fn sent(&mut self, packet_id: u16, sent: Sent) {
        self.on_the_way_bytes += sent.bytes;
        self.live_on_the_way_bytes += sent.live_bytes();
        let bytes = sent.bytes as i64;
        self.live_ahead_bytes += match sent.lane {
            Lane::Live => bytes,
            Lane::Backlog => -bytes * LIVE_PARTS,
        };
        if self.live.is_empty() {
            // What comes live then is to go at once.
            self.live_ahead_bytes = 0;
        } else if self.backlog.is_empty() {
            // Nothing is saved up for it, but what it had too much stays: it may come packet by packet.
            self.live_ahead_bytes = self.live_ahead_bytes.min(0);
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
        self.live_on_the_way_bytes -= sent.live_bytes();
        Some(sent)
    }

    /// The connection is no more: all that is here, or was on the way.
    pub(crate) fn take_all(&mut self) -> Vec<Outgoing> {
        let last = std::mem::take(self);
        let on_the_way = last.on_the_way.into_values().flat_map(|sent| sent.messages);
        on_the_way.chain(last.live).chain(last.backlog).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(lane: Lane, sequence: u64) -> Outgoing {
        let mut ticket = hub::Ticket::default();
        ticket.sequence = sequence;
        Outgoing {
            ticket,
            tenant: "default".into(),
            route: "telemetry".into(),
            floor: 0,
            after: 0,
            lane,
            term: 0,
            body: Vec::new(),
        }
    }

    /// A load and what went of it, each message in a packet of its own.
    #[derive(Default)]
    struct Line {
        load: Load,
        last_packet_id: u16,
        live_bytes: usize,
        backlog_bytes: usize,
    }

    impl Line {
        fn push(&mut self, lane: Lane, messages: u64) {
            (0..messages).for_each(|sequence| self.load.push(message(lane, sequence)));
        }

        /// Sends the next message in a packet of so many bytes, and has it acknowledged.
        fn send(&mut self, bytes_of: impl Fn(Lane) -> usize) -> Option<Lane> {
            let lane = self.load.next_lane()?;
            let (messages, bytes) = (Vec::from_iter(self.load.pop(lane)), bytes_of(lane));
            let sent = Sent {
                lane,
                messages,
                bytes,
                ahead_bytes: bytes,
                at: tokio::time::Instant::now(),
            };
            self.last_packet_id += 1;
            self.load.sent(self.last_packet_id, sent);
            self.load.acknowledged(self.last_packet_id).expect("on the way");
            match lane {
                Lane::Live => self.live_bytes += bytes,
                Lane::Backlog => self.backlog_bytes += bytes,
            }
            Some(lane)
        }
    }

    #[test]
    fn of_the_bytes_of_a_line_that_is_full_the_live_lane_has_four_fifths_whatever_the_packets_are() {
        for (live, backlog) in [(100, 100), (1_000, 100), (100, 1_000), (37, 8_191)] {
            let mut line = Line::default();
            line.push(Lane::Live, 5_000);
            line.push(Lane::Backlog, 5_000);
            let bytes_of = |lane| if lane == Lane::Live { live } else { backlog };
            for _ in 0..4_000 {
                line.send(bytes_of);
                let ahead = line.live_bytes.abs_diff(LIVE_PARTS as usize * line.backlog_bytes);
                assert!(
                    ahead <= live.max(LIVE_PARTS as usize * backlog),
                    "{live} {backlog}: {ahead}"
                );
            }
        }
    }

    #[test]
    fn a_lane_that_has_the_line_for_itself_owes_the_other_nothing_later() {
        for alone in [Lane::Live, Lane::Backlog] {
            let mut line = Line::default();
            line.push(alone, 1_000);
            (0..1_000).for_each(|_| assert_eq!(line.send(|_| 100), Some(alone)));
            line.push(Lane::Live, 100);
            line.push(Lane::Backlog, 100);
            let next = Vec::from_iter((0..6).filter_map(|_| line.send(|_| 100)));
            assert_eq!(next.iter().filter(|lane| **lane == Lane::Live).count(), 5, "{next:?}");
            assert_eq!(next[0], Lane::Live, "what comes now goes first");
        }
    }

    #[test]
    fn a_backlog_that_comes_packet_by_packet_has_no_more_than_its_part() {
        let mut line = Line::default();
        line.push(Lane::Live, 1_000);
        for _ in 0..500 {
            if line.load.front(Lane::Backlog).is_none() {
                line.push(Lane::Backlog, 1);
            }
            line.send(|_| 100);
        }
        assert_eq!((line.live_bytes, line.backlog_bytes), (40_000, 10_000));
    }

    #[test]
    fn what_is_on_the_way_counts_until_it_is_acknowledged() {
        let mut load = Load::default();
        let sent = |lane, bytes| Sent {
            lane,
            messages: Vec::new(),
            bytes,
            ahead_bytes: bytes,
            at: tokio::time::Instant::now(),
        };
        load.sent(1, sent(Lane::Live, 100));
        load.sent(2, sent(Lane::Backlog, 50));
        assert_eq!((load.on_the_way_bytes(), load.packets_on_the_way()), (150, 2));
        assert_eq!(load.live_on_the_way_bytes(), 100);
        assert!(load.acknowledged(3).is_none(), "never sent");
        assert_eq!(load.acknowledged(1).map(|sent| sent.bytes), Some(100));
        assert!(load.acknowledged(1).is_none() && !load.is_on_the_way(1), "once only");
        assert_eq!((load.on_the_way_bytes(), load.packets_on_the_way()), (50, 1));
        assert_eq!(load.live_on_the_way_bytes(), 0);
    }

    #[test]
    fn all_is_given_back_when_a_connection_ends_what_was_on_the_way_first() {
        let mut load = Load::default();
        for (lane, sequence) in [(Lane::Backlog, 3), (Lane::Live, 2), (Lane::Live, 1)] {
            load.push(message(lane, sequence));
        }
        let sent = Sent {
            lane: Lane::Live,
            messages: vec![message(Lane::Live, 0)],
            bytes: 100,
            ahead_bytes: 100,
            at: tokio::time::Instant::now(),
        };
        load.sent(1, sent);
        let all = load.take_all();
        assert_eq!(
            Vec::from_iter(all.iter().map(|message| message.ticket.sequence)),
            [0, 2, 1, 3]
        );
        assert!(!load.has_next() && load.on_the_way_bytes() == 0);
    }
}
