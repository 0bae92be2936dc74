//! Manifests that are right: read, pointed into, compared and written back.

use std::collections::BTreeMap;

use manifest::{Device, Document, Excerpt, Priority, Resource, Route, Target, Upstream, WhenFull, diff, parse};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn resources(text: &str) -> Vec<Resource> {
    let documents = parse("m.yaml", text).unwrap_or_else(|errors| panic!("{errors}"));
    documents.into_iter().map(|document| document.resource).collect()
}

const ALARM: &str = r#"apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: water-alarm}
spec:
  from: devices/+/telemetry
  when: payload.level < 0.1 && device.labels.kind == "pump"
  to:
    - method: {device: "{device}", name: stop, payload: '{"reason": "dry"}'}
    - upstream: {priority: high}
    - topic: apps/dashboard/alarms/{device}
---
apiVersion: selvedge.dev/v1
kind: Device
metadata:
  name: pump-7
  namespace: plant-a
spec:
  labels: {kind: pump, floor: "3"}
  desired: {interval_s: 10, modes: [1, 2.5, null, true, x], limits: {}}
"#;

fn alarm() -> Route {
    Route {
        tenant: "default".into(),
        name: "water-alarm".into(),
        from: "devices/+/telemetry".into(),
        when: Some("payload.level < 0.1 && device.labels.kind == \"pump\"".into()),
        to: vec![
            Target::Method {
                device: "{device}".into(),
                name: "stop".into(),
                payload: Some("{\"reason\": \"dry\"}".into()),
            },
            Target::Upstream(Upstream {
                priority: Priority::High,
                ..Upstream::default()
            }),
            Target::Topic("apps/dashboard/alarms/{device}".into()),
        ],
    }
}

fn pump() -> Device {
    let desired = json!({"interval_s": 10, "modes": [1, 2.5, null, true, "x"], "limits": {}});
    Device {
        tenant: "plant-a".into(),
        name: "pump-7".into(),
        labels: BTreeMap::from([("kind".into(), "pump".into()), ("floor".into(), "3".into())]),
        desired: desired.as_object().cloned(),
    }
}

#[test]
fn a_file_of_several_documents_is_read() {
    assert_eq!(resources(ALARM), [Resource::Route(alarm()), Resource::Device(pump())]);
}

#[test]
fn a_resource_is_written_in_the_order_a_person_would() {
    let expected = r#"apiVersion: selvedge.dev/v1
kind: Route
metadata:
  name: water-alarm
spec:
  from: devices/+/telemetry
  when: "payload.level < 0.1 && device.labels.kind == \"pump\""
  to:
    -
      method:
        device: "{device}"
        name: stop
        payload: "{\"reason\": \"dry\"}"
    -
      upstream:
        priority: high
    -
      topic: apps/dashboard/alarms/{device}
"#;
    assert_eq!(Resource::Route(alarm()).to_yaml(), expected);
}

#[test]
fn a_policy_has_a_short_name_too_and_is_written_with_its_long_one() {
    for (short, full) in [
        ("oldest", WhenFull::DropOldest),
        ("newest", WhenFull::DropNewest),
        ("refuse", WhenFull::Refuse),
    ] {
        for name in [short, full.as_str()] {
            let text = format!(
                "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {{name: r}}\n\
                 spec: {{from: a, to: [{{upstream: {{full: {name}}}}}]}}\n"
            );
            let Resource::Route(route) = document(&text).resource else {
                panic!("a route");
            };
            let expected = Target::Upstream(Upstream {
                full,
                ..Upstream::default()
            });
            assert_eq!(route.to, [expected], "{name}");
        }
    }
}

fn document(text: &str) -> Document {
    parse("m.yaml", text)
        .unwrap_or_else(|errors| panic!("{errors}"))
        .remove(0)
}

