//! Rebuilds a broker from the records of its log.

use std::collections::BTreeMap;

use mqtt::QoS;

use crate::cost::subscription_bytes;
use crate::deliveries::{Deliveries, PlainMessage};
use crate::held::{Held, NEVER_MS};
use crate::ids::{GroupId, Slot};
use crate::outgoing::{Delivery, State};
use crate::queue::{Entry, Logged, What};
use crate::restored::{Found, Garbage, Restored, RestoredSessions, RestoredSubscription};
use crate::retained::Retained;
use crate::session::{Session, Will};
use crate::{Broker, Damaged, Deadline, Limits, Now, Position, Record, SessionId, Sink};

/// A broker that comes back: takes the records in the order of their positions, then becomes a [`Broker`].
///
/// A queue is put in order by seq, not by position, and of two records of one delivery the later one counts: the log
/// may have moved old ones behind new ones.
#[derive(Debug)]
pub struct Recovery {
    now: Now,
    broker: Broker,
    sessions: RestoredSessions,
    garbage: Garbage,
}

impl Recovery {
    /// Nothing yet; `now` is when the process came back.
    pub fn new(now: Now, limits: Limits) -> Recovery {
        Recovery {
            now,
            broker: Broker::new(limits),
            sessions: RestoredSessions::default(),
            garbage: Garbage::default(),
        }
    }

    /// Takes the next record, of which the meta suffices; `body_len` is the length of the body that was written.
    ///
    /// # Errors
    /// [`Damaged`] if the meta is none of a broker's records; nothing has changed then.
    #[inline]
    pub fn restore(&mut self, position: Position, meta: &[u8], body_len: usize) -> Result<(), Damaged> {
        let len = u32::try_from(body_len).map_err(|_| Damaged)?;
        // Nearly all records of a long log are such.
        match PlainMessage::decode(meta) {
            Some(message) => self.restore_plain(position, message, len),
            None => self.restore_record(position, &Record::decode(meta, &[])?, len),
        }
        Ok(())
    }

    #[inline]
    fn restore_plain(&mut self, position: Position, message: PlainMessage, len: u32) {
        let PlainMessage {
            session,
            seq,
            qos,
            retain,
        } = message;
        let logged = Logged {
            position,
            len,
            qos,
            retain,
        };
        let what = What::Logged(logged);
        self.broker.held.add_folded(len);
        self.sessions.get(session).messages.push(Entry { seq, what }, len);
    }

    fn restore_record(&mut self, position: Position, record: &Record<'_>, len: u32) {
        match *record {
            Record::Message {
                deliveries, expires, ..
            } => {
                self.restore_message(position, deliveries, expires, len);
            }
            Record::Done { session, seq } => self.sessions.get(session).messages.push_done(seq),
            Record::Released { session, seq } => self.restore_released(position, session, seq),
            Record::Session { session, .. } => self.restore_session(position, session, record),
            Record::SessionGone { session } => {
                let gone = std::mem::take(self.sessions.get(session));
                self.discard(gone);
            }
            Record::Subscription {
                session,
                filter,
                options,
                subscription_id,
                group,
            } => {
                let subscription = RestoredSubscription {
                    position,
                    options,
                    id: subscription_id.unwrap_or(0),
                    group: group.map(GroupId),
                };
                let old = self
                    .sessions
                    .get(session)
                    .subscriptions
                    .insert(filter.into(), subscription);
                self.garbage.positions.extend(old.map(|old| old.position));
            }
            Record::SubscriptionGone { session, filter } => {
                let old = self.sessions.get(session).subscriptions.remove(filter);
                self.garbage.positions.extend(old.map(|old| old.position));
            }
            Record::Retained {
                topic, qos, expires, ..
            } => {
                self.restore_retained(position, topic, qos, expires, len as usize);
            }
            Record::RetainedGone { topic } => {
                let old = self.broker.retained.remove(topic);
                self.forget_retained(old);
            }
            Record::Received { session, packet_id } => {
                let old = self.sessions.get(session).received.insert(packet_id, position);
                self.garbage.positions.extend(old);
            }
            Record::ReceivedGone { session, packet_id } => {
                let old = self.sessions.get(session).received.remove(&packet_id);
                self.garbage.positions.extend(old);
            }
        }
    }

