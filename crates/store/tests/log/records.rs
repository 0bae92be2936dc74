//! What an owner sees of a log on a real directory.

use crate::owner::{append, replay, small, wait_durable, wait_until};
use store::{Durability, Event, Kind, Log, Position, Refused};

#[test]
fn what_was_durable_is_replayed_in_order_after_the_log_is_dropped() {
    for durability in [Durability::Os, Durability::Disk] {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, recovery) = Log::open(dir.path(), small(durability)).unwrap();
        assert!(replay(recovery).0.is_empty());
        let mut positions = Vec::new();
        for n in 0..1000_u32 {
            positions.push(append(&mut log, Kind::Value, &n.to_le_bytes(), &[n as u8; 150]));
            if n % 50 == 0 {
                wait_durable(&mut log, positions[n as usize]);
            }
        }
        wait_durable(&mut log, *positions.last().unwrap());
        drop(log);

        let (_log, recovery) = Log::open(dir.path(), small(durability)).unwrap();
        let (seen, report) = replay(recovery);
        assert_eq!(report.damage, []);
        assert_eq!(seen.iter().map(|seen| seen.position).collect::<Vec<_>>(), positions);
        for (n, seen) in seen.iter().enumerate() {
            assert_eq!(seen.meta, (n as u32).to_le_bytes());
            assert_eq!(seen.body_len, 150);
        }
    }
}

#[test]
fn a_closed_log_opens_from_its_indexes_and_goes_on_behind_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = Position::NONE;
    for round in 0..5_u32 {
        let (mut log, recovery) = Log::open(dir.path(), small(Durability::Os)).unwrap();
        let (seen, report) = replay(recovery);
        assert_eq!((seen.len() as u32, report.damage), (round * 40, vec![]));
        for n in 0..40 {
            let position = append(&mut log, Kind::Value, &[n; 30], &[n; 500]);
            assert!(position > last);
            last = position;
        }
        log.close().unwrap();
    }
}

#[test]
fn a_body_is_loaded_once_its_record_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), small(Durability::Os)).unwrap();
    let position = log.append(Kind::Value, b"meta", b"the body").unwrap();
    assert!(log.load(position));
    let events = wait_until(&mut log, |_, events| !events.is_empty());
    assert_eq!(
        events,
        [Event::Loaded {
            position,
            body: b"the body".to_vec()
        }]
    );
    assert!(log.durable() >= position);
}

#[test]
fn a_cancelled_record_is_not_written_and_counts_as_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), small(Durability::Os)).unwrap();
    let first = log.append(Kind::Value, b"first", &[1; 9000]).unwrap();
    assert!(log.cancel(first));
    log.submit();
    assert!(log.durable() >= first);
    assert_eq!(log.usage().segments, 0);
    let second = log.append(Kind::Value, b"second", &[2; 5000]).unwrap();
    let third = log.append(Kind::Value, b"third", b"").unwrap();
    assert!(log.cancel(second));
    wait_durable(&mut log, third);
    assert!(!log.cancel(third));
    drop(log);
    let (_log, recovery) = Log::open(dir.path(), small(Durability::Os)).unwrap();
    let (seen, report) = replay(recovery);
    assert_eq!(report.damage, []);
    assert_eq!(
        seen.iter()
            .map(|seen| (seen.position, seen.meta.as_slice()))
            .collect::<Vec<_>>(),
        [(third, &b"third"[..])]
    );
}

#[test]
fn what_waits_in_memory_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), small(Durability::Os)).unwrap();
    assert_eq!(log.append(Kind::Value, b"", &[0; 17 << 10]), Err(Refused::TooLarge));
    let accepted = (0..100)
        .take_while(|_| log.append(Kind::Value, b"", &[0; 1000]).is_ok())
        .count();
    assert_eq!(accepted, 16);
    assert_eq!(log.append(Kind::Tombstone, b"", &[0; 1000]), Err(Refused::Behind));
}
