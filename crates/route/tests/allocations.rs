//! What evaluating routes costs the heap.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{TOPIC, World, routes};
use route::{Message, Routes};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches nothing but a thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of one evaluation once the buffers have their size.
fn allocations(routes: &mut Routes) -> u64 {
    let mut evaluate = || {
        let mut deliveries = 0;
        let message = Message {
            topic: TOPIC,
            payload: br#"{"level": 0.05}"#,
            hops: 0,
        };
        routes.evaluate(message, &World, |_| deliveries += 1);
        assert!(deliveries > 0);
    };
    evaluate();
    let before = ALLOCATIONS.with(Cell::get);
    evaluate();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn routes_without_a_condition_on_the_payload_allocate_nothing() {
    let specs = [
        "{from: devices/+/telemetry, to: [{topic: \"apps/{device}/{3}\"}, {method: {device: \"{device}\", name: n, payload: '{\"t\": \"{topic}\"}'}}]}",
        "{from: devices/#, to: [{topic: \"mirror/{topic}\"}]}",
        "{from: other/+, to: [{topic: x}]}",
        "{from: devices/+/telemetry, when: 'device.labels.kind == \"pump\" && topic.endsWith(\"telemetry\")', to: [{topic: x}]}",
    ];
    assert_eq!(allocations(&mut routes(&specs)), 0);
}

#[test]
fn a_payload_is_read_once_for_all_conditions() {
    let spec = "{from: devices/+/telemetry, when: payload.level < 0.1, to: [{topic: x}]}";
    let one = allocations(&mut routes(&[spec]));
    assert_eq!(allocations(&mut routes(&[spec, spec, spec])), one);
    assert!(one <= 4, "{one}");
}
