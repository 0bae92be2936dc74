//! Rebuilds a broker from the records of its log.

use std::collections::BTreeMap;

use mqtt::{PacketId, QoS, SubscriptionOptions};

use crate::broker::monotonic_deadline;
use crate::deliveries::Deliveries;
use crate::held::{Held, NEVER_MS};
use crate::ids::{IdMap, Slot};
use crate::outgoing::{Delivery, Outgoing, State};
use crate::retained::Retained;
use crate::session::Session;
use crate::{Broker, Limits, Now, Position, Record, SessionId, Sink};

/// A broker that comes back: takes the records in the order of their positions, then becomes a [`Broker`].
///
/// A queue is put in order by seq, not by position, and of two records of one delivery the later one counts: the log
/// may have moved old ones behind new ones.
#[derive(Debug)]
pub struct Recovery {
    broker: Broker,
    sessions: IdMap<u64, Restored>,
    garbage: Vec<Position>,
}

/// What was found of one session.
#[derive(Debug, Default)]
struct Restored {
    /// Its own record; without it, the rest is of a session that is gone.
    found: Option<Found>,
    /// As logged; one that holds nothing is done.
    deliveries: Vec<Delivery>,
    subscriptions: BTreeMap<Box<str>, (SubscriptionOptions, u32, Position)>,
    received: BTreeMap<PacketId, Position>,
}

#[derive(Debug)]
struct Found {
    position: Position,
    owner: Box<str>,
    client_id: Box<str>,
    expiry_s: u32,
    ended_unix_ms: Option<u64>,
    sent_seq: u64,
    next_seq: u64,
}

impl Recovery {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Recovery {
        Recovery {
            broker: Broker::new(limits),
            sessions: IdMap::default(),
            garbage: Vec::new(),
        }
    }

    /// Takes the next record; bodies are not needed, only the length of what was written.
    pub fn restore(&mut self, position: Position, record: &Record<'_>, body_len: usize) {
        self.broker.durable = position;
        match *record {
            Record::Message {
                deliveries,
                expires_unix_ms,
                ..
            } => {
                self.restore_message(position, deliveries, expires_unix_ms, body_len);
            }
            Record::Done { session, seq } => self.session(session).deliveries.push(over(seq)),
            Record::Released { session, seq } => self.restore_released(position, session, seq),
            Record::Session { session, .. } => self.restore_session(position, session, record),
            Record::SessionGone { session } => {
                let gone = std::mem::take(self.session(session));
                self.discard(gone);
            }
            Record::Subscription {
                session,
                filter,
                options,
                subscription_id,
            } => {
                let subscription = (options, subscription_id.unwrap_or(0), position);
                let old = self.session(session).subscriptions.insert(filter.into(), subscription);
                self.garbage.extend(old.map(|(_, _, old)| old));
            }
            Record::SubscriptionGone { session, filter } => {
                let old = self.session(session).subscriptions.remove(filter);
                self.garbage.extend(old.map(|(_, _, old)| old));
            }
            Record::Retained {
                topic,
                qos,
                expires_unix_ms,
                ..
            } => {
                self.restore_retained(position, topic, qos, expires_unix_ms, body_len);
            }
            Record::RetainedGone { topic } => {
                let old = self.broker.retained.remove(topic);
                self.forget_retained(old);
            }
            Record::Received { session, packet_id } => {
                let old = self.session(session).received.insert(packet_id, position);
                self.garbage.extend(old);
            }
            Record::ReceivedGone { session, packet_id } => {
                let old = self.session(session).received.remove(&packet_id);
                self.garbage.extend(old);
            }
        }
    }

    fn session(&mut self, id: SessionId) -> &mut Restored {
        self.sessions.entry(id.0).or_default()
    }

    fn restore_message(&mut self, position: Position, list: Deliveries<'_>, expires_unix_ms: Option<u64>, len: usize) {
        // Until the end, deadlines are those of the wall clock.
        let held = Held::logged(position, len, None, expires_unix_ms.unwrap_or(NEVER_MS));
        let id = self.broker.held.insert(Held {
            is_first_record: false,
            ..held
        });
        let mut holders = 0;
        for one in list.iter() {
            holders += 1;
            let delivery = Delivery {
                held: Some(id),
                ids: one.subscription_ids(),
                qos: one.qos,
                retain: one.retain,
                ..over(one.seq)
            };
            self.session(one.session).deliveries.push(delivery);
        }
        self.broker.held.get_mut(id).holders = holders;
    }

    fn restore_released(&mut self, position: Position, session: SessionId, seq: u64) {
        let record = Held {
            holders: 1,
            ..Held::logged(position, 0, None, NEVER_MS)
        };
        let held = Some(self.broker.held.insert(record));
        let delivery = Delivery {
            held,
            state: State::Released,
            qos: QoS::ExactlyOnce,
            ..over(seq)
        };
        self.session(session).deliveries.push(delivery);
    }

    fn restore_session(&mut self, position: Position, id: SessionId, record: &Record<'_>) {
        let Record::Session {
            owner,
            client_id,
            expiry_s,
            ended_unix_ms,
            sent_seq,
            next_seq,
            ..
        } = *record
        else {
            return;
        };
        let (owner, client_id) = (owner.into(), client_id.into());
        let found = Found {
            position,
            owner,
            client_id,
            expiry_s,
            ended_unix_ms,
            sent_seq,
            next_seq,
        };
        let old = self.session(id).found.replace(found);
        self.garbage.extend(old.map(|old| old.position));
    }

