//! A client goes: its will, what its session keeps, and the end of the session.

use mqtt::{Disconnect, ReasonCode};

use crate::ids::Slot;
use crate::log::give_up;
use crate::outgoing::State;
use crate::queue::What;
use crate::session::Session;
use crate::{Broker, ConnId, Dropped, Now, Position, Record, Sink};

impl Broker {
    /// DISCONNECT arrived. The hub closes the socket itself, unless [`Sink::close`] asks with an error.
    pub fn disconnect(&mut self, now: Now, conn: ConnId, disconnect: &Disconnect<'_>, out: &mut dyn Sink) {
        let Some(slot) = self.heard(now, conn) else { return };
        let session = self.sessions.get_mut(slot);
        match disconnect.session_expiry_interval_s {
            // MQTT-3.14.2-2: a session that was to end with its connection cannot be kept.
            Some(1..) if !session.is_persistent() => return self.abort(now, slot, ReasonCode::ProtocolError, out),
            Some(expiry_s) => session.expiry_s = expiry_s.min(self.limits.session_expiry_s),
            None => {}
        }
        if disconnect.reason == ReasonCode::Success {
            self.sessions.change(slot, |session| session.will = None);
        }
        self.detach(now, slot, out);
    }

    /// The connection ended without DISCONNECT: the peer, the network or the hub ended it. Its will is due.
    pub fn closed(&mut self, now: Now, conn: ConnId, out: &mut dyn Sink) {
        if let Some(slot) = self.sessions.by_conn(conn) {
            self.detach(now, slot, out);
        }
    }

    /// Ends all sessions of an owner whose credential was revoked; connections close with `reason`.
    pub fn remove_owner(&mut self, now: Now, owner: &str, reason: ReasonCode, out: &mut dyn Sink) {
        for slot in self.sessions.of_owner(owner) {
            let session = self.sessions.get_mut(slot);
            session.expiry_s = 0;
            match session.live {
                Some(_) => self.abort(now, slot, reason, out),
                None => drop(self.end(now, slot, out)),
            }
        }
    }

    /// Takes the connection from the session and decides what becomes of the rest.
    pub(crate) fn detach(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) {
        let session = self.sessions.get_mut(slot);
        let Some(live) = session.live.take() else { return };
        session.ended_at_ms = now.monotonic_ms as i64;
        let (id, held) = (session.id, &self.held);
        let dead = self.sessions.change(slot, |session| {
            session
                .outgoing
                .disconnected(|delivery| crate::log::len_of(held, delivery))
        });
        self.sessions.disconnect(live.conn);
        for delivery in dead {
            drop_unsent(delivery.state, Dropped::Offline, out);
            self.settle(id, &delivery, out);
        }
        self.pass_on(now, slot, false, out);
        self.fire_due_will(now, slot, out);
        if !self.sessions.get(slot).is_persistent() {
            self.end(now, slot, out);
            return;
        }
        // Nothing waits for it: if it is lost, the session expires later than it might.
        let _ = self.log_session(now, slot, out);
        self.arm(slot);
    }

    /// The will of a session without connection, once its delay is over (MQTT-3.1.3-9). Whether it was.
    pub(crate) fn fire_due_will(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) -> bool {
        let session = self.sessions.get(slot);
        let is_due = session.will_at_ms().is_some_and(|at| at <= now.monotonic_ms);
        if is_due {
            self.fire_will(slot, out);
        }
        is_due
    }

    fn fire_will(&mut self, slot: Slot, out: &mut dyn Sink) {
        if let Some(will) = self.sessions.change(slot, |session| session.will.take()) {
            out.will(will.message);
        }
    }

    /// Ends a session without connection: its will, if still owed (MQTT-3.1.2-8), and all that is its. Where members of
    /// its groups are to get what only the log has, it departs first. Once the log is durable up to the position that
    /// is returned, no crash brings it back.
    pub(crate) fn end(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) -> Position {
        self.fire_will(slot, out);
        self.pass_on(now, slot, true, out);
        let departed = if self.leaves_unread(slot, out) {
            self.depart(now, slot, out)
        } else {
            None
        };
        departed.unwrap_or_else(|| self.remove(slot, out))
    }

    /// Forgets a session, and drops what waits in it; the position of its tombstone.
    pub(crate) fn remove(&mut self, slot: Slot, out: &mut dyn Sink) -> Position {
        let mut session = self.sessions.remove(slot);
        self.timers.rearm(slot, session.armed_ms, None);
        for subscription in &session.subscriptions {
            self.unlink(slot, subscription);
        }
        let tombstone = self.forget_records(&session, out);
        let sent_seq = session.outgoing.sent_seq();
        for entry in session.outgoing.drain() {
            drop_unsent(entry.state(sent_seq), Dropped::SessionEnded, out);
            match entry.what {
                What::Delivery(delivery) => self.let_go(&delivery, out),
                What::Logged(logged) => {
                    self.held.drop_folded(logged.len);
                    give_up(logged.position, out);
                }
            }
        }
        tombstone
    }

    /// One tombstone for all records of the session.
    fn forget_records(&mut self, session: &Session, out: &mut dyn Sink) -> Position {
        if session.record == Position(0) {
            return Position(0);
        }
        // Refused, the session comes back after a crash, and expires.
        let tombstone = out.log(&Record::SessionGone { session: session.id });
        let subscriptions = session.subscriptions.iter().map(|subscription| subscription.record);
        let records = subscriptions
            .chain(session.incoming.positions())
            .chain([session.record]);
        records
            .filter(|record| *record != Position(0))
            .for_each(|record| out.release(record));
        tombstone.unwrap_or(Position(0))
    }
}

pub(crate) fn drop_unsent(state: State, why: Dropped, out: &mut dyn Sink) {
    if state == State::Waiting {
        out.dropped(why);
    }
}
