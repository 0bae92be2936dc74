//! Messages: published, routed, read and acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use broker::{ConnId, Keep, Published, Received};
use mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, Version};

use crate::client::{Due, Unacknowledged};
use crate::outside::Reply;
use crate::reference::Message;
use crate::run::Run;

impl Run {
    pub(crate) fn publish_new(&mut self, who: usize) {
        let Some(_) = self.ready(who).filter(|_| self.clients[who].unacknowledged.len() < 20) else {
            return;
        };
        let mut message = self.new_message(Some(who));
        // Those of lasting clients may be sent again later, with another deadline.
        let client = &self.clients[who];
        if client.version == Version::V5 && !client.is_lasting && !message.retain && self.rng.one_in(3) {
            message.expires_at_ms = Some(self.now.unix_ms + self.rng.pick(&[1, 10]) * 1000);
        }
        message.is_withdrawal = message.retain && self.rng.one_in(4);
        let client = &mut self.clients[who];
        let packet_id = if message.qos == QoS::AtMostOnce {
            0
        } else {
            client.free_packet_id()
        };
        if packet_id != 0 {
            let unacknowledged = Unacknowledged {
                packet_id,
                message: message.clone(),
                is_received: false,
            };
            client.unacknowledged.push_back(unacknowledged);
        }
        self.publish(who, &message, packet_id, false);
    }

    /// The whole way of a PUBLISH, as the hub takes it.
    pub(crate) fn publish(&mut self, who: usize, message: &Message, packet_id: u16, dup: bool) {
        let Some(conn) = self.clients[who].conn.map(ConnId) else {
            return;
        };
        let payload = message.payload();
        let publish = Publish {
            dup,
            packet_id: PacketId::new(packet_id),
            ..self.publish_of(message, &payload)
        };
        let Received::New { alias: None } = self.broker.receive(self.now, conn, &publish, &mut self.out) else {
            return;
        };
        let published = self.route(message, Some(conn), Keep::Always);
        if let Some(packet_id) = publish.packet_id {
            let reason = if published.refused {
                ReasonCode::QuotaExceeded
            } else {
                ReasonCode::Success
            };
            let (now, qos, after) = (self.now, message.qos, published.after);
            self.broker
                .acknowledge(now, conn, packet_id, qos, reason, after, &mut self.out);
        }
    }

