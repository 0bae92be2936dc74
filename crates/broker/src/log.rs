//! What the broker writes into the log, and when a record is needed no more.

use crate::held::HeldMessages;
use crate::ids::Slot;
use crate::outgoing::{Delivery, State};
use crate::session::Will;
use crate::{Broker, Full, Now, Position, Record, SessionId, Sink};

/// The `sent_seq` of a session that is connected: any of its messages may have been sent.
const ANY_SEQ: u64 = u64::MAX;

/// Bytes of a delivery's message.
pub(crate) fn len_of(held: &HeldMessages, delivery: &Delivery) -> u32 {
    delivery.held.map_or(0, |id| held.get(id).len)
}

/// Logs the current value of a key and gives up the record of the old one, if there is one.
pub(crate) fn replace(record: &Record<'_>, old: Position, out: &mut dyn Sink) -> Result<Position, Full> {
    if old == Position(0) {
        out.log(record)
    } else {
        out.replace(record, old)
    }
}

/// Logs that a key is no more, if the log knows it: after what this is safe.
pub(crate) fn bury(tombstone: &Record<'_>, old: Position, out: &mut dyn Sink) -> Result<Position, Full> {
    if old == Position(0) {
        return Ok(Position(0));
    }
    replace(tombstone, old, out)
}

/// Nothing needs the record any more, and another one says so: it is not written, or garbage.
pub(crate) fn give_up(position: Position, out: &mut dyn Sink) {
    if !out.cancel(position) {
        out.release(position);
    }
}

impl Broker {
    /// Logs a session that outlives its connection, or that the log knows; after what it is safe.
    pub(crate) fn log_session(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) -> Result<Position, Full> {
        let session = self.sessions.get(slot);
        if !session.is_persistent() && session.record == Position(0) {
            return Ok(Position(0));
        }
        let old = session.record;
        self.write_session(now, slot, old, out)
    }

    /// Logs a session as it is now, and gives up its `old` record.
    pub(crate) fn write_session(
        &mut self,
        now: Now,
        slot: Slot,
        old: Position,
        out: &mut dyn Sink,
    ) -> Result<Position, Full> {
        let session = self.sessions.get_mut(slot);
        let connected = session.live.is_some();
        let record = Record::Session {
            session: session.id,
            owner: &session.owner,
            client_id: &session.client_id,
            expiry_s: session.expiry_s,
            ended_unix_ms: (!connected).then(|| session.ended_unix_ms(now)),
            sent_seq: if connected {
                ANY_SEQ
            } else {
                session.outgoing.sent_seq()
            },
            next_seq: session.outgoing.next_seq(),
            will: session.will.as_deref().map(Will::logged),
        };
        session.record = replace(&record, old, out)?;
        Ok(session.record)
    }

    /// The session needs the delivery no more: it was acknowledged, or will never be made. Where the log has it, the
    /// record is taken back before it is written, or a tombstone follows it.
    pub(crate) fn settle(&mut self, session: SessionId, delivery: &Delivery, out: &mut dyn Sink) {
        let Some(id) = delivery.held else { return };
        let (position, is_first) = (self.held.get(id).position, self.held.get(id).is_first_record);
        let last = self.held.let_go(id);
        if position == Position(0) {
            return;
        }
        // A record of release stands for a message that may be in the log: only a tombstone covers both.
        if last && is_first && delivery.state != State::Released && out.cancel(position) {
            return;
        }
        // Refused, it costs at most that the message is sent again after a crash.
        let _ = out.log(&Record::Done {
            session,
            seq: delivery.seq,
        });
        if last {
            out.release(position);
        }
    }

    /// As [`Broker::settle`], where another record says already that the delivery is over.
    pub(crate) fn let_go(&mut self, delivery: &Delivery, out: &mut dyn Sink) {
        let Some(id) = delivery.held else { return };
        let position = self.held.get(id).position;
        if self.held.let_go(id) && position != Position(0) {
            give_up(position, out);
        }
    }
}
