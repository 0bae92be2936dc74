//! How long finding and serving the subscribers of a topic takes: `cargo bench -p broker`.

use std::hint::black_box;
use std::time::Instant;

use broker::{Broker, ConnId, Dropped, Full, Keep, Limits, Message, Now, OwnedMessage, Position, Record, Sink};
use mqtt::{Connect, Packet, PacketId, Publish, QoS, ReasonCode, Subscribe, SubscriptionOptions, Version};

const NOW: Now = Now {
    monotonic_ms: 1,
    unix_ms: 1,
};

/// Takes everything and keeps nothing.
#[derive(Default)]
struct Nowhere {
    messages: u64,
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
    fn log(&mut self, _: &Record<'_>) -> Result<Position, Full> {
        Ok(Position(1))
    }
    fn cancel(&mut self, _: Position) -> bool {
        true
    }
    fn release(&mut self, _: Position) {}
    fn load(&mut self, _: Position) {}
    fn will(&mut self, _: &str, _: &str, _: OwnedMessage) {}
    fn dropped(&mut self, _: Dropped) {}
}

fn main() {
    exact();
    beside_others();
    many_on_one();
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

fn measure(what: &str, broker: &mut Broker, topics: &[String], rounds: u32) {
    let mut out = Nowhere::default();
    let started = Instant::now();
    for _ in 0..rounds {
        for topic in topics {
            let publish = Publish::new(topic, QoS::AtMostOnce, None, b"21.5");
            let message = Message {
                publish: &publish,
                from: None,
                addressee: None,
                keep: Keep::Memory,
            };
            black_box(broker.publish(NOW, &message, &mut out));
        }
    }
    let published = u64::from(rounds) * topics.len() as u64;
    let each_ns = started.elapsed().as_nanos() as u64 / published;
    let per_match = (each_ns * published).checked_div(out.messages);
    let per_match = per_match.map_or(String::new(), |ns| format!(", {ns} ns a match"));
    println!("{what}: {each_ns} ns a publish{per_match}");
}
