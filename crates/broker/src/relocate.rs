//! The log wants its oldest place back: what is still needed of it is logged again.

use mqtt::PacketId;

use crate::deliveries::{Delivered, Deliveries};
use crate::ids::HeldId;
use crate::outgoing::Holder;
use crate::{Broker, Deadline, Full, Now, Position, Record, SessionId, Sink};

impl Broker {
    /// The log wants the place of this record back: logs its current value again if anything needs it and releases
    /// the old one.
    ///
    /// # Errors
    /// [`Full`]: the log takes it not; the record must stay.
    pub fn relocate(
        &mut self,
        now: Now,
        position: Position,
        record: &Record<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), Full> {
        let has_moved = match *record {
            Record::Message { deliveries, body, .. } => self.relocate_message(now, position, deliveries, body, out)?,
            Record::Released { session, seq } => self.relocate_released(position, session, seq, record, out)?,
            Record::Session { session, .. } => self.relocate_session(now, position, session, out)?,
            Record::Subscription { session, filter, .. } => {
                self.relocate_subscription(position, session, filter, record, out)?
            }
            Record::Retained { topic, qos, body, .. } => {
                let Some(id) = self.retained.get(topic).map(|retained| retained.held) else {
                    return Ok(());
                };
                let expires = Deadline::logged(now, self.held.get(id).expires_at_ms);
                let record = Record::Retained {
                    topic,
                    qos,
                    expires,
                    body,
                };
                self.relocate_held(now, id, position, &record, body, out)?
            }
            Record::Received { session, packet_id } => {
                self.relocate_received(position, session, packet_id, record, out)?
            }
            // What a tombstone speaks of lay before it, so it is gone by now.
            _ => false,
        };
        // What nothing needed was released when that came to be so; once is all that the log's account of a file bears.
        if has_moved {
            out.release(position);
        }
        Ok(())
    }

    /// The message, for those that still need it. This and those below say whether they moved it.
    fn relocate_message(
        &mut self,
        now: Now,
        position: Position,
        deliveries: Deliveries<'_>,
        body: &[u8],
        out: &mut dyn Sink,
    ) -> Result<bool, Full> {
        let mut list = Vec::new();
        let mut found = None;
        for one in deliveries.iter() {
            let id = match self.holder(one.session, one.seq) {
                Some(Holder::Held(id)) => id,
                Some(Holder::Record(record)) if *record == position => {
                    let expires = None;
                    *record = out.log(&Record::Message {
                        deliveries,
                        expires,
                        body,
                    })?;
                    return Ok(true);
                }
                _ => continue,
            };
            if self.held.get(id).position == position {
                Delivered::put(
                    &mut list,
                    one.session,
                    one.seq,
                    (one.qos, one.retain),
                    one.group,
                    &one.subscription_ids(),
                );
                found = Some(id);
            }
        }
        let Some(id) = found else { return Ok(false) };
        let expires = Deadline::logged(now, self.held.get(id).expires_at_ms);
        let record = Record::Message {
            deliveries: Deliveries { bytes: &list },
            expires,
            body,
        };
        self.relocate_held(now, id, position, &record, body, out)
    }

    fn relocate_released(
        &mut self,
        position: Position,
        session: SessionId,
        seq: u64,
        record: &Record<'_>,
        out: &mut dyn Sink,
    ) -> Result<bool, Full> {
        let Some(Holder::Held(id)) = self.holder(session, seq) else {
            return Ok(false);
        };
        let is_needed = self.held.get(id).position == position;
        if is_needed {
            self.held.moved(id, out.log(record)?);
        }
        Ok(is_needed)
    }

    /// What a delivery holds.
    fn holder(&mut self, session: SessionId, seq: u64) -> Option<Holder<'_>> {
        let slot = self.sessions.by_id(session)?;
        self.sessions.get_mut(slot).outgoing.holder(seq)
    }

    /// Logs a message again. Whoever waits for it to be read back has it now.
    fn relocate_held(
        &mut self,
        now: Now,
        id: HeldId,
        position: Position,
        record: &Record<'_>,
        body: &[u8],
        out: &mut dyn Sink,
    ) -> Result<bool, Full> {
        let is_needed = self.held.get(id).position == position;
        if is_needed {
            let moved = out.log(record)?;
            self.held.moved(id, moved);
            self.loaded(now, position, Some(body), out);
        }
        Ok(is_needed)
    }

    fn relocate_session(
        &mut self,
        now: Now,
        position: Position,
        id: SessionId,
        out: &mut dyn Sink,
    ) -> Result<bool, Full> {
        let Some(slot) = self
            .sessions
            .by_id(id)
            .filter(|slot| self.sessions.get(*slot).record == position)
        else {
            return Ok(false);
        };
        self.write_session(now, slot, Position(0), out)?;
        Ok(true)
    }

    fn relocate_subscription(
        &mut self,
        position: Position,
        id: SessionId,
        filter: &str,
        record: &Record<'_>,
        out: &mut dyn Sink,
    ) -> Result<bool, Full> {
        let Some(slot) = self.sessions.by_id(id) else {
            return Ok(false);
        };
        let session = self.sessions.get_mut(slot);
        let Ok(at) = session.subscription(filter) else {
            return Ok(false);
        };
        let is_needed = session.subscriptions[at].record == position;
        if is_needed {
            session.subscriptions[at].record = out.log(record)?;
        }
        Ok(is_needed)
    }

    fn relocate_received(
        &mut self,
        position: Position,
        id: SessionId,
        packet_id: PacketId,
        record: &Record<'_>,
        out: &mut dyn Sink,
    ) -> Result<bool, Full> {
        let Some(slot) = self.sessions.by_id(id) else {
            return Ok(false);
        };
        let incoming = &mut self.sessions.get_mut(slot).incoming;
        let is_needed = incoming.get(packet_id) == Some(position);
        if is_needed {
            incoming.insert(packet_id, out.log(record)?);
        }
        Ok(is_needed)
    }
}
