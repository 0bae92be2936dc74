//! What can never be stored is rejected, with its reason, and holds up nothing else.

use cloud::{Ingested, Reading};

use crate::common::{TENANT, ingest, mark, numbered, reading, sequences};
use crate::place::Place;

crate::on_both!(
    a_reading_that_the_database_refuses_is_rejected_and_the_others_go_in,
    names_that_no_database_can_keep_are_rejected_with_all_that_was_said,
    a_device_that_makes_up_streams_without_end_is_rejected_at_its_bound,
);

fn a_reading_that_the_database_refuses_is_rejected_and_the_others_go_in(place: &Place) {
    let mut database = place.open();
    ingest(&mut database, &[numbered(1)]);
    place.sql(
        "CREATE TRIGGER unlucky BEFORE INSERT ON telemetry WHEN NEW.number = 13 OR NEW.number = 17
        BEGIN SELECT RAISE(ABORT, 'unlucky number'); END",
        "ALTER TABLE telemetry ADD CONSTRAINT unlucky CHECK (number <> 13 AND number <> 17)",
    );
    let readings: Vec<Reading> = (1..=20).map(numbered).collect();
    let done = ingest(&mut database, &readings);
    let expected = Ingested {
        stored: 17,
        rows: 17,
        duplicates: 1,
        rejected: 2,
        deferred: vec![],
    };
    assert_eq!(done, expected);
    assert_eq!(mark(&mut database), [1..=20]);
    let mut queries = place.queries();
    let stored: Vec<u64> = (1..=20).filter(|sequence| ![13, 17].contains(sequence)).collect();
    assert_eq!(sequences(&mut queries, "x"), stored);
    let rejected = queries.rejected(TENANT, 0, 10).unwrap();
    let (first, thirteen) = &rejected[0];
    assert!(thirteen.reason.contains("unlucky"), "{}", thirteen.reason);
    assert_eq!(thirteen.payload, numbered(13).payload);
    assert_eq!(thirteen.origin, numbered(13).origin);
    assert_eq!(queries.rejected(TENANT, *first, 10).unwrap(), rejected[1..]);
    assert_eq!(queries.rejected("another", 0, 10).unwrap(), []);
    assert_eq!(ingest(&mut database, &readings).duplicates, 20);
}

fn names_that_no_database_can_keep_are_rejected_with_all_that_was_said(place: &Place) {
    let mut database = place.open();
    let long = "n".repeat(70_000);
    let odd = |sequence, change: &dyn Fn(&mut Reading)| {
        let mut reading = reading(sequence, *b"\0\xff");
        change(&mut reading);
        reading
    };
    let readings = [
        odd(1, &|reading| reading.subtopic = "a\0b".to_owned()),
        odd(2, &|reading| reading.subtopic = long.clone()),
        odd(3, &|reading| reading.device = long.clone()),
        odd(4, &|reading| reading.device = "\0".to_owned()),
        odd(5, &|reading| reading.tenant = long.clone()),
        odd(6, &|reading| reading.received_at_ms = i64::MIN),
        odd(7, &|reading| reading.received_at_ms = i64::MAX),
        numbered(8),
    ];
    let done = ingest(&mut database, &readings);
    assert_eq!((done.stored, done.rejected), (1, 7));
    assert_eq!(mark(&mut database), [1..=8]);
    let rejected = place.queries().rejected(TENANT, 0, 10).unwrap();
    assert_eq!(rejected.len(), 6);
    for ((_, rejected), reading) in rejected
        .iter()
        .zip(readings.iter().filter(|reading| reading.tenant == TENANT))
    {
        assert_eq!(rejected.payload, reading.payload);
        assert_eq!(rejected.subtopic, reading.subtopic);
        assert_eq!(rejected.device, reading.device);
        assert_eq!(rejected.received_at_ms, reading.received_at_ms);
    }
}

fn a_device_that_makes_up_streams_without_end_is_rejected_at_its_bound(place: &Place) {
    let mut database = place.open();
    let members = |range: std::ops::Range<u64>| {
        let members: Vec<String> = range.map(|stream| format!("\"s{stream}\":{stream}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let many: Vec<Reading> = (0..10)
        .map(|part| reading(part, members(part * 1_000..(part + 1) * 1_000)))
        .collect();
    assert_eq!(ingest(&mut database, &many).rows, 10_000);
    let mut other = numbered(11);
    other.device = "press-2".to_owned();
    let done = ingest(&mut database, &[numbered(10), other, reading(12, members(0..5))]);
    assert_eq!((done.stored, done.rejected), (2, 1));
    let rejected = &place.queries().rejected(TENANT, 0, 10).unwrap()[0].1;
    assert!(rejected.reason.contains("10000 streams"), "{}", rejected.reason);
}
