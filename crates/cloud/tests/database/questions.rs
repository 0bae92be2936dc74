//! Questions that are hostile, foreign, too large or odd.

use cloud::{Error, Origin, Reading, Value};

use crate::common::{DEVICE, TENANT, ingest, numbered, reading};
use crate::place::Place;

crate::on_both!(
    names_are_data_and_never_sql,
    a_tenant_sees_its_own_rows_alone,
    questions_beyond_a_bound_are_refused,
    odd_questions_have_answers,
);

fn names_are_data_and_never_sql(place: &Place) {
    let mut database = place.open();
    let names = [
        "'; DROP TABLE telemetry; --",
        "\" OR 1=1 --",
        "$1",
        "?1",
        "%",
        "_",
        "\\",
        "x' OR 'a'='a",
        "ｘ＇",
        "e\u{301}",
    ];
    for (sequence, name) in (1..).zip(names) {
        let json = format!("{{{:?}: {sequence}}}", "x");
        let odd = Reading {
            tenant: name.to_owned(),
            device: name.to_owned(),
            subtopic: name.to_owned(),
            origin: Origin::new(name.into(), 1, sequence).unwrap(),
            ..reading(sequence, json)
        };
        assert_eq!(ingest(&mut database, &[odd]).stored, 1);
    }
    let mut queries = place.queries();
    for (sequence, name) in (1_u64..).zip(names) {
        let stream = format!("{name}/x");
        assert_eq!(
            queries.streams(name, name, None, 10).unwrap(),
            std::slice::from_ref(&stream)
        );
        assert_eq!(
            queries.streams(name, name, Some(name), 10).unwrap(),
            std::slice::from_ref(&stream)
        );
        let page = queries.range(name, name, &stream, 0..i64::MAX, 10, None).unwrap();
        assert_eq!(page.items[0].value, Value::Number(sequence as f64));
        assert_eq!(page.items.len(), 1);
        assert_eq!(queries.latest(name, name, None, 10).unwrap().len(), 1);
        assert_eq!(
            queries.buckets(name, name, &stream, 0..1 << 50, 1 << 50).unwrap().len(),
            1
        );
        assert_eq!(database.marks(name).unwrap()[0].ranges, [sequence..=sequence]);
        assert_eq!(queries.rejected(name, 0, 10).unwrap(), []);
    }
}

fn a_tenant_sees_its_own_rows_alone(place: &Place) {
    let mut database = place.open();
    let theirs = Reading {
        tenant: "other".to_owned(),
        ..numbered(2)
    };
    let bad = Reading {
        tenant: "other".to_owned(),
        subtopic: "\0".to_owned(),
        ..numbered(3)
    };
    ingest(&mut database, &[numbered(1), theirs, bad]);
    let mut queries = place.queries();
    let mut seen = |tenant: &str| {
        let page = queries.range(tenant, DEVICE, "x", 0..i64::MAX, 10, None).unwrap();
        let latest = queries.latest(tenant, DEVICE, None, 10).unwrap();
        assert_eq!(latest.len(), page.items.len());
        let rejected = queries.rejected(tenant, 0, 10).unwrap().len();
        (
            page.items
                .iter()
                .map(|point| point.origin.sequence())
                .collect::<Vec<_>>(),
            rejected,
        )
    };
    assert_eq!(seen(TENANT), (vec![1], 0));
    assert_eq!(seen("other"), (vec![2], 1));
    assert_eq!(seen(""), (vec![], 0));
}

fn questions_beyond_a_bound_are_refused(place: &Place) {
    let mut queries = place.queries();
    for limit in [0, 10_001, u64::MAX] {
        assert!(matches!(
            queries.streams("a", "b", None, limit),
            Err(Error::Bounds { .. })
        ));
        assert!(matches!(
            queries.latest("a", "b", None, limit),
            Err(Error::Bounds { .. })
        ));
        assert!(matches!(
            queries.range("a", "b", "c", 0..1, limit, None),
            Err(Error::Bounds { .. })
        ));
        assert!(matches!(queries.rejected("a", 0, limit), Err(Error::Bounds { .. })));
    }
    for (span, width) in [(0..1, 0), (0..1, -1), (0..10_001, 1), (i64::MIN..i64::MAX, 1 << 30)] {
        assert!(matches!(
            queries.buckets("a", "b", "c", span, width),
            Err(Error::Bounds { what: "buckets", .. })
        ));
    }
}

fn odd_questions_have_answers(place: &Place) {
    let mut database = place.open();
    ingest(&mut database, &[numbered(1)]);
    let mut queries = place.queries();
    assert_eq!(queries.streams("\0", DEVICE, None, 1).unwrap(), Vec::<String>::new());
    assert_eq!(queries.range(TENANT, "no such", "x", 0..1, 1, None).unwrap().items, []);
    #[expect(clippy::reversed_empty_ranges, reason = "that is the question")]
    let backwards = 5..1;
    assert_eq!(
        queries
            .range(TENANT, DEVICE, "x", backwards.clone(), 1, None)
            .unwrap()
            .items,
        []
    );
    assert_eq!(queries.buckets(TENANT, DEVICE, "x", backwards, 1).unwrap(), []);
    assert_eq!(
        queries
            .buckets(TENANT, DEVICE, "x", i64::MIN..i64::MAX, i64::MAX)
            .unwrap()
            .len(),
        1
    );
    let far = format!("{}.{}.0.0.0", i64::MAX, i64::MAX).parse().unwrap();
    assert_eq!(
        queries
            .range(TENANT, DEVICE, "x", i64::MIN..i64::MAX, 1, Some(&far))
            .unwrap()
            .items,
        []
    );
    assert_eq!(database.marks("no such").unwrap(), []);
    assert_eq!(database.marks("\0").unwrap(), []);
}
