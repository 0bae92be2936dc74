//! What takes heap memory, and how much: a message between clean sessions that are connected takes none on its way.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use broker::{
    Broker, ConnId, Dropped, Full, Keep, Limits, Message, Now, OwnedMessage, Position, Received, Record, RefusedFilter,
    Sink,
};
use mqtt::{Ack, Connect, Packet, PacketId, Publish, QoS, ReasonCode, Subscribe, SubscriptionOptions, Version};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator; counting touches a thread-local of plain data alone.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        LIVE_BYTES.with(|bytes| bytes.set(bytes.get() + layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.with(|bytes| bytes.set(bytes.get() - layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Takes everything, and remembers what a subscriber has to acknowledge.
#[derive(Default)]
struct Taking {
    messages: usize,
    last_id: Option<PacketId>,
    is_blocked: bool,
}

impl Sink for Taking {
    fn has_room(&self, _: ConnId) -> bool {
        !self.is_blocked
    }
    fn publish(&mut self, _: ConnId, publish: &Publish<'_>) {
        self.messages += 1;
        self.last_id = publish.packet_id;
    }
    fn reply(&mut self, _: ConnId, _: &Packet<'_>, _: Position) {}
    fn close(&mut self, conn: ConnId, reason: ReasonCode) {
        panic!("{conn:?} was closed: {reason:?}");
    }
    fn durable(&self) -> Position {
        Position(0)
    }
    fn await_commit(&mut self) {}
    fn log(&mut self, record: &Record<'_>) -> Result<Position, Full> {
        panic!("{record:?} was logged");
    }
    fn cancel(&mut self, _: Position) -> bool {
        false
    }
    fn release(&mut self, _: Position) {}
    fn load(&mut self, _: Position) {}
    fn will(&mut self, _: OwnedMessage) {}
    fn dropped(&mut self, why: Dropped) {
        panic!("{why:?}");
    }
    fn refused_filter(&mut self, why: RefusedFilter) {
        panic!("{why:?}");
    }
}

const PUBLISHER: ConnId = ConnId(1);
const SUBSCRIBER: ConnId = ConnId(2);
const NOW: Now = Now {
    monotonic_ms: 1,
    unix_ms: 1,
};
const TOPIC: &str = "devices/press-1/telemetry";

fn world() -> (Broker, Taking) {
    let (mut broker, mut out) = (Broker::new(Limits::default()), Taking::default());
    for (conn, name) in [(PUBLISHER, "publisher"), (SUBSCRIBER, "subscriber")] {
        let connect = Connect {
            topic_alias_maximum: 4,
            ..Connect::new(Version::V5, name)
        };
        broker.connect(NOW, conn, &connect, "plant", None, &mut out);
    }
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        ..SubscriptionOptions::default()
    };
    let filters = vec![
        ("devices/+/telemetry/#", options),
        ("devices/press-1/telemetry", options),
    ];
    let subscribe = Subscribe {
        subscription_id: Some(7),
        ..Subscribe::new(PacketId::MIN, filters)
    };
    broker.subscribe(NOW, SUBSCRIBER, &subscribe, &mut |_| true, &mut out);
    (broker, out)
}

/// One message all the way: PUBLISH, its acknowledgements, those of the subscriber.
fn pass(broker: &mut Broker, out: &mut Taking, qos: QoS) {
    let packet_id = (qos != QoS::AtMostOnce).then_some(PacketId::MIN);
    let publish = Publish::new(TOPIC, qos, packet_id, &[0; 64]);
    assert_eq!(
        broker.receive(NOW, PUBLISHER, &publish, out),
        Received::New { alias: None }
    );
    let message = Message {
        publish: &publish,
        from: Some(PUBLISHER),
        addressees: &["plant"],
        keep: Keep::Always,
    };
    let published = broker.publish(NOW, &message, out);
    assert!(published.addressee_reached);
    if let Some(packet_id) = packet_id {
        broker.acknowledge(NOW, PUBLISHER, packet_id, qos, published.reason(), published.after, out);
        let received = out.last_id.expect("above QoS 0");
        let ack = |packet_id| Ack::new(packet_id, ReasonCode::Success);
        let answers = match qos {
            QoS::ExactlyOnce => [Packet::PubRec(ack(received)), Packet::PubComp(ack(received))],
            _ => [Packet::PubAck(ack(received)), Packet::PingReq],
        };
        answers
            .iter()
            .for_each(|answer| broker.handle(NOW, SUBSCRIBER, answer, out));
        broker.handle(NOW, PUBLISHER, &Packet::PubRel(ack(packet_id)), out);
    }
}

#[test]
fn a_publish_between_clean_connected_sessions_allocates_nothing() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let (mut broker, mut out) = world();
        (0..100).for_each(|_| pass(&mut broker, &mut out, qos));
        let before = ALLOCATIONS.with(Cell::get);
        (0..1000).for_each(|_| pass(&mut broker, &mut out, qos));
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "{qos:?}");
        assert_eq!(out.messages, 1100);
    }
}

#[test]
fn an_idle_session_with_one_subscription_takes_less_than_1_kib() {
    let (mut broker, mut out) = world();
    let names: Vec<String> = (0..1000).map(|n| format!("idle-{n}")).collect();
    let filters: Vec<String> = (0..1000).map(|n| format!("devices/{n}/desired")).collect();
    let before = LIVE_BYTES.with(Cell::get);
    for (at, (name, filter)) in (10..).zip(names.iter().zip(&filters)) {
        broker.connect(
            NOW,
            ConnId(at),
            &Connect::new(Version::V5, name),
            "plant",
            None,
            &mut out,
        );
        let subscribe = Subscribe::new(PacketId::MIN, vec![(filter, SubscriptionOptions::default())]);
        broker.subscribe(NOW, ConnId(at), &subscribe, &mut |_| true, &mut out);
    }
    let each = (LIVE_BYTES.with(Cell::get) - before) / 1000;
    println!("{each} bytes a session");
    assert!(each < 900, "{each} bytes a session");
}

/// What 1,025 subscriptions take of memory, and what they are counted as: one more than a power of two, so that all
/// that doubles has just done so. The connection takes nothing: retained messages are still to be given for all of
/// them.
fn weigh(filter: impl Fn(usize) -> String) -> (u64, u64) {
    let (mut broker, mut out) = world();
    out.is_blocked = true;
    let filters: Vec<String> = (0..1025).map(filter).collect();
    let (before, counted) = (LIVE_BYTES.with(Cell::get), broker.statistics().subscription_bytes);
    for filter in &filters {
        let subscribe = Subscribe::new(PacketId::MIN, vec![(filter, SubscriptionOptions::default())]);
        broker.subscribe(NOW, SUBSCRIBER, &subscribe, &mut |_| true, &mut out);
    }
    let taken = LIVE_BYTES.with(Cell::get) - before;
    let counted = broker.statistics().subscription_bytes - counted;
    (u64::try_from(taken).expect("it grows"), counted)
}

#[test]
fn subscriptions_take_no_more_memory_than_they_are_counted_as() {
    let deep = "x/".repeat(126);
    let long = "x".repeat(20_000);
    let check = |name: &str, filter: &dyn Fn(usize) -> String| {
        let (taken, counted) = weigh(filter);
        println!("{name}: {taken} bytes, counted as {counted}");
        assert!(taken <= counted, "{name}: {taken} bytes are counted as {counted}");
        assert!(counted < 5 * taken, "{name}: {taken} bytes are counted as {counted}");
    };
    check("short", &|n| format!("{n}"));
    check("usual", &|n| format!("devices/{n}/methods/+/+"));
    check("deep", &|n| format!("{n}/{deep}x"));
    check("long", &|n| format!("{n}{long}"));
    check("short and shared", &|n| format!("$share/g/{n}"));
    check("deep and shared", &|n| format!("$share/g/{n}/{deep}x"));
    check("long and shared", &|n| format!("$share/g/{n}{long}"));
    check("long group", &|n| format!("$share/{long}/{n}"));
}

#[test]
fn sessions_and_what_waits_in_them_take_no_more_memory_than_they_are_counted_as() {
    let (mut broker, mut out) = world();
    out.is_blocked = true;
    // One more than a power of two, so that all that doubles has just done so.
    let names: Vec<String> = (0..1025).map(|n| format!("session-{n}")).collect();
    let counted = |broker: &Broker| broker.statistics().session_bytes + broker.statistics().kept_bytes;
    let check = |what: &str, broker: &mut Broker, grow: &mut dyn FnMut(&mut Broker)| {
        let (before, counted_before) = (LIVE_BYTES.with(Cell::get), counted(broker));
        grow(broker);
        let taken = u64::try_from(LIVE_BYTES.with(Cell::get) - before).expect("it grows");
        let counted = counted(broker) - counted_before;
        println!("{what}: {taken} bytes, counted as {counted}");
        assert!(taken <= counted, "{what}: {taken} bytes are counted as {counted}");
        assert!(counted < 4 * taken, "{what}: {taken} bytes are counted as {counted}");
    };
    check("sessions", &mut broker, &mut |broker| {
        for (conn, name) in (10..).zip(&names) {
            broker.connect(
                NOW,
                ConnId(conn),
                &Connect::new(Version::V5, name),
                "plant",
                None,
                &mut out,
            );
        }
    });
    check("short messages", &mut broker, &mut |broker| {
        for _ in 0..1025 {
            let publish = Publish::new(TOPIC, QoS::AtLeastOnce, None, b"x");
            let message = Message {
                publish: &publish,
                from: None,
                addressees: &[],
                keep: Keep::Always,
            };
            broker.publish(NOW, &message, &mut out);
        }
    });
    assert_eq!(broker.statistics().queued_messages, 1025);
}
