//! Reason codes of MQTT 5.0, their use in each packet, and the return codes of 3.x that stand for them.

use std::fmt;

use crate::read::Reader;
use crate::{DecodeError, PacketType};

/// Why, in every packet that answers or ends something; section 2.4 of MQTT 5.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum ReasonCode {
    /// Also Normal disconnection and Granted QoS 0.
    Success = 0x00,
    GrantedQoS1 = 0x01,
    GrantedQoS2 = 0x02,
    DisconnectWithWill = 0x04,
    NoMatchingSubscribers = 0x10,
    NoSubscriptionExisted = 0x11,
    ContinueAuthentication = 0x18,
    ReAuthenticate = 0x19,
    UnspecifiedError = 0x80,
    MalformedPacket = 0x81,
    ProtocolError = 0x82,
    ImplementationSpecificError = 0x83,
    UnsupportedProtocolVersion = 0x84,
    ClientIdentifierNotValid = 0x85,
    BadUserNameOrPassword = 0x86,
    NotAuthorized = 0x87,
    ServerUnavailable = 0x88,
    ServerBusy = 0x89,
    Banned = 0x8A,
    ServerShuttingDown = 0x8B,
    BadAuthenticationMethod = 0x8C,
    KeepAliveTimeout = 0x8D,
    SessionTakenOver = 0x8E,
    TopicFilterInvalid = 0x8F,
    TopicNameInvalid = 0x90,
    PacketIdentifierInUse = 0x91,
    PacketIdentifierNotFound = 0x92,
    ReceiveMaximumExceeded = 0x93,
    TopicAliasInvalid = 0x94,
    PacketTooLarge = 0x95,
    MessageRateTooHigh = 0x96,
    QuotaExceeded = 0x97,
    AdministrativeAction = 0x98,
    PayloadFormatInvalid = 0x99,
    RetainNotSupported = 0x9A,
    QoSNotSupported = 0x9B,
    UseAnotherServer = 0x9C,
    ServerMoved = 0x9D,
    SharedSubscriptionsNotSupported = 0x9E,
    ConnectionRateExceeded = 0x9F,
    MaximumConnectTime = 0xA0,
    SubscriptionIdentifiersNotSupported = 0xA1,
    WildcardSubscriptionsNotSupported = 0xA2,
}

impl ReasonCode {
    /// Every reason code, by its number.
    pub const ALL: [ReasonCode; 43] = {
        use ReasonCode::*;
        [
            Success,
            GrantedQoS1,
            GrantedQoS2,
            DisconnectWithWill,
            NoMatchingSubscribers,
            NoSubscriptionExisted,
            ContinueAuthentication,
            ReAuthenticate,
            UnspecifiedError,
            MalformedPacket,
            ProtocolError,
            ImplementationSpecificError,
            UnsupportedProtocolVersion,
            ClientIdentifierNotValid,
            BadUserNameOrPassword,
            NotAuthorized,
            ServerUnavailable,
            ServerBusy,
            Banned,
            ServerShuttingDown,
            BadAuthenticationMethod,
            KeepAliveTimeout,
            SessionTakenOver,
            TopicFilterInvalid,
            TopicNameInvalid,
            PacketIdentifierInUse,
            PacketIdentifierNotFound,
            ReceiveMaximumExceeded,
            TopicAliasInvalid,
            PacketTooLarge,
            MessageRateTooHigh,
            QuotaExceeded,
            AdministrativeAction,
            PayloadFormatInvalid,
            RetainNotSupported,
            QoSNotSupported,
            UseAnotherServer,
            ServerMoved,
            SharedSubscriptionsNotSupported,
            ConnectionRateExceeded,
            MaximumConnectTime,
            SubscriptionIdentifiersNotSupported,
            WildcardSubscriptionsNotSupported,
        ]
    };

    /// Whether it tells a failure: 0x80 and above, section 2.4.
    pub fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// Whether a packet of this type may carry it, by the tables of sections 3.2 to 3.15.
    pub fn is_valid_in(self, packet: PacketType) -> bool {
        let code = self as u8;
        match packet {
            PacketType::ConnAck => matches!(
                code,
                0x00 | 0x80..=0x8A | 0x8C | 0x90 | 0x95 | 0x97 | 0x99..=0x9D | 0x9F
            ),
            PacketType::PubAck | PacketType::PubRec => {
                matches!(code, 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99)
            }
            PacketType::PubRel | PacketType::PubComp => matches!(code, 0x00 | 0x92),
            PacketType::SubAck => {
                matches!(
                    code,
                    0x00..=0x02 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91 | 0x97 | 0x9E | 0xA1 | 0xA2
                )
            }
            PacketType::UnsubAck => matches!(code, 0x00 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91),
            PacketType::Disconnect => matches!(
                code,
                0x00 | 0x04 | 0x80..=0x83 | 0x87 | 0x89 | 0x8B..=0x90 | 0x93..=0xA2
            ),
            PacketType::Auth => matches!(code, 0x00 | 0x18 | 0x19),
            _ => false,
        }
    }

    /// Return code of a CONNACK of 3.1.1, section 3.2.2.3 there: the one of its six that comes nearest.
    pub fn connack_return_code(self) -> u8 {
        use ReasonCode::*;
        match self {
            Success => 0,
            UnsupportedProtocolVersion => 1,
            ClientIdentifierNotValid => 2,
            BadUserNameOrPassword | BadAuthenticationMethod => 4,
            NotAuthorized | Banned => 5,
            _ => 3,
        }
    }

    /// Return code of a SUBACK of 3.1.1, section 3.9.3 there: the granted QoS, or 0x80.
    pub fn suback_return_code(self) -> u8 {
        if self.is_error() { 0x80 } else { self as u8 }
    }

