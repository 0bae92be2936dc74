//! What is old goes, by when the cloud stored it; what is needed to store each reading once stays.

use cloud::{Database, Reading, Value};

use crate::common::{DEVICE, NOW_MS, TENANT, gap, mark, numbered, reading, sequences};
use crate::place::Place;

crate::on_both!(
    rows_that_were_stored_before_go_and_marks_and_latest_stay,
    retention_ends_and_says_so,
    rows_of_a_clock_that_was_ahead_hold_up_no_others,
    absurd_dates_make_no_partitions,
);

const DAY_MS: i64 = 86_400_000;

fn retain_all(database: &mut Database, stored_before_ms: i64) {
    for _ in 0..100 {
        if !database.retain(stored_before_ms).unwrap() {
            return;
        }
    }
    panic!("retention does not end");
}

fn rows_that_were_stored_before_go_and_marks_and_latest_stay(place: &Place) {
    let mut database = place.open();
    for day in 0..4 {
        let unfit = Reading {
            subtopic: "\0".to_owned(),
            ..numbered(100 + day)
        };
        database
            .ingest(&[numbered(day), unfit], NOW_MS + day as i64 * DAY_MS)
            .unwrap();
    }
    retain_all(&mut database, NOW_MS + 2 * DAY_MS);
    let mut queries = place.queries();
    assert_eq!(sequences(&mut queries, "x"), [2, 3]);
    assert_eq!(queries.rejected(TENANT, 0, 10).unwrap().len(), 2);
    retain_all(&mut database, NOW_MS + 10 * DAY_MS);
    assert_eq!(sequences(&mut queries, "x"), [] as [u64; 0]);
    assert_eq!(queries.rejected(TENANT, 0, 10).unwrap(), []);
    assert_eq!(
        queries.latest(TENANT, DEVICE, None, 10).unwrap()[0].1.value,
        Value::Number(3.0)
    );
    let again: Vec<Reading> = (0..4).map(numbered).collect();
    assert_eq!(database.ingest(&again, NOW_MS + 11 * DAY_MS).unwrap().duplicates, 4);
    assert_eq!(mark(&mut database), [0..=3, 100..=103]);
    assert_eq!(database.ingest(&[numbered(4)], NOW_MS + 11 * DAY_MS).unwrap().stored, 1);
}

fn retention_ends_and_says_so(place: &Place) {
    let mut database = place.open();
    assert!(!database.retain(i64::MAX).unwrap());
    database.fill(&[gap(1..=2)], NOW_MS).unwrap();
    assert!(!database.retain(i64::MIN).unwrap());
    let readings: Vec<Reading> = (10..25_010).map(numbered).collect();
    database.ingest(&readings, NOW_MS).unwrap();
    retain_all(&mut database, NOW_MS - DAY_MS);
    assert_eq!(sequences(&mut place.queries(), "x").len(), 25_000);
    retain_all(&mut database, NOW_MS + 2 * DAY_MS);
    assert_eq!(sequences(&mut place.queries(), "x").len(), 0);
}

fn rows_of_a_clock_that_was_ahead_hold_up_no_others(place: &Place) {
    let mut database = place.open();
    let ahead: Vec<Reading> = (0..15_000).map(numbered).collect();
    database.ingest(&ahead, NOW_MS + 300 * DAY_MS).unwrap();
    database.ingest(&[numbered(20_000)], NOW_MS).unwrap();
    retain_all(&mut database, NOW_MS + 2 * DAY_MS);
    assert_eq!(sequences(&mut place.queries(), "x").len(), 15_000);
}

#[test]
fn an_embedded_databases_oldest_rows_go_where_all_take_more_bytes() {
    let place = Place::sqlite().unwrap();
    let mut database = place.open();
    let long = |sequence| {
        reading(
            sequence,
            format!("{{\"x\": {sequence}, \"p\": \"{}\"}}", "x".repeat(200)),
        )
    };
    let readings: Vec<Reading> = (0..30_000).map(long).collect();
    for (day, batch) in readings.chunks(10_000).enumerate() {
        database.ingest(batch, NOW_MS + day as i64 * DAY_MS).unwrap();
    }
    assert!(!database.shrink(1 << 30).unwrap());
    while database.shrink(8 << 20).unwrap() {}
    let left = sequences(&mut place.queries(), "x");
    assert!(!left.is_empty() && left.len() < 30_000, "{}", left.len());
    assert_eq!(*left.last().unwrap(), 29_999);
    assert_eq!(left[0] + left.len() as u64, 30_000, "newer rows went before older ones");
    // With nothing left to remove it ends.
    while database.shrink(0).unwrap() {}
    assert_eq!(database.ingest(&readings[..10], NOW_MS).unwrap().duplicates, 10);
}

fn absurd_dates_make_no_partitions(place: &Place) {
    let mut database = place.open();
    let dates = [
        "0",
        "-62135596800",
        "99999999999",
        "\"0001-01-01T00:00:00Z\"",
        "\"9999-12-31T23:59:59Z\"",
        "1e13",
    ];
    let mut readings: Vec<Reading> = Vec::new();
    for (sequence, ts) in (0..).zip(dates) {
        readings.push(Reading {
            received_at_ms: (sequence as i64 - 3) * 1_000_000_000_000_000,
            ..reading(sequence, format!("{{\"ts\": {ts}, \"x\": 1}}"))
        });
    }
    assert_eq!(database.ingest(&readings, NOW_MS).unwrap().stored, 6);
    // A cloud whose own clock is nonsense takes in as ever.
    for (sequence, now_ms) in [(10, i64::MIN), (11, i64::MAX), (12, 0), (13, NOW_MS + DAY_MS - 1)] {
        assert_eq!(database.ingest(&[numbered(sequence)], now_ms).unwrap().stored, 1);
    }
    assert_eq!(sequences(&mut place.queries(), "x").len(), 10);
    place.sql(
        "",
        "DO $$ BEGIN
            ASSERT (SELECT array_agg(inhrelid::regclass::text ORDER BY inhrelid::regclass::text) FROM pg_inherits
                WHERE inhparent = 'telemetry'::regclass)
            = ARRAY['telemetry_20000101', 'telemetry_20261122', 'telemetry_99991231'];
        END $$",
    );
}
