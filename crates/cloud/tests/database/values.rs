//! What goes in comes out again, however odd.

use cloud::{Reading, Value};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::common::{DEVICE, NOW_MS, TENANT, all, ingest, reading, values};
use crate::place::Place;

crate::on_both!(
    every_kind_of_value_comes_back_as_it_went_in,
    a_reading_comes_back_with_its_times_quality_and_origin,
    whatever_a_device_sends_is_stored_and_can_be_read,
);

fn every_kind_of_value_comes_back_as_it_went_in(place: &Place) {
    let long = "ü".repeat(125_000);
    let long_json = serde_json::Value::from(&*long).to_string();
    let expected: [(&str, Value<'_>); 18] = [
        ("1", Value::Number(1.0)),
        ("-0.125", Value::Number(-0.125)),
        ("0.1", Value::Number(0.1)),
        ("1e140", Value::Number(1e140)),
        ("5e-324", Value::Number(5e-324)),
        ("-0.0", Value::Decimal("-0.0".into())),
        ("1e400", Value::Decimal("1e400".into())),
        ("18446744073709551615", Value::Decimal("18446744073709551615".into())),
        ("true", Value::Boolean(true)),
        ("false", Value::Boolean(false)),
        ("\"\"", Value::Text("".into())),
        (r#""a\u0000b""#, Value::Text("a\0b".into())),
        (&long_json, Value::Text(long.as_str().into())),
        ("null", Value::Json("null".into())),
        (r#""\ud800""#, Value::Json(r#""\ud800""#.into())),
        ("[1,  {}]", Value::Json("[1,  {}]".into())),
        ("NaN", Value::Bytes(b"NaN".into())),
        ("", Value::Bytes(b"".into())),
    ];
    let readings: Vec<Reading> = (0..)
        .zip(&expected)
        .map(|(sequence, (payload, _))| reading(sequence, *payload))
        .collect();
    let mut database = place.open();
    ingest(&mut database, &readings);
    let odd = [
        reading(50, vec![0xff; 250_000]),
        reading(51, (0..=255).collect::<Vec<u8>>()),
    ];
    ingest(&mut database, &odd);
    let mut expected: Vec<Value<'_>> = expected.into_iter().map(|(_, value)| value).collect();
    expected.extend(odd.iter().map(|reading| Value::Bytes(reading.payload.to_vec().into())));
    assert_eq!(values(&mut place.queries(), "value"), expected);
}

fn a_reading_comes_back_with_its_times_quality_and_origin(place: &Place) {
    let sent = reading(7, r#"{"ts": "1969-12-31T23:59:59.5Z", "q": "uncertain ☂", "x": 1}"#);
    ingest(&mut place.open(), std::slice::from_ref(&sent));
    let mut queries = place.queries();
    let [point] = &all(&mut queries, "x")[..] else {
        panic!("one row")
    };
    assert_eq!(point.source_time_ms, -500);
    assert_eq!(point.received_at_ms, NOW_MS + 7);
    assert_eq!(point.quality.as_deref(), Some("uncertain ☂"));
    assert_eq!(point.origin, sent.origin);
    assert_eq!(
        queries.latest(TENANT, DEVICE, None, 1).unwrap(),
        [("x".to_owned(), point.clone())]
    );
}

fn any_payload() -> impl Strategy<Value = Vec<u8>> {
    let scalar = prop_oneof![
        any::<f64>().prop_map(|number| number.to_string()),
        any::<i128>().prop_map(|number| number.to_string()),
        "\\PC*".prop_map(|text| serde_json::Value::from(text).to_string()),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    let name = prop_oneof![
        any::<String>(),
        Just("ts".to_owned()),
        Just("q".to_owned()),
        "x{250,260}"
    ];
    let object = prop::collection::vec((name, scalar), 0..5).prop_map(|members| {
        let members = members
            .into_iter()
            .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    });
    prop_oneof![any::<Vec<u8>>(), object.prop_map(String::into_bytes)]
}

/// The same payloads each time; `decode` has the tests that look for new ones.
fn whatever_a_device_sends_is_stored_and_can_be_read(place: &Place) {
    let (mut database, mut queries) = (place.open(), place.queries());
    let mut runner = TestRunner::deterministic();
    for sequence in 0..400 {
        let (payload, subtopic) = (any_payload(), "[^\u{0}]{0,9}")
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let sent = Reading {
            subtopic,
            device: format!("device-{sequence}"),
            ..reading(sequence, payload)
        };
        let done = ingest(&mut database, std::slice::from_ref(&sent));
        assert_eq!((done.stored, done.rejected), (1, 0), "{sent:?}");
        let latest = queries.latest(TENANT, &sent.device, None, 100).unwrap();
        assert!(!latest.is_empty(), "{sent:?}");
        for (stream, point) in latest {
            assert_eq!(point.origin, sent.origin);
            let page = queries
                .range(TENANT, &sent.device, &stream, i64::MIN..i64::MAX, 10, None)
                .unwrap();
            assert_eq!(page.items.last(), Some(&point), "{sent:?}");
            if let Value::Bytes(bytes) = point.value {
                assert_eq!(&bytes[..], &sent.payload[..]);
            }
        }
    }
}