    pub(crate) fn publish_of<'a>(&self, message: &Message, payload: &'a str) -> Publish<'a> {
        let mut publish = Publish::new(message.topic, message.qos, None, payload.as_bytes());
        publish.retain = message.retain;
        let left_ms = message
            .expires_at_ms
            .map(|at_ms| at_ms.saturating_sub(self.now.unix_ms));
        publish.properties.message_expiry_interval_s = left_ms.map(|ms| ms.div_ceil(1000) as u32);
        publish
    }

    /// A message that is let in goes its way, in the broker and in the reference.
    pub(crate) fn route(&mut self, message: &Message, from: Option<ConnId>, keep: Keep) -> Published {
        let payload = message.payload();
        let publish = self.publish_of(message, &payload);
        let conns: BTreeMap<usize, u64> = (0..)
            .zip(&self.clients)
            .filter_map(|(who, client)| Some((who, client.conn?)))
            .collect();
        let with_room: BTreeSet<u64> = self
            .out
            .wires
            .iter()
            .filter(|(_, wire)| wire.has_room)
            .map(|(conn, _)| *conn)
            .collect();
        let passing = broker::Message {
            publish: &publish,
            from,
            addressees: &[],
            keep,
        };
        let published = self.broker.publish(self.now, &passing, &mut self.out);
        self.out.trace(|| format!("{message:?} {published:?}"));
        if published.refused && message.qos == QoS::ExactlyOnce {
            return published;
        }
        for (who, owed) in self.reference.route(message, published.refused, &conns) {
            let at_once = conns.get(&who).filter(|conn| with_room.contains(conn));
            if let Some(conn) = at_once.filter(|_| owed.qos == QoS::AtMostOnce) {
                let is_it = |sent: &&crate::outside::Sent| sent.payload == payload && sent.ids == owed.ids;
                let count = self.out.wires[conn].publishes.iter().filter(is_it).count();
                assert!(count >= 1, "message {} did not reach client {who} at QoS 0", message.no);
            }
        }
        published
    }

    pub(crate) fn read(&mut self, who: usize) {
        let Some(conn) = self.clients[who].conn else { return };
        let prefers_reply = self.rng.one_in(2) || !self.clients[who].is_ready;
        if prefers_reply && let Some(reply) = self.out.next_reply(conn) {
            return self.take_reply(who, conn, reply);
        }
        let wire = self.out.wires.get_mut(&conn).expect("connected");
        if let Some(sent) = wire.publishes.pop_front() {
            assert!(self.clients[who].is_ready, "a message came before CONNACK");
            self.take_publish(who, conn, &sent);
        }
    }

    pub(crate) fn take_reply(&mut self, who: usize, conn: u64, reply: Reply) {
        self.out.trace(|| format!("client {who} reads {reply:?}"));
        let client = &mut self.clients[who];
        assert_eq!(
            client.is_ready,
            !matches!(reply, Reply::ConnAck { .. }),
            "CONNACK comes first, and once"
        );
        match reply {
            Reply::ConnAck { present, .. } => self.take_connack(who, conn, present),
            Reply::PubAck(packet_id, reason) | Reply::PubRec(packet_id, reason) if reason.is_error() => {
                client.unacknowledged.retain(|other| other.packet_id != packet_id);
            }
            Reply::PubAck(packet_id, _) => {
                let at = client
                    .unacknowledged
                    .iter()
                    .position(|other| other.packet_id == packet_id);
                let done = client
                    .unacknowledged
                    .remove(at.expect("an answer to a question"))
                    .expect("just found");
                assert_eq!(done.message.qos, QoS::AtLeastOnce);
                self.reference.acknowledged(done.message.no);
            }
            Reply::PubRec(packet_id, _) => {
                let mut open = client.unacknowledged.iter_mut();
                let open = open
                    .find(|other| other.packet_id == packet_id)
                    .expect("an answer to a question");
                open.is_received = true;
                self.reference.acknowledged(open.message.no);
                self.send(conn, &Packet::PubRel(ack(packet_id)));
            }
            Reply::PubComp(packet_id) => client.unacknowledged.retain(|other| other.packet_id != packet_id),
            Reply::PubRel(packet_id) => {
                client.held.remove(&packet_id);
                client.due.push(Due::Complete(packet_id));
            }
            Reply::SubAck => {
                let session = self.reference.sessions.get_mut(&who).expect("connected");
                session.unsure_acks -= 1;
                if session.unsure_acks == 0 {
                    session.unsure.clear();
                }
            }
        }
    }

    pub(crate) fn take_connack(&mut self, who: usize, conn: u64, present: bool) {
        let client = &mut self.clients[who];
        client.is_ready = true;
        if !present {
            client.forget();
        }
        self.out.wires.get_mut(&conn).expect("connected").has_room = true;
        self.broker.writable(self.now, ConnId(conn), &mut self.out);
        for open in self.clients[who].unacknowledged.clone() {
            if open.is_received {
                self.send(conn, &Packet::PubRel(ack(open.packet_id)));
            } else {
                self.publish(who, &open.message, open.packet_id, true);
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, who: usize) {
        let Some(conn) = self.ready(who).filter(|_| !self.clients[who].due.is_empty()) else {
            return;
        };
        let client = &mut self.clients[who];
        let at = if self.rng.one_in(3) {
            self.rng.below(client.due.len())
        } else {
            0
        };
        let packet = match client.due.remove(at) {
            Due::Received(packet_id) => Packet::PubRec(ack(packet_id)),
            Due::Ack(packet_id) => {
                client.in_flight.remove(&packet_id);
                Packet::PubAck(ack(packet_id))
            }
            Due::Complete(packet_id) => {
                client.in_flight.remove(&packet_id);
                Packet::PubComp(ack(packet_id))
            }
        };
        self.send(conn, &packet);
    }

    pub(crate) fn send(&mut self, conn: u64, packet: &Packet<'_>) {
        self.broker.handle(self.now, ConnId(conn), packet, &mut self.out);
    }

    pub(crate) fn read_and_acknowledge(&mut self, who: usize) {
        for _ in 0..4 {
            self.read(who);
            self.acknowledge(who);
        }
    }

    /// The hub sends a message that is for sessions connected now alone.
    pub(crate) fn send_transient(&mut self) {
        let message = Message {
            is_transient: true,
            retain: false,
            ..self.new_message(None)
        };
        self.route(
            &message,
            None,
            Keep::Never {
                until_ms: self.now.monotonic_ms + 10_000,
            },
        );
    }
}

pub(crate) fn ack(packet_id: u16) -> Ack<'static> {
    Ack::new(PacketId::new(packet_id).expect("not zero"), ReasonCode::Success)
}
