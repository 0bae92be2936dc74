//! What the queries answer.

use cloud::{Bucket, Origin, Reading, Value};

use crate::common::{DEVICE, EDGE, NOW_MS, TENANT, all, ingest, numbered, origin, reading, values};
use crate::place::Place;

crate::on_both!(
    the_latest_is_the_greatest_epoch_and_sequence_whatever_the_clocks_say,
    of_several_edges_the_latest_is_the_one_that_was_received_last,
    a_range_is_in_the_order_of_source_time_and_its_pages_meet,
    pages_go_on_through_readings_of_one_time,
    a_page_ends_at_its_bytes_and_the_next_goes_on,
    buckets_hold_what_their_numbers_say,
    huge_numbers_do_not_spoil_a_bucket,
    streams_are_listed_by_name_behind_the_one_given,
    queries_go_on_while_a_batch_goes_in,
);

fn from(edge: &str, epoch: u64, sequence: u64, received_at_ms: i64) -> Reading {
    Reading {
        received_at_ms,
        origin: Origin::new(edge.into(), epoch, sequence).unwrap(),
        ..reading(sequence, format!("{{\"x\": {sequence}}}"))
    }
}

fn latest_sequence(place: &Place) -> (String, u64) {
    let latest = place.queries().latest(TENANT, DEVICE, None, 10).unwrap();
    let [(stream, point)] = &latest[..] else {
        panic!("{latest:?}")
    };
    assert_eq!(stream, "x");
    (point.origin.edge().to_string(), point.origin.sequence())
}

fn the_latest_is_the_greatest_epoch_and_sequence_whatever_the_clocks_say(place: &Place) {
    let mut database = place.open();
    // The backlog of the first start comes after the live readings of the second, whose clock says 1970.
    for (epoch, sequence, received_at_ms, expected) in [
        (1 << 32, 5, NOW_MS, 5),
        (2 << 32, 1, 0, 1),
        (1 << 32, 9, NOW_MS + 9, 1),
        (2 << 32, 3, 2, 3),
        (2 << 32, 2, 9, 3),
    ] {
        ingest(&mut database, &[from(EDGE, epoch, sequence, received_at_ms)]);
        assert_eq!(latest_sequence(place).1, expected);
    }
    let batch = [
        from(EDGE, 2 << 32, 8, 7),
        from(EDGE, 2 << 32, 10, 5),
        from(EDGE, 2 << 32, 9, 6),
    ];
    ingest(&mut database, &batch);
    assert_eq!(latest_sequence(place).1, 10);
}

fn of_several_edges_the_latest_is_the_one_that_was_received_last(place: &Place) {
    let mut database = place.open();
    ingest(
        &mut database,
        &[
            from("b", 1, 1, NOW_MS),
            from("a", 9, 9, NOW_MS - 1),
            from("a", 9, 8, NOW_MS + 1),
        ],
    );
    assert_eq!(latest_sequence(place), ("b".to_owned(), 1));
    ingest(&mut database, &[from("a", 9, 10, NOW_MS + 1)]);
    assert_eq!(latest_sequence(place), ("a".to_owned(), 10));
}

fn a_range_is_in_the_order_of_source_time_and_its_pages_meet(place: &Place) {
    let mut database = place.open();
    let at = |sequence: u64, second: i64| reading(sequence, format!("{{\"ts\": {second}, \"x\": {second}}}"));
    ingest(
        &mut database,
        &[at(1, 30), at(2, 10), at(3, 50), at(4, 20), at(5, -40), at(6, 40)],
    );
    let mut queries = place.queries();
    let mut page = |after: Option<&cloud::Cursor>| {
        let page = queries.range(TENANT, DEVICE, "x", 10_000..50_000, 2, after).unwrap();
        let seconds: Vec<i64> = page.items.iter().map(|point| point.source_time_ms / 1_000).collect();
        (seconds, page.next)
    };
    let (seconds, next) = page(None);
    assert_eq!(seconds, [10, 20]);
    let again = next.unwrap().to_string().parse().unwrap();
    let (seconds, next) = page(Some(&again));
    assert_eq!(seconds, [30, 40]);
    let (seconds, next) = page(next.as_ref());
    assert_eq!((seconds, next), (vec![], None));
    // A cursor of before the span does not widen it.
    let before = "-9000000.1.1.1.1".parse().unwrap();
    assert_eq!(page(Some(&before)).0, [10, 20]);
}

