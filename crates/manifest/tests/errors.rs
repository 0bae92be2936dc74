//! The messages for people who mistyped: they are our user interface, so their text is tested.

use manifest::{Errors, parse};

/// All errors of a file `m.yaml`, without its name.
fn check(text: &str, expected: &str) {
    let errors = parse("m.yaml", text)
        .map(|_| Errors::default())
        .unwrap_or_else(|errors| errors);
    let found = errors.to_string().replace("m.yaml:", "");
    assert_eq!(found, expected, "\n{text}");
}

fn route(spec: &str) -> String {
    format!("apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {{name: r}}\nspec:\n{spec}")
}

fn device(spec: &str) -> String {
    format!("apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {{name: d}}\nspec:\n{spec}")
}

#[test]
fn a_file_says_its_name_line_and_field() {
    let text = route("  form: a\n  to: [{topic: b}]\n");
    let errors = parse("alarm.yaml", &text).unwrap_err().to_string();
    assert_eq!(
        errors,
        "alarm.yaml:5: spec.form: unknown field; did you mean \"from\"?\n\
         alarm.yaml:5: spec.from: missing; a topic filter such as devices/+/telemetry"
    );
}

#[test]
fn what_is_no_yaml_or_too_much_of_it_is_refused_with_the_line() {
    check(
        "a: [1",
        "1: not YAML: while parsing a flow sequence, expected ',' or ']'",
    );
    check("a: b: c", "1: not YAML: mapping values are not allowed in this context");
    check(
        "a: &x 1\nb: *x\n",
        "1: anchors (&) and aliases (*) are not read here; write the value out",
    );
    check("a: !!str 1", "1: tags (!) are not read here; leave the tag out");
    check(
        "? [a]\n: b",
        "1: a field's name is a list or mapping; it has to be a word",
    );
    check(&format!("{}1", "- ".repeat(40)), "1: nested deeper than 32 levels");
    check(&"- 1\n".repeat(50_001), "50001: more than 50000 values in one file");
    check(
        &"#".repeat(1_048_577),
        " has 1048577 bytes; a manifest has at most 1048576",
    );
}

#[test]
fn an_empty_file_or_document_is_nothing() {
    check("", "");
    check("# only words\n---\n---\n", "");
}

#[test]
fn kinds_of_others_and_mistyped_ones_are_told_apart() {
    check(
        "7",
        "1: expected a resource with apiVersion, kind, metadata and spec, found the number 7",
    );
    check(
        "kind: Route",
        "1: apiVersion: missing; a document begins with both, such as apiVersion: selvedge.dev/v1 and kind: Route",
    );
    check(
        "apiVersion: selvedge.dev/v1\nname: x",
        "1: kind: missing; a document begins with both, such as apiVersion: selvedge.dev/v1 and kind: Route",
    );
    check(
        "apiVersion: selvedge.dev/v2\nkind: Route",
        "1: apiVersion: a Route is of \"selvedge.dev/v1\", not of \"selvedge.dev/v2\"",
    );
    check(
        "apiVersion: selvedge.dev/v1\nkind: Rout",
        "2: kind: unknown kind \"Rout\"; did you mean \"Route\"?",
    );
    check(
        "apiVersion: apps/v1\nkind: DaemonSet",
        "2: kind: unknown kind \"DaemonSet\"; there are Device, Route, Deployment, Service, ConfigMap and Secret",
    );
}

#[test]
fn an_unknown_field_comes_with_what_was_probably_meant() {
    check(
        &route("  from: a\n  whne: x\n  to: [{topic: b}]\n"),
        "6: spec.whne: unknown field; did you mean \"when\"?",
    );
    check(
        &route("  from: a\n  priority: x\n  to: [{topic: b}]\n"),
        "6: spec.priority: unknown field; the spec of a Route has from, when and to",
    );
    check(
        &route("  from: a\n  to:\n    - method: {device: d, nmae: n}\n"),
        "7: spec.to[0].method.nmae: unknown field; did you mean \"name\"?\n\
         7: spec.to[0].method.name: missing; the method to call",
    );
    check(
        &device("  label: {a: b}\n"),
        "5: spec.label: unknown field; did you mean \"labels\"?",
    );
    check(
        &device("  password: x\n"),
        "5: spec.password: credentials are not kept in manifests; see selvedge device add",
    );
    check(
        "apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {name: d, tenant: t, labels: {a: b}}\nspec: {}\nstatus: {}",
        "3: metadata.tenant: unknown field; a tenant is written as metadata.namespace\n\
         3: metadata.labels: unknown field; the labels of a device are spec.labels\n\
         5: status: unknown field; a Device has apiVersion, kind, metadata and spec",
    );
}