#[test]
fn a_later_finding_is_put_at_its_field_and_line() {
    let document = document(ALARM);
    let check = |path: &str, expected: &str| {
        assert_eq!(document.error(path, 3, "wrong".into()).to_string(), expected);
    };
    check("spec.from", "m.yaml:5: spec.from: wrong");
    check("spec.when", "m.yaml:6: spec.when: wrong");
    check("spec.to[2].topic", "m.yaml:10: spec.to[2].topic: wrong");
    check(
        "spec.to[0].method.payload",
        "m.yaml:8: spec.to[0].method.payload: wrong",
    );
    check(
        "spec.to[0].method.timeout",
        "m.yaml:8: spec.to[0].method.timeout: wrong",
    );
}

#[test]
fn an_offset_in_a_block_of_lines_finds_its_line() {
    let text = "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {name: r}\nspec:\n  from: a\n  when: |\n    payload.a > 1 &&\n    payload.b > 2\n  to: [{topic: b}]\n";
    let document = document(text);
    let Resource::Route(route) = &document.resource else {
        panic!("a route")
    };
    let offset = route.when.as_ref().unwrap().find("payload.b").unwrap();
    assert_eq!(document.error("spec.when", 0, "first".into()).line, 7);
    assert_eq!(document.error("spec.when", offset, "second".into()).line, 8);
    assert_eq!(document.error("spec.when", 10_000, "end".into()).line, 9);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    assert_eq!(diff(&resources(ALARM), &resources(ALARM)), []);
}

#[test]
fn a_difference_is_shown_field_by_field() {
    let fan = Device {
        labels: BTreeMap::from([("kind".into(), "fan".into()), ("wing".into(), "b".into())]),
        desired: json!({"interval_s": 20, "modes": [1], "limits": {"a b": 1}})
            .as_object()
            .cloned(),
        ..pump()
    };
    let before = [
        Resource::Device(pump()),
        Resource::Route(Route {
            name: "old".into(),
            ..alarm()
        }),
    ];
    let after = [Resource::Device(fan), Resource::Route(alarm())];
    let lines: Vec<_> = diff(&before, &after).iter().map(ToString::to_string).collect();
    let expected = r#"- Route/old
+ Route/water-alarm
~ plant-a/Device/pump-7 spec.desired.interval_s: 10 → 20
~ plant-a/Device/pump-7 spec.desired.limits: {} → (none)
~ plant-a/Device/pump-7 spec.desired.limits["a b"]: (none) → 1
~ plant-a/Device/pump-7 spec.desired.modes[1]: 2.5 → (none)
~ plant-a/Device/pump-7 spec.desired.modes[2]: null → (none)
~ plant-a/Device/pump-7 spec.desired.modes[3]: true → (none)
~ plant-a/Device/pump-7 spec.desired.modes[4]: "x" → (none)
~ plant-a/Device/pump-7 spec.labels.floor: "3" → (none)
~ plant-a/Device/pump-7 spec.labels.kind: "pump" → "fan"
~ plant-a/Device/pump-7 spec.labels.wing: (none) → "b""#;
    assert_eq!(lines.join("\n"), expected);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}",
        "\\PC{0,12}",
        "[ -~\n\t]{0,12}",
        Just("yes".to_owned()),
        Just("null".to_owned()),
        Just("1e3".to_owned()),
        Just("0x1F".to_owned()),
        Just(".inf".to_owned()),
        Just("- a".to_owned()),
        Just("a: b # c".to_owned()),
        Just("\u{feff}\u{85}\u{2028}\u{0}\r\n".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner).prop_map(Value::Object),
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(text(), value, 0..4).prop_map(|members| members.into_iter().collect())
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        text().prop_map(Target::Topic),
        (text(), text(), prop::option::of(text())).prop_map(|(device, name, payload)| Target::Method {
            device,
            name,
            payload
        }),
        upstream().prop_map(Target::Upstream),
    ]
}

