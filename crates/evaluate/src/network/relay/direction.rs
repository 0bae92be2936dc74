//! One direction of a line as pure state: a sender with a bounded queue before it, then the way. No sockets, no clock.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::network::{Counters, Settings};

/// Packets queued and on the way together; the newest beyond are dropped. Of full packets it is 98 MB: 2.6 Gbit/s over
/// a round trip of 600 ms.
const MOST_PACKETS: usize = 65_536;

/// What is delivered so much after it was due is counted as late.
const LATE_NS: u64 = 100_000;

/// Packets from one end to the other, in the order in which they were offered.
pub(super) struct Direction {
    settings: Settings,
    random: ChaCha8Rng,
    packets: VecDeque<Packet>,
    /// How many of them, from the front, have left the sender and are on the way.
    sent: usize,
    /// Bytes of the others.
    queued_bytes: u64,
    /// When the sender is free for the next.
    free_at_ns: u64,
    last_due_ns: u64,
    is_cut: bool,
    counters: Counters,
}

struct Packet {
    bytes: Box<[u8]>,
    /// When its last bit leaves the sender.
    sent_ns: u64,
    /// When it is at the other end.
    due_ns: u64,
    is_lost: bool,
}

impl Direction {
    /// `stream` tells apart the directions that share a seed.
    pub(super) fn new(settings: Settings, seed: u64, stream: u64) -> Direction {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Direction {
            settings,
            random,
            packets: VecDeque::new(),
            sent: 0,
            queued_bytes: 0,
            free_at_ns: 0,
            last_due_ns: 0,
            is_cut: false,
            counters: Counters::default(),
        }
    }

    /// Takes a packet in, or drops it where the line is cut or the queue is full.
    pub(super) fn offer(&mut self, now_ns: u64, bytes: &[u8]) {
        self.settle(now_ns);
        let counters = &mut self.counters;
        let length = bytes.len() as u64;
        let is_full = |limit: u64| self.queued_bytes + length > limit;
        if self.is_cut {
            counters.dropped_by_cut += 1;
        } else if self.settings.queue_bytes().is_some_and(is_full) {
            counters.dropped_at_queue += 1;
        } else if self.packets.len() >= MOST_PACKETS {
            counters.dropped_on_the_way += 1;
        } else {
            self.accept(now_ns, bytes.into());
        }
    }

    fn accept(&mut self, now_ns: u64, bytes: Box<[u8]>) {
        let (sent_ns, due_ns) = self.times(now_ns, bytes.len());
        self.queued_bytes += bytes.len() as u64;
        let is_lost = self.settings.loss > 0.0 && self.random.random_bool(self.settings.loss);
        self.packets.push_back(Packet {
            bytes,
            sent_ns,
            due_ns,
            is_lost,
        });
    }

    /// When the next packet will have been sent, and when it arrives: never before the one ahead of it.
    fn times(&mut self, from_ns: u64, bytes: usize) -> (u64, u64) {
        let sending_ns = self.settings.bandwidth_bit_per_s.sending_ns(bytes);
        self.free_at_ns = self.free_at_ns.max(from_ns) + sending_ns;
        let half_jitter_ns = self.settings.jitter_us * 1_000 / 2;
        let least_ns = self.settings.round_trip_us * 1_000 / 2 - half_jitter_ns;
        let more_ns = match half_jitter_ns {
            0 => 0,
            half => self.random.random_range(0..=2 * half),
        };
        self.last_due_ns = self.last_due_ns.max(self.free_at_ns + least_ns + more_ns);
        (self.free_at_ns, self.last_due_ns)
    }

    /// Notes which packets have left the sender by now.
    fn settle(&mut self, now_ns: u64) {
        while let Some(packet) = self.packets.get(self.sent).filter(|packet| packet.sent_ns <= now_ns) {
            self.queued_bytes -= packet.bytes.len() as u64;
            self.sent += 1;
        }
    }

    /// When the next packet arrives.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.due_ns)
    }

    /// The next packet that has arrived by now.
    pub(super) fn deliver(&mut self, now_ns: u64) -> Option<Box<[u8]>> {
        self.settle(now_ns);
        while self.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            let packet = self.packets.pop_front()?;
            self.sent -= 1;
            if !packet.is_lost {
                self.counters.delivered += 1;
                self.counters.delivered_bytes += packet.bytes.len() as u64;
                self.counters.delivered_late += u64::from(now_ns - packet.due_ns > LATE_NS);
                return Some(packet.bytes);
            }
            self.counters.lost += 1;
        }
        None
    }

    /// The same line with other settings from now on: packets that wait are sent by them, those that are being sent or
    /// on their way are not touched.
    pub(super) fn set(&mut self, now_ns: u64, settings: Settings) {
        self.settle(now_ns);
        self.settings = settings;
        if let Some(sending) = self.packets.get(self.sent) {
            (self.free_at_ns, self.last_due_ns) = (sending.sent_ns, sending.due_ns);
        }
        for waiting in self.sent + 1..self.packets.len() {
            let times = self.times(now_ns, self.packets[waiting].bytes.len());
            let packet = &mut self.packets[waiting];
            (packet.sent_ns, packet.due_ns) = times;
        }
    }

    /// As a cable is pulled: what is queued or on the way is gone, and nothing passes until [`Direction::mend`].
    pub(super) fn cut(&mut self) {
        self.counters.dropped_by_cut += self.packets.len() as u64;
        self.packets.clear();
        (self.sent, self.queued_bytes, self.free_at_ns, self.last_due_ns) = (0, 0, 0, 0);
        self.is_cut = true;
    }

    pub(super) fn mend(&mut self) {
        self.is_cut = false;
    }

    /// The kernel did not take a packet that had arrived.
    pub(super) fn refused(&mut self, packet: &[u8]) {
        self.counters.delivered -= 1;
        self.counters.delivered_bytes -= packet.len() as u64;
        self.counters.refused_by_kernel += 1;
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
#[path = "direction_tests.rs"]
mod tests;