fn pages_go_on_through_readings_of_one_time(place: &Place) {
    let mut database = place.open();
    let readings: Vec<Reading> = (0..50)
        .map(|sequence| reading(sequence, format!("{{\"ts\":0,\"x\":{sequence},\"x\":-1}}")))
        .collect();
    ingest(&mut database, &readings);
    let mut queries = place.queries();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = queries.range(TENANT, DEVICE, "x", 0..1, 7, after.as_ref()).unwrap();
        found.extend(
            page.items
                .into_iter()
                .map(|point| (point.origin.sequence(), point.value)),
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let number = |number: u64| Value::Number(number as f64);
    let expected: Vec<_> = (0..50)
        .flat_map(|sequence| [(sequence, number(sequence)), (sequence, Value::Number(-1.0))])
        .collect();
    assert_eq!(found, expected);
}

fn a_page_ends_at_its_bytes_and_the_next_goes_on(place: &Place) {
    let mut database = place.open();
    let readings: Vec<Reading> = (0..40).map(|sequence| reading(sequence, vec![b'?'; 250_000])).collect();
    ingest(&mut database, &readings);
    let mut queries = place.queries();
    let page = queries
        .range(TENANT, DEVICE, "value", 0..i64::MAX, 1_000, None)
        .unwrap();
    assert!((10..30).contains(&page.items.len()), "{}", page.items.len());
    assert_eq!(all(&mut queries, "value").len(), 40);
}

fn buckets_hold_what_their_numbers_say(place: &Place) {
    let mut database = place.open();
    let at = |sequence: u64, ms: i64, value: &str| {
        reading(
            sequence,
            format!("{{\"ts\": {}, \"x\": {value}}}", 1_000_000_000_000 + ms),
        )
    };
    let readings = [
        at(1, 5, "2"),
        at(2, 0, "4"),
        at(3, 9, "-1"),
        at(4, 9, "1"),
        at(5, 6, "\"text\""),
        at(6, 7, "true"),
        at(7, 25, "7.5"),
        at(8, 30, "100"),
    ];
    ingest(&mut database, &readings);
    let start = 1_000_000_000_000;
    let buckets = place
        .queries()
        .buckets(TENANT, DEVICE, "x", start..start + 30, 10)
        .unwrap();
    let expected = [
        Bucket {
            start_ms: start,
            count: 4,
            min: -1.0,
            max: 4.0,
            mean: 1.5,
            first: 4.0,
            last: 1.0,
        },
        Bucket {
            start_ms: start + 20,
            count: 1,
            min: 7.5,
            max: 7.5,
            mean: 7.5,
            first: 7.5,
            last: 7.5,
        },
    ];
    assert_eq!(buckets, expected);
    // Buckets count from the span's beginning.
    let shifted = place
        .queries()
        .buckets(TENANT, DEVICE, "x", start + 5..start + 30, 10)
        .unwrap();
    assert_eq!(
        shifted
            .iter()
            .map(|bucket| (bucket.start_ms, bucket.count))
            .collect::<Vec<_>>(),
        [(start + 5, 3), (start + 25, 1)]
    );
}

fn huge_numbers_do_not_spoil_a_bucket(place: &Place) {
    let mut database = place.open();
    let payloads = [
        "1e400",
        "-1e308",
        "1e308",
        "1e308",
        "1e139",
        "1e139",
        "1e-320",
        "12345678901234567890",
        "2",
    ];
    let readings: Vec<Reading> = (1..)
        .zip(payloads)
        .map(|(sequence, payload)| reading(sequence, payload))
        .collect();
    ingest(&mut database, &readings);
    let buckets = place
        .queries()
        .buckets(TENANT, DEVICE, "value", NOW_MS..NOW_MS + 1_000, 1_000)
        .unwrap();
    let [bucket] = &buckets[..] else { panic!("{buckets:?}") };
    assert_eq!((bucket.count, bucket.max, bucket.last), (5, 1e139, 2.0));
    assert_eq!(values(&mut place.queries(), "value").len(), payloads.len());
}

fn streams_are_listed_by_name_behind_the_one_given(place: &Place) {
    let mut database = place.open();
    ingest(
        &mut database,
        &[reading(1, r#"{"b": 1, "ä": 2, "B": 3, "a": {"z": 1}, "": 0}"#)],
    );
    let mut queries = place.queries();
    assert_eq!(
        queries.streams(TENANT, DEVICE, None, 10).unwrap(),
        ["", "B", "a/z", "b", "ä"]
    );
    assert_eq!(queries.streams(TENANT, DEVICE, Some("B"), 2).unwrap(), ["a/z", "b"]);
    let latest = queries.latest(TENANT, DEVICE, Some("B"), 2).unwrap();
    assert_eq!(
        latest.iter().map(|(stream, _)| stream.as_str()).collect::<Vec<_>>(),
        ["a/z", "b"]
    );
}

/// Another writer holds a transaction open; what it has not committed is not seen, and nobody waits.
fn queries_go_on_while_a_batch_goes_in(place: &Place) {
    let mut database = place.open();
    ingest(&mut database, &[numbered(1)]);
    let mut queries = place.queries();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for batch in 0..20_u64 {
                let readings: Vec<Reading> = (1..=500).map(|n| numbered(batch * 500 + n)).collect();
                ingest(&mut database, &readings);
            }
        });
        let mut seen = 0;
        while !writer.is_finished() {
            let page = queries.range(TENANT, DEVICE, "x", 0..i64::MAX, 10_000, None).unwrap();
            assert!(page.items.len() >= seen, "{} rows after {seen}", page.items.len());
            assert!(
                page.items.len() == 1 || page.items.len().is_multiple_of(500),
                "part of a batch is seen"
            );
            seen = page.items.len();
        }
    });
    assert_eq!(
        queries.latest(TENANT, DEVICE, None, 1).unwrap()[0].1.origin,
        origin(1, 10_000)
    );
}
