//! Conditions: what they answer, and what is refused before a message comes.

mod common;

use common::{answer, when};

const PAYLOAD: &str = r#"{"level": 0.05, "n": 7, "name": "Ab", "on": true, "none": null, "list": [1, 2, 3], "items": [{"v": 1}, {"v": 5}], "o": {"a": 1}}"#;

fn check(condition: &str, expected: &str) {
    assert_eq!(answer(condition, PAYLOAD), expected, "{condition}");
}

#[test]
fn conditions_read_what_the_contract_names() {
    for condition in [
        r#"payload.level < 0.1 && device.labels.kind == "pump""#,
        r#"device.id == "pump-7""#,
        r#"topic == "devices/pump-7/telemetry""#,
        r#"properties.unit == "m""#,
        r#"properties["unit"] == "m" && device.labels["kind"] == "pump""#,
        r#""unit" in properties && !("other" in properties) && "kind" in device.labels"#,
        "has(properties.unit) && !has(properties.other) && has(device.labels.kind) && !has(device.labels.floor)",
    ] {
        check(condition, "true");
    }
}

#[test]
fn operators_and_functions_do_what_cel_says() {
    for condition in [
        "payload.n == 7 && payload.n != 8 && payload.n >= 7.0 && payload.n <= 7",
        "payload.n + 1.0 == 8.0 && payload.n * 2.0 - 4.0 > 9.0 && payload.n / 2.0 == 3.5",
        "int(payload.n) % 4 == 3 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1",
        "-payload.n < 0.0 && -(1) == -1",
        r#"payload.name == "Ab" && payload.name < "b" && payload.name + "c" == "Abc""#,
        r#"payload.name.contains("b") && payload.name.startsWith("A") && payload.name.endsWith("b")"#,
        r#"payload.name.matches("^[A-Z][a-z]$") && matches(topic, "pump-[0-9]+")"#,
        r#"size(payload.name) == 2 && payload.list.size() == 3 && size("größe") == 5 && size(payload.o) == 1"#,
        "payload.none == null && payload.level != null",
        "payload.list[0] == 1 && payload[\"list\"][1.0] == 2",
        "2.0 in payload.list && !(4 in payload.list) && \"a\" in [\"b\", \"a\"]",
        "payload.list == [1, 2, 3] && payload.items[0] == payload.items[0] && payload.items != payload.list",
        "payload.items.exists(i, i.v > 4.0) && payload.items.all(i, i.v >= 1.0)",
        "payload.o.all(name, name == \"a\") && payload.o.map(name, payload.o[name]) == [1]",
        "payload.list.exists_one(x, x == 2) && payload.list.filter(x, x > 1.0).size() == 2",
        "payload.list.map(x, x * 2.0) == [2, 4, 6] && [[1], [2]].all(l, l.exists(x, x > 0))",
        "payload.on ? payload.n > 1.0 : false",
        r#"string(7) == "7" && double("1.5") == 1.5 && int("12") == 12 && int(2.9) == 2 && string(true) == "true""#,
        "has(payload.o.a) && !has(payload.o.b) && \"a\" in payload.o && !(1 in payload.o)",
        "[1, 2].exists(payload, payload == 2)",
    ] {
        check(condition, "true");
    }
    check("payload.n < 7.0", "false");
    check("payload.list.all(x, x < 3.0)", "false");
}

#[test]
fn an_int_and_a_double_are_compared_exactly_beyond_2_to_the_53() {
    for condition in [
        "9007199254740993 > 9007199254740992.0 && 9007199254740992 == 9007199254740992.0",
        "9007199254740993 != 9007199254740992.0 && !(9007199254740993 <= 9007199254740992.0)",
        "4611686018427387904 + 3 > 4611686018427387904.0 && 4611686018427387904 + 3 >= 4611686018427387904.0",
        "4611686018427387904 - 3 < 4611686018427387904.0 && 4611686018427387904 == 4611686018427387904.0",
        "-9007199254740993 < -9007199254740992.0 && -9007199254740993 != -9007199254740992.0",
        "9223372036854775807 < 9223372036854775808.0 && 9223372036854775807 != 9223372036854775808.0",
        "double(4611686018427387904 + 3) == 4611686018427387904.0",
    ] {
        check(condition, "true");
    }
}