    fn restore_message(&mut self, position: Position, list: Deliveries<'_>, expires: Option<Deadline>, len: u32) {
        let held = Held::logged(position, len as usize, None, Deadline::restored(self.now, expires));
        let id = self.broker.held.insert(Held {
            is_first_record: false,
            ..held
        });
        for one in list.iter() {
            self.broker.held.get_mut(id).holders += 1;
            if let Some(group) = one.group {
                self.broker.groups.skip(group);
            }
            let delivery = Delivery {
                held: Some(id),
                group: one.group,
                ids: one.subscription_ids(),
                qos: one.qos,
                retain: one.retain,
                ..Delivery::bare(one.seq)
            };
            self.sessions.get(one.session).messages.push(Entry::of(delivery), len);
        }
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
            ..Delivery::bare(seq)
        };
        self.sessions.get(session).messages.push_released(delivery);
    }

    fn restore_session(&mut self, position: Position, id: SessionId, record: &Record<'_>) {
        let Record::Session {
            owner,
            client_id,
            expiry_s,
            ended_unix_ms,
            sent_seq,
            next_seq,
            will,
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
            will: will.as_ref().and_then(Will::restored),
        };
        let old = self.sessions.get(id).found.replace(found);
        self.garbage.positions.extend(old.map(|old| old.position));
    }

    fn restore_retained(
        &mut self,
        position: Position,
        topic: &str,
        qos: QoS,
        expires: Option<Deadline>,
        body_len: usize,
    ) {
        let expires_at_ms = Deadline::restored(self.now, expires);
        let held = Held {
            holders: 1,
            is_retained: true,
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
                // What the hub itself retains is not in the log.
                is_of_client: true,
            },
        );
        self.forget_retained(old);
    }

    fn forget_retained(&mut self, old: Option<Retained>) {
        if let Some(old) = old {
            self.garbage.positions.push(self.broker.held.get(old.held).position);
            self.broker.held.let_go(old.held);
        }
    }

    /// What the records leave: expired sessions are gone, all others without connection. Releases the records that
    /// nothing needs.
    pub fn finish(mut self, now: Now, out: &mut dyn Sink) -> Broker {
        for (id, mut restored) in std::mem::take(&mut self.sessions).into_sorted() {
            self.broker.next_session = self.broker.next_session.max(id.0 + 1);
            match restored.found.take() {
                Some(found) => self.rebuild(now, id, found, restored, out),
                None => self.discard(restored),
            }
        }
        self.garbage
            .positions
            .iter()
            .for_each(|position| out.release(*position));
        self.broker
    }

    fn rebuild(&mut self, now: Now, id: SessionId, mut found: Found, restored: Restored, out: &mut dyn Sink) {
        let mut session = Session::new(id, &found.owner, &found.client_id);
        session.expiry_s = found.expiry_s;
        session.record = found.position;
        session.will = found.will.take();
        session.outgoing = restored
            .messages
            .into_outgoing(&found, &mut self.broker.held, &mut self.garbage);
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

    fn resubscribe(&mut self, slot: Slot, subscriptions: BTreeMap<Box<str>, RestoredSubscription>) {
        for (filter, restored) in subscriptions {
            let RestoredSubscription {
                position,
                options,
                id,
                group,
            } = restored;
            if let Some(group) = group {
                self.broker.groups.restore(&filter, group);
            }
            let shared = mqtt::topic::split_shared(&filter).ok().flatten();
            let matched = shared.map_or(&*filter, |(_, matched)| matched);
            let subscription = self.broker.link(slot, &filter, matched, options, id, position);
            self.broker.subscription_bytes += subscription_bytes(&filter);
            self.broker
                .sessions
                .change(slot, |session| session.subscriptions.push(subscription));
        }
    }

    fn discard(&mut self, gone: Restored) {
        gone.messages.discard(&mut self.broker.held, &mut self.garbage);
        let records = gone
            .subscriptions
            .into_values()
            .map(|subscription| subscription.position);
        let records = records.chain(gone.received.into_values());
        self.garbage
            .positions
            .extend(records.chain(gone.found.map(|found| found.position)));
    }
}
