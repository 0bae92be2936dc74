//! `mqtt-protocol-core`.

use mqtt::{DecodeError, Packet, ReasonCode, Version, fixed_header};
use mqtt_protocol_core::mqtt::packet::{v3_1_1, v5_0};
use mqtt_protocol_core::mqtt::result_code::MqttError;

use crate::{Oracle, reason_of};

pub(crate) struct ProtocolCore;

impl Oracle for ProtocolCore {
    fn rewrite(&self, bytes: &[u8], version: Version) -> Option<Result<Vec<u8>, String>> {
        let header = fixed_header(bytes, usize::MAX).ok()??;
        let body = bytes.get(header.header_len..header.packet_len())?;
        let result = match version {
            Version::V31 => return None,
            Version::V311 => rewrite_v3_1_1(header.first, body),
            Version::V5 => rewrite_v5_0(header.first, body),
        };
        Some(result.map_err(|error| format!("{error:?}")))
    }

    fn stricter(&self, packet: &Packet<'_>, _version: Version) -> Option<&'static str> {
        match packet {
            Packet::Connect(connect) if connect.password.is_some() && connect.user_name.is_none() => {
                Some("a password without a user name is refused in version 5 too, whose section 3.1.2.9 allows it")
            }
            Packet::Disconnect(disconnect) if disconnect.reason == ReasonCode::BadAuthenticationMethod => {
                Some("table 2-6 gives DISCONNECT the code 0x8C and table 3-10 does not; they follow the second")
            }
            _ => None,
        }
    }

    fn laxer(&self, error: &DecodeError) -> Option<&'static str> {
        if error.message.starts_with("Property Length takes") {
            return Some("a packet may end before its Property Length");
        }
        if error.message.contains("follow the last field of the PUB") {
            return Some("acknowledgements of 3.1.1 may have a reason code, as those of version 5");
        }
        reason_of(NOT_ENFORCED, error)
    }

    fn different(&self, _ours: &Packet<'_>, _theirs: &Result<Packet<'_>, DecodeError>) -> Option<&'static str> {
        None
    }
}

/// Statements that the packets of the library do not enforce; some are left to its connections.
const NOT_ENFORCED: &[(&[&str], &str)] = &[
    (&["MQTT-1.5.4-2"], "strings may hold U+0000"),
    (&["MQTT-1.5.5-1"], "integers may take more bytes than they need"),
    (&["MQTT-2.2.1-3"], "packet identifiers may be 0"),
    (
        &["MQTT-3.1.2-3", "MQTT-3.1.2-11", "MQTT-3.1.2-12", "MQTT-3.1.2-13"],
        "Connect Flags are not compared",
    ),
    (
        &["MQTT-3.2.2-1", "MQTT-3.2.2-6"],
        "Connect Acknowledge Flags are not looked at",
    ),
    (
        &["MQTT-3.3.2-2", "MQTT-3.3.2-14", "MQTT-4.7.0-1"],
        "topic names are not looked at",
    ),
    (
        &["MQTT-4.7.3-1", "MQTT-4.7.3-2", "section 3.3.2.1"],
        "topic names are not looked at",
    ),
    (
        &["MQTT-3.6.1-1", "MQTT-3.8.1-1", "MQTT-3.10.1-1"],
        "fixed header flags are left to the connection",
    ),
    (
        &["MQTT-3.8.3-2", "MQTT-3.9.3-1", "MQTT-3.10.3-2", "MQTT-3.11.3-1"],
        "lists may be empty",
    ),
    (&["MQTT-3.8.3-4"], "No Local is let in on shared subscriptions"),
    (&["MQTT-3.8.3-5"], "reserved subscription options are ignored in 3.1.1"),
    (
        &["MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.8.2-1", "MQTT-4.8.2-2"],
        "topic filters are not looked at",
    ),
    (&["section 3.15.2.2.2"], "AUTH may lack its method"),
];

/// The library frames packets inside its connections only; its packets read a body.
macro_rules! rewrite {
    ($first:expr, $body:expr, $version:ident { $($kind:literal => $packet:ident,)* }) => {
        match $first >> 4 {
            3 => $version::Publish::parse($first & 0x0F, $body.into()).map(|(packet, _)| packet.to_continuous_buffer()),
            // What stands behind the last field is for the caller to see.
            $($kind => match $version::$packet::parse($body)? {
                (packet, len) if len == $body.len() => Ok(packet.to_continuous_buffer()),
                _ => Err(MqttError::MalformedPacket),
            },)*
            _ => Err(MqttError::MalformedPacket),
        }
    };
}

fn rewrite_v3_1_1(first: u8, body: &[u8]) -> Result<Vec<u8>, MqttError> {
    rewrite!(first, body, v3_1_1 {
        1 => Connect,
        2 => Connack,
        4 => Puback,
        5 => Pubrec,
        6 => Pubrel,
        7 => Pubcomp,
        8 => Subscribe,
        9 => Suback,
        10 => Unsubscribe,
        11 => Unsuback,
        12 => Pingreq,
        13 => Pingresp,
        14 => Disconnect,
    })
}

fn rewrite_v5_0(first: u8, body: &[u8]) -> Result<Vec<u8>, MqttError> {
    rewrite!(first, body, v5_0 {
        1 => Connect,
        2 => Connack,
        4 => Puback,
        5 => Pubrec,
        6 => Pubrel,
        7 => Pubcomp,
        8 => Subscribe,
        9 => Suback,
        10 => Unsubscribe,
        11 => Unsuback,
        12 => Pingreq,
        13 => Pingresp,
        14 => Disconnect,
        15 => Auth,
    })
}
