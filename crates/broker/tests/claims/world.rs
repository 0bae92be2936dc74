//! A world for a broker: connections that take what they are given, a log in memory, a clock that is told the time.

use broker::{
    Broker, ConnId, Dropped, Limits, Message, Now, Position, Published, Received, Record, Recovery, RefusedFilter,
};
use mqtt::{
    Ack, Connect, Packet, PacketId, Publish, QoS, ReasonCode, Subscribe, SubscriptionOptions, Unsubscribe, Version,
};

use crate::outside::{Outside, in_words};

/// A broker and all around it.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) out: Outside,
    pub(crate) now: Now,
    pub(crate) limits: Limits,
}

/// Tests may not depend on where the clocks start.
const START: Now = Now {
    monotonic_ms: 7_000,
    unix_ms: 1_700_000_000_000,
};

impl Default for World {
    fn default() -> Self {
        World::with(Limits::default())
    }
}

/// CONNECT of version 5 with a session that ends with the connection.
pub(crate) fn clean(client_id: &str) -> Connect<'_> {
    Connect::new(Version::V5, client_id)
}

/// CONNECT of version 5 with a session that stays for ten minutes.
pub(crate) fn lasting(client_id: &str) -> Connect<'_> {
    Connect {
        clean_start: false,
        session_expiry_interval_s: Some(600),
        ..clean(client_id)
    }
}

/// A PUBLISH; its packet identifier is 1 where it needs one.
pub(crate) fn message<'a>(topic: &'a str, payload: &'a str, qos: u8) -> Publish<'a> {
    let packet_id = (qos > 0).then_some(PacketId::MIN);
    Publish::new(topic, qos_of(qos), packet_id, payload.as_bytes())
}

pub(crate) fn retained<'a>(topic: &'a str, payload: &'a str, qos: u8) -> Publish<'a> {
    Publish {
        retain: true,
        ..message(topic, payload, qos)
    }
}

pub(crate) fn qos_of(qos: u8) -> QoS {
    [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][usize::from(qos)]
}

pub(crate) fn id(packet_id: u16) -> PacketId {
    PacketId::new(packet_id).expect("not zero")
}

impl World {
    pub(crate) fn with(limits: Limits) -> Self {
        World {
            broker: Broker::new(limits.clone()),
            out: Outside::default(),
            now: START,
            limits,
        }
    }

    /// Connects as the owner "plant"; nothing else comes before CONNACK. Whether it was let in.
    pub(crate) fn connect(&mut self, conn: u64, connect: &Connect<'_>) -> bool {
        self.connect_as(conn, "plant", connect)
    }

    pub(crate) fn connect_as(&mut self, conn: u64, owner: &str, connect: &Connect<'_>) -> bool {
        self.out.without_room.insert(conn);
        self.broker
            .connect(self.now, ConnId(conn), connect, owner, Some("answers"), &mut self.out);
        self.out.without_room.remove(&conn);
        self.broker.writable(self.now, ConnId(conn), &mut self.out);
        self.out.closed.iter().all(|(closed, _)| *closed != conn)
    }

    pub(crate) fn subscribe(&mut self, conn: u64, filter: &str, qos: u8) {
        let options = SubscriptionOptions {
            qos: qos_of(qos),
            ..SubscriptionOptions::default()
        };
        self.subscribe_with(conn, filter, options, None);
    }

    pub(crate) fn subscribe_with(&mut self, conn: u64, filter: &str, options: SubscriptionOptions, id: Option<u32>) {
        let subscribe = Subscribe {
            subscription_id: id,
            ..Subscribe::new(PacketId::MIN, vec![(filter, options)])
        };
        self.broker
            .subscribe(self.now, ConnId(conn), &subscribe, &mut |_| true, &mut self.out);
    }

    pub(crate) fn unsubscribe(&mut self, conn: u64, filter: &str) {
        let unsubscribe = Unsubscribe::new(PacketId::MIN, vec![filter]);
        self.broker
            .unsubscribe(self.now, ConnId(conn), &unsubscribe, &mut self.out);
    }

    /// The whole way of a PUBLISH, as the hub takes it.
    pub(crate) fn publish(&mut self, conn: u64, publish: &Publish<'_>) -> Published {
        let Received::New { alias } = self.broker.receive(self.now, ConnId(conn), publish, &mut self.out) else {
            return Published::default();
        };
        let resolved = Publish {
            topic: alias.as_deref().unwrap_or(publish.topic),
            ..publish.clone()
        };
        let published = self.send(Some(conn), &resolved, broker::Keep::Always);
        if let Some(packet_id) = publish.packet_id {
            let reason = if published.refused {
                ReasonCode::QuotaExceeded
            } else {
                ReasonCode::Success
            };
            let (now, qos) = (self.now, publish.qos);
            self.broker.acknowledge(
                now,
                ConnId(conn),
                packet_id,
                qos,
                reason,
                published.after,
                &mut self.out,
            );
        }
        published
    }

