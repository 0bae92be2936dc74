//! The client's half of MQTT 3.1.1 and 5.0: connecting, subscribing and the flows of QoS 0, 1 and 2. Pure: bytes in,
//! bytes out.

use std::collections::{HashSet, VecDeque};

use mqtt::{
    Ack, Connect, Packet, PacketId, Publish, PublishProperties, QoS, ReasonCode, Subscribe, SubscriptionOptions,
};
use mqtt::{UserProperties, Version};

use super::login::Secret;

/// Largest packet taken from a server: a payload of the paper's largest size and its topic fit many times.
const MAXIMUM_PACKET_SIZE: usize = 16 << 20;
/// Messages that may be under way where the server does not say fewer.
const WINDOW: u16 = u16::MAX;
/// Messages that may wait for the window; one more is given up, and whoever waits for its answer counts it as lost.
const WAITING_LIMIT: usize = 65_536;

/// Whom a client connects as.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) client_id: String,
    /// User name and password; absent where the server takes anybody.
    pub(crate) login: Option<(String, Option<Secret>)>,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WaitingForConnAck,
    WaitingForSubAck,
    Ready,
}

/// One client's session.
pub(crate) struct Session {
    version: Version,
    qos: QoS,
    filter: String,
    phase: Phase,
    ids: PacketIds,
    /// Messages of QoS 1 and 2 that the server takes at once: its Receive Maximum (MQTT-3.3.4-7).
    window: u16,
    /// Topic and payload of messages that wait for the window.
    waiting: VecDeque<(String, Vec<u8>)>,
    /// Identifiers of QoS 2 messages that were delivered at PUBLISH and wait for their PUBREL (MQTT-4.3.3-2, method B).
    received: Vec<PacketId>,
}