    /// The next byte as a reason code of this packet.
    #[inline]
    pub(crate) fn decode(reader: &mut Reader<'_>, packet: PacketType) -> Result<ReasonCode, DecodeError> {
        Self::of(reader.u8("Reason Code")?, packet)
    }

    /// A byte as a reason code of this packet.
    #[inline]
    pub(crate) fn of(code: u8, packet: PacketType) -> Result<ReasonCode, DecodeError> {
        match ReasonCode::try_from(code) {
            Ok(reason) if reason.is_valid_in(packet) => Ok(reason),
            _ => Err(not_of_this_packet(code, packet)),
        }
    }

    /// A return code of a CONNACK of 3.x.
    pub(crate) fn of_connack(code: u8) -> Result<ReasonCode, DecodeError> {
        use ReasonCode::*;
        const MEANINGS: [ReasonCode; 6] = [
            Success,
            UnsupportedProtocolVersion,
            ClientIdentifierNotValid,
            ServerUnavailable,
            BadUserNameOrPassword,
            NotAuthorized,
        ];
        let unknown = || DecodeError::protocol("MQTT 3.1.1 section 3.2.2.3", format!("CONNACK has return code {code}"));
        MEANINGS.get(usize::from(code)).copied().ok_or_else(unknown)
    }

    /// A return code of a SUBACK of 3.x.
    pub(crate) fn of_suback(code: u8) -> Result<ReasonCode, DecodeError> {
        match code {
            0 => Ok(ReasonCode::Success),
            1 => Ok(ReasonCode::GrantedQoS1),
            2 => Ok(ReasonCode::GrantedQoS2),
            0x80 => Ok(ReasonCode::UnspecifiedError),
            _ => Err(DecodeError::protocol(
                "MQTT 3.1.1 MQTT-3.9.3-2",
                format!("SUBACK has return code {code:#04x}"),
            )),
        }
    }

    /// Name in the standard's words, section 2.4.
    pub fn name(self) -> &'static str {
        use ReasonCode::*;
        match self {
            Success => "Success",
            GrantedQoS1 => "Granted QoS 1",
            GrantedQoS2 => "Granted QoS 2",
            DisconnectWithWill => "Disconnect with Will Message",
            NoMatchingSubscribers => "No matching subscribers",
            NoSubscriptionExisted => "No subscription existed",
            ContinueAuthentication => "Continue authentication",
            ReAuthenticate => "Re-authenticate",
            UnspecifiedError => "Unspecified error",
            MalformedPacket => "Malformed Packet",
            ProtocolError => "Protocol Error",
            ImplementationSpecificError => "Implementation specific error",
            UnsupportedProtocolVersion => "Unsupported Protocol Version",
            ClientIdentifierNotValid => "Client Identifier not valid",
            BadUserNameOrPassword => "Bad User Name or Password",
            NotAuthorized => "Not authorized",
            ServerUnavailable => "Server unavailable",
            ServerBusy => "Server busy",
            Banned => "Banned",
            ServerShuttingDown => "Server shutting down",
            BadAuthenticationMethod => "Bad authentication method",
            KeepAliveTimeout => "Keep Alive timeout",
            SessionTakenOver => "Session taken over",
            TopicFilterInvalid => "Topic Filter invalid",
            TopicNameInvalid => "Topic Name invalid",
            PacketIdentifierInUse => "Packet Identifier in use",
            PacketIdentifierNotFound => "Packet Identifier not found",
            ReceiveMaximumExceeded => "Receive Maximum exceeded",
            TopicAliasInvalid => "Topic Alias invalid",
            PacketTooLarge => "Packet too large",
            MessageRateTooHigh => "Message rate too high",
            QuotaExceeded => "Quota exceeded",
            AdministrativeAction => "Administrative action",
            PayloadFormatInvalid => "Payload format invalid",
            RetainNotSupported => "Retain not supported",
            QoSNotSupported => "QoS not supported",
            UseAnotherServer => "Use another server",
            ServerMoved => "Server moved",
            SharedSubscriptionsNotSupported => "Shared Subscriptions not supported",
            ConnectionRateExceeded => "Connection rate exceeded",
            MaximumConnectTime => "Maximum connect time",
            SubscriptionIdentifiersNotSupported => "Subscription Identifiers not supported",
            WildcardSubscriptionsNotSupported => "Wildcard Subscriptions not supported",
        }
    }
}

impl TryFrom<u8> for ReasonCode {
    /// The byte, which no reason code has.
    type Error = u8;

    fn try_from(code: u8) -> Result<Self, u8> {
        ReasonCode::ALL
            .binary_search_by_key(&code, |&reason| reason as u8)
            .map(|index| ReasonCode::ALL[index])
            .map_err(|_| code)
    }
}

impl From<ReasonCode> for u8 {
    fn from(reason: ReasonCode) -> u8 {
        reason as u8
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#04x})", self.name(), *self as u8)
    }
}

#[cold]
fn not_of_this_packet(code: u8, packet: PacketType) -> DecodeError {
    let clause = match packet {
        PacketType::ConnAck => "MQTT-3.2.2-8",
        PacketType::PubAck => "MQTT-3.4.2-1",
        PacketType::PubRec => "MQTT-3.5.2-1",
        PacketType::PubRel => "MQTT-3.6.2-1",
        PacketType::PubComp => "MQTT-3.7.2-1",
        PacketType::SubAck => "MQTT-3.9.3-2",
        PacketType::UnsubAck => "MQTT-3.11.3-2",
        PacketType::Disconnect => "MQTT-3.14.2-1",
        _ => "MQTT-3.15.2-1",
    };
    DecodeError::protocol(clause, format!("reason code {code:#04x} is none of {packet}"))
}
