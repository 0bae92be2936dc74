//! Each reading once, whatever is sent again.

use cloud::{Gap, Ingested, MAX_RANGES, Origin, Reading, Value};

use crate::common::{EDGE, NOW_MS, gap, ingest, ingest_at_last, mark, numbered, origin, sequences, values};
use crate::place::Place;

crate::on_both!(
    a_reading_comes_back_with_its_value_and_its_mark,
    what_is_in_is_skipped_and_counted,
    readings_that_arrive_out_of_order_fill_the_mark,
    a_declared_gap_is_marked_and_what_comes_of_it_later_is_a_duplicate,
    two_writers_of_the_same_readings_store_each_once,
    marks_are_of_one_edge_and_epoch,
    a_mark_with_all_its_ranges_defers_what_needs_another_until_the_oldest_come,
);

fn a_reading_comes_back_with_its_value_and_its_mark(place: &Place) {
    let mut database = place.open();
    let done = ingest(&mut database, &[numbered(7)]);
    assert_eq!(
        done,
        Ingested {
            stored: 1,
            rows: 1,
            ..Ingested::default()
        }
    );
    assert_eq!(values(&mut place.queries(), "x"), [Value::Number(7.0)]);
    assert_eq!(mark(&mut database), [7..=7]);
}

fn what_is_in_is_skipped_and_counted(place: &Place) {
    let mut database = place.open();
    ingest(&mut database, &[numbered(1), numbered(2)]);
    let done = ingest(&mut place.open(), &[numbered(2), numbered(3), numbered(3), numbered(1)]);
    assert_eq!(
        done,
        Ingested {
            stored: 1,
            rows: 1,
            duplicates: 3,
            ..Ingested::default()
        }
    );
    assert_eq!(sequences(&mut place.queries(), "x"), [1, 2, 3]);
}

fn readings_that_arrive_out_of_order_fill_the_mark(place: &Place) {
    let mut database = place.open();
    for (sequences, expected) in [
        (vec![10, 11, 5], vec![5..=5, 10..=11]),
        (vec![20, 6], vec![5..=6, 10..=11, 20..=20]),
        (vec![9, 7, 8], vec![5..=11, 20..=20]),
        ((12..=19).collect(), vec![5..=20]),
        (vec![0, 4], vec![0..=0, 4..=20]),
    ] {
        let readings: Vec<_> = sequences.into_iter().map(numbered).collect();
        ingest(&mut database, &readings);
        assert_eq!(mark(&mut database), expected);
    }
    let mut expected: Vec<u64> = (4..=20).collect();
    expected.insert(0, 0);
    assert_eq!(sequences(&mut place.queries(), "x"), expected);
}

fn a_declared_gap_is_marked_and_what_comes_of_it_later_is_a_duplicate(place: &Place) {
    let mut database = place.open();
    ingest(&mut database, &[numbered(1), numbered(5), numbered(9)]);
    database.fill(&[gap(2..=4), gap(8..=20)], NOW_MS).unwrap();
    assert_eq!(mark(&mut database), [1..=5, 8..=20]);
    assert_eq!(ingest(&mut database, &[numbered(3), numbered(6)]).duplicates, 1);
    assert_eq!(sequences(&mut place.queries(), "x"), [1, 5, 6, 9]);
}

fn two_writers_of_the_same_readings_store_each_once(place: &Place) {
    const WRITERS: u64 = 3;
    const READINGS: u64 = 3_000;
    let databases: Vec<_> = (0..WRITERS).map(|_| place.open()).collect();
    std::thread::scope(|scope| {
        for (writer, mut database) in (0..).zip(databases) {
            scope.spawn(move || {
                // Each begins elsewhere and cuts its batches elsewhere.
                let order = (0..READINGS).map(|n| (n + writer * READINGS / WRITERS) % READINGS);
                let readings: Vec<Reading> = order.map(numbered).collect();
                for batch in readings.chunks(100 + writer as usize * 37) {
                    ingest_at_last(&mut database, batch);
                }
            });
        }
    });
    let expected: Vec<u64> = (0..READINGS).collect();
    assert_eq!(sequences(&mut place.queries(), "x"), expected);
    assert_eq!(mark(&mut place.open()), [0..=READINGS - 1]);
}

fn marks_are_of_one_edge_and_epoch(place: &Place) {
    let mut database = place.open();
    let from = |edge: &str, epoch| Reading {
        origin: Origin::new(edge.into(), epoch, 5).unwrap(),
        ..numbered(5)
    };
    let greatest = cloud::MAX_NUMBER;
    let readings = [
        from(EDGE, 1),
        from(EDGE, greatest),
        from("edge-b", 1),
        from("Edge-a", 0),
    ];
    assert_eq!(ingest(&mut database, &readings).stored, 4);
    let marks = database.marks(EDGE).unwrap();
    assert_eq!(marks.iter().map(|mark| mark.epoch).collect::<Vec<_>>(), [greatest, 1]);
    assert!(marks.iter().all(|mark| mark.ranges == [5..=5]));
}

fn a_mark_with_all_its_ranges_defers_what_needs_another_until_the_oldest_come(place: &Place) {
    let mut database = place.open();
    let odd: Vec<Gap> = (0..MAX_RANGES).map(|n| gap(2 * n + 1..=2 * n + 1)).collect();
    database.fill(&odd, NOW_MS).unwrap();
    let far = 10 * MAX_RANGES;
    let done = ingest(
        &mut database,
        &[numbered(far), numbered(0), numbered(2 * MAX_RANGES), numbered(far + 2)],
    );
    assert_eq!((done.stored, done.deferred), (2, vec![0, 3]));
    // The second joins two ranges, which makes room for the third.
    let gaps = [gap(far..=far + 5), gap(2..=2), gap(far + 10..=far + 11)];
    assert_eq!(database.fill(&gaps, NOW_MS).unwrap(), [0]);
    let done = ingest(&mut database, &[numbered(far), numbered(4)]);
    assert_eq!((done.stored, done.deferred), (2, vec![]));
    assert_eq!(
        database.fill(&[gap(0..=2 * MAX_RANGES)], NOW_MS).unwrap(),
        [] as [usize; 0]
    );
    assert_eq!(
        mark(&mut database),
        [0..=2 * MAX_RANGES, far..=far, far + 10..=far + 11]
    );
    assert_eq!(sequences(&mut place.queries(), "x"), [0, 4, 2 * MAX_RANGES, far]);
}

#[test]
fn an_origin_that_cannot_be_marked_is_none() {
    let far = cloud::MAX_NUMBER + 1;
    for (edge, epoch, sequence) in [
        ("", 1, 1),
        ("a\0", 1, 1),
        (&*"e".repeat(256), 1, 1),
        ("e", far, 1),
        ("e", 1, far),
    ] {
        assert!(Origin::new(edge.into(), epoch, sequence).is_err());
    }
    assert_eq!(Gap::new(origin(1, 5), 4), None);
    assert_eq!(Gap::new(origin(1, 5), far), None);
}
