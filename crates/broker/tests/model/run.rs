//! One sequence of random operations.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use broker::{Broker, ConnId, Keep, Limits, Now, Position, Published, Received, Record};
use mqtt::{
    Ack, Disconnect, Packet, PacketId, Publish, QoS, ReasonCode, RetainHandling, Subscribe, SubscriptionOptions,
    Unsubscribe, Version,
};

use crate::client::{Client, Due, Unacknowledged};
use crate::outside::{Outside, Reply, Wire};
use crate::reference::{Message, Reference, Sub, is_shared};
use crate::rng::Rng;

pub(crate) const TOPICS: [&str; 6] = ["a", "a/b", "a/b/c", "b", "b/c", "$x/a"];
pub(crate) const FILTERS: [&str; 12] = [
    "a",
    "a/b",
    "#",
    "+",
    "a/#",
    "+/b",
    "a/+/c",
    "b/#",
    "$x/#",
    "$share/g/a/#",
    "$share/h/#",
    "$share/g/b",
];
const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

const START: Now = Now {
    monotonic_ms: 5,
    unix_ms: 1_000_000,
};

pub(crate) struct Run {
    pub(crate) rng: Rng,
    pub(crate) broker: Broker,
    pub(crate) out: Outside,
    pub(crate) now: Now,
    pub(crate) limits: Limits,
    pub(crate) clients: Vec<Client>,
    pub(crate) reference: Reference,
    pub(crate) expected_wills: BTreeSet<u64>,
    pub(crate) expected_closes: BTreeSet<u64>,
    /// Ends of records that are safe together or not at all.
    pub(crate) groups: Vec<usize>,
    /// A session has ended, which has to be safe before the next operation.
    pub(crate) commit_later: bool,
    next_conn: u64,
    next_no: u64,
}

