//! What a session sends at QoS 1 and 2: what waits, what is in flight, and which packet identifier it has.

use std::collections::VecDeque;

use mqtt::{PacketId, QoS};

use crate::Position;
use crate::held::HeldMessages;
use crate::ids::{GroupId, HeldId};
use crate::queue::{Entry, Queue, What};

/// Packet identifiers, 1 to 65,535.
const IDS: u64 = 65_535;

/// One message on its way to one session.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// Its number in the session: order and packet identifier follow from it.
    pub(crate) seq: u64,
    /// The message, where it may have to be sent (again). Once released: the record that says so.
    pub(crate) held: Option<HeldId>,
    /// Where another member of this group may get it instead.
    pub(crate) group: Option<GroupId>,
    /// Subscription Identifiers.
    pub(crate) ids: Box<[u32]>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// It dies with the connection.
    pub(crate) transient: bool,
    /// It must not leave before its record is durable.
    pub(crate) after_commit: bool,
    pub(crate) state: State,
}

impl Delivery {
    /// A number, and nothing to send under it.
    pub(crate) fn bare(seq: u64) -> Delivery {
        Delivery {
            seq,
            held: None,
            group: None,
            ids: Box::default(),
            qos: QoS::AtLeastOnce,
            retain: false,
            transient: false,
            after_commit: false,
            state: State::Waiting,
        }
    }
}

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Never sent.
    Waiting,
    /// Sent, on this connection or (while it waits) on an earlier one.
    Sent,
    /// QoS 2: PUBREC has come, PUBREL is owed.
    Released,
}

impl State {
    /// That of a delivery which waits, where none after `sent_seq` has ever been sent: they are sent in order.
    pub(crate) fn before(seq: u64, sent_seq: u64) -> State {
        if seq <= sent_seq { State::Sent } else { State::Waiting }
    }
}

/// The deliveries of QoS 1 and 2 of one session.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// To be sent; those sent on an earlier connection come first.
    waiting: Queue,
    /// Sent on this connection and not acknowledged, or released; by seq.
    in_flight: VecDeque<Delivery>,
    next_seq: u64,
    /// No larger seq has ever been sent.
    sent_seq: u64,
}

impl Outgoing {
    pub(crate) fn new() -> Self {
        Outgoing::restored(Queue::default(), VecDeque::new(), 1, 0)
    }

    /// What a restart left: what waits, and what was `released`, by seq.
    pub(crate) fn restored(waiting: Queue, released: VecDeque<Delivery>, next_seq: u64, sent_seq: u64) -> Self {
        Outgoing {
            waiting,
            in_flight: released,
            next_seq,
            sent_seq,
        }
    }

    pub(crate) fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub(crate) fn sent_seq(&self) -> u64 {
        self.sent_seq
    }

    /// Puts an entry of `len` bytes behind the others.
    pub(crate) fn wait(&mut self, entry: Entry, len: u32) {
        self.waiting.push(entry, len);
    }

    /// Makes deliveries of the first `count` that wait, so that [`Outgoing::sendable`] and [`Outgoing::upcoming`] know
    /// them.
    pub(crate) fn unfold(&mut self, count: usize, held: &mut HeldMessages) {
        self.waiting.unfold(count, self.sent_seq, held);
    }

    /// The delivery to be sent next, unless `window` or the packet identifiers are used up.
    pub(crate) fn sendable(&self, window: u16) -> Option<&Delivery> {
        self.waiting.front().filter(|next| self.admits(next.seq, window))
    }

    /// Whether the newest message may be sent right now: none waits before it.
    pub(crate) fn is_open(&self, seq: u64, window: u16) -> bool {
        self.waiting.is_empty() && self.admits(seq, window)
    }

    /// A packet identifier is free once the message that had it 65,535 before is acknowledged (MQTT-2.2.1-3); until
    /// then sending stalls.
    fn admits(&self, seq: u64, window: u16) -> bool {
        self.in_flight.len() < usize::from(window)
            && self
                .in_flight
                .front()
                .is_none_or(|oldest| seq.max(self.sent_seq) < oldest.seq + IDS)
    }

