//! A queue beside a model of it, through anything that can happen, crashes included.

use std::collections::{BTreeMap, BTreeSet};

use broker::Position;
use proptest::prelude::*;

use super::super::epoch::of_lane;
use super::super::record::{decode_state, encode_state};
use super::super::track::{Held, NEVER_S};
use super::*;

const BYTES: usize = 100;

/// What happens to a queue. Which of several messages is meant is taken modulo how many there are.
#[derive(Clone, Debug)]
enum Act {
    Push { live: bool },
    Send,
    Deliver(usize),
    Refuse(usize),
    PutBack { which: usize, may_park: bool },
    TakeBack(usize),
    Unpark,
    DropOldest,
    EndTurn,
    Move(usize),
    Crash { lost_records: usize, found_again: u64 },
}

/// A record, and how long the log was when nothing needed it any more.
struct Record {
    content: Content,
    released_at: Option<usize>,
    /// The log has given its place up.
    is_gone: bool,
}

enum Content {
    Message(Place, Held),
    State(Vec<u8>),
}

/// The queue with its log, and what is true of its messages.
struct Stand {
    queue: Queue,
    log: Vec<Record>,
    /// Records that were there after a crash, and are there after the next.
    proven: usize,
    epoch: u64,
    now_ms: u64,
    /// Of messages that are not settled.
    unsettled: BTreeMap<Place, Position>,
    sent: Vec<Place>,
    parked: BTreeSet<Place>,
    /// What was settled when the log had each of its states, and how long it was then.
    told: Vec<(BTreeSet<Place>, usize)>,
    settled: BTreeSet<Place>,
}

impl Stand {
    fn new() -> Self {
        let mut stand = Self {
            queue: Queue::new(1, "default".into(), "telemetry".into(), None),
            log: Vec::new(),
            proven: 1,
            epoch: 10,
            now_ms: 0,
            unsettled: BTreeMap::new(),
            sent: Vec::new(),
            parked: BTreeSet::new(),
            told: Vec::new(),
            settled: BTreeSet::new(),
        };
        stand.end_turn();
        stand
    }

    fn append(&mut self, content: Content) -> Position {
        self.log.push(Record {
            content,
            released_at: None,
            is_gone: false,
        });
        Position(self.log.len() as u64)
    }

    fn release(&mut self, position: Position) {
        let length = self.log.len();
        let record = &mut self.log[position.0 as usize - 1];
        assert!(record.released_at.is_none(), "a record is given up twice");
        record.released_at = Some(length);
    }

    fn push(&mut self, lane: Lane) {
        let place = self.queue.next_place(self.epoch, lane);
        let at = Position(self.log.len() as u64 + 1);
        let held = Held::waiting(at, BYTES, NEVER_S);
        self.append(Content::Message(place, held));
        self.queue.push(place, held);
        self.queue.ledger.received += 1;
        self.unsettled.insert(place, at);
    }

    fn send(&mut self) {
        if let Some((place, _)) = self.queue.next_waiting() {
            let waiting = self.unsettled.keys().filter(|known| self.waits(**known));
            let first = waiting.min_by_key(|known| (known.epoch % 2, known.epoch, known.sequence));
            let first_backlog = self.unsettled.keys().filter(|known| self.waits(**known));
            let oldest = first_backlog.min_by_key(|known| (known.epoch / 2, known.sequence));
            let is_live = first.is_some_and(|first| first.epoch % 2 == 0);
            let expected = if is_live { first } else { oldest };
            assert_eq!(Some(&place), expected, "live ones first, else the oldest that waits");
            self.queue.mark_sent(place);
            self.sent.push(place);
        }
    }

    fn waits(&self, place: Place) -> bool {
        !self.sent.contains(&place) && !self.parked.contains(&place)
    }

    fn take_sent(&mut self, which: usize) -> Option<Place> {
        let count = self.sent.len();
        (count > 0).then(|| self.sent.remove(which % count))
    }

    fn settle(&mut self, place: Place, act: impl FnOnce(&mut Queue)) {
        act(&mut self.queue);
        self.unsettled.remove(&place);
        self.settled.insert(place);
    }

    fn put_back(&mut self, place: Place, may_park: bool) {
        let waiting = self.queue.waiting;
        self.queue.put_back(place, self.now_ms, may_park);
        if self.queue.waiting == waiting {
            self.parked.insert(place);
        }
    }

    fn unpark(&mut self) {
        self.now_ms += 60_000;
        self.queue.unpark(self.now_ms);
        self.parked.clear();
    }

    fn end_turn(&mut self) {
        let mut bytes = Vec::new();
        encode_state(&self.queue.kept(), 0, &mut bytes);
        let position = self.append(Content::State(bytes));
        let old = std::mem::replace(&mut self.queue.position, position);
        let unneeded: Vec<Position> = self.queue.unneeded.drain(..).collect();
        for position in unneeded.into_iter().chain((old != Position::default()).then_some(old)) {
            self.release(position);
        }
        self.told.push((self.settled.clone(), self.log.len()));
    }

    /// The log moves a message to its end.
    fn relocate(&mut self, which: usize) {
        let count = self.unsettled.len();
        if count == 0 {
            return;
        }
        let (place, from) = self
            .unsettled
            .iter()
            .nth(which % count)
            .map(|(p, at)| (*p, *at))
            .unwrap();
        assert!(self.queue.holds(place, from));
        let to = Position(self.log.len() as u64 + 1);
        self.append(Content::Message(place, Held::waiting(to, BYTES, NEVER_S)));
        self.queue.relocate(place, from, to);
        self.release(from);
        self.unsettled.insert(place, to);
    }

