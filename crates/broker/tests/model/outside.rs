//! What is around the broker: connections that deliver in their own time, and a log whose tail a crash may swallow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use broker::{ConnId, Dropped, Full, OwnedMessage, Position, Record, RefusedFilter, Sink};
use mqtt::{Packet, Publish, QoS, ReasonCode};

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) meta: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_cancelled: bool,
    /// Tombstones are from the start: the log forgets them by itself.
    pub(crate) is_released: bool,
}

/// A PUBLISH as it was written to a connection.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    pub(crate) packet_id: u16,
    pub(crate) ids: Vec<u32>,
    pub(crate) alias: Option<u16>,
    pub(crate) expiry_s: Option<u32>,
    pub(crate) at_ms: u64,
}

/// Any other packet, as far as a client looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    ConnAck { present: bool, reason: ReasonCode },
    PubAck(u16, ReasonCode),
    PubRec(u16, ReasonCode),
    PubRel(u16),
    PubComp(u16),
    SubAck,
}

#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) publishes: VecDeque<Sent>,
    pub(crate) replies: VecDeque<(Reply, Position)>,
    pub(crate) has_room: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub(crate) log: Vec<Entry>,
    /// Records before this one have been collected.
    pub(crate) start: usize,
    /// Records before this one are written.
    pub(crate) durable: usize,
    /// The broker is to be told of the next commit.
    pub(crate) is_commit_awaited: bool,
    pub(crate) is_full: bool,
    pub(crate) wires: BTreeMap<u64, Wire>,
    pub(crate) closed: Vec<(u64, ReasonCode)>,
    pub(crate) wills: Vec<OwnedMessage>,
    pub(crate) drops: Vec<Dropped>,
    pub(crate) refused_filters: Vec<RefusedFilter>,
    pub(crate) loads: BTreeSet<Position>,
    pub(crate) now_ms: u64,
    /// Whether to tell what happens: for one sequence that is looked into.
    pub(crate) is_traced: bool,
}

impl Outside {
    fn entry(&mut self, position: Position) -> &mut Entry {
        let entry = &mut self.log[position.0 as usize - 1];
        assert!(
            !entry.is_cancelled && !entry.is_released,
            "{position:?} was given up before"
        );
        entry
    }

    pub(crate) fn trace(&self, what: impl Fn() -> String) {
        if self.is_traced {
            println!("{}", what());
        }
    }

    /// The next reply of a connection, if all that it waits for is safe.
    pub(crate) fn next_reply(&mut self, conn: u64) -> Option<Reply> {
        let wire = self.wires.get_mut(&conn)?;
        let (reply, after) = *wire.replies.front()?;
        let at = after.0 as usize;
        let is_free = at <= self.durable || self.log[at - 1].is_cancelled;
        is_free.then(|| {
            wire.replies.pop_front();
            reply
        })
    }

    pub(crate) fn live_records(&self) -> Vec<&Entry> {
        self.log
            .iter()
            .filter(|entry| !entry.is_cancelled && !entry.is_released)
            .collect()
    }
}

impl Sink for Outside {
    fn has_room(&self, conn: ConnId) -> bool {
        self.wires.get(&conn.0).is_some_and(|wire| wire.has_room)
    }

    fn publish(&mut self, conn: ConnId, publish: &Publish<'_>) {
        let properties = &publish.properties;
        let sent = Sent {
            topic: publish.topic.into(),
            payload: String::from_utf8(publish.payload.into()).expect("digits"),
            qos: publish.qos,
            retain: publish.retain,
            dup: publish.dup,
            packet_id: publish.packet_id.map_or(0, |id| id.get()),
            ids: properties.subscription_ids.to_vec(),
            alias: properties.topic_alias.map(|alias| alias.get()),
            expiry_s: properties.message_expiry_interval_s,
            at_ms: self.now_ms,
        };
        self.wires
            .get_mut(&conn.0)
            .expect("a connection that is there")
            .publishes
            .push_back(sent);
    }

    fn reply(&mut self, conn: ConnId, packet: &Packet<'_>, after: Position) {
        let reply = match packet {
            Packet::ConnAck(it) => Reply::ConnAck {
                present: it.session_present,
                reason: it.reason,
            },
            Packet::PubAck(it) => Reply::PubAck(it.packet_id.get(), it.reason),
            Packet::PubRec(it) => Reply::PubRec(it.packet_id.get(), it.reason),
            Packet::PubRel(it) => Reply::PubRel(it.packet_id.get()),
            Packet::PubComp(it) => Reply::PubComp(it.packet_id.get()),
            Packet::SubAck(_) | Packet::UnsubAck(_) => Reply::SubAck,
            other => panic!("nobody asked for {other:?}"),
        };
        self.wires
            .get_mut(&conn.0)
            .expect("a connection that is there")
            .replies
            .push_back((reply, after));
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
        self.trace(|| format!("log {} {record:?}", self.log.len() + 1));
        self.log.push(Entry {
            meta,
            body,
            is_cancelled: false,
            // A tombstone goes by itself.
            is_released: record.is_tombstone(),
        });
        Ok(Position(self.log.len() as u64))
    }

    /// A session that is known is taken from the reserve.
    fn replace(&mut self, record: &Record<'_>, old: Position) -> Result<Position, Full> {
        let is_full = self.is_full && !matches!(record, Record::Session { .. });
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        let replaced = self.log(record);
        self.is_full = was_full;
        if replaced.is_ok() {
            self.release(old);
        }
        replaced
    }

    fn cancel(&mut self, position: Position) -> bool {
        let in_time = position.0 as usize > self.durable;
        self.trace(|| format!("cancel {position:?} {in_time}"));
        self.entry(position).is_cancelled = in_time;
        in_time
    }

    fn release(&mut self, position: Position) {
        self.trace(|| format!("release {position:?}"));
        let entry = self.entry(position);
        assert!(
            !entry.is_released,
            "{position:?} is released twice: the log would take its file for empty too early"
        );
        entry.is_released = true;
    }

    fn load(&mut self, position: Position) {
        self.entry(position);
        self.loads.insert(position);
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