#[test]
fn a_condition_without_an_answer_says_why() {
    for (condition, expected) in [
        (
            "payload.missing > 1.0",
            "there is no member \"missing\"; has() asks whether there is",
        ),
        (
            "device.labels.floor == \"3\"",
            "there is no label \"floor\"; has() asks whether there is",
        ),
        (
            "properties.x == \"3\"",
            "there is no property \"x\"; has() asks whether there is",
        ),
        (
            "payload[\"x\" + \"y\"] == 3",
            "there is no member \"…\"; has() asks whether there is",
        ),
        ("payload.name > 1.0", "> is not possible with a text and a double"),
        ("payload.name.first == 1", "a member is not possible with a text"),
        ("payload.list[3] == 1", "there is no element 3 in a list of 3"),
        ("payload.list[-1] == 1", "there is no element -1 in a list of 3"),
        ("payload.n", "a condition is not possible with a double"),
        ("payload.n && true", "&& is not possible with a double"),
        (
            "1 / 0 == 1",
            "/ has no result: overflow, division by zero or not a number",
        ),
        (
            "9223372036854775807 + 1 > 0",
            "+ has no result: overflow, division by zero or not a number",
        ),
        (
            "int(payload.name) == 1",
            "int has no result: overflow, division by zero or not a number",
        ),
        (
            "payload.n.all(x, x > 1.0)",
            "all, exists, filter, map is not possible with a double",
        ),
    ] {
        check(condition, expected);
    }
}

#[test]
fn an_operand_that_decides_outweighs_one_that_fails() {
    for (condition, expected) in [
        ("payload.missing > 1.0 && false", "false"),
        ("false && payload.missing > 1.0", "false"),
        ("payload.missing > 1.0 || true", "true"),
        (
            "payload.missing > 1.0 || false",
            "there is no member \"missing\"; has() asks whether there is",
        ),
        ("payload.items.exists(i, i.w > 1.0 || i.v > 4.0)", "true"),
    ] {
        check(condition, expected);
    }
}

#[test]
fn a_payload_that_cannot_be_read_is_a_failure_only_where_it_is_asked_for() {
    assert_eq!(answer("payload.level < 0.1", "not json"), "the payload is not JSON");
    assert_eq!(answer("topic != \"\"", "not json"), "true");
    let large = format!("[{}1]", "1,".repeat(40_000));
    assert_eq!(
        answer("size(payload) > 1", &large),
        "the payload has 80003 bytes; a condition reads at most 65536"
    );
    let deep = "[".repeat(1000);
    assert_eq!(answer("payload == 1", &deep), "the payload is not JSON");
}

#[test]
fn every_evaluation_ends_within_its_steps() {
    let list = format!(
        "{{\"l\": [{}1], \"s\": \"{}\"}}",
        "1,".repeat(10_000),
        "x".repeat(40_000)
    );
    for condition in [
        "payload.l.all(a, payload.l.all(b, a == b))",
        "payload.l.map(a, payload.l).size() > 0 && payload.l.map(a, payload.l) == payload.l.map(a, payload.l)",
        "payload.l.all(a, !payload.s.contains(\"y\"))",
        "payload.l.all(a, !payload.s.matches(\"y$\"))",
        "payload.l.all(a, (payload.s + payload.s + payload.s).size() > 0)",
        "[payload.l + payload.l + payload.l, payload.l].map(a, a + a + a).size() > 9",
        "[1,1,1,1,1,1,1,1,1,1].all(a, [1,1,1,1,1,1,1,1,1,1].all(b, [1,1,1,1,1,1,1,1,1,1].all(c, [1,1,1,1,1,1,1,1,1,1].all(d, [1,1,1,1,1,1,1,1,1,1].all(e, a + b + c + d + e == 5)))))",
    ] {
        assert_eq!(
            answer(condition, &list),
            "it takes more than 20000 steps",
            "{condition}"
        );
    }
}

fn refused(condition: &str, offset: usize, expected: &str) {
    let error = when(condition)
        .err()
        .unwrap_or_else(|| panic!("{condition} is not refused"));
    assert_eq!(error.to_string(), format!("spec.when: {expected}"), "{condition}");
    assert_eq!(error.offset, offset, "{condition}");
}

#[test]
fn an_unknown_name_is_refused_with_the_one_that_was_probably_meant() {
    let sees = "a condition sees topic, payload, properties, device.id and device.labels";
    refused(
        "payload.a < 1.0 && device.lables.kind == \"x\"",
        19,
        "unknown name \"device.lables\"; did you mean \"device.labels\"?",
    );
    refused(
        "paylod.a < 1.0",
        0,
        "unknown name \"paylod\"; did you mean \"payload\"?",
    );
    refused(
        "device.ID == \"a\"",
        0,
        "unknown name \"device.ID\"; did you mean \"device.id\"?",
    );
    refused("temperature > 1.0", 0, &format!("unknown name \"temperature\"; {sees}"));
    refused(
        "payload.l.all(item, itm > 1.0)",
        20,
        "unknown name \"itm\"; did you mean \"item\"?",
    );
    refused(
        "payload.name.startWith(\"a\")",
        22,
        "unknown function \"startWith\"; did you mean \"startsWith\"?",
    );
    refused(
        "now() > 1",
        3,
        "unknown function \"now\"; there are size, contains, startsWith, endsWith, int, double, string, matches, has, all, exists, exists_one, filter, map",
    );
}

