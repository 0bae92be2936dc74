//! `rmqtt-codec`.

use std::num::NonZeroU16;

use bytes::BytesMut;
use mqtt::{Connect, DecodeError, Packet, Version};
use rmqtt_codec::{v3, v5};
use tokio_util::codec::{Decoder, Encoder};

use crate::{Oracle, reason_of};

pub(crate) struct Rmqtt;

impl Oracle for Rmqtt {
    fn rewrite(&self, bytes: &[u8], version: Version) -> Option<Result<Vec<u8>, String>> {
        Some(match version {
            Version::V5 => rewrite(v5::Codec::new(0, 0), bytes),
            Version::V31 | Version::V311 => rewrite(v3::Codec::new(0), bytes),
        })
    }

    fn stricter(&self, packet: &Packet<'_>, version: Version) -> Option<&'static str> {
        match packet {
            Packet::Connect(connect) if connect.client_id.is_empty() && !connect.clean_start => Some(
                "an empty client identifier that wants its session is refused by the codec, ours leaves it to the server",
            ),
            Packet::Publish(publish) if publish.properties.message_expiry_interval_s == Some(0) => Some(NO_EXPIRY_OF_0),
            Packet::Connect(connect) if will_expiry(connect) == Some(0) => Some(NO_EXPIRY_OF_0),
            _ if version == Version::V31 => {
                Some("3.1 is read by the rules of 3.1.1: no DUP but in PUBLISH, no unused bits")
            }
            _ => None,
        }
    }

    fn laxer(&self, error: &DecodeError) -> Option<&'static str> {
        reason_of(NOT_ENFORCED, error)
    }

    fn different(&self, ours: &Packet<'_>, theirs: &Result<Packet<'_>, DecodeError>) -> Option<&'static str> {
        match (ours, theirs) {
            (_, Ok(theirs)) => (with_defaults(ours) == with_defaults(theirs)).then_some(DEFAULTS_LEFT_OUT),
            (Packet::Connect(ours), Err(_)) if ours.version == Version::V31 => {
                Some("a CONNECT of 3.1 is written with the level of 3.1.1")
            }
            (Packet::Auth(ours), Err(_)) if ours.authentication_method.is_none() => {
                Some("an AUTH without content is written with empty properties, which lack the method")
            }
            _ => None,
        }
    }
}

const NO_EXPIRY_OF_0: &str = "a Message Expiry Interval of 0 is refused; section 3.3.2.3.3 allows it";
const DEFAULTS_LEFT_OUT: &str = "a property at its default is not written";

/// Statements that the codec does not enforce.
const NOT_ENFORCED: &[(&[&str], &str)] = &[
    (&["MQTT-1.5.4-2"], "strings may hold U+0000"),
    (
        &["MQTT-3.1.2-2"],
        "MQTT and MQIsdp may each come with the other's level",
    ),
    (&["MQTT-1.5.5-1"], "integers may take more bytes than they need"),
    (&["section 2.1.4"], "bytes behind the last field are ignored"),
    (
        &["MQTT-3.1.2-11", "MQTT-3.1.2-13"],
        "flags of a will may be set without one in version 5",
    ),
    (&["MQTT 3.1.1 MQTT-3.1.2-22"], "a password may come without a user name"),
    (
        &["MQTT-3.2.2-6", "MQTT 3.1.1 section 3.2.2.3"],
        "CONNACK may have a session with a refusal, and reserved return codes",
    ),
    (&["MQTT-3.3.1-2"], "DUP may be set at QoS 0"),
    (
        &["MQTT-3.3.2-2", "MQTT-3.3.2-14", "MQTT-4.7.0-1"],
        "topic names are not looked at",
    ),
    (
        &["MQTT-4.7.3-1", "MQTT-4.7.3-2", "section 3.3.2.1"],
        "topic names are not looked at",
    ),
    (
        &["MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.8.2-1", "MQTT-4.8.2-2"],
        "topic filters are not looked at",
    ),
    (&["MQTT-3.8.3-4"], "No Local is let in on shared subscriptions"),
    (&["MQTT-3.8.3-5"], "reserved subscription options are ignored"),
    (
        &["MQTT-3.9.3-1", "MQTT-3.11.3-1"],
        "SUBACK and UNSUBACK may answer nothing",
    ),
    (&["section 3.1.2.11.4"], "Maximum Packet Size may be 0"),
    (
        &["section 3.1.2.11.10", "section 3.15.2.2.2"],
        "an authentication method may be missing",
    ),
];

fn will_expiry(connect: &Connect<'_>) -> Option<u32> {
    connect
        .will
        .as_ref()
        .and_then(|will| will.properties.message_expiry_interval_s)
}

/// The packet with the defaults of its properties said.
fn with_defaults<'a>(packet: &Packet<'a>) -> Packet<'a> {
    let mut packet = packet.clone();
    match &mut packet {
        Packet::Connect(connect) => {
            connect.session_expiry_interval_s.get_or_insert(0);
        }
        Packet::ConnAck(connack) => {
            connack.receive_maximum.get_or_insert(NonZeroU16::MAX);
            connack.retain_available.get_or_insert(true);
            connack.wildcard_subscription_available.get_or_insert(true);
            connack.subscription_ids_available.get_or_insert(true);
            connack.shared_subscription_available.get_or_insert(true);
        }
        _ => {}
    }
    packet
}

fn rewrite<C, P>(mut codec: C, bytes: &[u8]) -> Result<Vec<u8>, String>
where
    C: Decoder<Item = (P, u32)> + Encoder<P>,
    <C as Decoder>::Error: std::fmt::Debug,
    <C as Encoder<P>>::Error: std::fmt::Debug,
{
    let decoded = codec
        .decode(&mut BytesMut::from(bytes))
        .map_err(|error| format!("{error:?}"))?;
    let (packet, _) = decoded.ok_or("is not a whole packet")?;
    let mut rewritten = BytesMut::new();
    codec
        .encode(packet, &mut rewritten)
        .map_err(|error| format!("cannot write it: {error:?}"))?;
    Ok(rewritten.to_vec())
}
