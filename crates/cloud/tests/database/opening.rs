//! Where a database lies, its version, and who may make it.

use cloud::{Database, Error, Queries};

use crate::common::{ingest, numbered, sequences};
use crate::place::Place;

crate::on_both!(
    a_newer_version_is_refused_with_both_versions,
    several_may_make_the_tables_at_once,
    rows_that_somebody_else_wrote_are_an_error_and_no_panic,
    a_database_works_on_a_blocking_task_and_may_be_dropped_in_any,
);

fn a_newer_version_is_refused_with_both_versions(place: &Place) {
    drop(place.open());
    place.sql("PRAGMA user_version = 7", "UPDATE schema_version SET version = 7");
    let refusal = Database::open(&place.url).err().unwrap();
    assert!(matches!(refusal, Error::Unusable { .. }));
    let refusal = refusal.to_string();
    assert!(
        refusal.contains("version 7") && refusal.contains("up to 1"),
        "{refusal}"
    );
    assert!(Queries::open(&place.url).is_err());
}

fn several_may_make_the_tables_at_once(place: &Place) {
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || ingest(&mut place.open(), &[numbered(writer)]));
        }
    });
    assert_eq!(sequences(&mut place.queries(), "x"), [0, 1, 2, 3]);
}

fn rows_that_somebody_else_wrote_are_an_error_and_no_panic(place: &Place) {
    ingest(&mut place.open(), &[numbered(1)]);
    let sql = "UPDATE telemetry SET kind = 99";
    place.sql(sql, sql);
    let mut queries = place.queries();
    let answer = queries.range(crate::common::TENANT, crate::common::DEVICE, "x", 0..i64::MAX, 1, None);
    assert!(matches!(answer, Err(Error::Unusable { .. })));
}

fn a_database_works_on_a_blocking_task_and_may_be_dropped_in_any(place: &Place) {
    let url = place.url.clone();
    let use_it = move || {
        let (mut database, mut queries) = (Database::open(&url).unwrap(), Queries::open(&url).unwrap());
        ingest(&mut database, &[numbered(1)]);
        assert_eq!(sequences(&mut queries, "x"), [1]);
        (database, queries)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { drop(tokio::task::spawn_blocking(use_it).await.unwrap()) });
}

#[test]
fn a_url_of_no_database_is_refused_without_its_password() {
    for url in [
        "",
        "telemetry.db",
        "sqlite:",
        "mysql://u:secret@h/d",
        "postgres://u:secret@h:port/d",
        "postgres://u:secret@h/d?x=y",
    ] {
        let refusal = Database::open(url).err().unwrap();
        assert!(matches!(refusal, Error::Location { .. }), "{url}: {refusal}");
        assert!(!refusal.to_string().contains("secret"), "{refusal}");
        assert!(
            refusal.to_string().contains("give sqlite:PATH or postgres://"),
            "{refusal}"
        );
    }
}

#[test]
fn a_server_that_is_not_there_is_away_and_its_password_is_not_told() {
    let refusal = Database::open("postgres://user:secret@127.0.0.1:1/telemetry")
        .err()
        .unwrap();
    assert!(matches!(refusal, Error::Away { .. }));
    let refusal = refusal.to_string();
    assert!(
        refusal.contains("postgres://127.0.0.1:1/telemetry") && !refusal.contains("secret"),
        "{refusal}"
    );
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let refusal = Database::open("sqlite:/proc/self/telemetry.db")
        .err()
        .unwrap()
        .to_string();
    assert!(
        refusal.starts_with("/proc/self/telemetry.db: ") && refusal.contains("writable"),
        "{refusal}"
    );
}
