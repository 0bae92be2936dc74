//! Valid packets of every type and version, made from a string of random bytes: shorter strings make simpler packets,
//! so a failing case shrinks well.

use std::num::NonZeroU16;
use std::sync::LazyLock;

use mqtt::{
    Ack, Auth, ConnAck, Connect, Disconnect, Packet, PacketId, PacketType, Publish, PublishProperties, QoS, ReasonCode,
    RetainHandling, SubAck, Subscribe, SubscriptionOptions, Unsubscribe, UserProperties, UserPropertiesBuf, Version,
    Will,
};

pub(crate) const VERSIONS: [Version; 3] = [Version::V31, Version::V311, Version::V5];

/// Texts are pieces of this: characters of one to four bytes, control characters, a byte order mark.
static TEXT: LazyLock<String> = LazyLock::new(|| "sensor/7 \u{1}é\u{FEFF}\u{FFFF}温度🌡\u{7F}{}\\\"".repeat(12));

const TOPICS: [&str; 6] = ["t", "devices/d1/telemetry", "/", "$SYS/x", "a//b/", "温度/é🌡"];
const FILTERS: [&str; 6] = ["#", "+", "a/+/b/#", "/+/", "devices/d1/methods/+/+", "温度/#"];
const SHARED: [&str; 2] = ["$share/g/a/+", "$share/温度/#"];

static USER_PROPERTIES: LazyLock<[UserPropertiesBuf; 4]> = LazyLock::new(|| {
    let long = TEXT.as_str();
    [
        UserPropertiesBuf::new(),
        [("k", "v")].into_iter().collect(),
        [("k", "1"), ("", ""), ("k", "1"), ("é", "温")].into_iter().collect(),
        (0..20).map(|_| (long, long)).collect(),
    ]
});

/// A valid packet of `version`, as far as the random bytes carry; behind their end all choices are the first.
pub(crate) fn packet(random: &[u8], version: Version) -> Packet<'_> {
    let mut choices = Choices { random, version };
    let kinds = if version == Version::V5 { 15 } else { 14 };
    let kind = PacketType::ALL[choices.below(kinds)];
    choices.packet(kind)
}