    fn restore_retained(
        &mut self,
        position: Position,
        topic: &str,
        qos: QoS,
        expires_unix_ms: Option<u64>,
        body_len: usize,
    ) {
        let expires_at_ms = expires_unix_ms.unwrap_or(NEVER_MS);
        let held = Held {
            holders: 1,
            ..Held::logged(position, body_len, None, expires_at_ms)
        };
        let len = held.len;
        let held = self.broker.held.insert(held);
        let old = self.broker.retained.insert(
            topic,
            Retained {
                held,
                qos,
                len,
                expires_at_ms,
            },
        );
        self.forget_retained(old);
    }

    fn forget_retained(&mut self, old: Option<Retained>) {
        if let Some(old) = old {
            self.garbage.push(self.broker.held.get(old.held).position);
            self.broker.held.let_go(old.held);
        }
    }

    /// What the records leave: expired sessions are gone, all others without connection. Releases the records that
    /// nothing needs.
    pub fn finish(mut self, now: Now, out: &mut dyn Sink) -> Broker {
        self.broker
            .held
            .convert_deadlines(|unix_ms| monotonic_deadline(now, unix_ms));
        self.broker
            .retained
            .convert_deadlines(|unix_ms| monotonic_deadline(now, unix_ms));
        let mut sessions: Vec<_> = std::mem::take(&mut self.sessions).into_iter().collect();
        sessions.sort_unstable_by_key(|(id, _)| *id);
        for (id, mut restored) in sessions {
            self.broker.next_session = self.broker.next_session.max(id + 1);
            match restored.found.take() {
                Some(found) => self.rebuild(now, SessionId(id), &found, restored, out),
                None => self.discard(restored),
            }
        }
        self.garbage.iter().for_each(|position| out.release(*position));
        self.broker
    }

    fn rebuild(&mut self, now: Now, id: SessionId, found: &Found, restored: Restored, out: &mut dyn Sink) {
        let mut session = Session::new(id, &found.owner, &found.client_id);
        session.expiry_s = found.expiry_s;
        session.record = found.position;
        session.outgoing = self.outgoing(found, restored.deliveries);
        let ended_unix_ms = found.ended_unix_ms.unwrap_or(now.unix_ms);
        session.ended_at_ms = now.monotonic_ms as i64 - now.unix_ms.saturating_sub(ended_unix_ms) as i64;
        restored
            .received
            .into_iter()
            .for_each(|(id, position)| session.incoming.insert(id, position));
        let slot = self.broker.sessions.insert(session);
        self.resubscribe(slot, restored.subscriptions);
        if found.ended_unix_ms.is_none() {
            // From now on it is known when it ended; if that is refused, it is from the next start on.
            let _ = self.broker.log_session(now, slot, out);
        }
        self.broker.arm(slot);
    }

    /// The last record of each delivery counts.
    fn outgoing(&mut self, found: &Found, mut deliveries: Vec<Delivery>) -> Outgoing {
        if !deliveries.is_sorted_by_key(|delivery| delivery.seq) {
            deliveries.sort_by_key(|delivery| delivery.seq);
        }
        deliveries.dedup_by(|later, earlier| {
            let is_same = later.seq == earlier.seq;
            if is_same {
                std::mem::swap(later, earlier);
                self.let_go(later);
            }
            is_same
        });
        let newest_seq = deliveries.last().map_or(0, |delivery| delivery.seq);
        deliveries.retain(|delivery| delivery.held.is_some());
        let mut bytes = 0;
        for delivery in &mut deliveries {
            if delivery.state == State::Waiting && delivery.seq <= found.sent_seq {
                delivery.state = State::Sent;
            }
            bytes += u64::from(crate::log::len_of(&self.broker.held, delivery));
        }
        // The crash may have swallowed messages that the client had received: it must not take later ones with the
        // same packet identifiers for those.
        let skipped = u64::from(self.broker.limits.in_flight.get());
        let next_seq = found.next_seq.max(newest_seq + 1) + skipped;
        Outgoing::restored(deliveries, bytes, next_seq, found.sent_seq.min(newest_seq))
    }

    /// A delivery is not needed.
    fn let_go(&mut self, delivery: &Delivery) {
        let Some(id) = delivery.held else { return };
        let position = self.broker.held.get(id).position;
        if self.broker.held.let_go(id) {
            self.garbage.push(position);
        }
    }

    fn resubscribe(&mut self, slot: Slot, subscriptions: BTreeMap<Box<str>, (SubscriptionOptions, u32, Position)>) {
        for (filter, (options, id, record)) in subscriptions {
            let shared = mqtt::topic::split_shared(&filter).ok().flatten();
            let matched = shared.map_or(&*filter, |(_, matched)| matched);
            let subscription = self.broker.link(slot, &filter, matched, options, id, record);
            self.broker.sessions.get_mut(slot).subscriptions.push(subscription);
        }
    }

    fn discard(&mut self, gone: Restored) {
        gone.deliveries.iter().for_each(|delivery| self.let_go(delivery));
        let records = gone.subscriptions.into_values().map(|(_, _, record)| record);
        self.garbage.extend(records.chain(gone.received.into_values()));
        self.garbage.extend(gone.found.map(|found| found.position));
    }
}

/// A delivery that is done.
fn over(seq: u64) -> Delivery {
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