impl Session {
    pub(crate) fn new(version: Version, qos: QoS, filter: String) -> Session {
        Session {
            version,
            qos,
            filter,
            phase: Phase::WaitingForConnAck,
            ids: PacketIds::default(),
            window: WINDOW,
            waiting: VecDeque::new(),
            received: Vec::new(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Appends the CONNECT.
    pub(crate) fn connect(&self, identity: &Identity, out: &mut Vec<u8>) {
        let (user_name, password) = identity.login.as_ref().map_or((None, None), |(user_name, password)| {
            (
                Some(user_name.as_str()),
                password.as_ref().map(|secret| secret.0.as_bytes()),
            )
        });
        let connect = Connect {
            version: self.version,
            clean_start: true,
            // Blocks of other arms may keep a connection idle for long; its loss is seen by its end.
            keep_alive_s: 0,
            client_id: &identity.client_id,
            will: None,
            user_name,
            password,
            session_expiry_interval_s: None,
            receive_maximum: None,
            maximum_packet_size: None,
            topic_alias_maximum: 0,
            request_response_information: false,
            request_problem_information: true,
            authentication_method: None,
            authentication_data: None,
            user_properties: UserProperties::default(),
        };
        Packet::Connect(Box::new(connect)).encode(self.version, out);
    }

    /// Publishes at this QoS from now on: that at which it was asked.
    pub(crate) fn publish_as(&mut self, qos: QoS) {
        self.qos = qos;
    }

    /// Appends a PUBLISH; false where the server takes no more before it has acknowledged some.
    pub(crate) fn publish(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let packet_id = match self.qos {
            QoS::AtMostOnce => None,
            _ => match self.ids.take(self.window) {
                Some(id) => Some(id),
                None => return false,
            },
        };
        let properties = PublishProperties::default();
        let publish = Publish {
            dup: false,
            qos: self.qos,
            retain: false,
            topic,
            packet_id,
            properties,
            payload,
        };
        Packet::Publish(publish).encode(self.version, out);
        true
    }

    /// Appends a PUBLISH as soon as the server takes it.
    pub(crate) fn publish_later(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        if !self.publish(topic, payload, out) && self.waiting.len() < WAITING_LIMIT {
            self.waiting.push_back((topic.to_owned(), payload.to_owned()));
        }
    }

    /// An acknowledgement ended a message's flow: the next one may go.
    fn release(&mut self, id: PacketId, out: &mut Vec<u8>) {
        self.ids.release(id);
        if let Some((topic, payload)) = self.waiting.pop_front()
            && !self.publish(&topic, &payload, out)
        {
            self.waiting.push_front((topic, payload));
        }
    }

    /// Takes the packets at the start of `inbox`: hands each new application message to `on_message`, which may
    /// publish, and then acknowledges it, as client libraries do. Returns the bytes taken.
    ///
    /// # Errors
    /// What the server did wrong, or why it refused, in words.
    pub(crate) fn receive(
        &mut self,
        inbox: &[u8],
        out: &mut Vec<u8>,
        mut on_message: impl FnMut(&mut Session, &Publish<'_>, &mut Vec<u8>),
    ) -> Result<usize, String> {
        let mut taken = 0;
        while let Some(header) = mqtt::fixed_header(&inbox[taken..], MAXIMUM_PACKET_SIZE).map_err(|e| words(&e))? {
            let start = taken + header.header_len;
            let Some(body) = inbox.get(start..start + header.body_len) else {
                break;
            };
            let packet = Packet::decode(header.first, body, self.version).map_err(|e| words(&e))?;
            taken = start + header.body_len;
            match packet {
                Packet::Publish(message) => {
                    if self.is_new(&message) {
                        on_message(self, &message, out);
                    }
                    self.acknowledge(&message, out);
                }
                other => self.handle(other, out)?,
            }
        }
        Ok(taken)
    }

    fn is_new(&mut self, message: &Publish<'_>) -> bool {
        match (message.qos, message.packet_id) {
            (QoS::ExactlyOnce, Some(id)) if self.received.contains(&id) => false,
            (QoS::ExactlyOnce, Some(id)) => {
                self.received.push(id);
                true
            }
            _ => true,
        }
    }

    fn acknowledge(&self, message: &Publish<'_>, out: &mut Vec<u8>) {
        let Some(id) = message.packet_id else { return };
        let ack = Ack::new(id, ReasonCode::Success);
        let packet = if message.qos == QoS::ExactlyOnce {
            Packet::PubRec(ack)
        } else {
            Packet::PubAck(ack)
        };
        packet.encode(self.version, out);
    }

    fn handle(&mut self, packet: Packet<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        match packet {
            Packet::PubAck(ack) | Packet::PubComp(ack) => self.release(ack.packet_id, out),
            Packet::PubRec(ack) if is_refusal(ack.reason) => self.release(ack.packet_id, out),
            Packet::PubRec(ack) => {
                Packet::PubRel(Ack::new(ack.packet_id, ReasonCode::Success)).encode(self.version, out);
            }
            Packet::PubRel(ack) => {
                self.received.retain(|id| *id != ack.packet_id);
                Packet::PubComp(Ack::new(ack.packet_id, ReasonCode::Success)).encode(self.version, out);
            }
            Packet::ConnAck(ack) if ack.reason == ReasonCode::Success => {
                self.window = ack.receive_maximum.map_or(WINDOW, u16::from);
                self.subscribe(out);
            }
            Packet::ConnAck(ack) => return Err(format!("the server refused the connection: {:?}", ack.reason)),
            Packet::SubAck(ack) if !ack.reasons.iter().any(|reason| is_refusal(*reason)) => self.phase = Phase::Ready,
            Packet::SubAck(_) => return Err(format!("the server refused to subscribe {}", self.filter)),
            Packet::PingResp => {}
            other => return Err(format!("the server sent what no server sends: {other:?}")),
        }
        Ok(())
    }

    fn subscribe(&mut self, out: &mut Vec<u8>) {
        let options = SubscriptionOptions {
            qos: self.qos,
            ..SubscriptionOptions::default()
        };
        let subscribe = Subscribe {
            packet_id: PacketId::MIN,
            subscription_id: None,
            filters: vec![(&self.filter, options)],
            user_properties: UserProperties::default(),
        };
        Packet::Subscribe(subscribe).encode(self.version, out);
        self.phase = Phase::WaitingForSubAck;
    }
}

fn is_refusal(reason: ReasonCode) -> bool {
    reason as u8 >= 0x80
}

fn words(error: &mqtt::DecodeError) -> String {
    format!(
        "the server sent a packet that {} forbids: {}",
        error.clause, error.message
    )
}

/// Packet identifiers in use (MQTT-2.3.1-4).
#[derive(Default)]
struct PacketIds {
    in_use: HashSet<PacketId>,
    last: Option<PacketId>,
}

impl PacketIds {
    /// The next identifier in turn that is not in use; none if `window` of them are.
    fn take(&mut self, window: u16) -> Option<PacketId> {
        if self.in_use.len() >= usize::from(window) {
            return None;
        }
        let mut next = self.after_last();
        while self.in_use.contains(&next) {
            self.last = Some(next);
            next = self.after_last();
        }
        self.last = Some(next);
        self.in_use.insert(next);
        Some(next)
    }

    fn after_last(&self) -> PacketId {
        self.last.and_then(|last| last.checked_add(1)).unwrap_or(PacketId::MIN)
    }

    fn release(&mut self, id: PacketId) {
        self.in_use.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(value: u16) -> PacketId {
        PacketId::new(value).unwrap()
    }

    #[test]
    fn packet_identifiers_wrap_around_and_skip_zero() {
        let mut ids = PacketIds {
            in_use: HashSet::new(),
            last: Some(PacketId::MAX),
        };
        assert_eq!(ids.take(WINDOW), Some(id(1)));
    }

    #[test]
    fn an_identifier_in_use_is_not_given_again_and_there_are_65_535() {
        let mut ids = PacketIds {
            in_use: HashSet::from([id(1), id(65_535)]),
            last: Some(PacketId::MAX),
        };
        assert_eq!(ids.take(WINDOW), Some(id(2)));
        ids.release(id(1));
        let rest = std::iter::from_fn(|| ids.take(WINDOW)).count();
        assert_eq!((rest, ids.in_use.len()), (65_533, 65_535), "all are in use");
    }

    fn answers(session: &mut Session, packets: &[Packet<'_>]) -> (Vec<u8>, usize) {
        let (mut inbox, mut out, mut messages) = (Vec::new(), Vec::new(), 0);
        packets
            .iter()
            .for_each(|packet| packet.encode(Version::V311, &mut inbox));
        let taken = session.receive(&inbox, &mut out, |_, _, _| messages += 1).unwrap();
        assert_eq!(taken, inbox.len());
        (out, messages)
    }

    fn encoded(packets: &[Packet<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        packets
            .iter()
            .for_each(|packet| packet.encode(Version::V311, &mut bytes));
        bytes
    }

    fn ack(value: u16) -> Ack<'static> {
        Ack::new(id(value), ReasonCode::Success)
    }

    fn message(qos: QoS) -> Packet<'static> {
        let properties = PublishProperties::default();
        let packet_id = (qos != QoS::AtMostOnce).then(|| id(7));
        Packet::Publish(Publish {
            dup: false,
            qos,
            retain: false,
            topic: "a",
            packet_id,
            properties,
            payload: b"x",
        })
    }

    #[test]
    fn a_qos_2_message_sent_again_is_acknowledged_again_and_delivered_once() {
        let mut session = Session::new(Version::V311, QoS::ExactlyOnce, "a".into());
        let (out, messages) = answers(
            &mut session,
            &[
                message(QoS::ExactlyOnce),
                message(QoS::ExactlyOnce),
                Packet::PubRel(ack(7)),
            ],
        );
        assert_eq!(messages, 1);
        assert_eq!(
            out,
            encoded(&[Packet::PubRec(ack(7)), Packet::PubRec(ack(7)), Packet::PubComp(ack(7))])
        );
        let (_, messages) = answers(&mut session, &[message(QoS::ExactlyOnce)]);
        assert_eq!(messages, 1, "after PUBREL the identifier means a new message");
    }

    #[test]
    fn a_qos_1_message_is_acknowledged_and_a_qos_0_message_is_not() {
        let mut session = Session::new(Version::V311, QoS::AtLeastOnce, "a".into());
        let (out, messages) = answers(&mut session, &[message(QoS::AtLeastOnce), message(QoS::AtMostOnce)]);
        assert_eq!((out, messages), (encoded(&[Packet::PubAck(ack(7))]), 2));
    }

    #[test]
    fn an_own_qos_2_message_is_released_at_pubrec_and_its_identifier_freed_at_pubcomp() {
        let mut session = Session::new(Version::V311, QoS::ExactlyOnce, "a".into());
        session.publish("t", b"x", &mut Vec::new());
        let (out, _) = answers(&mut session, &[Packet::PubRec(ack(1))]);
        assert_eq!(out, encoded(&[Packet::PubRel(ack(1))]));
        assert_eq!(session.ids.in_use.len(), 1);
        answers(&mut session, &[Packet::PubComp(ack(1))]);
        assert!(session.ids.in_use.is_empty());
    }

    #[test]
    fn half_a_packet_is_left_for_later() {
        let mut session = Session::new(Version::V311, QoS::AtLeastOnce, "a".into());
        let bytes = encoded(&[message(QoS::AtMostOnce), message(QoS::AtMostOnce)]);
        let taken = session
            .receive(&bytes[..bytes.len() - 1], &mut Vec::new(), |_, _, _| ())
            .unwrap();
        assert_eq!(taken, bytes.len() / 2);
    }

    #[test]
    fn what_the_server_does_not_take_yet_waits_and_goes_with_the_next_acknowledgement() {
        let mut session = Session::new(Version::V5, QoS::AtLeastOnce, "a".into());
        session.window = 1;
        let (mut out, mut inbox) = (Vec::new(), Vec::new());
        session.publish_later("t", b"first", &mut out);
        let first_len = out.len();
        session.publish_later("t", b"second", &mut out);
        assert!(!session.publish("t", b"third", &mut out));
        assert_eq!(out.len(), first_len, "the window is full");
        Packet::PubAck(ack(1)).encode(Version::V5, &mut inbox);
        session.receive(&inbox, &mut out, |_, _, _| ()).unwrap();
        assert!(out.ends_with(b"second"));
        assert_eq!((session.ids.in_use.len(), session.waiting.len()), (1, 0));
    }
}
