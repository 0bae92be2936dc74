//! A session that has ended while members of its groups are still to get what only the log has of it (section 4.8.2).
//! Until that is read back it stays, under a name that no client can have, with those messages alone.

use crate::ids::Slot;
use crate::incoming::Incoming;
use crate::leave::drop_unsent;
use crate::log::{bury, give_up};
use crate::outgoing::{Delivery, State};
use crate::queue::{Entry, What};
use crate::{Broker, Dropped, Now, Position, Record, SessionId, Sink};

impl Broker {
    /// Leaves of an ending session only what is to be read back; the position of the record that says so. None if the
    /// log does not take it.
    pub(crate) fn depart(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) -> Option<Position> {
        self.sessions.depart(slot);
        let session = self.sessions.get_mut(slot);
        session.expiry_s = 0;
        let armed_ms = session.armed_ms.take();
        self.timers.rearm(slot, armed_ms, None);
        let record = self.log_session(now, slot, out).ok()?;
        self.bury_subscriptions(slot, out);
        self.bury_received(slot, out);
        self.drop_all_but_unread(slot, out);
        Some(record)
    }

    /// Ends a departed session for good once nothing of it is to be read back.
    pub(crate) fn bury_departed(&mut self, slot: Slot, out: &mut dyn Sink) {
        if !self.leaves_unread(slot, out) {
            self.remove(slot, out);
        }
    }

    fn bury_subscriptions(&mut self, slot: Slot, out: &mut dyn Sink) {
        let id = self.sessions.get(slot).id;
        let subscriptions = self
            .sessions
            .change(slot, |session| std::mem::take(&mut session.subscriptions));
        for subscription in subscriptions {
            self.unlink(slot, &subscription);
            let gone = Record::SubscriptionGone {
                session: id,
                filter: &subscription.filter,
            };
            // Refused, it comes back after a crash, and goes again.
            let _ = bury(&gone, subscription.record, out);
        }
    }

    fn bury_received(&mut self, slot: Slot, out: &mut dyn Sink) {
        let id = self.sessions.get(slot).id;
        let Incoming { ids } = self
            .sessions
            .change(slot, |session| std::mem::take(&mut session.incoming));
        for (packet_id, record) in ids {
            let gone = Record::ReceivedGone { session: id, packet_id };
            let _ = bury(&gone, record, out);
        }
    }

    fn drop_all_but_unread(&mut self, slot: Slot, out: &mut dyn Sink) {
        let session = self.sessions.get(slot);
        let (id, sent_seq) = (session.id, session.outgoing.sent_seq());
        let all: Vec<Entry> = self.sessions.change(slot, |session| session.outgoing.drain().collect());
        for entry in all {
            if self.is_unread(&entry) {
                let len = entry.len(&self.held);
                self.sessions.change(slot, |session| session.outgoing.wait(entry, len));
                continue;
            }
            drop_unsent(entry.state(sent_seq), Dropped::SessionEnded, out);
            self.settle_entry(id, &entry, out);
        }
    }

    /// Whether another member of its group may get it once it has been read back.
    fn is_unread(&self, entry: &Entry) -> bool {
        let What::Delivery(delivery) = &entry.what else {
            return false;
        };
        let is_in_log_alone = |delivery: &Delivery| delivery.held.is_some_and(|id| self.held.get(id).body.is_none());
        delivery.group.is_some() && delivery.state != State::Released && is_in_log_alone(delivery)
    }

    fn settle_entry(&mut self, session: SessionId, entry: &Entry, out: &mut dyn Sink) {
        match &entry.what {
            What::Delivery(delivery) => self.settle(session, delivery, out),
            What::Logged(logged) => {
                self.held.drop_folded(logged.len);
                let seq = entry.seq;
                let _ = out.log(&Record::Done { session, seq });
                give_up(logged.position, out);
            }
        }
    }
}
