//! One sequence of random operations.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use broker::{Broker, ConnId, Limits, Now, QueuePolicy, RefusedFilter};
use mqtt::{
    Connect, Disconnect, PacketId, QoS, ReasonCode, RetainHandling, Subscribe, SubscriptionOptions, Unsubscribe,
    Version,
};

use crate::client::Client;
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
        let is_narrow = rng.one_in(3);
        let memory_bytes = rng.pick(&[0, 60, 1 << 20]);
        let limits = Limits {
            queue_messages: if is_narrow { 3 } else { usize::MAX },
            queue_policy: QueuePolicy::Refuse,
            in_flight: NonZeroU16::new(1 + rng.below(8) as u16).expect("not zero"),
            memory_bytes,
            queue_memory_bytes: rng.pick(&[1, 40, 1 << 20]),
            subscription_bytes: rng.pick(&[4_000, u64::MAX]),
            ..Limits::default()
        };
        let names = [("x", "c0"), ("x", "c1"), ("x", "c2"), ("x", "c3"), ("y", "c0")];
        let clients = names.map(|(owner, name)| {
            let version = if rng.one_in(4) { Version::V311 } else { Version::V5 };
            let mut client = Client::new(owner, name, version, !rng.one_in(3));
            if version == Version::V5 {
                client.receive_maximum = rng.pick(&[1, 2, 5, u16::MAX]);
                client.alias_maximum = rng.pick(&[0, 0, 2]);
                client.expiry_s = rng.pick(&[100, u32::MAX]);
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
            reference: Reference {
                is_narrow,
                is_short_of_memory: memory_bytes < 1 << 20,
                bytes_of: bytes_of_filters(),
                ..Reference::default()
            },
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
            97 if self.rng.one_in(2) => self.restart(),
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
        let changes_will = will.is_some() || client.pending_will.is_some();
        client.pending_will = None;
        client.will = will;
        client.conn = Some(conn);
        self.out.wires.insert(conn, Wire::default());
        let payload = client
            .will
            .as_ref()
            .map_or(String::new(), |(message, _)| message.no.to_string());
        let connect = client.connect(is_clean, &payload);
        self.broker
            .connect(self.now, ConnId(conn), &connect, client.owner, None, &mut self.out);
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
        if !known || expiry_s != u32::MAX || changes_will {
            // What a crash here would do to sessions and wills has tests of its own.
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
        let will = client.will.take();
        self.commit_later |= will.is_some();
        if let Some((message, delay_s)) = will.filter(|_| owes_will) {
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
        self.commit_later |= self
            .reference
            .sessions
            .get(&who)
            .is_some_and(|session| session.expiry_s != u32::MAX);
        self.due_wills();
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
                self.commit_later = true;
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
        let room = self.limits.subscription_bytes;
        let is_granted = self.reference.subscribe(who, filter, Sub { options, id }, room);
        let subscribe = Subscribe {
            subscription_id: id,
            ..Subscribe::new(PacketId::MIN, vec![(filter, options)])
        };
        self.broker
            .subscribe(self.now, ConnId(conn), &subscribe, &mut |_| true, &mut self.out);
        let expected = if is_granted {
            vec![]
        } else {
            vec![RefusedFilter::TenantFull]
        };
        assert_eq!(std::mem::take(&mut self.out.refused_filters), expected);
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

    pub(crate) fn new_message(&mut self, from: Option<usize>) -> Message {
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
}

/// What a broker counts a subscription to each filter as, where it is the only one.
fn bytes_of_filters() -> BTreeMap<&'static str, u64> {
    let weigh = |filter: &'static str| {
        let (mut broker, mut out, conn) = (Broker::new(Limits::default()), Outside::default(), ConnId(0));
        out.wires.insert(0, Wire::default());
        broker.connect(START, conn, &Connect::new(Version::V5, "c"), "x", None, &mut out);
        let subscribe = Subscribe::new(PacketId::MIN, vec![(filter, SubscriptionOptions::default())]);
        broker.subscribe(START, conn, &subscribe, &mut |_| true, &mut out);
        (filter, broker.statistics().subscription_bytes)
    };
    FILTERS.map(weigh).into()
}
