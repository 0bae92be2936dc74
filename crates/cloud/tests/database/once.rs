//! Each reading once, whatever is sent again.

use cloud::{Ingested, Value};

use crate::common::{gap, ingest, mark, numbered, sequences, values};
use crate::place::Place;

crate::on_both!(
    a_reading_comes_back_with_its_value_and_its_mark,
    what_is_in_is_skipped_and_counted,
    readings_that_arrive_out_of_order_fill_the_mark,
    a_declared_gap_is_marked_and_what_comes_of_it_later_is_a_duplicate,
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
    database
        .fill(&[gap(2..=4), gap(8..=20)], crate::common::NOW_MS)
        .unwrap();
    assert_eq!(mark(&mut database), [1..=5, 8..=20]);
    assert_eq!(ingest(&mut database, &[numbered(3), numbered(6)]).duplicates, 1);
    assert_eq!(sequences(&mut place.queries(), "x"), [1, 5, 6, 9]);
}
