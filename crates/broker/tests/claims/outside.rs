//! All that a broker asks for, remembered; packets in words.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use broker::{ConnId, Dropped, Full, OwnedMessage, Position, Record, RefusedFilter, Sink};
use mqtt::{Ack, ConnAck, Packet, Publish, QoS, ReasonCode};

/// One record of the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) meta: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_cancelled: bool,
    /// Tombstones are from the start: the log forgets them by itself.
    pub(crate) is_released: bool,
}

/// All that a broker asked for.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// What each connection got, in words.
    pub(crate) got: BTreeMap<u64, Vec<String>>,
    pub(crate) closed: Vec<(u64, ReasonCode)>,
    pub(crate) wills: Vec<OwnedMessage>,
    pub(crate) drops: Vec<Dropped>,
    pub(crate) refused_filters: Vec<RefusedFilter>,
    pub(crate) log: Vec<Entry>,
    /// Records up to here are written; later ones may still be taken back.
    pub(crate) durable: usize,
    /// The broker is to be told of the next commit.
    pub(crate) is_commit_awaited: bool,
    pub(crate) is_full: bool,
    pub(crate) loads: Vec<Position>,
    pub(crate) without_room: BTreeSet<u64>,
    /// The position that the last reply waits for.
    pub(crate) last_after: Position,
}

impl Sink for Outside {
    fn has_room(&self, conn: ConnId) -> bool {
        !self.without_room.contains(&conn.0)
    }

    fn publish(&mut self, conn: ConnId, publish: &Publish<'_>) {
        self.got.entry(conn.0).or_default().push(in_words(publish));
    }

    fn reply(&mut self, conn: ConnId, packet: &Packet<'_>, after: Position) {
        self.last_after = after;
        self.got.entry(conn.0).or_default().push(reply_in_words(packet));
    }

    fn close(&mut self, conn: ConnId, reason: ReasonCode) {
        self.closed.push((conn.0, reason));
    }

    fn durable(&self) -> Position {
        Position(self.durable as u64)
    }

    fn await_commit(&mut self) {
        self.is_commit_awaited = true;
    }

    fn log(&mut self, record: &Record<'_>) -> Result<Position, Full> {
        if self.is_full && !record.frees_space() {
            return Err(Full);
        }
        let mut meta = Vec::new();
        let body = record.encode(&mut meta).to_vec();
        self.log.push(Entry {
            meta,
            body,
            is_cancelled: false,
            // A tombstone goes by itself.
            is_released: record.is_tombstone(),
        });
        Ok(Position(self.log.len() as u64))
    }

    fn cancel(&mut self, position: Position) -> bool {
        let at = position.0 as usize - 1;
        let in_time = at >= self.durable;
        assert!(
            !self.log[at].is_cancelled && !self.log[at].is_released,
            "{position:?} is given up twice"
        );
        self.log[at].is_cancelled |= in_time;
        in_time
    }

    fn release(&mut self, position: Position) {
        let entry = &mut self.log[position.0 as usize - 1];
        assert!(
            !entry.is_cancelled && !entry.is_released,
            "{position:?} is given up twice"
        );
        entry.is_released = true;
    }

    fn load(&mut self, position: Position) {
        let entry = &self.log[position.0 as usize - 1];
        assert!(
            !entry.is_cancelled && !entry.is_released,
            "{position:?} is read after it was given up"
        );
        self.loads.push(position);
    }

    fn will(&mut self, will: OwnedMessage) {
        self.wills.push(will);
    }

    fn dropped(&mut self, why: Dropped) {
        self.drops.push(why);
    }

    fn refused_filter(&mut self, why: RefusedFilter) {
        self.refused_filters.push(why);
    }
}

pub(crate) fn in_words(publish: &Publish<'_>) -> String {
    let payload = String::from_utf8_lossy(publish.payload);
    let mut words = format!("{}={payload}", publish.topic);
    let mut add = |is_there: bool, word: String| {
        if is_there {
            words.push(' ');
            words.push_str(&word);
        }
    };
    add(publish.qos > QoS::AtMostOnce, format!("qos{}", publish.qos as u8));
    add(
        publish.packet_id.is_some(),
        format!("id{}", publish.packet_id.map_or(0, NonZeroU16::get)),
    );
    add(publish.dup, "dup".into());
    add(publish.retain, "retain".into());
    let properties = &publish.properties;
    let ids = &properties.subscription_ids;
    add(!ids.is_empty(), format!("sub{ids:?}"));
    add(
        properties.topic_alias.is_some(),
        format!("alias{}", properties.topic_alias.map_or(0, NonZeroU16::get)),
    );
    let expiry = properties.message_expiry_interval_s;
    add(expiry.is_some(), format!("expires{}", expiry.unwrap_or(0)));
    words
}

fn reply_in_words(packet: &Packet<'_>) -> String {
    let ack = |name: &str, ack: &Ack<'_>| match ack.reason {
        ReasonCode::Success => format!("{name} {}", ack.packet_id),
        reason => format!("{name} {} {reason:?}", ack.packet_id),
    };
    match packet {
        Packet::ConnAck(connack) if connack.reason.is_error() => format!("CONNACK {:?}", connack.reason),
        Packet::ConnAck(connack) => connack_in_words(connack),
        Packet::PubAck(it) => ack("PUBACK", it),
        Packet::PubRec(it) => ack("PUBREC", it),
        Packet::PubRel(it) => ack("PUBREL", it),
        Packet::PubComp(it) => ack("PUBCOMP", it),
        Packet::SubAck(suback) => format!("SUBACK {:?}", suback.reasons),
        Packet::UnsubAck(unsuback) => format!("UNSUBACK {:?}", unsuback.reasons),
        Packet::PingResp => "PINGRESP".into(),
        other => format!("{other:?}"),
    }
}

fn connack_in_words(connack: &ConnAck<'_>) -> String {
    let mut words = String::from(if connack.session_present {
        "CONNACK present"
    } else {
        "CONNACK"
    });
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push_str(&format!(" {name}={value}"));
        }
    };
    add("responses", connack.response_information.map(str::to_owned));
    add(
        "expiry",
        connack.session_expiry_interval_s.map(|value| value.to_string()),
    );
    add("keep_alive", connack.server_keep_alive_s.map(|value| value.to_string()));
    add("assigned", connack.assigned_client_id.map(String::from));
    words
}
