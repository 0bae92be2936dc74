//! The packets of MQTT 3.1, 3.1.1 and 5.0 as values that borrow from the bytes they were read from.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU16;

use crate::{ReasonCode, UserProperties};

/// Protocol version of a connection, as its CONNECT announced it (MQTT-3.1.2-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1 (`MQIsdp`, level 3).
    V31 = 3,
    /// MQTT 3.1.1 (level 4).
    V311 = 4,
    /// MQTT 5.0 (level 5).
    V5 = 5,
}

/// Quality of service of a PUBLISH or a subscription (MQTT-4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QoS {
    /// 0: at most once.
    #[default]
    AtMostOnce = 0,
    /// 1: at least once.
    AtLeastOnce = 1,
    /// 2: exactly once.
    ExactlyOnce = 2,
}

impl QoS {
    /// QoS in the lowest two bits; 3 is none.
    pub fn from_bits(bits: u8) -> Option<QoS> {
        match bits & 0x03 {
            0 => Some(QoS::AtMostOnce),
            1 => Some(QoS::AtLeastOnce),
            2 => Some(QoS::ExactlyOnce),
            _ => None,
        }
    }
}

/// A packet identifier; zero is not one (MQTT-2.2.1-3).
pub type PacketId = NonZeroU16;

/// Any packet of any version. Properties of version 5 are at their defaults in a packet of an earlier version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// CONNECT, section 3.1.
    Connect(Box<Connect<'a>>),
    /// CONNACK, section 3.2.
    ConnAck(Box<ConnAck<'a>>),
    /// PUBLISH, section 3.3.
    Publish(Publish<'a>),
    /// PUBACK, section 3.4.
    PubAck(Ack<'a>),
    /// PUBREC, section 3.5.
    PubRec(Ack<'a>),
    /// PUBREL, section 3.6.
    PubRel(Ack<'a>),
    /// PUBCOMP, section 3.7.
    PubComp(Ack<'a>),
    /// SUBSCRIBE, section 3.8.
    Subscribe(Subscribe<'a>),
    /// SUBACK, section 3.9.
    SubAck(SubAck<'a>),
    /// UNSUBSCRIBE, section 3.10.
    Unsubscribe(Unsubscribe<'a>),
    /// UNSUBACK, section 3.11; its reason codes are empty before version 5.
    UnsubAck(SubAck<'a>),
    /// PINGREQ, section 3.12.
    PingReq,
    /// PINGRESP, section 3.13.
    PingResp,
    /// DISCONNECT, section 3.14.
    Disconnect(Disconnect<'a>),
    /// AUTH, section 3.15.
    Auth(Auth<'a>),
}

/// CONNECT, section 3.1.
#[derive(Clone, PartialEq, Eq)]
pub struct Connect<'a> {
    /// Protocol name and level, which must agree.
    pub version: Version,
    /// Clean Start (5.0) or Clean Session (3.1.1).
    pub clean_start: bool,
    /// Keep Alive in seconds; 0 turns it off.
    pub keep_alive_s: u16,
    /// Client identifier; empty asks the server for one.
    pub client_id: &'a str,
    /// Will message, if any.
    pub will: Option<Will<'a>>,
    /// User name, if any.
    pub user_name: Option<&'a str>,
    /// Password, if any. Debug output says only that it is there.
    pub password: Option<&'a [u8]>,
    /// Session Expiry Interval in seconds; `u32::MAX` is for ever. In 3.x: see [`Connect::session_expiry_s`].
    pub session_expiry_interval_s: Option<u32>,
    /// Receive Maximum of the client; absent is 65,535.
    pub receive_maximum: Option<NonZeroU16>,
    /// Maximum Packet Size in bytes that the client accepts; absent is no limit.
    pub maximum_packet_size: Option<u32>,
    /// Topic Alias Maximum of the client; absent is 0.
    pub topic_alias_maximum: u16,
    /// Request Response Information.
    pub request_response_information: bool,
    /// Request Problem Information; absent is true.
    pub request_problem_information: bool,
    /// Authentication Method, of enhanced authentication.
    pub authentication_method: Option<&'a str>,
    /// Authentication Data.
    pub authentication_data: Option<&'a [u8]>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}

impl Connect<'_> {
    /// Seconds that the session outlives its connection, by the rules of the connection's version:
    /// in 3.x a clean session ends with it and any other never does.
    pub fn session_expiry_s(&self) -> u32 {
        match (self.version, self.clean_start) {
            (Version::V5, _) => self.session_expiry_interval_s.unwrap_or(0),
            (_, true) => 0,
            (_, false) => u32::MAX,
        }
    }
}

/// All but the secrets, so that a packet can be logged.
impl fmt::Debug for Connect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("version", &self.version)
            .field("clean_start", &self.clean_start)
            .field("keep_alive_s", &self.keep_alive_s)
            .field("client_id", &self.client_id)
            .field("will", &self.will)
            .field("user_name", &self.user_name)
            .field("password", &self.password.map(|_| "secret"))
            .field("session_expiry_interval_s", &self.session_expiry_interval_s)
            .field("receive_maximum", &self.receive_maximum)
            .field("maximum_packet_size", &self.maximum_packet_size)
            .field("topic_alias_maximum", &self.topic_alias_maximum)
            .field("request_response_information", &self.request_response_information)
            .field("request_problem_information", &self.request_problem_information)
            .field("authentication_method", &self.authentication_method)
            .field("authentication_data", &self.authentication_data.map(|_| "secret"))
            .field("user_properties", &self.user_properties)
            .finish()
    }
}

/// The will of a CONNECT, sections 3.1.2.5 and 3.1.3.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// QoS at which it is published.
    pub qos: QoS,
    /// Whether it is published as a retained message.
    pub retain: bool,
    /// Topic it is published to.
    pub topic: &'a str,
    /// Its payload.
    pub payload: &'a [u8],
    /// Will Delay Interval in seconds.
    pub delay_interval_s: u32,
    /// Properties it is published with.
    pub properties: PublishProperties<'a>,
}

/// CONNACK, section 3.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether the server has a session for this client.
    pub session_present: bool,
    /// Outcome; encoded as the return code of 3.x for its versions.
    pub reason: ReasonCode,
    /// Session Expiry Interval in seconds, where it differs from the one asked for.
    pub session_expiry_interval_s: Option<u32>,
    /// Receive Maximum of the server.
    pub receive_maximum: Option<NonZeroU16>,
    /// Maximum QoS, where it is below 2.
    pub maximum_qos: Option<QoS>,
    /// Retain Available; absent is true.
    pub retain_available: Option<bool>,
    /// Maximum Packet Size in bytes that the server accepts.
    pub maximum_packet_size: Option<u32>,
    /// Assigned Client Identifier.
    pub assigned_client_id: Option<&'a str>,
    /// Topic Alias Maximum of the server.
    pub topic_alias_maximum: u16,
    /// Reason String.
    pub reason_string: Option<&'a str>,
    /// Wildcard Subscription Available; absent is true.
    pub wildcard_subscription_available: Option<bool>,
    /// Subscription Identifiers Available; absent is true.
    pub subscription_ids_available: Option<bool>,
    /// Shared Subscription Available; absent is true.
    pub shared_subscription_available: Option<bool>,
    /// Server Keep Alive in seconds, where it overrides the client's.
    pub server_keep_alive_s: Option<u16>,
    /// Response Information.
    pub response_information: Option<&'a str>,
    /// Server Reference.
    pub server_reference: Option<&'a str>,
    /// Authentication Method.
    pub authentication_method: Option<&'a str>,
    /// Authentication Data.
    pub authentication_data: Option<&'a [u8]>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}

/// PUBLISH, section 3.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Sent before (MQTT-3.3.1-1).
    pub dup: bool,
    /// Quality of service.
    pub qos: QoS,
    /// Retained, or to be retained.
    pub retain: bool,
    /// Topic name; empty only where a topic alias stands for it.
    pub topic: &'a str,
    /// Present exactly when `qos` is above 0 (MQTT-2.2.1-2).
    pub packet_id: Option<PacketId>,
    /// Properties of version 5.
    pub properties: PublishProperties<'a>,
    /// The application message, never copied here.
    pub payload: &'a [u8],
}

/// Properties of a PUBLISH or a will, section 3.3.2.3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishProperties<'a> {
    /// Payload Format Indicator is 1: the payload is UTF-8.
    pub payload_is_utf8: bool,
    /// Message Expiry Interval in seconds.
    pub message_expiry_interval_s: Option<u32>,
    /// Topic Alias.
    pub topic_alias: Option<NonZeroU16>,
    /// Response Topic.
    pub response_topic: Option<&'a str>,
    /// Correlation Data.
    pub correlation_data: Option<&'a [u8]>,
    /// Content Type.
    pub content_type: Option<&'a str>,
    /// Subscription Identifiers, 1 to 268,435,455 each.
    pub subscription_ids: Cow<'a, [u32]>,
    /// User Properties, in their order.
    pub user_properties: UserProperties<'a>,
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP, sections 3.4 to 3.7.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The PUBLISH that it answers.
    pub packet_id: PacketId,
    /// Outcome; `Success` in versions before 5.
    pub reason: ReasonCode,
    /// Reason String.
    pub reason_string: Option<&'a str>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}

impl Ack<'_> {
    /// An acknowledgement with nothing beside its reason.
    pub fn new(packet_id: PacketId, reason: ReasonCode) -> Self {
        Ack {
            packet_id,
            reason,
            reason_string: None,
            user_properties: UserProperties::default(),
        }
    }
}

/// SUBSCRIBE, section 3.8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Answered by the SUBACK with the same.
    pub packet_id: PacketId,
    /// Subscription Identifier, if any.
    pub subscription_id: Option<u32>,
    /// Topic filters with their options; at least one (MQTT-3.8.3-2).
    pub filters: Vec<(&'a str, SubscriptionOptions)>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}

/// Subscription options, section 3.8.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscriptionOptions {
    /// Maximum QoS of what is delivered.
    pub qos: QoS,
    /// Do not deliver what the same client published.
    pub no_local: bool,
    /// Keep the retain flag as published.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// Retain Handling, section 3.8.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RetainHandling {
    /// At every subscribe.
    #[default]
    Send = 0,
    /// Only where the subscription is new.
    SendIfNew = 1,
    /// Never.
    DoNotSend = 2,
}

/// SUBACK or UNSUBACK, sections 3.9 and 3.11.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// That of the packet answered.
    pub packet_id: PacketId,
    /// One for each filter, in order; encoded as the return codes of 3.x for its versions.
    pub reasons: Vec<ReasonCode>,
    /// Reason String.
    pub reason_string: Option<&'a str>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}

/// UNSUBSCRIBE, section 3.10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Answered by the UNSUBACK with the same.
    pub packet_id: PacketId,
    /// Topic filters; at least one (MQTT-3.10.3-2).
    pub filters: Vec<&'a str>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}

/// DISCONNECT, section 3.14; before version 5 it has no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// Why.
    pub reason: ReasonCode,
    /// Session Expiry Interval in seconds, replacing that of CONNECT.
    pub session_expiry_interval_s: Option<u32>,
    /// Reason String.
    pub reason_string: Option<&'a str>,
    /// Server Reference.
    pub server_reference: Option<&'a str>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}

/// AUTH, section 3.15.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Success, Continue authentication or Re-authenticate.
    pub reason: ReasonCode,
    /// Authentication Method.
    pub authentication_method: Option<&'a str>,
    /// Authentication Data.
    pub authentication_data: Option<&'a [u8]>,
    /// Reason String.
    pub reason_string: Option<&'a str>,
    /// User Properties.
    pub user_properties: UserProperties<'a>,
}
