//! Messages on their way through the broker: borrowed while they pass, owned where they must wait.

use std::borrow::Cow;
use std::sync::Arc;

use mqtt::{Packet, Publish, QoS, ReasonCode, Version};

use crate::{ConnId, Position};

/// A message to be delivered to all that subscribed to its topic.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Topic (never empty), payload, properties, QoS and retain flag as published; packet identifier and DUP are
    /// ignored.
    pub publish: &'a Publish<'a>,
    /// The connection that published it, for No Local; `None` for the hub itself, and wills.
    pub from: Option<ConnId>,
    /// Owners of whom [`Published::addressee_reached`] is to tell.
    pub addressees: &'a [&'a str],
    /// How long it is kept where it cannot be delivered at once.
    pub keep: Keep,
}

/// How long a message is kept where it cannot be delivered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As MQTT asks: persistent sessions and retained messages outlast a crash.
    Always,
    /// In memory only: lost with the process, never logged.
    Memory,
    /// Only for sessions that are connected now; dies with the connection and at `until_ms` (monotonic). Never
    /// logged, sent again or retained.
    Never {
        /// Deadline on the monotonic clock.
        until_ms: u64,
    },
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Sessions that get it, now or later.
    pub sessions: usize,
    /// Whether one of them is connected and belongs to one of [`Message::addressees`].
    pub addressee_reached: bool,
    /// What must be durable before the publisher is told that it is safe; zero if nothing was promised.
    pub after: Position,
    /// The log was full, or a queue under [`QueuePolicy::Refuse`](crate::QueuePolicy::Refuse):
    /// [`ReasonCode::QuotaExceeded`] for [`Broker::acknowledge`](crate::Broker::acknowledge).
    pub refused: bool,
}

impl Published {
    /// The outcome for the publisher: Success, No matching subscribers or Quota exceeded.
    pub fn reason(&self) -> ReasonCode {
        match (self.refused, self.sessions) {
            (true, _) => ReasonCode::QuotaExceeded,
            (false, 0) => ReasonCode::NoMatchingSubscribers,
            (false, _) => ReasonCode::Success,
        }
    }
}

/// What the session says of a PUBLISH that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is new. Where it came with an empty topic, `alias` holds the topic that its Topic Alias stands for.
    New {
        /// The topic, if the packet's is empty.
        alias: Option<Arc<str>>,
    },
    /// Nothing is left to do: it was a duplicate or refused, and has been answered.
    Answered,
}

/// A message that waits: the body of a version 5 PUBLISH in one shared allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedMessage {
    qos: QoS,
    retain: bool,
    body: Arc<[u8]>,
}

impl OwnedMessage {
    pub(crate) fn new(publish: &Publish<'_>) -> OwnedMessage {
        let mut body = Vec::new();
        encode_body(publish, &mut body);
        OwnedMessage {
            qos: publish.qos,
            retain: publish.retain,
            body: body.into(),
        }
    }

    /// The message of which the log has these parts; `None` if they are none.
    pub(crate) fn from_parts(qos: QoS, retain: bool, body: &[u8]) -> Option<OwnedMessage> {
        decode_body(body)?;
        let body = body.into();
        Some(OwnedMessage { qos, retain, body })
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The message as it would have arrived, without packet identifier and DUP.
    pub fn publish(&self) -> Publish<'_> {
        let publish = decode_body(&self.body).expect("it was made of a well-formed one");
        Publish {
            qos: self.qos,
            retain: self.retain,
            ..publish
        }
    }
}

/// First byte of a PUBLISH of QoS 0: in the body of a message that waits, nothing depends on who gets it.
const FIRST: u8 = 0x30;
/// A PUBLISH that is all body has a fixed header of one byte and a length of one to four.
const LONGEST_HEADER: usize = 5;

/// Appends the message as a PUBLISH of version 5 without its fixed header.
pub(crate) fn encode_body(publish: &Publish<'_>, out: &mut Vec<u8>) {
    let mut properties = publish.properties.clone();
    properties.topic_alias = None;
    properties.subscription_ids = Cow::Borrowed(&[]);
    let bare = Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        packet_id: None,
        properties,
        ..*publish
    };
    let start = out.len();
    Packet::Publish(bare).encode(Version::V5, out);
    let header_len = 1
        + out[start + 1..]
            .iter()
            .take(LONGEST_HEADER - 1)
            .take_while(|byte| **byte >= 0x80)
            .count()
        + 1;
    out.drain(start..start + header_len);
}

/// The message of such bytes; `None` if they are none.
pub(crate) fn decode_body(body: &[u8]) -> Option<Publish<'_>> {
    match Packet::decode(FIRST, body, Version::V5) {
        Ok(Packet::Publish(publish)) => Some(publish),
        _ => None,
    }
}