#[test]
fn a_missing_field_is_named_with_what_belongs_there() {
    check(
        "apiVersion: selvedge.dev/v1\nkind: Route\n",
        "1: metadata: missing; it has at least a name: metadata: {name: …}\n\
         1: spec: missing; what the route does: from, to and perhaps when",
    );
    check(
        "apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {}\nspec: {}\n",
        "3: metadata.name: missing; every resource has one",
    );
    check(
        &route("  from: a\n"),
        "5: spec.to: missing; a list of targets, such as - topic: apps/dashboard/{device}",
    );
    check(
        &route("  from: a\n  to: []\n"),
        "6: spec.to: is empty; a route has at least one target",
    );
}

#[test]
fn a_wrong_type_says_what_was_expected_and_what_was_found() {
    check(
        &route("  from: [a]\n  to: [{topic: b}]\n"),
        "5: spec.from: expected a string, found a list",
    );
    check(
        &route("  from: a\n  to: {topic: b}\n"),
        "6: spec.to: expected a list of targets, found a mapping; put \"- \" before each",
    );
    check(
        &route("  from: a\n  to:\n    - topic: {device}\n"),
        "7: spec.to[0].topic: expected a string, found a mapping; a text with braces stands in quotes",
    );
    check(
        &route("  from: a\n  to:\n    - topic: b\n      method: {device: d, name: n}\n"),
        "7: spec.to[0]: has to be exactly one of topic, method and upstream; put \"- \" before each target",
    );
    check(
        &device("  labels: {floor: 3}\n"),
        "5: spec.labels.floor: expected a string, found the number 3; write \"3\"",
    );
    check(
        &device("  labels: {on: true}\n"),
        "5: spec.labels.on: expected a string, found the boolean true; write \"true\"",
    );
    check(
        &device("  labels: {room: }\n"),
        "5: spec.labels.room: expected a string, found nothing",
    );
    check(
        &device("  labels: [a]\n"),
        "5: spec.labels: expected a mapping, found a list",
    );
    check(
        &device("  desired: 7\n"),
        "5: spec.desired: expected a mapping, found the number 7",
    );
    check(
        &route("  from: a\n  to: [{upstream: {priority: urgent}}]\n"),
        "6: spec.to[0].upstream.priority: unknown priority \"urgent\"; it is high or normal",
    );
    check(
        &route("  from: a\n  to: [{upstream: {full: drop}}]\n"),
        "6: spec.to[0].upstream.full: unknown policy \"drop\"; it is drop-oldest, drop-newest or refuse",
    );
    check(
        &route("  from: a\n  to: [{upstream: {limit: 64MB}}]\n"),
        "6: spec.to[0].upstream.limit: \"64MB\" is no number of bytes; write one such as 64Mi, 2Gi or 500k",
    );
    check(
        &route("  from: a\n  to: [{upstream: {expiry: soon}}]\n"),
        "6: spec.to[0].upstream.expiry: \"soon\" is no time; write one such as 90s, 15m, 24h or 7d",
    );
}

#[test]
fn names_that_cannot_be_are_refused() {
    let named =
        |name: &str| format!("apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {{name: {name}}}\nspec: {{}}\n");
    let long = format!("has {} bytes; a name has at most 128", 129);
    check(
        &named("a/b"),
        "3: metadata.name: \"a/b\" has '/' in it; letters, digits, '-', '_', '.' and ':' are fine",
    );
    check(
        &named("\"\""),
        "3: metadata.name: is empty; a name has at least one character",
    );
    check(
        &named("_a"),
        "3: metadata.name: \"_a\" starts with '_'; a name starts with a letter or a digit",
    );
    check(&named(&"x".repeat(129)), &format!("3: metadata.name: {long}"));
    check(
        &named("007"),
        "3: metadata.name: expected a string, found the number 007; write \"007\"",
    );
    check(
        &device("  labels: {\"a b\": x}\n"),
        "5: spec.labels[\"a b\"]: \"a b\" has ' ' in it; letters, digits, '-', '_', '.' and ':' are fine",
    );
    check(&device("  labels: {example.org/kind: x}\n"), "");
    let value = "v".repeat(257);
    check(
        &device(&format!("  labels: {{a: {value}}}\n")),
        "5: spec.labels.a: has 257 bytes; a label's value has at most 256",
    );
}

#[test]
fn what_is_given_twice_names_the_first_place() {
    check(
        &route("  from: a\n  to: [{topic: b}]\n  from: c\n"),
        "7: spec.from: given twice, first in line 5",
    );
    check(
        &device("  desired: {a: {b: 1, b: 2}}\n"),
        "5: spec.desired.a.b: given twice, first in line 5",
    );
    let twice = format!("{}---\n{}", device("  {}\n"), device("  {}\n"));
    check(&twice, "9: metadata.name: Device/d stands in line 1 already");
}

#[test]
fn one_file_reports_no_more_than_twenty_mistakes() {
    let fields: String = (0..30).map(|i| format!("  unknown{i}: 1\n")).collect();
    let errors = parse("m.yaml", &device(&fields)).unwrap_err();
    assert_eq!(errors.0.len(), 20);
}