#[test]
fn types_that_can_never_fit_are_refused() {
    for (condition, offset, expected) in [
        ("1 + 1", 2, "is an integer; a condition is true or false"),
        ("topic", 0, "is a text; a condition is true or false"),
        ("topic && true", 0, "is a text; true or false belongs here"),
        ("device.id == 7", 10, "a text never equals an integer"),
        ("topic < 1", 6, "\"<\" is not possible with a text and an integer"),
        (
            "topic + 1 == topic",
            6,
            "\"+\" is not possible with a text and an integer",
        ),
        (
            "payload.n + 1 > 2.0",
            10,
            "\"+\" does not mix integers and doubles, and every number of a payload is a double; write the integer with a point, such as 1.0, or int(…) around the double",
        ),
        (
            "payload.n % 2.0 == 0.0",
            10,
            "\"%\" does not mix integers and doubles, and every number of a payload is a double; write int(…) around the double",
        ),
        (
            "topic in topic",
            6,
            "\"in\" looks into a list or an object, and this is a text",
        ),
        ("topic.level == 1", 0, "a text has no members"),
        ("topic[0] == \"d\"", 0, "a text has no elements"),
        ("topic.all(x, true)", 0, "is a text, not a list"),
        (
            "payload.a.all(1, true)",
            13,
            "has a variable and an expression, such as payload.list.all(x, x > 0.0)",
        ),
        ("-topic == topic", 1, "\"-\" is not possible with a text"),
        ("size(1) == 1", 4, "size() is not possible with an integer"),
        ("topic.contains(1)", 14, "contains() is not possible with an integer"),
        ("topic.contains(\"a\", \"b\")", 14, "contains() has 2 operands, not 3"),
        ("has(topic)", 3, "has() asks for a member, such as has(payload.level)"),
        (
            "topic.matches(payload.p)",
            21,
            "the pattern of matches() is written out in quotes",
        ),
        ("topic.matches(\"a(\")", 14, "no regular expression: unclosed group"),
        (
            "topic.matches(\"(a{1000}){1000}\")",
            14,
            "the pattern is too large: over 131072 bytes compiled",
        ),
        (
            "device == 1",
            0,
            "\"device\" is no value by itself; write device.id or device.labels.NAME",
        ),
        (
            "size(device.labels) > 1",
            11,
            "\"device.labels\" is no value by itself; write device.labels.NAME",
        ),
        (
            "properties == 1",
            0,
            "\"properties\" is no value by itself; write properties.NAME",
        ),
        ("payload == {\"a\": 1}", 11, "maps in braces are not known here"),
        (
            "payload.n == 1u",
            13,
            "unsigned integers are not known here; leave out the u",
        ),
        ("payload.n == b\"x\"", 13, "bytes are not known here; leave out the b"),
    ] {
        refused(condition, offset, expected);
    }
}

#[test]
fn what_is_no_cel_is_refused_where_it_goes_wrong() {
    for (condition, offset, expected) in [
        ("", 0, "ends too early; something is missing at its end"),
        ("payload.a <", 11, "ends too early; something is missing at its end"),
        ("(payload.a", 10, "ends too early; something is missing at its end"),
        ("payload.a = 1", 10, "\"=\" is no operator; compare with \"==\""),
        ("topic == \"a", 9, "the text that begins with \"a does not end"),
        ("topic topic", 6, "cannot be read from \"topic\" on"),
        ("topic == \"größe\" größe", 19, "cannot be read from \"größe\" on"),
        ("topic ==\n  == topic", 11, "cannot be read from \"== topic\" on"),
    ] {
        refused(condition, offset, expected);
    }
}

#[test]
fn conditions_are_bounded_in_size_and_depth() {
    refused(
        &format!("true{}", " ".repeat(1021)),
        0,
        "has 1025 bytes; a condition has at most 1024",
    );
    let nested = format!("{}true{}", "(".repeat(100), ")".repeat(100));
    assert_eq!(when(&nested).unwrap_err().message, "nested deeper than 32 levels");
    let flat = format!("{}1 > 0", "1+".repeat(200));
    assert_eq!(when(&flat).unwrap_err().message, "nested deeper than 48 levels");
    let not = format!("{}true", "!".repeat(400));
    assert!(when(&not).is_ok(), "pairs of negations cancel out");
    let members = format!("payload{} == 1", ".a".repeat(400));
    assert!(when(&members).is_err());
    let and = format!("true{}", " && true".repeat(100));
    assert!(when(&and).is_ok(), "a long row of conditions is not deep");
}