impl Run {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let limits = Limits {
            in_flight: NonZeroU16::new(1 + rng.below(8) as u16).expect("not zero"),
            memory_bytes: rng.pick(&[0, 60, 1 << 20]),
            queue_memory_bytes: rng.pick(&[1, 40, 1 << 20]),
            ..Limits::default()
        };
        let names = [("x", "c0"), ("x", "c1"), ("x", "c2"), ("x", "c3"), ("y", "c0")];
        let clients = names.map(|(owner, name)| {
            let version = if rng.one_in(4) { Version::V311 } else { Version::V5 };
            let mut client = Client::new(owner, name, version, !rng.one_in(3));
            if version == Version::V5 {
                client.receive_maximum = rng.pick(&[1, 2, 5, u16::MAX]);
                client.alias_maximum = rng.pick(&[0, 0, 2]);
            }
            client
        });
        Run {
            rng,
            broker: Broker::new(limits.clone()),
            out: Outside {
                now_ms: START.unix_ms,
                ..Outside::default()
            },
            now: START,
            limits,
            clients: clients.into(),
            reference: Reference::default(),
            expected_wills: BTreeSet::new(),
            expected_closes: BTreeSet::new(),
            groups: Vec::new(),
            commit_later: false,
            next_conn: 1,
            next_no: 1,
        }
    }

    pub(crate) fn step(&mut self) {
        let who = self.rng.below(self.clients.len());
        match self.rng.below(100) {
            0..6 => self.connect(who),
            6..8 => self.disconnect(who),
            8..10 => self.cut(who),
            10..19 => self.subscribe(who),
            19..21 => self.unsubscribe(who),
            21..46 => self.publish_new(who),
            46..72 => self.read(who),
            72..84 => self.acknowledge(who),
            84..86 => self.toggle_room(who),
            86..90 => self.commit_some(),
            90..92 => self.load_one(),
            92..94 => self.pass_time(),
            94 => self.out.is_full = self.rng.one_in(3),
            95 => self.collect(),
            96 => self.send_transient(),
            97 if self.rng.one_in(3) => self.restart(),
            _ => self.read(who),
        }
        self.after();
    }

    fn connect(&mut self, who: usize) {
        if self.out.is_full {
            return;
        }
        let is_v5 = self.clients[who].version == Version::V5;
        let is_clean = self.rng.one_in(4) || (!is_v5 && !self.clients[who].is_lasting);
        let will = self.rng.one_in(3).then(|| {
            let delay_s = if is_v5 { self.rng.pick(&[0, 5]) } else { 0 };
            (self.new_message(None), delay_s)
        });
        self.connect_as(who, is_clean, will);
    }

    pub(crate) fn connect_as(&mut self, who: usize, is_clean: bool, will: Option<(Message, u32)>) {
        let conn = self.next_conn;
        self.next_conn += 1;
        if let Some(old) = self.clients[who].conn {
            self.expected_closes.insert(old);
            self.left(who, true);
        }
        if is_clean {
            self.session_ends(who);
            self.clients[who].forget();
        }
        let client = &mut self.clients[who];
        client.pending_will = None;
        client.will = will;
        client.conn = Some(conn);
        self.out.wires.insert(conn, Wire::default());
        let payload = client
            .will
            .as_ref()
            .map_or(String::new(), |(message, _)| message.no.to_string());
        let connect = client.connect(is_clean, &payload);
        assert!(
            self.broker
                .connect(self.now, ConnId(conn), &connect, client.owner, None, &mut self.out)
        );
        let expiry_s = connect.session_expiry_s();
        let known = self.reference.sessions.contains_key(&who);
        let session = self.reference.sessions.entry(who).or_default();
        (session.expiry_s, session.ended_at_ms) = (expiry_s, None);
        let (reply, _) = self.out.wires[&conn].replies[0];
        assert_eq!(
            reply,
            Reply::ConnAck {
                present: known,
                reason: ReasonCode::Success
            }
        );
        if !known {
            // A client that loses the CONNACK that says so would send old messages again: no server can help that.
            self.clients[who].forget();
        }
        if !known || expiry_s != u32::MAX {
            // What a crash here would do to sessions has tests of its own.
            self.commit_all();
        }
    }

    fn disconnect(&mut self, who: usize) {
        let Some(conn) = self.clients[who].conn else { return };
        let disconnect = Disconnect::new(ReasonCode::Success);
        self.broker
            .disconnect(self.now, ConnId(conn), &disconnect, &mut self.out);
        self.left(who, false);
    }

    fn cut(&mut self, who: usize) {
        let Some(conn) = self.clients[who].conn else { return };
        self.broker.closed(self.now, ConnId(conn), &mut self.out);
        self.left(who, true);
    }

    /// What the end of a connection means.
    pub(crate) fn left(&mut self, who: usize, owes_will: bool) {
        let client = &mut self.clients[who];
        let Some(conn) = client.conn else { return };
        client.cut();
        self.out.wires.remove(&conn);
        if let Some((message, delay_s)) = client.will.take().filter(|_| owes_will) {
            client.pending_will = Some((message, self.now.unix_ms + u64::from(delay_s) * 1000));
        }
        let Some(session) = self.reference.sessions.get_mut(&who) else {
            return;
        };
        session.ended_at_ms = Some(self.now.unix_ms);
        session.unsure_acks = 0;
        session
            .owed
            .values_mut()
            .flatten()
            .filter(|owed| owed.only_on.is_some())
            .for_each(|owed| owed.certain = false);
        if session.expiry_s == 0 {
            self.session_ends(who);
        }
        self.due_wills();
        self.commit_later = true;
    }

    pub(crate) fn session_ends(&mut self, who: usize) {
        if let Some((message, _)) = self.clients[who].pending_will.take() {
            self.expected_wills.insert(message.no);
        }
        self.reference.end(who);
        self.commit_later = true;
    }

    pub(crate) fn due_wills(&mut self) {
        for client in &mut self.clients {
            if client
                .pending_will
                .as_ref()
                .is_some_and(|(_, at_ms)| *at_ms <= self.now.unix_ms)
            {
                self.expected_wills
                    .extend(client.pending_will.take().map(|(message, _)| message.no));
            }
        }
    }

    fn subscribe(&mut self, who: usize) {
        let Some(conn) = self.ready(who).filter(|_| !self.out.is_full) else {
            return;
        };
        let at = self.rng.below(FILTERS.len());
        let (filter, is_v5) = (FILTERS[at], self.clients[who].version == Version::V5);
        if is_shared(filter) && !is_v5 {
            return;
        }
        let options = SubscriptionOptions {
            qos: self.rng.pick(&QOS),
            no_local: is_v5 && !is_shared(filter) && self.rng.one_in(4),
            retain_as_published: is_v5 && self.rng.one_in(3),
            retain_handling: self.rng.pick(&[RetainHandling::Send, RetainHandling::SendIfNew]),
        };
        let id = is_v5.then_some(at as u32 + 1);
        let session = self.reference.sessions.get_mut(&who).expect("connected");
        session.subs.insert(filter, Sub { options, id });
        session.unsure.insert(filter);
        session.unsure_acks += 1;
        if is_shared(filter) {
            session.groups.insert(filter);
        }
        let subscribe = Subscribe {
            subscription_id: id,
            ..Subscribe::new(PacketId::MIN, vec![(filter, options)])
        };
        self.broker
            .subscribe(self.now, ConnId(conn), &subscribe, &mut |_| true, &mut self.out);
    }

    fn unsubscribe(&mut self, who: usize) {
        let Some(conn) = self.ready(who) else { return };
        let filter = self.rng.pick(&FILTERS);
        let session = self.reference.sessions.get_mut(&who).expect("connected");
        session.subs.remove(filter);
        session.unsure.insert(filter);
        session.unsure_acks += 1;
        let unsubscribe = Unsubscribe::new(PacketId::MIN, vec![filter]);
        self.broker
            .unsubscribe(self.now, ConnId(conn), &unsubscribe, &mut self.out);
    }

    /// The connection of a client that has read its CONNACK.
    pub(crate) fn ready(&self, who: usize) -> Option<u64> {
        self.clients[who].conn.filter(|_| self.clients[who].is_ready)
    }

    fn new_message(&mut self, from: Option<usize>) -> Message {
        let no = self.next_no;
        self.next_no += 1;
        let message = Message {
            no,
            topic: self.rng.pick(&TOPICS),
            qos: self.rng.pick(&QOS),
            retain: self.rng.one_in(5),
            from,
            is_withdrawal: false,
            expires_at_ms: None,
            is_transient: false,
        };
        self.reference.messages.insert(no, message.clone());
        message
    }

    fn publish_new(&mut self, who: usize) {
        let Some(_) = self.ready(who).filter(|_| self.clients[who].unacknowledged.len() < 20) else {
            return;
        };
        let mut message = self.new_message(Some(who));
        // Those of lasting clients may be sent again later, with another deadline.
        let client = &self.clients[who];
        if client.version == Version::V5 && !client.is_lasting && !message.retain && self.rng.one_in(3) {
            message.expires_at_ms = Some(self.now.unix_ms + self.rng.pick(&[1, 10]) * 1000);
        }
        message.is_withdrawal = message.retain && self.rng.one_in(4);
        let client = &mut self.clients[who];
        let packet_id = if message.qos == QoS::AtMostOnce {
            0
        } else {
            client.free_packet_id()
        };
        if packet_id != 0 {
            let unacknowledged = Unacknowledged {
                packet_id,
                message: message.clone(),
                is_received: false,
            };
            client.unacknowledged.push_back(unacknowledged);
        }
        self.publish(who, &message, packet_id, false);
    }

    /// The whole way of a PUBLISH, as the hub takes it.
    fn publish(&mut self, who: usize, message: &Message, packet_id: u16, dup: bool) {
        let Some(conn) = self.clients[who].conn.map(ConnId) else {
            return;
        };
        let payload = message.payload();
        let publish = Publish {
            dup,
            packet_id: PacketId::new(packet_id),
            ..self.publish_of(message, &payload)
        };
        let Received::New { alias: None } = self.broker.receive(self.now, conn, &publish, &mut self.out) else {
            return;
        };
        let published = self.route(message, Some(conn), Keep::Always);
        if let Some(packet_id) = publish.packet_id {
            let reason = if published.refused {
                ReasonCode::QuotaExceeded
            } else {
                ReasonCode::Success
            };
            let (now, qos, after) = (self.now, message.qos, published.after);
            self.broker
                .acknowledge(now, conn, packet_id, qos, reason, after, &mut self.out);
        }
    }

    fn publish_of<'a>(&self, message: &Message, payload: &'a str) -> Publish<'a> {
        let mut publish = Publish::new(message.topic, message.qos, None, payload.as_bytes());
        publish.retain = message.retain;
        let left_ms = message
            .expires_at_ms
            .map(|at_ms| at_ms.saturating_sub(self.now.unix_ms));
        publish.properties.message_expiry_interval_s = left_ms.map(|ms| ms.div_ceil(1000) as u32);
        publish
    }

    /// A message that is let in goes its way, in the broker and in the reference.
    pub(crate) fn route(&mut self, message: &Message, from: Option<ConnId>, keep: Keep) -> Published {
        let payload = message.payload();
        let publish = self.publish_of(message, &payload);
        let conns: BTreeMap<usize, u64> = (0..)
            .zip(&self.clients)
            .filter_map(|(who, client)| Some((who, client.conn?)))
            .collect();
        let with_room: BTreeSet<u64> = self
            .out
            .wires
            .iter()
            .filter(|(_, wire)| wire.has_room)
            .map(|(conn, _)| *conn)
            .collect();
        let passing = broker::Message {
            publish: &publish,
            from,
            addressee: None,
            keep,
        };
        let published = self.broker.publish(self.now, &passing, &mut self.out);
        self.out.trace(|| format!("{message:?} {published:?}"));
        if published.refused && message.qos == QoS::ExactlyOnce {
            return published;
        }
        for (who, owed) in self.reference.route(message, published.refused, &conns) {
            let at_once = conns.get(&who).filter(|conn| with_room.contains(conn));
            if let Some(conn) = at_once.filter(|_| owed.qos == QoS::AtMostOnce) {
                let is_it = |sent: &&crate::outside::Sent| sent.payload == payload && sent.ids == owed.ids;
                let count = self.out.wires[conn].publishes.iter().filter(is_it).count();
                assert!(count >= 1, "message {} did not reach client {who} at QoS 0", message.no);
            }
        }
        published
    }

    fn read(&mut self, who: usize) {
        let Some(conn) = self.clients[who].conn else { return };
        let prefers_reply = self.rng.one_in(2) || !self.clients[who].is_ready;
        if prefers_reply && let Some(reply) = self.out.next_reply(conn) {
            return self.take_reply(who, conn, reply);
        }
        let wire = self.out.wires.get_mut(&conn).expect("connected");
        if let Some(sent) = wire.publishes.pop_front() {
            assert!(self.clients[who].is_ready, "a message came before CONNACK");
            self.take_publish(who, conn, &sent);
        }
    }

    fn take_reply(&mut self, who: usize, conn: u64, reply: Reply) {
        self.out.trace(|| format!("client {who} reads {reply:?}"));
        let client = &mut self.clients[who];
        assert_eq!(
            client.is_ready,
            !matches!(reply, Reply::ConnAck { .. }),
            "CONNACK comes first, and once"
        );
        match reply {
            Reply::ConnAck { present, .. } => self.take_connack(who, conn, present),
            Reply::PubAck(packet_id, reason) | Reply::PubRec(packet_id, reason) if reason.is_error() => {
                client.unacknowledged.retain(|other| other.packet_id != packet_id);
            }
            Reply::PubAck(packet_id, _) => {
                let at = client
                    .unacknowledged
                    .iter()
                    .position(|other| other.packet_id == packet_id);
                let done = client
                    .unacknowledged
                    .remove(at.expect("an answer to a question"))
                    .expect("just found");
                assert_eq!(done.message.qos, QoS::AtLeastOnce);
                self.reference.acknowledged(done.message.no);
            }
            Reply::PubRec(packet_id, _) => {
                let mut open = client.unacknowledged.iter_mut();
                let open = open
                    .find(|other| other.packet_id == packet_id)
                    .expect("an answer to a question");
                open.is_received = true;
                self.reference.acknowledged(open.message.no);
                self.send(conn, &Packet::PubRel(ack(packet_id)));
            }
            Reply::PubComp(packet_id) => client.unacknowledged.retain(|other| other.packet_id != packet_id),
            Reply::PubRel(packet_id) => {
                client.held.remove(&packet_id);
                client.due.push(Due::Complete(packet_id));
            }
            Reply::SubAck => {
                let session = self.reference.sessions.get_mut(&who).expect("connected");
                session.unsure_acks -= 1;
                if session.unsure_acks == 0 {
                    session.unsure.clear();
                }
            }
        }
    }

    fn take_connack(&mut self, who: usize, conn: u64, present: bool) {
        let client = &mut self.clients[who];
        client.is_ready = true;
        if !present {
            client.forget();
        }
        self.out.wires.get_mut(&conn).expect("connected").has_room = true;
        self.broker.writable(self.now, ConnId(conn), &mut self.out);
        for open in self.clients[who].unacknowledged.clone() {
            if open.is_received {
                self.send(conn, &Packet::PubRel(ack(open.packet_id)));
            } else {
                self.publish(who, &open.message, open.packet_id, true);
            }
        }
    }

    fn acknowledge(&mut self, who: usize) {
        let Some(conn) = self.ready(who).filter(|_| !self.clients[who].due.is_empty()) else {
            return;
        };
        let client = &mut self.clients[who];
        let at = if self.rng.one_in(3) {
            self.rng.below(client.due.len())
        } else {
            0
        };
        let packet = match client.due.remove(at) {
            Due::Received(packet_id) => Packet::PubRec(ack(packet_id)),
            Due::Ack(packet_id) => {
                client.in_flight.remove(&packet_id);
                Packet::PubAck(ack(packet_id))
            }
            Due::Complete(packet_id) => {
                client.in_flight.remove(&packet_id);
                Packet::PubComp(ack(packet_id))
            }
        };
        self.send(conn, &packet);
    }

    fn send(&mut self, conn: u64, packet: &Packet<'_>) {
        self.broker.handle(self.now, ConnId(conn), packet, &mut self.out);
    }

    pub(crate) fn open(&mut self, who: usize) {
        let Some(conn) = self.ready(who) else { return };
        self.out.wires.get_mut(&conn).expect("connected").has_room = true;
        self.broker.writable(self.now, ConnId(conn), &mut self.out);
    }

    pub(crate) fn read_and_acknowledge(&mut self, who: usize) {
        for _ in 0..4 {
            self.read(who);
            self.acknowledge(who);
        }
    }

    fn toggle_room(&mut self, who: usize) {
        let Some(conn) = self.ready(who) else { return };
        let wire = self.out.wires.get_mut(&conn).expect("connected");
        wire.has_room = !wire.has_room;
        if wire.has_room {
            self.broker.writable(self.now, ConnId(conn), &mut self.out);
        }
    }

    fn commit_some(&mut self) {
        let next: Vec<usize> = self
            .groups
            .iter()
            .copied()
            .filter(|end| *end > self.out.durable)
            .collect();
        if !next.is_empty() {
            let end = self.rng.pick(&next);
            self.commit(end);
        }
    }

    pub(crate) fn commit_all(&mut self) {
        self.commit(self.out.log.len());
    }

    fn commit(&mut self, end: usize) {
        self.out.trace(|| format!("commit {end}"));
        self.out.durable = end;
        self.groups.retain(|other| *other > end);
        self.broker.durable(self.now, Position(end as u64), &mut self.out);
    }

    fn load_one(&mut self) {
        let Some(position) = self.out.loads.pop_first() else {
            return;
        };
        let body = self.out.log[position.0 as usize - 1].body.clone();
        self.broker.loaded(self.now, position, Some(&body), &mut self.out);
    }

    pub(crate) fn load_all(&mut self) {
        while !self.out.loads.is_empty() {
            self.load_one();
        }
    }

    fn pass_time(&mut self) {
        let ms = self.rng.pick(&[1, 999, 3_000, 6_000, 120_000]);
        self.advance(ms);
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.unix_ms += ms;
        self.out.now_ms = self.now.unix_ms;
        self.due_wills();
        for who in 0..self.clients.len() {
            let Some(session) = self.reference.sessions.get(&who) else {
                continue;
            };
            let ends = session.ended_at_ms.filter(|_| session.expiry_s != u32::MAX);
            if ends.is_some_and(|at_ms| at_ms + u64::from(session.expiry_s) * 1000 <= self.now.unix_ms) {
                self.session_ends(who);
            }
        }
        self.broker.tick(self.now, &mut self.out);
    }

    /// The log takes the place of its oldest records back.
    fn collect(&mut self) {
        self.commit_all();
        let end = self.out.start + self.rng.below(self.out.durable - self.out.start + 1);
        for at in self.out.start..end {
            let entry = &self.out.log[at];
            if entry.is_cancelled || entry.is_released {
                continue;
            }
            let (meta, body) = (entry.meta.clone(), entry.body.clone());
            let record = Record::decode(&meta, &body).expect("what was logged");
            if self
                .broker
                .relocate(self.now, Position(at as u64 + 1), &record, &mut self.out)
                .is_err()
            {
                return;
            }
            assert!(self.out.log[at].is_released);
        }
        self.commit_all();
        self.out.start = end;
    }

    /// The hub sends a message that is for sessions connected now alone.
    fn send_transient(&mut self) {
        let message = Message {
            is_transient: true,
            retain: false,
            ..self.new_message(None)
        };
        self.route(
            &message,
            None,
            Keep::Never {
                until_ms: self.now.monotonic_ms + 10_000,
            },
        );
    }
}

pub(crate) fn ack(packet_id: u16) -> Ack<'static> {
    Ack::new(PacketId::new(packet_id).expect("not zero"), ReasonCode::Success)
}