fn upstream() -> impl Strategy<Value = Upstream> {
    let priority = prop_oneof![Just(Priority::High), Just(Priority::Normal)];
    let full = prop_oneof![
        Just(WhenFull::DropOldest),
        Just(WhenFull::DropNewest),
        Just(WhenFull::Refuse)
    ];
    let (limit, expiry) = (prop::option::of(1..=1_u64 << 50), prop::option::of(1..=u32::MAX));
    (priority, limit, full, expiry).prop_map(|(priority, limit_bytes, full, expiry_s)| Upstream {
        priority,
        limit_bytes,
        full,
        expiry_s,
    })
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9][A-Za-z0-9._:-]{0,9}"
}

fn resource() -> impl Strategy<Value = Resource> {
    let labels = prop::collection::btree_map(name(), text(), 0..4);
    let device =
        (name(), name(), labels, prop::option::of(object(value()))).prop_map(|(tenant, name, labels, desired)| {
            Resource::Device(Device {
                tenant,
                name,
                labels,
                desired,
            })
        });
    let to = prop::collection::vec(target(), 1..4);
    let route = (name(), name(), text(), prop::option::of(text()), to).prop_map(|(tenant, name, from, when, to)| {
        Resource::Route(Route {
            tenant,
            name,
            from,
            when,
            to,
        })
    });
    prop_oneof![device, route]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_as_it_was(resource in resource()) {
        let yaml = resource.to_yaml();
        let read = parse("m.yaml", &yaml).map_err(|errors| TestCaseError::fail(format!("{errors}\n{yaml}")))?;
        prop_assert_eq!(&read[0].resource, &resource, "{}", yaml);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,40}|[a-z:{}\\[\\], \n\"'|>&*!?-]{0,60}") {
        let _ = parse("m.yaml", &text);
    }
}

#[test]
fn a_document_by_itself_is_the_same_and_its_mistakes_have_the_places_of_the_file() {
    let text = "# two\n---\napiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {name: d}\nspec:\n  labels: {a: b}\n\
                --- # the other\napiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {name: r}\nspec:\n  from: a\n  \
                when: |\n    payload.x ==\n      1\n  to: [{topic: b}]\n---\n";
    let documents = parse("both.yaml", text).unwrap();
    let excerpts = Excerpt::of(&documents, text);
    for (excerpt, document) in excerpts.iter().zip(&documents) {
        assert_eq!(excerpt.read().unwrap().resource, document.resource);
        let place = |document: &manifest::Document| document.error("spec", 0, String::new()).line;
        assert_eq!(place(&excerpt.read().unwrap()), place(document));
    }
    assert_eq!((excerpts[0].line, excerpts[1].line), (3, 9));
    assert!(excerpts[0].text.starts_with("apiVersion") && excerpts[1].text.contains("payload.x"));
    let mut wrong = excerpts[1].clone();
    wrong.text = wrong.text.replace("from", "form");
    let said = wrong.read().unwrap_err().to_string();
    assert!(said.starts_with("both.yaml:13: spec.form: unknown field"), "{said}");
}

#[test]
fn a_document_that_shares_its_lines_with_another_is_written_anew() {
    let text = "{apiVersion: selvedge.dev/v1, kind: Device, metadata: {name: a}, spec: {}}\r--- {apiVersion: \
                selvedge.dev/v1, kind: Device, metadata: {name: b}, spec: {}}";
    let documents = parse("m.yaml", text).unwrap();
    assert_eq!(documents.len(), 2);
    for (excerpt, document) in Excerpt::of(&documents, text).iter().zip(&documents) {
        assert_eq!(excerpt.read().unwrap().resource, document.resource);
    }
}

#[test]
fn an_excerpt_of_nothing_or_of_two_is_refused() {
    let one = "apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {name: a}\nspec: {}\n";
    for text in [
        "",
        "# nothing\n",
        &format!("{one}---\n{}", one.replace("name: a", "name: b")),
    ] {
        let excerpt = Excerpt {
            file: "m.yaml".to_owned(),
            line: usize::MAX,
            text: text.to_owned(),
        };
        assert!(excerpt.read().is_err(), "{text}");
    }
}
