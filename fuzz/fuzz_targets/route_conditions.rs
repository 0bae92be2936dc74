//! Conditions from anybody (the first line) on payloads from anybody (the rest): nothing panics, nothing runs on and
//! on, and a route says the same of the same message, of which it makes one copy at most.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifest::{Route, Target};
use route::{CompiledRoute, Lookup, Message, Routes};

/// Device `pump-7` with label `kind: pump`, and a message with the property `unit: m`.
struct World;

impl Lookup for World {
    fn property(&self, name: &str) -> Option<&str> {
        (name == "unit").then_some("m")
    }

    fn label(&self, device: &str, name: &str) -> Option<&str> {
        (device == "pump-7" && name == "kind").then_some("pump")
    }
}

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let Ok(condition) = std::str::from_utf8(&input[..end]) else { return };
    let payload = input.get(end + 1..).unwrap_or_default();
    let route = Route {
        tenant: "default".to_owned(),
        name: "fuzz".to_owned(),
        from: "devices/+/telemetry".to_owned(),
        when: Some(condition.to_owned()),
        to: vec![Target::Topic("out/{device}".to_owned())],
    };
    let compiled = match CompiledRoute::compile(&route) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(error.path == "spec.when" && error.offset <= condition.len(), "{error:?}");
            return;
        }
    };
    let mut routes = Routes::default();
    routes.put(compiled).expect("the first");
    assert_eq!(copies(&mut routes, payload), copies(&mut routes, payload));
    let (counters, _) = routes.status("fuzz").expect("is there");
    assert_eq!(counters.matched, 2);
    assert_eq!(counters.matched, counters.not_met + counters.failed + counters.delivered);
});

fn copies(routes: &mut Routes, payload: &[u8]) -> usize {
    let mut copies = 0;
    let message = Message { topic: "devices/pump-7/telemetry", payload, hops: 0 };
    routes.evaluate(message, &World, |_| copies += 1);
    copies
}
