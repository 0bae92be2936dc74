//! A client that keeps to the standard, at a pace that the random operations set.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use mqtt::{Connect, QoS, Version, Will};

use crate::reference::Message;

/// What it has published and must not forget.
#[derive(Clone, Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) packet_id: u16,
    pub(crate) message: Message,
    /// PUBREC has come.
    pub(crate) is_received: bool,
}

/// An acknowledgement that it owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// PUBACK.
    Ack(u16),
    /// PUBREC.
    Received(u16),
    /// PUBCOMP.
    Complete(u16),
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) owner: &'static str,
    pub(crate) name: &'static str,
    pub(crate) version: Version,
    pub(crate) is_lasting: bool,
    /// Seconds that its session outlives the connection, if it is to.
    pub(crate) expiry_s: u32,
    pub(crate) receive_maximum: u16,
    pub(crate) alias_maximum: u16,
    pub(crate) conn: Option<u64>,
    /// CONNACK has been read.
    pub(crate) is_ready: bool,
    pub(crate) unacknowledged: VecDeque<Unacknowledged>,
    /// QoS 2 packet identifiers between PUBLISH and PUBREL.
    pub(crate) held: BTreeSet<u16>,
    pub(crate) due: Vec<Due>,
    /// Packet identifiers sent to it on this connection that are still in use.
    pub(crate) in_flight: BTreeSet<u16>,
    pub(crate) aliases: BTreeMap<u16, String>,
    /// Number, topic, delay of the will of this connection.
    pub(crate) will: Option<(Message, u32)>,
    /// A will whose delay runs: when it is due.
    pub(crate) pending_will: Option<(Message, u64)>,
    pub(crate) last_packet_id: u16,
}

impl Client {
    pub(crate) fn new(owner: &'static str, name: &'static str, version: Version, is_lasting: bool) -> Self {
        Client {
            owner,
            name,
            version,
            is_lasting,
            expiry_s: u32::MAX,
            receive_maximum: u16::MAX,
            alias_maximum: 0,
            conn: None,
            is_ready: false,
            unacknowledged: VecDeque::new(),
            held: BTreeSet::new(),
            due: Vec::new(),
            in_flight: BTreeSet::new(),
            aliases: BTreeMap::new(),
            will: None,
            pending_will: None,
            last_packet_id: 0,
        }
    }

    pub(crate) fn connect<'a>(&'a self, clean_start: bool, payload: &'a str) -> Connect<'a> {
        let is_v5 = self.version == Version::V5;
        Connect {
            clean_start: clean_start || (!is_v5 && !self.is_lasting),
            session_expiry_interval_s: (is_v5 && self.is_lasting).then_some(self.expiry_s),
            receive_maximum: if is_v5 {
                NonZeroU16::new(self.receive_maximum)
            } else {
                None
            },
            topic_alias_maximum: self.alias_maximum,
            will: self.will.as_ref().map(|(message, delay_interval_s)| Will {
                qos: message.qos,
                retain: message.retain,
                delay_interval_s: *delay_interval_s,
                ..Will::new(message.topic, payload.as_bytes())
            }),
            ..Connect::new(self.version, self.name)
        }
    }

    /// The connection is gone, and all that was tied to it.
    pub(crate) fn cut(&mut self) {
        self.conn = None;
        self.is_ready = false;
        self.due.clear();
        self.in_flight.clear();
        self.aliases.clear();
    }

    /// The server has no session for it: what it remembered is void.
    pub(crate) fn forget(&mut self) {
        self.unacknowledged.clear();
        self.held.clear();
    }

    pub(crate) fn free_packet_id(&mut self) -> u16 {
        loop {
            self.last_packet_id = self.last_packet_id % 40 + 1;
            if self
                .unacknowledged
                .iter()
                .all(|other| other.packet_id != self.last_packet_id)
            {
                return self.last_packet_id;
            }
        }
    }

    /// A PUBLISH of QoS 1 or 2 has come; true if its message is new to the application.
    pub(crate) fn takes(&mut self, qos: QoS, packet_id: u16) -> bool {
        if self.in_flight.insert(packet_id) {
            assert!(
                self.in_flight.len() <= usize::from(self.receive_maximum),
                "more in flight than it receives"
            );
        }
        match qos {
            QoS::AtMostOnce => unreachable!("has no packet identifier"),
            QoS::AtLeastOnce => {
                self.due.push(Due::Ack(packet_id));
                true
            }
            QoS::ExactlyOnce => {
                self.due.push(Due::Received(packet_id));
                self.held.insert(packet_id)
            }
        }
    }
}