    /// The last records are lost; of those that were given up, some are found again.
    fn crash(&mut self, lost_records: usize, found_again: u64) {
        let length = (self.log.len() - lost_records.min(self.log.len())).max(self.proven);
        self.proven = length;
        self.told.retain(|(_, told_at)| *told_at <= length);
        let mut returning = Returning::default();
        let mut came = BTreeSet::new();
        for (at, record) in self.log[..length].iter_mut().enumerate() {
            let is_unneeded = record.released_at.is_some_and(|when| when <= length);
            record.is_gone |= is_unneeded && found_again >> (at % 64) & 1 == 0;
            let position = Position(at as u64 + 1);
            match &record.content {
                _ if record.is_gone => {}
                Content::State(bytes) => returning.state(decode_state(bytes).unwrap().1, position),
                Content::Message(place, held) => {
                    came.insert(*place);
                    returning.message(*place, *held, 0);
                }
            }
        }
        let (queue, unneeded) = returning.finish(1, "default".into()).expect("there is a state");
        self.queue = queue;
        self.log.truncate(length);
        for record in &mut self.log {
            record.released_at = record.released_at.filter(|when| *when <= length);
        }
        for position in unneeded {
            self.log[position.0 as usize - 1].released_at.get_or_insert(length);
        }
        self.epoch += 10;
        (self.sent, self.parked) = (Vec::new(), BTreeSet::new());
        self.check_after_crash(&came);
    }

    fn check_after_crash(&mut self, came: &BTreeSet<Place>) {
        let mut there = BTreeMap::new();
        let mut queue = std::mem::replace(
            &mut self.queue,
            Queue::new(1, "default".into(), "telemetry".into(), None),
        );
        let count = queue.waiting;
        for _ in 0..count {
            let (place, held) = queue.oldest_waiting().expect("as many wait as are counted");
            queue.mark_sent(place);
            there.insert(place, held.position);
        }
        for place in there.keys() {
            queue.mark_waiting(*place);
            queue.parking.answered();
        }
        self.queue = queue;
        let lost = self.unsettled.keys().filter(|place| came.contains(place));
        assert_eq!(
            lost.filter(|place| !there.contains_key(place)).count(),
            0,
            "a message that the log has is lost"
        );
        let (told, _) = self.told.last().expect("the first state is never lost");
        let twice = told.iter().filter(|place| there.contains_key(place));
        assert_eq!(twice.count(), 0, "what the log was told to be settled comes again");
        self.settled.retain(|place| !there.contains_key(place));
        self.unsettled = there;
    }

    fn check(&self) {
        let ledger = self.queue.ledger;
        assert_eq!(self.queue.queued(), self.unsettled.len() as u64);
        let dropped: u64 = ledger.dropped.iter().sum();
        assert_eq!(ledger.received, ledger.delivered + self.queue.queued() + dropped);
        assert_eq!(
            ledger.dropped[Discarded::Damaged as usize],
            0,
            "what was in the log is counted as damaged"
        );
        assert_eq!(self.queue.bytes, (self.unsettled.len() * BYTES) as u64);
        let waiting = self.unsettled.keys().filter(|place| self.waits(**place)).count();
        assert_eq!(self.queue.waiting, waiting as u64);
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Push { live } => {
                let held_up = self.queue.is_live_lane_held_up(self.epoch);
                self.push(if live && !held_up { Lane::Live } else { Lane::Backlog });
            }
            Act::Send => self.send(),
            Act::Deliver(which) => {
                if let Some(place) = self.take_sent(which) {
                    self.settle(place, |queue| queue.deliver(place));
                }
            }
            Act::Refuse(which) => {
                if let Some(place) = self.take_sent(which) {
                    self.settle(place, |queue| queue.refuse(place));
                }
            }
            Act::PutBack { which, may_park } => {
                if let Some(place) = self.take_sent(which) {
                    self.put_back(place, may_park);
                }
            }
            Act::Unpark => self.unpark(),
            Act::TakeBack(which) => {
                if let Some(place) = self.take_sent(which) {
                    self.queue.take_back(place);
                }
            }
            Act::DropOldest => {
                if let Some((place, _)) = self.queue.oldest_waiting() {
                    self.settle(place, |queue| queue.discard(place, Discarded::Full));
                }
            }
            Act::EndTurn => self.end_turn(),
            Act::Move(which) => self.relocate(which),
            Act::Crash {
                lost_records,
                found_again,
            } => self.crash(lost_records, found_again),
        }
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => any::<bool>().prop_map(|live| Act::Push { live }),
        5 => Just(Act::Send),
        4 => any::<usize>().prop_map(Act::Deliver),
        1 => any::<usize>().prop_map(Act::Refuse),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(which, may_park)| Act::PutBack { which, may_park }),
        1 => any::<usize>().prop_map(Act::TakeBack),
        1 => Just(Act::Unpark),
        1 => Just(Act::DropOldest),
        3 => Just(Act::EndTurn),
        1 => any::<usize>().prop_map(Act::Move),
        1 => (0_usize..4, any::<u64>()).prop_map(|(lost_records, found_again)| Act::Crash { lost_records, found_again }),
    ];
    proptest::collection::vec(act, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_loses_nothing_that_its_log_has_and_its_ledger_balances_through_crashes(acts in acts()) {
        let mut stand = Stand::new();
        for act in acts {
            stand.act(&act);
            stand.check();
        }
    }
}

#[test]
fn the_two_lanes_of_an_epoch_differ_in_the_lowest_bit() {
    assert_eq!([Lane::Live, Lane::Backlog].map(|lane| of_lane(10, lane)), [10, 11]);
}
