use proptest::prelude::*;

use super::*;
use crate::reading::Origin;

const RECEIVED_MS: i64 = 1_795_305_600_000;

fn reading(subtopic: &str, payload: &[u8]) -> Reading {
    Reading {
        tenant: "acme".to_owned(),
        device: "press-1".to_owned(),
        subtopic: subtopic.to_owned(),
        payload: payload.to_vec().into(),
        received_at_ms: RECEIVED_MS,
        origin: Origin::new("edge".into(), 1, 1).unwrap(),
    }
}

#[track_caller]
fn check(subtopic: &str, payload: &str, expected: &[(&str, Value<'_>)]) {
    let reading = reading(subtopic, payload.as_bytes());
    let decoded = decode(&reading).unwrap();
    let streams: Vec<_> = decoded
        .streams
        .iter()
        .map(|(stream, value)| (stream.as_ref(), value.clone()))
        .collect();
    assert_eq!(streams, expected, "{payload}");
}

fn number(number: f64) -> Value<'static> {
    Value::Number(number)
}

fn json(text: &str) -> Value<'_> {
    Value::Json(text.into())
}

fn text(text: &str) -> Value<'_> {
    Value::Text(text.into())
}

#[test]
fn the_members_of_an_object_are_streams_behind_the_rest_of_the_topic() {
    check(
        "",
        r#"{"x": 1, "on": true}"#,
        &[("x", number(1.0)), ("on", Value::Boolean(true))],
    );
    check("vib", r#"{"x": 1}"#, &[("vib/x", number(1.0))]);
    check("vib/left", r#"{"x": "a\nb"}"#, &[("vib/left/x", text("a\nb"))]);
    check("", r#"{"a\"b": 1}"#, &[("a\"b", number(1.0))]);
}

#[test]
fn objects_within_are_taken_apart_to_a_depth() {
    check(
        "",
        r#"{"a": {"b": 1, "c": {"d": 2}}}"#,
        &[("a/b", number(1.0)), ("a/c/d", number(2.0))],
    );
    check(
        "",
        r#"{"a":{"b":{"c":{"d":{"e":1}}}}}"#,
        &[("a/b/c/d", json(r#"{"e":1}"#))],
    );
    check(
        "",
        r#"{"a": {}, "b": [1, {"c": 2}], "d": null}"#,
        &[("a", json("{}")), ("b", json(r#"[1, {"c": 2}]"#)), ("d", json("null"))],
    );
}

#[test]
fn a_value_alone_is_one_stream() {
    check("", "21.5", &[("value", number(21.5))]);
    check("t", " true ", &[("t", Value::Boolean(true))]);
    check("t", r#""on""#, &[("t", text("on"))]);
}

#[test]
fn json_that_makes_no_stream_is_kept_whole() {
    let whole = [
        "{}",
        r#"{"ts": 1}"#,
        r#"{ "q": 1, "ts": 2 }"#,
        "[1, 2]",
        "null",
        r#""\ud800""#,
        r#"{"\ud800": 1}"#,
    ];
    for payload in whole {
        check("", payload, &[("value", json(payload))]);
    }
    let long_name = format!("{{\"{}\": 1}}", "n".repeat(MAX_NAME_BYTES + 1));
    let nul = r#"{"x": 1, "a\u0000b": 2}"#;
    for payload in [nul, &long_name] {
        check("vib", payload, &[("vib", json(payload))]);
    }
}

#[test]
fn what_is_no_json_is_kept_as_its_bytes() {
    let payloads: [&[u8]; 8] = [
        b"",
        b"on",
        b"{\"x\": NaN}",
        b"NaN",
        b"\xff\xfe",
        b"{\"x\":1}}",
        b"\0",
        b"\xef\xbb\xbf1",
    ];
    for payload in payloads {
        let reading = reading("", payload);
        let decoded = decode(&reading).unwrap();
        assert_eq!(decoded.streams, [("value".into(), Value::Bytes(payload.into()))]);
    }
}

#[test]
fn members_that_occur_twice_are_two_rows() {
    check("", r#"{"x": 1, "x": 2}"#, &[("x", number(1.0)), ("x", number(2.0))]);
}

#[test]
fn odd_values_are_kept_as_they_came() {
    check("", r#"{"x": "a\u0000b"}"#, &[("x", text("a\0b"))]);
    check("", r#"{"x": "\ud83d\ude00"}"#, &[("x", text("😀"))]);
    check("", r#"{"x": "\ud83d"}"#, &[("x", json(r#""\ud83d""#))]);
    check("", r#"{"x": 1e400}"#, &[("x", Value::Decimal("1e400".into()))]);
}

#[test]
fn ts_and_q_at_the_top_are_time_and_quality_of_all_streams() {
    let reading = reading(
        "",
        br#"{"ts": 1700000000, "q": "good", "x": 1, "in": {"ts": 5, "q": 6}}"#,
    );
    let decoded = decode(&reading).unwrap();
    assert_eq!(
        (decoded.source_time_ms, decoded.quality.as_deref()),
        (1_700_000_000_000, Some("good"))
    );
    let streams: Vec<&str> = decoded.streams.iter().map(|(stream, _)| stream.as_ref()).collect();
    assert_eq!(streams, ["x", "in/ts", "in/q"]);
}

#[test]
fn a_quality_may_be_a_number_or_boolean() {
    for (q, expected) in [
        ("192", Some("192")),
        ("true", Some("true")),
        ("\"\"", Some("")),
        ("null", None),
    ] {
        let reading = reading("", format!("{{\"q\": {q}, \"x\": 1}}").as_bytes());
        assert_eq!(decode(&reading).unwrap().quality.as_deref(), expected, "{q}");
    }
}

#[test]
fn a_nonsense_ts_or_q_is_a_stream_and_the_time_is_the_edges() {
    let long = "q".repeat(MAX_QUALITY_BYTES + 1);
    let payload = format!(r#"{{"ts": "tomorrow", "q": "{long}", "x": 1}}"#);
    check(
        "",
        &payload,
        &[("ts", text("tomorrow")), ("q", text(&long)), ("x", number(1.0))],
    );
    let reading = reading("", payload.as_bytes());
    assert_eq!(decode(&reading).unwrap().source_time_ms, RECEIVED_MS);
    check("", r#"{"ts": 1e300}"#, &[("ts", Value::Decimal("1e300".into()))]);
    // Of two, the first that is a time; the other is not lost.
    check(
        "",
        r#"{"ts": null, "ts": 1, "ts": 2, "x": 1}"#,
        &[("ts", json("null")), ("ts", number(2.0)), ("x", number(1.0))],
    );
}

#[test]
fn more_streams_than_a_message_may_have_are_kept_whole() {
    let members = |count: usize| {
        let members: Vec<String> = (0..count).map(|member| format!("\"m{member}\":{member}")).collect();
        format!("{{\"ts\":1,\"q\":1,{}}}", members.join(","))
    };
    let fits = reading("", members(MAX_STREAMS).as_bytes());
    assert_eq!(decode(&fits).unwrap().streams.len(), MAX_STREAMS);
    for payload in [
        members(MAX_STREAMS + 1),
        members(20_000),
        format!("{{\"a\":{}}}", members(MAX_STREAMS)),
    ] {
        check("", &payload, &[("value", json(&payload))]);
    }
}

#[test]
fn depth_costs_no_stack() {
    for payload in ["[".repeat(250_000), "{\"a\":".repeat(50_000)] {
        let reading = reading("", payload.as_bytes());
        assert_eq!(
            decode(&reading).unwrap().streams,
            [("value".into(), Value::Bytes(payload.as_bytes().into()))]
        );
    }
    let deep = format!("{}{}", "[".repeat(125_000), "]".repeat(125_000));
    check("", &deep, &[("value", json(&deep))]);
    let deep = format!("{}1{}", "{\"a\":".repeat(40_000), "}".repeat(40_000));
    let reading = reading("", deep.as_bytes());
    assert_eq!(decode(&reading).unwrap().streams[0].0, "a/a/a/a");
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<f64>().prop_map(|number| format!("{number}")),
        any::<i64>().prop_map(|number| number.to_string()),
        ".*".prop_map(|text| serde_json::Value::from(text).to_string()),
        Just("null".to_owned()),
        Just("{\"ts\": \"2023-11-14T22:13:20Z\"}".to_owned()),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        let members = prop::collection::vec(
            (
                prop_oneof![Just("ts".to_owned()), Just("q".to_owned()), ".{0,3}"],
                inner.clone(),
            ),
            0..8,
        );
        prop_oneof![
            prop::collection::vec(inner, 0..8).prop_map(|items| format!("[{}]", items.join(","))),
            members.prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(name, value)| format!("{}: {value}", serde_json::Value::from(name)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_message_makes_a_row_and_names_that_can_be_stored(json in any_json(), cut in any::<prop::sample::Index>(), bytes in any::<Vec<u8>>()) {
        let part = &json.as_bytes()[..cut.index(json.len() + 1)];
        for payload in [json.as_bytes(), part, &bytes] {
            let reading = reading("vib", payload);
            let decoded = decode(&reading).unwrap();
            prop_assert!(!decoded.streams.is_empty() && decoded.streams.len() <= MAX_STREAMS);
            for (stream, value) in &decoded.streams {
                prop_assert!(is_storable_name(stream) && stream.starts_with("vib"));
                if let Value::Bytes(kept) = value {
                    prop_assert_eq!(&kept[..], payload);
                }
            }
        }
    }
}
