//! PUBLISH from a client: what its session has to say before and after the message goes its way.

use std::sync::Arc;

use mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, Version};

use crate::ids::Slot;
use crate::log::bury;
use crate::{Broker, ConnId, Full, Now, Position, Received, Record, Sink};

impl Broker {
    /// A PUBLISH arrived. Unless [`Received::Answered`], the caller decides, and ends with [`Broker::acknowledge`]
    /// before anything else happens (QoS 0 needs none): at QoS 2 the message counts as taken until that says
    /// otherwise.
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
        let twice = publish.packet_id.filter(|_| publish.qos == QoS::ExactlyOnce);
        if twice.is_some_and(|packet_id| !self.take_once(now, slot, packet_id, out)) {
            return Received::Answered;
        }
        if is_too_deep(alias.as_deref().unwrap_or(publish.topic), self.limits.topic_levels) {
            if let Some(packet_id) = publish.packet_id {
                let reason = ReasonCode::TopicNameInvalid;
                self.acknowledge(now, conn, packet_id, publish.qos, reason, Position(0), out);
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
        let Some(live) = &mut self.sessions.get_mut(slot).live else {
            return Ok(None);
        };
        if alias.get() > live.topic_alias_maximum {
            return Err(ReasonCode::TopicAliasInvalid);
        }
        if publish.topic.is_empty() {
            return live.aliases_in.get(alias).map(Some).ok_or(ReasonCode::ProtocolError);
        }
        live.aliases_in.set(alias, publish.topic);
        Ok(None)
    }

    /// Remembers the identifier of a QoS 2 message; false if it cannot be taken, which has been answered then: it was
    /// taken before (MQTT-4.3.3-10), it is one too many (MQTT-3.3.4-7), or the log is full.
    fn take_once(&mut self, now: Now, slot: Slot, packet_id: PacketId, out: &mut dyn Sink) -> bool {
        let session = self.sessions.get_mut(slot);
        if let Some(record) = session.incoming.get(packet_id) {
            self.reply(
                slot,
                &Packet::PubRec(Ack::new(packet_id, ReasonCode::Success)),
                record,
                out,
            );
            return false;
        }
        let receive_maximum = session.live.as_ref().map_or(0, |live| live.receive_maximum);
        if session.incoming.len() >= usize::from(receive_maximum) {
            self.abort(now, slot, ReasonCode::ReceiveMaximumExceeded, out);
            return false;
        }
        let record = if session.is_persistent() {
            out.log(&Record::Received {
                session: session.id,
                packet_id,
            })
        } else {
            Ok(Position(0))
        };
        match record {
            Ok(record) => self
                .sessions
                .change(slot, |session| session.incoming.insert(packet_id, record)),
            Err(Full) => self.refuse(now, slot, packet_id, out),
        }
        record.is_ok()
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
        let is_refused = reason.is_error() && (is_v5 || reason == ReasonCode::QuotaExceeded);
        if qos == QoS::ExactlyOnce && is_refused && self.forget_received(slot, packet_id, out).is_err() {
            return self.abort(now, slot, ReasonCode::QuotaExceeded, out);
        }
        if is_refused && !is_v5 {
            return self.abort(now, slot, reason, out);
        }
        let ack = Ack::new(packet_id, known_to_v5(is_v5.then_some(Version::V5), reason));
        let record = self.sessions.get(slot).incoming.get(packet_id).unwrap_or_default();
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => out.reply(conn, &Packet::PubAck(ack), after),
            QoS::ExactlyOnce => out.reply(conn, &Packet::PubRec(ack), after.max(record)),
        }
    }

    /// The log is full: version 5 is told so, 3.x has to come back with the message.
    fn refuse(&mut self, now: Now, slot: Slot, packet_id: PacketId, out: &mut dyn Sink) {
        if self.sessions.get(slot).version() != Some(Version::V5) {
            return self.abort(now, slot, ReasonCode::QuotaExceeded, out);
        }
        let refusal = Ack::new(packet_id, ReasonCode::QuotaExceeded);
        self.reply(slot, &Packet::PubRec(refusal), Position(0), out);
    }

    /// The identifier stands for no message; after what that is safe.
    fn forget_received(&mut self, slot: Slot, packet_id: PacketId, out: &mut dyn Sink) -> Result<Position, Full> {
        let session = self.sessions.get_mut(slot);
        let record = session.incoming.get(packet_id).unwrap_or_default();
        let after = bury(
            &Record::ReceivedGone {
                session: session.id,
                packet_id,
            },
            record,
            out,
        )?;
        self.sessions.change(slot, |session| session.incoming.remove(packet_id));
        Ok(after)
    }

    /// PUBREL: the identifier is free again once PUBCOMP has left (MQTT-4.3.3-11).
    pub(crate) fn released_by_sender(&mut self, now: Now, slot: Slot, packet_id: PacketId, out: &mut dyn Sink) {
        let session = self.sessions.get(slot);
        if session.incoming.get(packet_id).is_none() {
            let reason = known_to_v5(session.version(), ReasonCode::PacketIdentifierNotFound);
            return self.reply(slot, &Packet::PubComp(Ack::new(packet_id, reason)), Position(0), out);
        }
        match self.forget_received(slot, packet_id, out) {
            Ok(after) => self.reply(
                slot,
                &Packet::PubComp(Ack::new(packet_id, ReasonCode::Success)),
                after,
                out,
            ),
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