    /// A message that is already let in.
    pub(crate) fn send(&mut self, conn: Option<u64>, publish: &Publish<'_>, keep: broker::Keep) -> Published {
        let message = Message {
            publish,
            from: conn.map(ConnId),
            addressees: &[],
            keep,
        };
        self.broker.publish(self.now, &message, &mut self.out)
    }

    pub(crate) fn puback(&mut self, conn: u64, packet_id: u16) {
        self.handle(conn, &Packet::PubAck(Ack::new(id(packet_id), ReasonCode::Success)));
    }

    pub(crate) fn pubrec(&mut self, conn: u64, packet_id: u16) {
        self.handle(conn, &Packet::PubRec(Ack::new(id(packet_id), ReasonCode::Success)));
    }

    pub(crate) fn pubrel(&mut self, conn: u64, packet_id: u16) {
        self.handle(conn, &Packet::PubRel(Ack::new(id(packet_id), ReasonCode::Success)));
    }

    pub(crate) fn pubcomp(&mut self, conn: u64, packet_id: u16) {
        self.handle(conn, &Packet::PubComp(Ack::new(id(packet_id), ReasonCode::Success)));
    }

    pub(crate) fn handle(&mut self, conn: u64, packet: &Packet<'_>) {
        self.broker.handle(self.now, ConnId(conn), packet, &mut self.out);
    }

    /// The connection breaks.
    pub(crate) fn cut(&mut self, conn: u64) {
        self.broker.closed(self.now, ConnId(conn), &mut self.out);
    }

    pub(crate) fn block(&mut self, conn: u64) {
        self.out.without_room.insert(conn);
    }

    pub(crate) fn unblock(&mut self, conn: u64) {
        self.out.without_room.remove(&conn);
        self.broker.writable(self.now, ConnId(conn), &mut self.out);
    }

    /// Time passes, and what is due happens.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.unix_ms += ms;
        self.broker.tick(self.now, &mut self.out);
    }

    /// Everything logged so far is written.
    pub(crate) fn commit(&mut self) {
        self.out.durable = self.out.log.len();
        if std::mem::take(&mut self.out.is_commit_awaited) {
            self.broker.committed(self.now, &mut self.out);
        }
    }

    /// Answers all readings that the broker asked for.
    pub(crate) fn load(&mut self) {
        while let Some(position) = self.out.loads.pop() {
            let body = self.out.log[position.0 as usize - 1].body.clone();
            self.broker.loaded(self.now, position, Some(&body), &mut self.out);
        }
    }

    /// A new process with what the log has of the first `written` records. Its monotonic clock starts anew.
    pub(crate) fn restart_after(&mut self, written: usize) {
        self.out.log.truncate(written);
        self.out.durable = written;
        self.out.loads.clear();
        self.now.monotonic_ms = 3;
        let mut recovery = Recovery::new(self.now, self.limits.clone());
        for (at, entry) in self
            .out
            .log
            .iter_mut()
            .enumerate()
            .filter(|(_, entry)| !entry.is_cancelled)
        {
            let record = Record::decode(&entry.meta, &[]).expect("what was logged");
            entry.is_released = record.is_tombstone();
            recovery
                .restore(Position(at as u64 + 1), &entry.meta, entry.body.len())
                .expect("what was logged");
        }
        self.broker = recovery.finish(self.now, &mut self.out);
        self.broker.tick(self.now, &mut self.out);
    }

    /// A new process that finds everything written.
    pub(crate) fn restart(&mut self) {
        self.commit();
        self.restart_after(self.out.log.len());
    }

    /// What a connection got since the last time it was asked.
    pub(crate) fn got(&mut self, conn: u64) -> Vec<String> {
        self.out.got.remove(&conn).unwrap_or_default()
    }

    /// The wills that came due since the last time, as `topic=payload`.
    pub(crate) fn wills(&mut self) -> Vec<String> {
        self.out.wills.drain(..).map(|will| in_words(&will.publish())).collect()
    }

    pub(crate) fn refused_filters(&mut self) -> Vec<RefusedFilter> {
        std::mem::take(&mut self.out.refused_filters)
    }

    pub(crate) fn drops(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.out.drops)
    }

    /// Records that something still needs.
    pub(crate) fn live_records(&self) -> usize {
        self.out
            .log
            .iter()
            .filter(|entry| !entry.is_cancelled && !entry.is_released)
            .count()
    }
}
