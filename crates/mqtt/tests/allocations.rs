//! What the way of a message costs in allocations. One test only: the counter is of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, UserPropertiesBuf, Version};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above with this `layout`, by the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    work();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn a_publish_and_its_acknowledgement_are_read_and_written_without_allocation() {
    let user: UserPropertiesBuf = [("trace", "1"), ("trace", "2")].into_iter().collect();
    let mut publish = Publish::new("devices/d1/telemetry", QoS::AtLeastOnce, PacketId::new(7), &[b'x'; 300]);
    publish.properties.message_expiry_interval_s = Some(60);
    publish.properties.response_topic = Some("devices/d1/answers");
    publish.properties.user_properties = user.as_properties();
    let packets = [
        Packet::Publish(publish),
        Packet::PubAck(Ack::new(PacketId::MIN, ReasonCode::Success)),
    ];
    for packet in packets {
        for version in [Version::V311, Version::V5] {
            let mut bytes = Vec::new();
            assert_eq!(
                allocations_of(|| packet.encode(version, &mut bytes)),
                1,
                "the caller's, once"
            );
            let decoded = allocations_of(|| {
                let (packet, _) = Packet::read(&bytes, version, 1_000)
                    .expect("is valid")
                    .expect("is whole");
                std::hint::black_box(packet);
            });
            let mut reserved = Vec::with_capacity(1_000);
            let encoded = allocations_of(|| packet.encode(version, &mut reserved));
            assert_eq!((decoded, encoded), (0, 0), "{version:?} {packet:?}");
        }
    }
}
