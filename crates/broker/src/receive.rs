//! PUBLISH from a client: what its session has to say before and after the message goes its way.

use std::sync::Arc;

use mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, Version};

use crate::ids::Slot;
use crate::{Broker, ConnId, Full, Now, Position, Received, Record, Sink};

impl Broker {
    /// A PUBLISH arrived. Unless [`Received::Answered`], the caller decides and ends with [`Broker::acknowledge`]
    /// (QoS 0 needs none).
    pub fn receive(&mut self, now: Now, conn: ConnId, publish: &Publish<'_>, out: &mut dyn Sink) -> Received {
        let Some(slot) = self.heard(now, conn) else {
            return Received::Answered;
        };
        let alias = match self.resolve_alias(slot, publish) {
            Ok(alias) => alias,
            Err(reason) => {
                self.abort(now, slot, reason, out);
                return Received::Answered;
            }
        };
        if publish.qos == QoS::ExactlyOnce && self.is_duplicate(now, slot, publish, out) {
            return Received::Answered;
        }
        if is_too_deep(alias.as_deref().unwrap_or(publish.topic), self.limits.topic_levels) {
            if let Some(packet_id) = publish.packet_id {
                self.acknowledge(
                    now,
                    conn,
                    packet_id,
                    publish.qos,
                    ReasonCode::TopicNameInvalid,
                    Position(0),
                    out,
                );
            }
            return Received::Answered;
        }
        Received::New { alias }
    }

    /// Section 3.3.2.3.4; a client sends no Subscription Identifier (MQTT-3.3.4-6).
    fn resolve_alias(&mut self, slot: Slot, publish: &Publish<'_>) -> Result<Option<Arc<str>>, ReasonCode> {
        if !publish.properties.subscription_ids.is_empty() {
            return Err(ReasonCode::ProtocolError);
        }
        let Some(alias) = publish.properties.topic_alias else {
            return if publish.topic.is_empty() {
                Err(ReasonCode::ProtocolError)
            } else {
                Ok(None)
            };
        };
        if alias.get() > self.limits.topic_alias_maximum {
            return Err(ReasonCode::TopicAliasInvalid);
        }
        let Some(live) = &mut self.sessions.get_mut(slot).live else {
            return Ok(None);
        };
        if publish.topic.is_empty() {
            return live.aliases_in.get(alias).map(Some).ok_or(ReasonCode::ProtocolError);
        }
        live.aliases_in.set(alias, publish.topic);
        Ok(None)
    }

    /// A QoS 2 message that was delivered onward before is acknowledged again (MQTT-4.3.3-10); one too many ends the
    /// connection (MQTT-3.3.4-7).
    fn is_duplicate(&mut self, now: Now, slot: Slot, publish: &Publish<'_>, out: &mut dyn Sink) -> bool {
        let Some(packet_id) = publish.packet_id else {
            return false;
        };
        let session = self.sessions.get(slot);
        match session.incoming.get(packet_id) {
            Some(record) => {
                self.remember(now, slot, packet_id, record, out);
                true
            }
            None if session.incoming.len() >= usize::from(self.limits.receive_maximum.get()) => {
                self.abort(now, slot, ReasonCode::ReceiveMaximumExceeded, out);
                true
            }
            None => false,
        }
    }

