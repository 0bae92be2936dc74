//! What can befall a file of SQLite.

use std::os::unix::fs::PermissionsExt;

use cloud::{Database, Error, Queries, Reading};

use crate::common::{NOW_MS, ingest, mark, numbered, sequences};
use crate::place::Place;
use crate::tmpfs::Tmpfs;

const BATCH: u64 = 200;

fn batch(number: u64) -> Vec<Reading> {
    (number * BATCH..(number + 1) * BATCH).map(numbered).collect()
}

#[test]
fn a_full_disk_is_full_and_takes_the_rest_when_there_is_room() {
    let Some(disk) = Tmpfs::mount("4m") else { return };
    let url = format!("sqlite:{}/telemetry.db", disk.path().display());
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 2 << 20]).unwrap();
    let mut database = Database::open(&url).unwrap();
    let full = (0..10_000).find(|number| match database.ingest(&batch(*number), NOW_MS) {
        Ok(_) => false,
        Err(Error::Full { .. }) => true,
        Err(error) => panic!("{error}"),
    });
    let full = full.expect("the disk fills up");
    // Whoever opens it meanwhile is told the same, or reads.
    match Queries::open(&url) {
        Ok(mut queries) => assert_eq!(sequences(&mut queries, "x").len() as u64, full * BATCH),
        Err(error) => assert!(matches!(error, Error::Full { .. }), "{error}"),
    }
    std::fs::remove_file(&filler).unwrap();
    for number in full..full + 5 {
        assert_eq!(ingest(&mut database, &batch(number)).stored, BATCH);
    }
    let expected: Vec<u64> = (0..(full + 5) * BATCH).collect();
    assert_eq!(sequences(&mut Queries::open(&url).unwrap(), "x"), expected);
    assert_eq!(mark(&mut database), [0..=expected.len() as u64 - 1]);
}

#[test]
fn a_file_that_another_writes_is_away_in_bounded_time() {
    let place = Place::sqlite().unwrap();
    let mut database = place.open();
    ingest(&mut database, &batch(0));
    let path = place.url.strip_prefix("sqlite:").unwrap();
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(database.ingest(&batch(1), NOW_MS), Err(Error::Away { .. })));
    assert_eq!(sequences(&mut place.queries(), "x").len() as u64, BATCH);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(ingest(&mut database, &batch(1)).stored, BATCH);
}

#[test]
fn only_the_owner_can_read_the_file_and_its_logs() {
    let place = Place::sqlite().unwrap();
    let mut database = place.open();
    ingest(&mut database, &batch(0));
    let path = place.url.strip_prefix("sqlite:").unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mode = std::fs::metadata(format!("{path}{suffix}"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
}

#[test]
fn a_file_that_is_no_telemetry_database_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other");
    let url = format!("sqlite:{}", path.display());
    let refusal = || Database::open(&url).err().unwrap().to_string();
    std::fs::write(&path, "no database, but long enough to have a header of one".repeat(20)).unwrap();
    assert!(refusal().contains("not a database"), "{}", refusal());
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE series (x)")
        .unwrap();
    assert!(refusal().contains("is no telemetry database"), "{}", refusal());
}
