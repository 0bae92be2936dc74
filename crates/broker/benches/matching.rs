//! How long finding and serving the subscribers of a topic takes, and coming back from a log: `cargo bench -p broker`.

use std::hint::black_box;
use std::time::Instant;

use broker::{
    Broker, ConnId, Dropped, Full, Keep, Limits, Message, Now, OwnedMessage, Position, Record, Recovery, RefusedFilter,
    Sink,
};
use mqtt::{Connect, Packet, PacketId, Publish, QoS, ReasonCode, Subscribe, SubscriptionOptions, Version};

const NOW: Now = Now {
    monotonic_ms: 1,
    unix_ms: 1,
};

/// Takes everything and keeps nothing but the log's metas.
#[derive(Default)]
struct Nowhere {
    messages: u64,
    /// The metas of all records, one behind the other, and their ends.
    metas: Vec<u8>,
    ends: Vec<usize>,
}

impl Sink for Nowhere {
    fn has_room(&self, _: ConnId) -> bool {
        true
    }
    fn publish(&mut self, _: ConnId, publish: &Publish<'_>) {
        self.messages += 1;
        black_box(publish);
    }
    fn reply(&mut self, _: ConnId, _: &Packet<'_>, _: Position) {}
    fn close(&mut self, _: ConnId, _: ReasonCode) {}
    fn durable(&self) -> Position {
        Position(0)
    }
    fn await_commit(&mut self) {}
    fn log(&mut self, record: &Record<'_>) -> Result<Position, Full> {
        record.encode(&mut self.metas);
        self.ends.push(self.metas.len());
        Ok(Position(self.ends.len() as u64))
    }
    fn cancel(&mut self, _: Position) -> bool {
        true
    }
    fn release(&mut self, _: Position) {}
    fn load(&mut self, _: Position) {}
    fn will(&mut self, _: OwnedMessage) {}
    fn dropped(&mut self, _: Dropped) {}
    fn refused_filter(&mut self, _: RefusedFilter) {}
}

fn main() {
    exact();
    beside_others();
    many_on_one();
    recovery();
}

/// A process that comes back to 1,000,000 messages for 100 sessions.
fn recovery() {
    let log = queued(100, 10_000);
    let best = (0..5).map(|_| recover(&log)).min();
    println!(
        "a log with 1,000,000 queued messages: best {} ms",
        best.unwrap_or_default()
    );
}

fn recover(log: &Nowhere) -> u128 {
    let started = Instant::now();
    let mut recovery = Recovery::new(NOW, Limits::default());
    let mut start = 0;
    for (at, end) in (1..).zip(&log.ends) {
        let meta = &log.metas[start..*end];
        recovery.restore(Position(at), meta, 150).expect("what was logged");
        start = *end;
    }
    let broker = recovery.finish(NOW, &mut Nowhere::default());
    let took_ms = started.elapsed().as_millis();
    assert_eq!(broker.statistics().queued_messages, 1_000_000);
    took_ms
}

/// A log in which each of `sessions` has `each` messages waiting.
fn queued(sessions: u64, each: usize) -> Nowhere {
    let (mut broker, mut out) = (Broker::new(Limits::default()), Nowhere::default());
    for session in 0..sessions {
        let (name, topic) = (format!("session-{session}"), format!("{session}"));
        let connect = Connect {
            session_expiry_interval_s: Some(u32::MAX),
            ..Connect::new(Version::V5, &name)
        };
        broker.connect(NOW, ConnId(session), &connect, "", None, &mut out);
        let options = SubscriptionOptions {
            qos: QoS::AtLeastOnce,
            ..SubscriptionOptions::default()
        };
        let subscribe = Subscribe::new(PacketId::MIN, vec![(&topic, options)]);
        broker.subscribe(NOW, ConnId(session), &subscribe, &mut |_| true, &mut out);
        broker.closed(NOW, ConnId(session), &mut out);
        for _ in 0..each {
            let publish = Publish::new(&topic, QoS::AtLeastOnce, Some(PacketId::MIN), b"21.5");
            let message = Message {
                publish: &publish,
                from: None,
                addressees: &[],
                keep: Keep::Always,
            };
            broker.publish(NOW, &message, &mut out);
        }
    }
    out
}

/// 100,000 subscriptions, each met by a topic of its own.
fn exact() {
    let filters: Vec<String> = (0..100_000).map(|n| format!("devices/{n}/methods/+/+")).collect();
    let mut broker = subscribed(&filters, 10_000);
    let topics: Vec<String> = (0..100_000)
        .step_by(101)
        .map(|n| format!("devices/{n}/methods/reset/7"))
        .collect();
    measure("100,000 subscriptions, 1 matches", &mut broker, &topics, 200);
}

/// The same tree, and a topic that nobody asked for.
fn beside_others() {
    let filters: Vec<String> = (0..100_000).map(|n| format!("devices/{n}/methods/+/+")).collect();
    let mut broker = subscribed(&filters, 10_000);
    let topics: Vec<String> = (0..1000).map(|n| format!("devices/{n}/telemetry")).collect();
    measure("100,000 subscriptions, 0 match", &mut broker, &topics, 200);
}

/// 1,000 sessions that all have a wildcard on the same topic.
fn many_on_one() {
    let filters: Vec<String> = (0..1000)
        .map(|n| ["plant/#", "plant/+/speed", "+/+/speed"][n % 3].into())
        .collect();
    let mut broker = subscribed(&filters, 1000);
    measure(
        "1,000 wildcard subscriptions, all match",
        &mut broker,
        &["plant/7/speed".into()],
        2_000,
    );
}

fn subscribed(filters: &[String], sessions: usize) -> Broker {
    let (mut broker, mut out) = (Broker::new(Limits::default()), Nowhere::default());
    for session in 0..sessions {
        let name = format!("session-{session}");
        let conn = ConnId(session as u64);
        broker.connect(NOW, conn, &Connect::new(Version::V5, &name), "", None, &mut out);
        let own = filters.iter().skip(session).step_by(sessions);
        let filters = own.map(|filter| (&**filter, SubscriptionOptions::default())).collect();
        broker.subscribe(
            NOW,
            conn,
            &Subscribe::new(PacketId::MIN, filters),
            &mut |_| true,
            &mut out,
        );
    }
    broker
}

/// Each round is timed apart: the best one is least disturbed by whatever else the machine does.
fn measure(what: &str, broker: &mut Broker, topics: &[String], rounds: u32) {
    let mut out = Nowhere::default();
    let mut times_ns: Vec<u64> = (0..rounds).map(|_| round(broker, topics, &mut out)).collect();
    times_ns.sort_unstable();
    let published = topics.len() as u64;
    let matched = out.messages / u64::from(rounds);
    let (best_ns, median_ns) = (times_ns[0], times_ns[times_ns.len() / 2]);
    let per_match = best_ns
        .checked_div(matched)
        .map_or(String::new(), |ns| format!("; {ns} ns a match"));
    println!(
        "{what}: best {} ns a publish, median {}{per_match}",
        best_ns / published,
        median_ns / published
    );
}

fn round(broker: &mut Broker, topics: &[String], out: &mut Nowhere) -> u64 {
    let started = Instant::now();
    for topic in topics {
        let publish = Publish::new(topic, QoS::AtMostOnce, None, b"21.5");
        let message = Message {
            publish: &publish,
            from: None,
            addressees: &[],
            keep: Keep::Memory,
        };
        black_box(broker.publish(NOW, &message, out));
    }
    started.elapsed().as_nanos() as u64
}
