//! What is old goes, by when the cloud stored it; what is needed to store each reading once stays.

use std::time::Duration;

use cloud::{Database, Reading, Retention, Value};

use crate::common::{DEVICE, NOW_MS, TENANT, gap, mark, numbered, reading, sequences};
use crate::place::Place;

crate::on_both!(
    rows_that_were_stored_before_go_and_marks_and_latest_stay,
    retention_ends_and_says_so,
    rows_of_a_clock_that_was_ahead_hold_up_no_others,
    absurd_dates_make_no_partitions,
    rows_of_each_tenant_go_by_its_own_retention_and_those_of_others_stay,
    a_retention_that_is_changed_is_followed_from_the_first_row_on,
    many_rows_of_one_tenant_go_in_steps_among_those_of_another,
);

const DAY_MS: i64 = 86_400_000;

fn retain_all(database: &mut Database, stored_before_ms: i64) {
    retain_all_of(database, &nothing(), stored_before_ms);
}

/// Keeps what is stored at that instant or later.
fn nothing() -> Retention {
    Retention {
        default: Some(Duration::ZERO),
        ..Retention::default()
    }
}

/// How many steps it took.
fn retain_all_of(database: &mut Database, retention: &Retention, now_ms: i64) -> usize {
    for step in 1..100 {
        if !database.retain(retention, now_ms).unwrap() {
            return step;
        }
    }
    panic!("retention does not end");
}

fn days(default: Option<u64>, of_tenants: &[(&str, u64)]) -> Retention {
    let age = |days| Duration::from_secs(days * 86_400);
    Retention {
        default: default.map(age),
        of_tenants: of_tenants
            .iter()
            .map(|(name, days)| ((*name).to_owned(), age(*days)))
            .collect(),
    }
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
    assert!(!database.retain(&nothing(), i64::MAX).unwrap());
    database.fill(&[gap(1..=2)], NOW_MS).unwrap();
    assert!(!database.retain(&nothing(), i64::MIN).unwrap());
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

const TENANTS: [&str; 3] = ["acme", "beta", "gamma"];

/// A reading and one that is rejected of each tenant, on each of ten days.
fn ten_days_of_three(database: &mut Database) {
    for day in 0..10 {
        for (index, tenant) in (0..).zip(TENANTS) {
            let of_tenant = |sequence, subtopic: &str| Reading {
                tenant: tenant.into(),
                subtopic: subtopic.to_owned(),
                ..numbered(sequence)
            };
            let sequence = 6 * day + 2 * index;
            let both = [of_tenant(sequence, ""), of_tenant(sequence + 1, "\0")];
            database.ingest(&both, NOW_MS + day as i64 * DAY_MS).unwrap();
        }
    }
}

/// The days that each tenant still has rows of, and how many readings of it are still rejected.
fn kept(place: &Place) -> Vec<(Vec<u64>, usize)> {
    let mut queries = place.queries();
    let of_tenant = |tenant: &str| {
        let page = queries
            .range(tenant, DEVICE, "x", i64::MIN..i64::MAX, 100, None)
            .unwrap();
        let days = page.items.iter().map(|point| point.origin.sequence() / 6);
        (days.collect(), queries.rejected(tenant, 0, 100).unwrap().len())
    };
    TENANTS.into_iter().map(of_tenant).collect()
}

/// Days from `first` on, of which as many rejected readings are left.
fn from(first: u64) -> (Vec<u64>, usize) {
    ((first..10).collect(), 10 - first as usize)
}

fn rows_of_each_tenant_go_by_its_own_retention_and_those_of_others_stay(place: &Place) {
    let mut database = place.open();
    ten_days_of_three(&mut database);
    let now_ms = NOW_MS + 10 * DAY_MS;
    retain_all_of(&mut database, &days(None, &[("beta", 4)]), now_ms);
    assert_eq!(kept(place), [from(0), from(6), from(0)]);
    // Longer and shorter than the others.
    retain_all_of(&mut database, &days(Some(5), &[("acme", 8), ("beta", 2)]), now_ms);
    assert_eq!(kept(place), [from(2), from(8), from(5)]);
    // Time goes on.
    retain_all_of(
        &mut database,
        &days(Some(5), &[("acme", 8), ("beta", 2)]),
        now_ms + DAY_MS,
    );
    assert_eq!(kept(place), [from(3), from(9), from(6)]);
    // A day of which nobody keeps anything is given up; the latest of each stream stays.
    let sql = "DO $$ BEGIN
            ASSERT (SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'telemetry'::regclass)
            = 'telemetry_20261125';
        END $$";
    place.sql("", sql);
    for tenant in TENANTS {
        assert_eq!(place.queries().latest(tenant, DEVICE, None, 10).unwrap().len(), 1);
    }
}

fn a_retention_that_is_changed_is_followed_from_the_first_row_on(place: &Place) {
    let mut database = place.open();
    ten_days_of_three(&mut database);
    let now_ms = NOW_MS + 10 * DAY_MS;
    // All three have the same, then one has another that was looked through for already.
    retain_all_of(&mut database, &days(None, &[("acme", 9), ("beta", 3)]), now_ms);
    assert_eq!(kept(place), [from(1), from(7), from(0)]);
    retain_all_of(&mut database, &days(None, &[("acme", 3), ("beta", 9)]), now_ms);
    assert_eq!(kept(place), [from(7), from(7), from(0)]);
    retain_all_of(
        &mut database,
        &days(None, &[("acme", 3), ("beta", 9), ("gamma", 3)]),
        now_ms,
    );
    assert_eq!(kept(place), [from(7), from(7), from(7)]);
    // Nothing is left on the first days: PostgreSQL has no table of them any more.
    place.sql(
        "",
        "DO $$ BEGIN
            ASSERT (SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'telemetry'::regclass)
            = 'telemetry_20261129';
        END $$",
    );
}

fn many_rows_of_one_tenant_go_in_steps_among_those_of_another(place: &Place) {
    let mut database = place.open();
    let of_tenant = |sequence: u64| Reading {
        tenant: TENANTS[sequence as usize % 2].into(),
        ..numbered(sequence)
    };
    let readings: Vec<Reading> = (0..50_000).map(of_tenant).collect();
    database.ingest(&readings, NOW_MS).unwrap();
    let retention = days(None, &[("acme", 1)]);
    // 10,000 rows at most: looked at in SQLite, removed in PostgreSQL.
    assert!(database.retain(&retention, NOW_MS + 3 * DAY_MS).unwrap());
    let left = sequences(&mut place.queries(), "x").len();
    assert!((15_000..25_000).contains(&left), "{left}");
    assert!(retain_all_of(&mut database, &retention, NOW_MS + 3 * DAY_MS) > 1);
    assert_eq!(sequences(&mut place.queries(), "x"), [] as [u64; 0]);
    let page = place
        .queries()
        .range("beta", DEVICE, "x", i64::MIN..i64::MAX, 1_000, None)
        .unwrap();
    assert_eq!(page.items.len(), 1_000);
    // Time goes on, and nothing is left to do.
    assert!(!database.retain(&retention, NOW_MS + 4 * DAY_MS).unwrap());
}
