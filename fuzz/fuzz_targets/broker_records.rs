//! Records of a broker from anybody, each behind a byte with its length: what is understood means the same when it is
//! written again, and a broker comes back from whatever records there are, releases each of them once at most, and can
//! move them.
#![no_main]

use std::collections::BTreeSet;

use broker::{ConnId, Dropped, Full, Limits, Now, OwnedMessage, Position, Record, Recovery, RefusedFilter, Sink};
use libfuzzer_sys::fuzz_target;
use mqtt::{Packet, Publish, ReasonCode};

const NOW: Now = Now {
    monotonic_ms: 1 << 40,
    unix_ms: 1 << 41,
};
const BODY: &[u8] = b"body";

fuzz_target!(|input: &[u8]| {
    let mut recovery = Recovery::new(NOW, Limits::default());
    let mut known = Vec::new();
    for (position, meta) in (1..).map(Position).zip(metas(input)) {
        let decoded = Record::decode(meta, BODY);
        let restored = recovery.restore(position, meta, BODY.len());
        assert_eq!(restored.is_ok(), decoded.is_ok(), "{decoded:?}");
        let Ok(record) = decoded else { continue };
        written_again(&record);
        known.push((position, record));
    }
    let mut log = Log {
        next: known.len() as u64 + 1 + input.len() as u64,
        released: BTreeSet::new(),
    };
    let mut broker = recovery.finish(NOW, &mut log);
    for (position, record) in known {
        broker
            .relocate(NOW, position, &record, &mut log)
            .expect("there is room");
    }
    broker.tick(NOW, &mut log);
    assert!(broker.sessions().count() <= input.len());
});

/// Of each record its meta.
fn metas(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = input.split_first()?;
        let (meta, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        input = rest;
        Some(meta)
    })
}

fn written_again(record: &Record<'_>) {
    let mut meta = Vec::new();
    record.encode(&mut meta);
    assert_eq!(Record::decode(&meta, BODY).as_ref(), Ok(record));
}

/// A log that takes everything.
struct Log {
    next: u64,
    released: BTreeSet<Position>,
}

impl Sink for Log {
    fn has_room(&self, _: ConnId) -> bool {
        unreachable!("nobody is connected")
    }

    fn publish(&mut self, _: ConnId, _: &Publish<'_>) {
        unreachable!("nobody is connected");
    }

    fn reply(&mut self, _: ConnId, _: &Packet<'_>, _: Position) {
        unreachable!("nobody is connected");
    }

    fn close(&mut self, _: ConnId, _: ReasonCode) {
        unreachable!("nobody is connected");
    }

    fn durable(&self) -> Position {
        Position(self.next - 1)
    }

    fn await_commit(&mut self) {}

    fn log(&mut self, _: &Record<'_>) -> Result<Position, Full> {
        self.next += 1;
        Ok(Position(self.next - 1))
    }

    fn cancel(&mut self, _: Position) -> bool {
        false
    }

    fn release(&mut self, position: Position) {
        assert!(position < Position(self.next), "{position:?} was never written");
        assert!(self.released.insert(position), "{position:?} was released before");
    }

    fn load(&mut self, _: Position) {}

    fn will(&mut self, _: OwnedMessage) {}

    fn dropped(&mut self, _: Dropped) {}

    fn refused_filter(&mut self, _: RefusedFilter) {
        unreachable!("nobody subscribes");
    }
}
