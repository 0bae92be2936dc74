//! What clients say of the messages that they were sent: PUBACK, PUBREC, PUBCOMP (section 4.3).

use mqtt::{Ack, Packet, PacketId, QoS, ReasonCode};

use crate::held::{Held, NEVER_MS};
use crate::ids::{HeldId, Slot};
use crate::outgoing::{Delivery, State};
use crate::receive::known_to_v5;
use crate::{Broker, ConnId, Full, Now, Position, Record, SessionId, Sink};

impl Broker {
    /// PUBACK, PUBREC, PUBREL, PUBCOMP or PINGREQ arrived. Any other packet only counts for the keep-alive.
    pub fn handle(&mut self, now: Now, conn: ConnId, packet: &Packet<'_>, out: &mut dyn Sink) {
        let Some(slot) = self.heard(now, conn) else { return };
        match packet {
            Packet::PubAck(ack) => self.completed(now, slot, ack.packet_id, is_acknowledgeable, out),
            Packet::PubRec(ack) if ack.reason.is_error() => {
                self.completed(now, slot, ack.packet_id, is_receivable, out);
            }
            Packet::PubRec(ack) => self.received_by_client(now, slot, ack.packet_id, out),
            Packet::PubComp(ack) => self.completed(now, slot, ack.packet_id, is_released, out),
            Packet::PubRel(ack) => self.released_by_sender(now, slot, ack.packet_id, out),
            Packet::PingReq => out.reply(conn, &Packet::PingResp, Position(0)),
            _ => {}
        }
    }

    /// A delivery is over. An unknown identifier is no error: it may be of before a restart.
    fn completed(
        &mut self,
        now: Now,
        slot: Slot,
        packet_id: PacketId,
        is_due: fn(&Delivery) -> bool,
        out: &mut dyn Sink,
    ) {
        let session = self.sessions.get_mut(slot);
        match session.outgoing.in_flight(packet_id) {
            None => return,
            Some(delivery) if !is_due(delivery) => return self.abort(now, slot, ReasonCode::ProtocolError, out),
            Some(_) => {}
        }
        let id = session.id;
        let delivery = self
            .sessions
            .change(slot, |session| session.outgoing.complete(packet_id));
        if let Some(delivery) = delivery {
            self.settle(id, &delivery, out);
        }
        self.flush(now, slot, out);
    }

    /// PUBREC: the message is the client's now, PUBREL is owed (MQTT-4.3.3-4).
    fn received_by_client(&mut self, now: Now, slot: Slot, packet_id: PacketId, out: &mut dyn Sink) {
        let session = self.sessions.get_mut(slot);
        let (id, version) = (session.id, session.version());
        let Some(delivery) = session.outgoing.in_flight(packet_id) else {
            let reason = known_to_v5(version, ReasonCode::PacketIdentifierNotFound);
            return self.reply(slot, &Packet::PubRel(Ack::new(packet_id, reason)), Position(0), out);
        };
        let (held, seq) = (delivery.held, delivery.seq);
        let after = match (delivery.qos, delivery.state) {
            (QoS::ExactlyOnce, State::Released) => held.map_or(Position(0), |held| self.held.get(held).position),
            (QoS::ExactlyOnce, _) => match self.log_released(id, seq, held, out) {
                Ok((record, after)) => {
                    self.release_delivery(slot, packet_id, record, out);
                    after
                }
                Err(Full) => return self.abort(now, slot, ReasonCode::QuotaExceeded, out),
            },
            _ => return self.abort(now, slot, ReasonCode::ProtocolError, out),
        };
        self.reply(
            slot,
            &Packet::PubRel(Ack::new(packet_id, ReasonCode::Success)),
            after,
            out,
        );
    }

    /// Logs that PUBREL is owed, where the log has the message.
    fn log_released(
        &mut self,
        session: SessionId,
        seq: u64,
        message: Option<HeldId>,
        out: &mut dyn Sink,
    ) -> Result<(Option<HeldId>, Position), Full> {
        if !message.is_some_and(|message| self.held.get(message).is_logged()) {
            return Ok((None, Position(0)));
        }
        let position = out.log(&Record::Released { session, seq })?;
        let record = Held {
            holders: 1,
            ..Held::logged(position, 0, None, NEVER_MS)
        };
        Ok((Some(self.held.insert(record)), position))
    }

    /// From now on the delivery needs the record of its release instead of the message.
    fn release_delivery(&mut self, slot: Slot, packet_id: PacketId, record: Option<HeldId>, out: &mut dyn Sink) {
        let Some(delivery) = self.sessions.get_mut(slot).outgoing.in_flight(packet_id) else {
            return;
        };
        let before = Delivery {
            ids: Box::default(),
            ..*delivery
        };
        delivery.state = State::Released;
        delivery.held = record;
        delivery.group = None;
        delivery.ids = Box::default();
        self.let_go(&before, out);
    }
}

fn is_acknowledgeable(delivery: &Delivery) -> bool {
    delivery.qos == QoS::AtLeastOnce
}

fn is_receivable(delivery: &Delivery) -> bool {
    delivery.qos == QoS::ExactlyOnce && delivery.state == State::Sent
}

fn is_released(delivery: &Delivery) -> bool {
    delivery.state == State::Released
}
