//! Routes as a tenant sees them.

mod common;

use common::{TOPIC, deliveries, route, routes, when};
use route::{CompiledRoute, Counters, Routes};

const ALARM: &str = r#"
  from: devices/+/telemetry
  when: payload.level < 0.1 && device.labels.kind == "pump"
  to:
    - method: {device: "{device}", name: stop, payload: '{"reason": "dry", "from": "{topic}"}'}
    - topic: apps/dashboard/alarms/{device}
"#;

#[test]
fn a_message_goes_to_every_target_of_every_route_that_it_meets() {
    let mut routes = routes(&[
        ALARM,
        "{from: devices/#, to: [{topic: \"mirror/{topic}\"}]}",
        "{from: other, to: [{topic: x}]}",
    ]);
    assert_eq!(
        deliveries(&mut routes, TOPIC, r#"{"level": 0.05}"#, 0),
        [
            "call pump-7 stop {\"reason\": \"dry\", \"from\": \"devices/pump-7/telemetry\"}",
            "publish apps/dashboard/alarms/pump-7 hops 1",
            "publish mirror/devices/pump-7/telemetry hops 1",
        ]
    );
    assert_eq!(deliveries(&mut routes, TOPIC, r#"{"level": 0.5}"#, 0).len(), 1);
    let expected = Counters {
        matched: 2,
        not_met: 1,
        delivered: 2,
        ..Counters::default()
    };
    assert_eq!(routes.status("r0"), Some((expected, None)));
}

#[test]
fn a_call_without_a_payload_of_its_own_gets_that_of_the_message() {
    let mut routes = routes(&["{from: devices/+/telemetry, to: [{method: {device: fan-1, name: set}}]}"]);
    assert_eq!(
        deliveries(&mut routes, TOPIC, "\u{1}raw", 0),
        ["call fan-1 set \u{1}raw"]
    );
}

#[test]
fn a_failure_is_counted_and_says_which_message_and_why() {
    let mut routes = routes(&[ALARM]);
    assert_eq!(deliveries(&mut routes, TOPIC, "no json", 0), Vec::<String>::new());
    deliveries(&mut routes, "devices/pump-8/telemetry", r#"{"level": 0.05}"#, 0);
    let (counters, failure) = routes.status("r0").unwrap();
    assert_eq!(
        counters,
        Counters {
            matched: 2,
            failed: 2,
            ..Counters::default()
        }
    );
    let failure = failure.unwrap();
    assert_eq!(failure.topic, "devices/pump-8/telemetry");
    assert_eq!(
        failure.reason,
        "spec.when: there is no label \"kind\"; has() asks whether there is"
    );
}

#[test]
fn a_target_that_a_message_cannot_fill_fails_alone() {
    let mut routes = routes(&[
        "{from: +/+/#, to: [{topic: \"{device}\"}, {topic: \"{4}\"}, {method: {device: \"{1}\", name: n}}, {topic: ok}, {topic: \"{1}\"}]}",
    ]);
    assert_eq!(deliveries(&mut routes, "/x", "", 0), ["publish ok hops 1"]);
    let (counters, failure) = routes.status("r0").unwrap();
    assert_eq!((counters.failed, counters.delivered), (4, 1));
    assert_eq!(failure.unwrap().reason, "spec.to[4]: it gives an empty topic");
}

#[test]
fn what_is_filled_in_never_makes_a_topic_of_twins_and_methods() {
    let mut routes = routes(&["{from: in/#, to: [{topic: \"{2}/{3}/{4}/{5}/{6}\"}]}"]);
    let made = |routes: &mut Routes, topic: &str| deliveries(routes, &format!("in/{topic}"), "", 0).len();
    let refused = ["devices/p7/methods/stop/1", "devices/p7/twin/desired/set"];
    for topic in refused {
        assert_eq!(made(&mut routes, topic), 0, "{topic}");
        let (_, failure) = routes.status("r0").unwrap();
        assert_eq!(
            failure.unwrap().reason,
            "spec.to[0]: it gives a topic of twins and methods, which routes leave alone"
        );
    }
    for topic in [
        "devices/p7/telemetry/motor/1",
        "devices/p7/alarms/twin/get",
        "apps/p7/methods/stop/1",
    ] {
        assert_eq!(made(&mut routes, topic), 1, "{topic}");
    }
    assert_eq!(routes.status("r0").unwrap().0.failed, 2);
}

#[test]
fn routes_that_go_round_end_at_the_hop_limit() {
    let mut routes = routes(&["{from: a, to: [{topic: b}]}", "{from: b, to: [{topic: a}]}"]);
    let (mut topic, mut hops) = ("a".to_owned(), 0);
    while let Some(line) = deliveries(&mut routes, &topic, "", hops).first() {
        let (made, made_hops) = line.split_once("publish ").unwrap().1.split_once(" hops ").unwrap();
        (topic, hops) = (made.to_owned(), made_hops.parse().unwrap());
    }
    assert_eq!(hops, 8);
    let (counters, failure) = routes.status("r0").unwrap();
    assert_eq!(
        counters,
        Counters {
            matched: 5,
            delivered: 4,
            hop_limit: 1,
            ..Counters::default()
        }
    );
    assert_eq!(failure.unwrap().reason, "it came through 8 routes already");
}

fn refused(spec: &str, expected: &str) {
    let error = CompiledRoute::compile(&route(spec))
        .err()
        .unwrap_or_else(|| panic!("{spec} is not refused"));
    assert_eq!(error.to_string(), expected, "{spec}");
}

#[test]
fn a_route_that_feeds_itself_is_refused() {
    let again = |from: &str| {
        format!(
            "spec.to[0].topic: every copy would match spec.from ({from}) again and go round; choose another topic or add spec.when"
        )
    };
    for (from, to) in [
        ("a", "a"),
        ("a/#", "a/b"),
        ("a/#", "a"),
        ("#", "{topic}/x"),
        ("a/+", "a/{2}x"),
        ("a/+", "{topic}"),
        ("a/#", "{topic}"),
        ("+/a", "{1}/a"),
        ("devices/+/telemetry", "devices/{device}/telemetry"),
        ("devices/x/telemetry", "devices/{device}/telemetry"),
    ] {
        refused(
            &format!("{{from: \"{from}\", to: [{{topic: \"{to}\"}}]}}"),
            &again(from),
        );
        let conditional = format!("{{from: \"{from}\", when: \"payload > 1.0\", to: [{{topic: \"{to}\"}}]}}");
        assert!(CompiledRoute::compile(&route(&conditional)).is_ok(), "{conditional}");
    }
    for (from, to) in [
        ("a/+", "b/{2}"),
        ("a/b/c", "{2}/b/c"),
        ("a/+", "{2}/x"),
        ("a/+", "a/{2}/x"),
        ("+", "x/{topic}"),
    ] {
        let spec = format!("{{from: \"{from}\", to: [{{topic: \"{to}\"}}]}}");
        assert!(CompiledRoute::compile(&route(&spec)).is_ok(), "{spec}");
    }
}

#[test]
fn a_route_that_cannot_work_is_refused_at_its_field() {
    for (spec, expected) in [
        (
            "{from: a/#/b, to: [{topic: x}]}",
            "spec.from: has \"#\" before its end; \"#\" is the last level of a topic filter",
        ),
        (
            "{from: a, to: [{upstream: {}}, {topic: x}, {upstream: {}}]}",
            "spec.to[2].upstream: is the second one; a route sends a message upstream once",
        ),
        (
            "{from: a, to: [{topic: x/+}]}",
            "spec.to[0].topic: has '+' in it, which no topic to publish to has",
        ),
        (
            "{from: a, to: [{topic: \"\"}]}",
            "spec.to[0].topic: is empty; a topic has at least one character",
        ),
        (
            "{from: a, to: [{topic: $SYS/x}]}",
            "spec.to[0].topic: begins with \"$\"; those topics are the hub's own",
        ),
        (
            "{from: a/+/b, to: [{topic: x}, {topic: \"x/{device}\"}]}",
            "spec.to[1].topic: \"{device}\" is used, but the topics of spec.from name no device; those that do are devices/ID/…",
        ),
        (
            "{from: a/+, to: [{topic: \"x/{3}\"}]}",
            "spec.to[0].topic: there is no level {3}: topics that match a/+ have 2",
        ),
        (
            "{from: devices/+/telemetry, to: [{topic: \"x/{dev}\"}]}",
            "spec.to[0].topic: unknown placeholder \"{dev}\"; there are {device}, {topic} and its levels {1}, {2} …",
        ),
        (
            "{from: devices/+/telemetry, to: [{topic: \"devices/{device}/twin/desired/set\"}]}",
            "spec.to[0].topic: publishes to a topic of twins and methods, which routes leave alone; to call a method use the target method",
        ),
        (
            "{from: a, to: [{method: {device: a/b, name: n}}]}",
            "spec.to[0].method.device: an id cannot contain '/'; letters, digits, '-', '_', '.' and ':' are fine",
        ),
        (
            "{from: a, to: [{method: {device: d, name: \"\"}}]}",
            "spec.to[0].method.name: an id has at least one character",
        ),
        (
            "{from: apps/#, when: 'device.id == \"a\"', to: [{topic: x}]}",
            "spec.when: \"device\" is used, but the topics of spec.from name no device; those that do are devices/ID/…",
        ),
    ] {
        refused(spec, expected);
    }
}

#[test]
fn a_refusal_becomes_file_and_line_of_its_manifest() {
    let text = "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {name: water-alarm}\nspec:\n  from: devices/+/telemetry\n  when: payload.level < 0.1 && device.lables.kind == \"pump\"\n  to: [{topic: x}]\n";
    let document = manifest::parse("alarm.yaml", text).unwrap().remove(0);
    let manifest::Resource::Route(route) = &document.resource else {
        panic!("a route")
    };
    let error = CompiledRoute::compile(route).unwrap_err();
    assert_eq!(
        document.error(&error.path, error.offset, error.message).to_string(),
        "alarm.yaml:6: spec.when: unknown name \"device.lables\"; did you mean \"device.labels\"?"
    );
}

#[test]
fn routes_are_replaced_by_name_and_removed() {
    let mut routes = routes(&["{from: a, to: [{topic: b}]}"]);
    deliveries(&mut routes, "a", "", 0);
    let replacement = manifest::Route {
        name: "r0".into(),
        ..route("{from: a, to: [{topic: c}]}")
    };
    routes.put(CompiledRoute::compile(&replacement).unwrap()).unwrap();
    assert_eq!(routes.status("r0"), Some((Counters::default(), None)));
    assert_eq!(deliveries(&mut routes, "a", "", 0), ["publish c hops 1"]);
    assert_eq!(routes.names().collect::<Vec<_>>(), ["r0"]);
    assert!(routes.remove("r0") && !routes.remove("r0"));
    assert_eq!(deliveries(&mut routes, "a", "", 0), Vec::<String>::new());
}

#[test]
fn a_route_that_is_put_again_as_it_was_goes_on_counting() {
    let mut routes = routes(&["{from: a, to: [{topic: b}]}"]);
    deliveries(&mut routes, "a", "", 0);
    let same = manifest::Route {
        name: "r0".into(),
        ..route("{from: a, to: [{topic: b}]}")
    };
    routes.put(CompiledRoute::compile(&same).unwrap()).unwrap();
    deliveries(&mut routes, "a", "", 0);
    let (counters, _) = routes.status("r0").unwrap();
    assert_eq!((counters.matched, counters.delivered), (2, 2));
}

#[test]
fn a_tenant_has_a_bounded_number_of_routes() {
    let mut routes = Routes::default();
    let compiled = |i: usize| {
        let route = manifest::Route {
            name: format!("r{i:03}"),
            ..route("{from: a, to: [{topic: b}]}")
        };
        CompiledRoute::compile(&route).unwrap()
    };
    (0..256).for_each(|i| routes.put(compiled(i)).unwrap());
    assert_eq!(
        routes.put(compiled(256)).unwrap_err().to_string(),
        "the tenant has 256 routes, which is the limit"
    );
    assert!(routes.put(compiled(255)).is_ok(), "replacing one is no more");
}

#[test]
fn a_compiled_route_can_be_handed_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&when("payload.a.matches(\"x\")").unwrap());
}