    /// Answers a PUBLISH of QoS 1 or 2 (PUBACK, PUBREC) once all up to `after` is durable. An error `reason` goes to
    /// clients of version 5; earlier ones get the plain acknowledgement (MQTT-3.3.5-2 of 3.1.1), but for Quota
    /// exceeded none and a close, so that they keep the message.
    #[allow(clippy::too_many_arguments, reason = "what a PUBACK says, and when")]
    pub fn acknowledge(
        &mut self,
        now: Now,
        conn: ConnId,
        packet_id: PacketId,
        qos: QoS,
        reason: ReasonCode,
        after: Position,
        out: &mut dyn Sink,
    ) {
        let Some(slot) = self.sessions.by_conn(conn) else {
            return;
        };
        let is_v5 = self.sessions.get(slot).version() == Some(Version::V5);
        if reason == ReasonCode::QuotaExceeded && !is_v5 {
            return self.abort(now, slot, reason, out);
        }
        let ack = Ack::new(packet_id, if is_v5 { reason } else { ReasonCode::Success });
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => out.reply(conn, &Packet::PubAck(ack), after),
            QoS::ExactlyOnce if ack.reason.is_error() => out.reply(conn, &Packet::PubRec(ack), after),
            QoS::ExactlyOnce => self.received(now, slot, ack, after, out),
        }
    }

    /// From PUBREC to PUBREL the packet identifier stands for this message.
    fn received(&mut self, now: Now, slot: Slot, ack: Ack<'_>, after: Position, out: &mut dyn Sink) {
        self.sessions.get_mut(slot).incoming.insert(ack.packet_id, Position(0));
        match self.log_received(slot, ack.packet_id, Position(0), out) {
            Ok(record) => self.reply(slot, &Packet::PubRec(ack), after.max(record), out),
            Err(Full) => self.refuse_received(now, slot, ack.packet_id, out),
        }
    }

    /// PUBREC once more; where the log could not take the identifier before, it is tried again.
    fn remember(&mut self, now: Now, slot: Slot, packet_id: PacketId, record: Position, out: &mut dyn Sink) {
        match self.log_received(slot, packet_id, record, out) {
            Ok(record) => self.reply(
                slot,
                &Packet::PubRec(Ack::new(packet_id, ReasonCode::Success)),
                record,
                out,
            ),
            Err(Full) => self.refuse_received(now, slot, packet_id, out),
        }
    }

    fn log_received(
        &mut self,
        slot: Slot,
        packet_id: PacketId,
        known: Position,
        out: &mut dyn Sink,
    ) -> Result<Position, Full> {
        let session = self.sessions.get_mut(slot);
        if known != Position(0) || !session.is_persistent() {
            return Ok(known);
        }
        let record = out.log(&Record::Received {
            session: session.id,
            packet_id,
        })?;
        session.incoming.insert(packet_id, record);
        Ok(record)
    }

    /// The message was delivered, but that cannot be promised to be remembered: 5.0 is told so; 3.x has to come back
    /// with the same identifier, which is known as long as this process lives.
    fn refuse_received(&mut self, now: Now, slot: Slot, packet_id: PacketId, out: &mut dyn Sink) {
        if self.sessions.get(slot).version() != Some(Version::V5) {
            return self.abort(now, slot, ReasonCode::QuotaExceeded, out);
        }
        self.sessions.get_mut(slot).incoming.remove(packet_id);
        let refusal = Ack::new(packet_id, ReasonCode::QuotaExceeded);
        self.reply(slot, &Packet::PubRec(refusal), Position(0), out);
    }

    /// PUBREL: the identifier is free again once PUBCOMP has left (MQTT-4.3.3-11).
    pub(crate) fn released_by_sender(&mut self, now: Now, slot: Slot, packet_id: PacketId, out: &mut dyn Sink) {
        let session = self.sessions.get_mut(slot);
        let Some(record) = session.incoming.get(packet_id) else {
            let reason = known_to_v5(session.version(), ReasonCode::PacketIdentifierNotFound);
            return self.reply(slot, &Packet::PubComp(Ack::new(packet_id, reason)), Position(0), out);
        };
        let gone = Record::ReceivedGone {
            session: session.id,
            packet_id,
        };
        match crate::log::bury(&gone, record, out) {
            Ok(after) => {
                session.incoming.remove(packet_id);
                self.reply(
                    slot,
                    &Packet::PubComp(Ack::new(packet_id, ReasonCode::Success)),
                    after,
                    out,
                );
            }
            // An identifier that comes back after a crash would swallow a later message.
            Err(Full) => self.abort(now, slot, ReasonCode::QuotaExceeded, out),
        }
    }

    pub(crate) fn reply(&self, slot: Slot, packet: &Packet<'_>, after: Position, out: &mut dyn Sink) {
        if let Some(live) = &self.sessions.get(slot).live {
            out.reply(live.conn, packet, after);
        }
    }
}

/// A reason that only version 5 has.
pub(crate) fn known_to_v5(version: Option<Version>, reason: ReasonCode) -> ReasonCode {
    if version == Some(Version::V5) {
        reason
    } else {
        ReasonCode::Success
    }
}

/// Whether a topic or filter has more levels than are taken.
pub(crate) fn is_too_deep(topic: &str, levels: usize) -> bool {
    topic.len() >= levels && topic.bytes().filter(|byte| *byte == b'/').count() >= levels
}