    /// Takes the next one out of those that wait.
    pub(crate) fn take_next(&mut self, len: u32) -> Option<Delivery> {
        self.waiting.pop(len)
    }

    /// A delivery has been sent: it is in flight.
    pub(crate) fn sent(&mut self, mut delivery: Delivery) {
        delivery.state = State::Sent;
        self.sent_seq = self.sent_seq.max(delivery.seq);
        let at = self.in_flight.partition_point(|other| other.seq < delivery.seq);
        self.in_flight.insert(at, delivery);
    }

    /// The delivery in flight with this packet identifier.
    pub(crate) fn in_flight(&mut self, packet_id: PacketId) -> Option<&mut Delivery> {
        let at = self.position(packet_id)?;
        self.in_flight.get_mut(at)
    }

    /// Takes it out: it is acknowledged, or refused.
    pub(crate) fn complete(&mut self, packet_id: PacketId) -> Option<Delivery> {
        let at = self.position(packet_id)?;
        self.in_flight.remove(at)
    }

    fn position(&self, packet_id: PacketId) -> Option<usize> {
        let newest = self.in_flight.back()?.seq;
        let age = (newest + IDS - u64::from(packet_id.get())) % IDS;
        let seq = newest.checked_sub(age)?;
        self.in_flight.binary_search_by_key(&seq, |delivery| delivery.seq).ok()
    }

    /// The connection has ended: what was sent waits to be sent again, what was released stays. Returns what dies
    /// with the connection. `len` tells the bytes of a delivery.
    pub(crate) fn disconnected(&mut self, len: impl Fn(&Delivery) -> u32) -> Vec<Delivery> {
        let mut dead = Vec::new();
        let mut again = Vec::new();
        let mut released = VecDeque::new();
        for delivery in self.in_flight.drain(..) {
            match delivery.state {
                State::Released => released.push_back(delivery),
                _ if delivery.transient || delivery.held.is_none() => dead.push(delivery),
                _ => again.push(delivery),
            }
        }
        self.in_flight = released;
        for delivery in again.into_iter().rev() {
            let len = len(&delivery);
            self.waiting.push_front(delivery, len);
        }
        dead.extend(self.waiting.extract(|delivery| delivery.transient, len));
        self.in_flight.shrink_to_fit();
        dead
    }

    /// Takes all deliveries out that wait and are `wanted`.
    pub(crate) fn extract(
        &mut self,
        wanted: impl Fn(&Delivery) -> bool,
        len: impl Fn(&Delivery) -> u32,
    ) -> Vec<Delivery> {
        self.waiting.extract(wanted, len)
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry> {
        self.in_flight.drain(..).map(Entry::of).chain(self.waiting.drain())
    }

    /// What the delivery with this seq holds, wherever it is.
    pub(crate) fn holder(&mut self, seq: u64) -> Option<Holder<'_>> {
        if let Ok(at) = self.in_flight.binary_search_by_key(&seq, |delivery| delivery.seq) {
            return self.in_flight[at].held.map(Holder::Held);
        }
        match &mut self.waiting.find(seq)?.what {
            What::Logged(logged) => Some(Holder::Record(&mut logged.position)),
            What::Delivery(delivery) => delivery.held.map(Holder::Held),
        }
    }

    /// Packet identifiers whose PUBREL is owed, in order, with the record that says so.
    pub(crate) fn released(&self) -> impl Iterator<Item = (PacketId, Option<HeldId>)> {
        let released = self
            .in_flight
            .iter()
            .filter(|delivery| delivery.state == State::Released);
        released.map(|delivery| (packet_id(delivery.seq), delivery.held))
    }

    /// The deliveries among the first `count` of those that wait.
    pub(crate) fn upcoming(&self, count: usize) -> impl Iterator<Item = &Delivery> {
        self.waiting.deliveries(count)
    }

    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Those that wait and of which only the log knows more.
    pub(crate) fn folded_len(&self) -> usize {
        self.waiting.folded_len()
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting.bytes()
    }

