//! What is told while it goes in, and found again behind any of it.

use std::time::Duration;

use cloud::{Cursor, Database, Feed, Filter, Origin, Reading, Seen, StoredPoint, Watch};

use crate::common::{DEVICE, NOW_MS, TENANT, numbered, reading};
use crate::place::Place;

crate::on_both!(
    what_is_told_is_what_is_found_behind_each_of_its_cursors,
    what_is_in_already_is_not_told_again,
    a_filter_finds_what_it_is_told,
);

fn filter(device: Option<&str>, stream: Option<&str>) -> Filter {
    Filter {
        tenant: TENANT.to_owned(),
        device: device.map(str::to_owned),
        stream: stream.map(str::to_owned),
    }
}

fn watched(place: &Place, filter: Filter) -> (Database, Watch) {
    let feed = Feed::default();
    let mut database = place.open();
    database.tell(feed.clone());
    (database, feed.watch(filter).unwrap())
}

/// What has been told so far.
fn told(watch: &mut Watch) -> Vec<StoredPoint> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.unwrap().block_on(async {
        let mut told = Vec::new();
        // What is there is there at once.
        while let Ok(seen) = tokio::time::timeout(Duration::ZERO, watch.next()).await {
            let Seen::Point(point) = seen else { panic!("{seen:?}") };
            told.push(StoredPoint::clone(&point));
        }
        told
    })
}

fn found_behind(place: &Place, filter: &Filter, cursor: &str) -> Vec<StoredPoint> {
    let cursor: Cursor = cursor.parse().unwrap();
    place.queries().stored_behind(filter, &cursor, 1_000).unwrap()
}

fn of_edge(edge: &str, epoch: u64, sequence: u64) -> Reading {
    Reading {
        origin: Origin::new(edge.into(), epoch, sequence).unwrap(),
        ..reading(
            sequence,
            format!("{{\"x\": {sequence}, \"y\": [{sequence}], \"q\": \"ok\"}}"),
        )
    }
}

fn what_is_told_is_what_is_found_behind_each_of_its_cursors(place: &Place) {
    let (mut database, mut watch) = watched(place, filter(None, None));
    // In one millisecond, with older sequences in later transactions.
    for batch in [&[9, 7][..], &[8], &[1, 3, 2]] {
        let of_both = batch.iter().flat_map(|n| [of_edge("a", 4, *n), of_edge("b", 2, *n)]);
        database.ingest(&of_both.collect::<Vec<_>>(), NOW_MS).unwrap();
    }
    let told = told(&mut watch);
    assert_eq!(told.len(), 24);
    let all = filter(None, None);
    assert_eq!(found_behind(place, &all, "0.0.0.0.0"), told);
    for (number, point) in told.iter().enumerate() {
        let cursor = point.cursor.as_ref().unwrap().to_string();
        assert_eq!(found_behind(place, &all, &cursor), told[number + 1..], "{cursor}");
    }
}

fn what_is_in_already_is_not_told_again(place: &Place) {
    let (mut database, mut watch) = watched(place, filter(None, None));
    database.ingest(&[numbered(1), numbered(2)], NOW_MS).unwrap();
    database.ingest(&[numbered(2), numbered(3)], NOW_MS).unwrap();
    let sequences: Vec<u64> = told(&mut watch).iter().map(|one| one.point.origin.sequence()).collect();
    assert_eq!(sequences, [1, 2, 3]);
}

fn a_filter_finds_what_it_is_told(place: &Place) {
    for (round, (device, stream, expected)) in [
        (None, None, 4),
        (Some(DEVICE), None, 2),
        (None, Some("x"), 2),
        (Some(DEVICE), Some("y"), 1),
        (Some("nobody"), None, 0),
        (Some("x' OR 1=1 --"), Some("\0"), 0),
    ]
    .into_iter()
    .enumerate()
    {
        let (mut database, mut watch) = watched(place, filter(device, stream));
        let epoch = 2 * (round as u64 + 1);
        let readings = [("p", TENANT), (DEVICE, TENANT), (DEVICE, "beta")];
        let readings = readings.iter().zip(1..).map(|((device, tenant), sequence)| Reading {
            tenant: (*tenant).to_owned(),
            device: (*device).to_owned(),
            ..of_edge("c", epoch, sequence)
        });
        let begun_ms = NOW_MS + epoch as i64 * 1_000;
        database.ingest(&readings.collect::<Vec<_>>(), begun_ms).unwrap();
        let told = told(&mut watch);
        assert_eq!(told.len(), expected, "{device:?} {stream:?}");
        let since = format!("{begun_ms}.0.0.0.0");
        assert_eq!(found_behind(place, &filter(device, stream), &since), told);
    }
}