struct Choices<'a> {
    random: &'a [u8],
    version: Version,
}

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.random.split_first() else {
            return 0;
        };
        self.random = rest;
        first
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    fn option<T>(&mut self, value: fn(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }

    /// Something that only packets of version 5 have.
    fn v5<T: Default>(&mut self, value: fn(&mut Self) -> T) -> T {
        if self.version == Version::V5 {
            value(self)
        } else {
            T::default()
        }
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn u32(&mut self) -> u32 {
        let random = u32::from(self.u16()) << 16 | u32::from(self.u16());
        self.one_of(&[random, 0, 1, u32::MAX])
    }

    fn nonzero(&mut self) -> NonZeroU16 {
        NonZeroU16::new(self.u16()).unwrap_or(NonZeroU16::MIN)
    }

    fn text(&mut self) -> &'static str {
        let start = TEXT.floor_char_boundary(self.below(200));
        let end = TEXT.floor_char_boundary(start + self.below(160));
        &TEXT[start..end]
    }

    fn binary(&mut self) -> &'a [u8] {
        let len = self.below(40).min(self.random.len());
        let (bytes, rest) = self.random.split_at(len);
        self.random = rest;
        bytes
    }

    fn list<T>(&mut self, value: fn(&mut Self) -> T) -> Vec<T> {
        (0..=self.below(4)).map(|_| value(self)).collect()
    }

    fn qos(&mut self) -> QoS {
        self.one_of(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
    }

    fn topic(&mut self) -> &'static str {
        self.one_of(&TOPICS)
    }

    fn user_properties(&mut self) -> UserProperties<'static> {
        self.v5(|choices| USER_PROPERTIES[choices.below(4)].as_properties())
    }

    fn reason(&mut self, packet: PacketType) -> ReasonCode {
        let valid: Vec<_> = ReasonCode::ALL
            .into_iter()
            .filter(|reason| reason.is_valid_in(packet))
            .collect();
        self.one_of(&valid)
    }

    fn packet(&mut self, kind: PacketType) -> Packet<'a> {
        match kind {
            PacketType::Connect => Packet::Connect(Box::new(self.connect())),
            PacketType::ConnAck => Packet::ConnAck(Box::new(self.connack())),
            PacketType::Publish => Packet::Publish(self.publish()),
            PacketType::PubAck => Packet::PubAck(self.ack(kind)),
            PacketType::PubRec => Packet::PubRec(self.ack(kind)),
            PacketType::PubRel => Packet::PubRel(self.ack(kind)),
            PacketType::PubComp => Packet::PubComp(self.ack(kind)),
            PacketType::Subscribe => Packet::Subscribe(self.subscribe()),
            PacketType::SubAck => Packet::SubAck(self.suback()),
            PacketType::Unsubscribe => Packet::Unsubscribe(self.unsubscribe()),
            PacketType::UnsubAck => Packet::UnsubAck(self.unsuback()),
            PacketType::PingReq => Packet::PingReq,
            PacketType::PingResp => Packet::PingResp,
            PacketType::Disconnect => Packet::Disconnect(self.disconnect()),
            PacketType::Auth => Packet::Auth(self.auth()),
        }
    }

    fn connect(&mut self) -> Connect<'a> {
        let mut connect = Connect::new(self.version, self.text());
        connect.clean_start = self.flag();
        connect.keep_alive_s = self.u16();
        connect.will = self.option(Self::will);
        connect.user_name = self.option(Self::text);
        let may_have_password = self.version == Version::V5 || connect.user_name.is_some();
        connect.password = self.option(Self::binary).filter(|_| may_have_password);
        if self.version == Version::V5 {
            connect.session_expiry_interval_s = self.option(Self::u32);
            connect.receive_maximum = self.option(Self::nonzero);
            connect.maximum_packet_size = self.option(Self::u32).filter(|&size| size > 0);
            connect.topic_alias_maximum = self.u16();
            connect.request_response_information = self.flag();
            connect.request_problem_information = self.flag();
            connect.authentication_method = self.option(Self::text);
            connect.authentication_data = connect.authentication_method.and_then(|_| self.option(Self::binary));
            connect.user_properties = self.user_properties();
        }
        connect
    }

    fn will(&mut self) -> Will<'a> {
        let mut will = Will::new(self.topic(), self.binary());
        will.qos = self.qos();
        will.retain = self.flag();
        will.delay_interval_s = self.v5(Self::u32);
        will.properties = self.v5(Self::message_properties);
        will
    }

    fn message_properties(&mut self) -> PublishProperties<'a> {
        PublishProperties {
            payload_is_utf8: self.flag(),
            message_expiry_interval_s: self.option(Self::u32),
            topic_alias: None,
            response_topic: self.option(Self::topic),
            correlation_data: self.option(Self::binary),
            content_type: self.option(Self::text),
            subscription_ids: Default::default(),
            user_properties: self.user_properties(),
        }
    }

    fn connack(&mut self) -> ConnAck<'a> {
        let mut connack = ConnAck::new(self.reason(PacketType::ConnAck));
        if self.version == Version::V5 {
            connack.session_expiry_interval_s = self.option(Self::u32);
            connack.receive_maximum = self.option(Self::nonzero);
            connack.maximum_qos = self.option(Self::qos).filter(|&qos| qos < QoS::ExactlyOnce);
            connack.retain_available = self.option(Self::flag);
            connack.maximum_packet_size = self.option(Self::u32).filter(|&size| size > 0);
            connack.assigned_client_id = self.option(Self::text);
            connack.topic_alias_maximum = self.u16();
            connack.reason_string = self.option(Self::text);
            connack.wildcard_subscription_available = self.option(Self::flag);
            connack.subscription_ids_available = self.option(Self::flag);
            connack.shared_subscription_available = self.option(Self::flag);
            connack.server_keep_alive_s = self.option(Self::u16);
            connack.response_information = self.option(Self::text);
            connack.server_reference = self.option(Self::text);
            connack.authentication_method = self.option(Self::text);
            connack.authentication_data = connack.authentication_method.and_then(|_| self.option(Self::binary));
            connack.user_properties = self.user_properties();
        } else {
            use ReasonCode::*;
            connack.reason = self.one_of(&[Success, UnsupportedProtocolVersion, ServerUnavailable, NotAuthorized]);
        }
        let may_have_session = self.version > Version::V31 && connack.reason == ReasonCode::Success;
        connack.session_present = may_have_session && self.flag();
        connack
    }

    fn publish(&mut self) -> Publish<'a> {
        let qos = self.qos();
        let packet_id = (qos > QoS::AtMostOnce).then(|| self.nonzero());
        let mut publish = Publish::new(self.topic(), qos, packet_id, self.binary());
        publish.dup = self.flag() && qos > QoS::AtMostOnce;
        publish.retain = self.flag();
        if self.version == Version::V5 {
            publish.properties = self.message_properties();
            publish.properties.topic_alias = self.option(Self::nonzero);
            if publish.properties.topic_alias.is_some() && self.flag() {
                publish.topic = "";
            }
            let ids: [&[u32]; 4] = [&[], &[1], &[127, 128], &[16_383, 2_097_152, 268_435_455]];
            publish.properties.subscription_ids = self.one_of(&ids).into();
        }
        publish
    }

    fn ack(&mut self, kind: PacketType) -> Ack<'a> {
        let mut ack = Ack::new(self.nonzero(), ReasonCode::Success);
        if self.version == Version::V5 {
            ack.reason = self.reason(kind);
            ack.reason_string = self.option(Self::text);
            ack.user_properties = self.user_properties();
        }
        ack
    }

    fn subscribe(&mut self) -> Subscribe<'a> {
        let mut subscribe = Subscribe::new(PacketId::MIN, self.list(Self::subscription));
        subscribe.packet_id = self.nonzero();
        if self.version == Version::V5 {
            subscribe.subscription_id = self.option(|choices| choices.one_of(&[1, 127, 128, 268_435_455]));
            subscribe.user_properties = self.user_properties();
        }
        subscribe
    }

    fn subscription(&mut self) -> (&'a str, SubscriptionOptions) {
        let mut options = SubscriptionOptions::at(self.qos());
        let shared = self.flag();
        if self.version == Version::V5 {
            options.no_local = self.flag() && !shared;
            options.retain_as_published = self.flag();
            options.retain_handling = self.one_of(&[
                RetainHandling::Send,
                RetainHandling::SendIfNew,
                RetainHandling::DoNotSend,
            ]);
        }
        (
            if shared {
                self.one_of(&SHARED)
            } else {
                self.one_of(&FILTERS)
            },
            options,
        )
    }

    fn suback(&mut self) -> SubAck<'a> {
        use ReasonCode::*;
        let reasons = match self.version {
            Version::V5 => self.list(|choices| choices.reason(PacketType::SubAck)),
            _ => self.list(|choices| choices.one_of(&[Success, GrantedQoS1, GrantedQoS2, UnspecifiedError])),
        };
        self.answer(reasons)
    }

    fn unsuback(&mut self) -> SubAck<'a> {
        let reasons = self.v5(|choices| choices.list(|choices| choices.reason(PacketType::UnsubAck)));
        self.answer(reasons)
    }

    fn answer(&mut self, reasons: Vec<ReasonCode>) -> SubAck<'a> {
        let mut answer = SubAck::new(self.nonzero(), reasons);
        answer.reason_string = self.v5(|choices| choices.option(Self::text));
        answer.user_properties = self.user_properties();
        answer
    }

    fn unsubscribe(&mut self) -> Unsubscribe<'a> {
        let mut unsubscribe = Unsubscribe::new(self.nonzero(), self.list(|choices| choices.subscription().0));
        unsubscribe.user_properties = self.user_properties();
        unsubscribe
    }

    fn disconnect(&mut self) -> Disconnect<'a> {
        let mut disconnect = Disconnect::new(ReasonCode::Success);
        if self.version == Version::V5 {
            disconnect.reason = self.reason(PacketType::Disconnect);
            disconnect.session_expiry_interval_s = self.option(Self::u32);
            disconnect.reason_string = self.option(Self::text);
            disconnect.server_reference = self.option(Self::text);
            disconnect.user_properties = self.user_properties();
        }
        disconnect
    }

    fn auth(&mut self) -> Auth<'a> {
        let mut auth = Auth::new(
            self.reason(PacketType::Auth),
            Some(self.text()),
            self.option(Self::binary),
        );
        auth.reason_string = self.option(Self::text);
        auth.user_properties = self.user_properties();
        if auth.reason == ReasonCode::Success && self.flag() {
            return Auth::new(ReasonCode::Success, None, None);
        }
        auth
    }
}
