//! A PostgreSQL server that dies, goes away, stops answering, or has a full disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cloud::{Database, Error, Queries, Reading, Retention};

use crate::cluster::Cluster;
use crate::common::{DEVICE, NOW_MS, TENANT, ingest, ingest_at_last, mark, numbered, sequences};
use crate::tmpfs::Tmpfs;

const BATCH: u64 = 200;

fn batch(number: u64) -> Vec<Reading> {
    (number * BATCH..(number + 1) * BATCH).map(numbered).collect()
}

/// All readings before `count` are there once, and marked.
fn check_all(url: &str, count: u64) {
    let expected: Vec<u64> = (0..count).collect();
    assert_eq!(sequences(&mut Queries::open(url).unwrap(), "x"), expected);
    assert_eq!(mark(&mut Database::open(url).unwrap()), [0..=count - 1]);
}

#[test]
fn a_server_that_is_killed_again_and_again_has_each_reading_once() {
    const KILLS: usize = 4;
    let Some(cluster) = Cluster::start_new() else { return };
    let url = cluster.make_database("killed");
    let mut database = Database::open(&url).unwrap();
    let is_over = AtomicBool::new(false);
    let batches = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                ingest_at_last(&mut database, &batch(number));
                number += 1;
            }
            number
        });
        for kill in 0..KILLS {
            std::thread::park_timeout(Duration::from_millis(150 + 70 * kill as u64));
            cluster.order("kill");
            cluster.order("start -c fsync=off");
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(batches > KILLS as u64, "only {batches} batches went in");
    check_all(&url, batches * BATCH);
}

#[test]
fn while_the_server_is_away_all_say_so_and_then_go_on() {
    let Some(cluster) = Cluster::start_new() else { return };
    let url = cluster.make_database("away");
    let (mut database, mut queries) = (Database::open(&url).unwrap(), Queries::open(&url).unwrap());
    ingest(&mut database, &batch(0));
    cluster.order("stop");
    for _ in 0..3 {
        assert!(matches!(database.ingest(&batch(1), NOW_MS), Err(Error::Away { .. })));
        assert!(matches!(database.marks("edge-a"), Err(Error::Away { .. })));
        assert!(matches!(
            database.retain(
                &Retention {
                    default: Some(Duration::ZERO),
                    ..Retention::default()
                },
                NOW_MS
            ),
            Err(Error::Away { .. })
        ));
        assert!(matches!(
            queries.latest(TENANT, DEVICE, None, 1),
            Err(Error::Away { .. })
        ));
        assert!(matches!(Database::open(&url), Err(Error::Away { .. })));
    }
    cluster.order("start -c fsync=off");
    assert_eq!(ingest(&mut database, &batch(1)).stored, BATCH);
    assert_eq!(
        queries.latest(TENANT, DEVICE, None, 1).unwrap()[0].1.origin.sequence(),
        2 * BATCH - 1
    );
    check_all(&url, 2 * BATCH);
}

#[test]
fn a_server_that_never_answers_is_away_and_what_it_was_doing_is_not_done_twice() {
    let Some(cluster) = Cluster::start_new() else { return };
    let url = cluster.make_database("paused");
    let mut database = Database::open(&url).unwrap();
    ingest(&mut database, &batch(0));
    let done = std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..10_000).find(|number| database.ingest(&batch(*number), NOW_MS).is_err()));
        std::thread::park_timeout(Duration::from_millis(200));
        cluster.order("pause");
        writer.join().unwrap().unwrap()
    });
    cluster.order("resume");
    ingest_at_last(&mut database, &batch(done));
    check_all(&url, (done + 1) * BATCH);
}

#[test]
fn a_server_with_a_full_disk_is_full_and_takes_the_rest_when_there_is_room() {
    let Some(disk) = Tmpfs::mount("16m") else { return };
    let Some(cluster) = Cluster::start_new() else { return };
    std::os::unix::fs::chown(disk.path(), Some(cluster.owner()), None).unwrap();
    cluster.sql(
        "postgres",
        &format!("CREATE TABLESPACE small LOCATION '{}'", disk.path().display()),
    );
    cluster.sql("postgres", "CREATE DATABASE small TABLESPACE small");
    let url = cluster.url("small");
    let mut database = Database::open(&url).unwrap();
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 4 << 20]).unwrap();
    let full = (0..10_000).find(|number| match database.ingest(&batch(*number), NOW_MS) {
        Ok(_) => false,
        Err(Error::Full { .. }) => true,
        Err(error) => panic!("{error}"),
    });
    let full = full.expect("the disk fills up");
    assert!(matches!(database.ingest(&batch(full), NOW_MS), Err(Error::Full { .. })));
    std::fs::remove_file(&filler).unwrap();
    for number in full..full + 10 {
        ingest(&mut database, &batch(number));
    }
    check_all(&url, (full + 10) * BATCH);
}

#[test]
fn an_epoch_that_another_holds_is_away_in_bounded_time() {
    let Some(cluster) = Cluster::start_new() else { return };
    let url = cluster.make_database("locked");
    let mut database = Database::open(&url).unwrap();
    ingest(&mut database, &batch(0));
    std::thread::scope(|scope| {
        let (mut other, since) = (Database::open(&url).unwrap(), Instant::now());
        scope.spawn(|| {
            cluster.sql(
                "locked",
                "BEGIN; SELECT * FROM selvedge.epochs FOR UPDATE; SELECT pg_sleep(20)",
            )
        });
        let refused = (0..)
            .find_map(|number| other.ingest(&batch(number), NOW_MS).err())
            .unwrap();
        assert!(
            matches!(refused, Error::Away { .. }),
            "{refused} after {:?}",
            since.elapsed()
        );
    });
    ingest_at_last(&mut database, &(0..100).flat_map(batch).collect::<Vec<_>>());
}
