//! A route and a message, said briefly.
#![allow(dead_code, reason = "each test file uses its part")]

use manifest::{Resource, Route};
use route::{Action, CompiledRoute, Counters, Lookup, Message, RouteError, Routes};

/// Device `pump-7` with label `kind: pump`, and a message with the property `unit: m`.
pub(crate) struct World;

impl Lookup for World {
    fn property(&self, name: &str) -> Option<&str> {
        (name == "unit").then_some("m")
    }

    fn label(&self, device: &str, name: &str) -> Option<&str> {
        (device == "pump-7" && name == "kind").then_some("pump")
    }
}

pub(crate) const TOPIC: &str = "devices/pump-7/telemetry";

/// The route that a manifest with this spec describes.
pub(crate) fn route(spec: &str) -> Route {
    let text = format!("apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {{name: r}}\nspec: {spec}");
    let document = manifest::parse("m.yaml", &text)
        .unwrap_or_else(|errors| panic!("{errors}"))
        .remove(0);
    match document.resource {
        Resource::Route(route) => route,
        other => panic!("{other:?}"),
    }
}

/// A route from all telemetry to `out`, under this condition.
pub(crate) fn when(condition: &str) -> Result<CompiledRoute, RouteError> {
    let mut route = route("{from: devices/+/telemetry, to: [{topic: out}]}");
    route.when = Some(condition.to_owned());
    CompiledRoute::compile(&route)
}

pub(crate) fn routes(specs: &[&str]) -> Routes {
    let mut routes = Routes::default();
    for (i, spec) in specs.iter().enumerate() {
        let route = Route {
            name: format!("r{i}"),
            ..route(spec)
        };
        let compiled = CompiledRoute::compile(&route).unwrap_or_else(|error| panic!("{error}"));
        routes.put(compiled).unwrap();
    }
    routes
}

/// What the routes make of a message, a line each.
pub(crate) fn deliveries(routes: &mut Routes, topic: &str, payload: &str, hops: u8) -> Vec<String> {
    let mut lines = Vec::new();
    let message = Message {
        topic,
        payload: payload.as_bytes(),
        hops,
    };
    routes.evaluate(message, &World, |delivery| {
        lines.push(match delivery.action {
            Action::Publish { topic } => format!("publish {topic} hops {}", delivery.hops),
            Action::Call { device, name, payload } => {
                format!("call {device} {name} {}", String::from_utf8_lossy(payload))
            }
            Action::Upstream { route } => format!("upstream by {route}"),
        });
    });
    lines
}

/// What a condition says of a payload from `pump-7`: `true`, `false`, or why it has no answer.
pub(crate) fn answer(condition: &str, payload: &str) -> String {
    let compiled = when(condition).unwrap_or_else(|error| panic!("{condition}: {error}"));
    let mut routes = Routes::default();
    routes.put(compiled).unwrap();
    let delivered = !deliveries(&mut routes, TOPIC, payload, 0).is_empty();
    let (counters, failure) = routes.status("r").unwrap();
    match counters {
        Counters { not_met: 1, .. } => "false".to_owned(),
        Counters { failed: 1, .. } => failure.unwrap().reason.replace("spec.when: ", ""),
        _ => delivered.to_string(),
    }
}