    pub(crate) fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }
}

/// What a delivery needs of the log.
pub(crate) enum Holder<'a> {
    /// A held message, which may be others' too.
    Held(HeldId),
    /// The record at this position, which is its alone.
    Record(&'a mut Position),
}

/// The packet identifier of a message, the same on every connection and after every restart.
pub(crate) fn packet_id(seq: u64) -> PacketId {
    let id = u16::try_from((seq - 1) % IDS + 1).expect("at most 65,535");
    PacketId::new(id).expect("at least one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(outgoing: &mut Outgoing) -> Delivery {
        Delivery {
            held: HeldId(std::num::NonZeroU32::MIN).into(),
            ..Delivery::bare(outgoing.take_seq())
        }
    }

    fn sent(outgoing: &mut Outgoing) -> PacketId {
        let delivery = delivery(outgoing);
        let id = packet_id(delivery.seq);
        outgoing.sent(delivery);
        id
    }

    #[test]
    fn a_packet_identifier_is_not_used_again_while_it_is_in_use() {
        let mut outgoing = Outgoing::new();
        let first = sent(&mut outgoing);
        for _ in 1..IDS {
            assert!(outgoing.is_open(outgoing.next_seq(), u16::MAX));
            let id = sent(&mut outgoing);
            outgoing.complete(id).expect("it is in flight");
        }
        assert!(
            !outgoing.is_open(outgoing.next_seq(), u16::MAX),
            "the next one would have the identifier of the first"
        );
        assert_eq!(packet_id(outgoing.next_seq()), first);
        outgoing.complete(first).expect("it is in flight");
        assert!(outgoing.is_open(outgoing.next_seq(), u16::MAX));
    }

    #[test]
    fn every_message_in_flight_is_found_by_its_identifier_in_any_order() {
        let mut outgoing = Outgoing::new();
        let mut ids: Vec<_> = (0..70_000).map(|_| sent_and_kept(&mut outgoing)).collect();
        ids.drain(..70_000 - 1000);
        for id in ids.iter().rev().step_by(2).chain(ids.iter().step_by(2)) {
            assert_eq!(
                outgoing.complete(*id).map(|delivery| packet_id(delivery.seq)),
                Some(*id)
            );
            assert!(outgoing.complete(*id).is_none());
        }
        assert_eq!(outgoing.in_flight_len(), 0);
    }

    fn sent_and_kept(outgoing: &mut Outgoing) -> PacketId {
        if outgoing.in_flight_len() == 1000 {
            let oldest = packet_id(outgoing.in_flight[0].seq);
            outgoing.complete(oldest);
        }
        sent(outgoing)
    }

    #[test]
    fn what_was_in_flight_is_sent_first_and_in_order_on_the_next_connection() {
        let mut outgoing = Outgoing::new();
        let ids: Vec<_> = (0..4).map(|_| sent(&mut outgoing)).collect();
        outgoing.in_flight(ids[1]).expect("in flight").state = State::Released;
        let late = delivery(&mut outgoing);
        outgoing.wait(Entry::of(late), 0);
        assert!(outgoing.disconnected(|_| 0).is_empty());
        let order: Vec<_> = outgoing
            .upcoming(9)
            .map(|delivery| (delivery.seq, delivery.state))
            .collect();
        assert_eq!(
            order,
            [
                (1, State::Sent),
                (3, State::Sent),
                (4, State::Sent),
                (5, State::Waiting)
            ]
        );
        assert_eq!(outgoing.released().map(|(id, _)| id).collect::<Vec<_>>(), [ids[1]]);
    }

    #[test]
    fn the_window_closes_and_opens() {
        let mut outgoing = Outgoing::new();
        let first = sent(&mut outgoing);
        sent(&mut outgoing);
        assert!(!outgoing.is_open(outgoing.next_seq(), 2));
        outgoing.complete(first);
        assert!(outgoing.is_open(outgoing.next_seq(), 2));
    }
}
