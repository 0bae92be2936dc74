//! The messages of one route that are to leave the hub, and what became of those before.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::Position;
use route::Upstream;

use super::Lane;
use super::ages::{Ages, InRow};
use super::epoch::{Epoch, of_lane};
use super::ledger::{Discarded, Ledger};
use super::parking::{ComesBack, Parking};
use super::track::{Held, State};

/// Ranges of settled messages above the floor of a lane that the log is told of; what is in further ones is delivered
/// again after a crash, and known at the other end.
const SETTLED_MAX: usize = 1_024;
/// Settled messages behind one that comes back again and again, at most: then it is given up. Each takes 24 bytes.
const SETTLED_ROWS_MAX: usize = 1 << 20;

/// One queue: all that one route of one tenant sends of what clients of this hub said, or one edge.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Number of its tenant in the log.
    pub(crate) tenant_number: u32,
    pub(crate) tenant: Arc<str>,
    pub(crate) route: Arc<str>,
    /// Where its messages came from; `None`: clients of this hub.
    pub(crate) edge: Option<Arc<str>>,
    pub(crate) settings: Upstream,
    pub(crate) ledger: Ledger,
    /// Messages that found no room and may come again, since the start: they are not in the ledger.
    pub(crate) refused: u64,
    /// Bytes that its messages take in the log.
    pub(crate) bytes: u64,
    /// Oldest first; all but the last are of earlier starts.
    epochs: VecDeque<Epoch>,
    /// Every message of an epoch with a lower number is settled, but for those in `epochs`.
    finished_below: u64,
    /// Where the log has its state.
    pub(crate) position: Position,
    /// What changed since the log has its state.
    pub(crate) is_changed: bool,
    /// Positions that nothing needs any more once the log has the state.
    pub(crate) unneeded: Vec<Position>,
    /// Bytes it may still send in this round of turns.
    pub(crate) share_bytes: i64,
    /// Messages that wait, not on their way.
    pub(crate) waiting: u64,
    /// Messages that are being read back.
    pub(crate) loading: u64,
    /// Of those that came back.
    pub(crate) parking: Parking,
    ages: Ages,
}

/// A message of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// The lane of an epoch.
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

/// A state as the log keeps it: what cannot be told from the messages that are still there.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Kept {
    pub(crate) route: String,
    pub(crate) ledger: Ledger,
    pub(crate) finished_below: u64,
    pub(crate) epochs: Vec<KeptEpoch>,
    /// Behind the rest, where there is one: see [`Queue::edge`].
    #[serde(skip)]
    pub(crate) edge: Option<String>,
}

/// See [`Kept`].
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct KeptEpoch {
    /// As [`Epoch::number`].
    pub(crate) number: u64,
    pub(crate) end: u64,
    /// Of the live lane and of the backlog.
    pub(crate) lanes: [KeptLane; 2],
}

/// See [`Kept`].
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct KeptLane {
    pub(crate) floor: u64,
    /// Settled above the floor, as ranges with their ends excluded.
    pub(crate) settled: Vec<(u64, u64)>,
}

impl KeptLane {
    fn is_settled(&self, sequence: u64) -> bool {
        let is_in = |(from, to): &(u64, u64)| (*from..*to).contains(&sequence);
        sequence < self.floor || self.settled.iter().any(is_in)
    }
}

/// In the order of [`KeptEpoch::lanes`].
const LANES: [Lane; 2] = [Lane::Live, Lane::Backlog];

impl Queue {
    pub(crate) fn new(tenant_number: u32, tenant: Arc<str>, route: Arc<str>, edge: Option<Arc<str>>) -> Self {
        Self {
            tenant_number,
            tenant,
            route,
            edge,
            settings: Upstream::default(),
            ledger: Ledger::default(),
            refused: 0,
            bytes: 0,
            epochs: VecDeque::new(),
            finished_below: 0,
            position: Position::default(),
            is_changed: false,
            unneeded: Vec::new(),
            share_bytes: 0,
            waiting: 0,
            loading: 0,
            parking: Parking::default(),
            ages: Ages::default(),
        }
    }

    /// The place that the next message gets, in a lane of an epoch.
    pub(crate) fn next_place(&self, epoch: u64, lane: Lane) -> Place {
        let last = self.epochs.back().filter(|last| last.number == epoch);
        Place {
            epoch: of_lane(epoch, lane),
            sequence: last.map_or(0, |last| last.end),
        }
    }

    /// Whether a message waits in the live lane of an epoch: what comes may not pass it there.
    pub(crate) fn is_live_lane_held_up(&mut self, epoch: u64) -> bool {
        let track = self
            .epochs
            .back_mut()
            .and_then(|last| last.track(of_lane(epoch, Lane::Live)));
        track.is_some_and(|track| track.first_waiting().is_some())
    }

    /// Takes in a message that the log has, at the place that was next.
    pub(crate) fn push(&mut self, place: Place, held: Held) {
        let number = of_lane(place.epoch, Lane::Live);
        if self.epochs.back().is_none_or(|last| last.number != number) {
            self.epochs.push_back(Epoch::new(number));
        }
        self.bytes += held.bytes();
        self.waiting += 1;
        let epoch = self.epochs.back_mut().expect("there is one");
        epoch.end = place.sequence + 1;
        epoch
            .track(place.epoch)
            .expect("a lane of this epoch")
            .push(place.sequence, held);
    }

    /// The message that was pushed last came in this second of the shard's clock.
    pub(crate) fn note_age(&mut self, place: Place, now_s: u32) {
        if let Some(oldest) = self.oldest() {
            self.ages.note(in_row(place), i64::from(now_s), oldest);
        }
    }

    /// When the oldest message came that is not settled, in seconds of the shard's clock, or up to one before.
    pub(crate) fn oldest_came_s(&self) -> Option<i64> {
        self.ages.of(self.oldest()?)
    }

    fn oldest(&self) -> Option<InRow> {
        let epoch = self.epochs.iter().find(|epoch| !epoch.is_empty())?;
        Some((epoch.number, epoch.first()))
    }

    /// Messages that are not settled, as many as there are.
    pub(crate) fn queued(&self) -> u64 {
        self.epochs.iter().map(Epoch::unsettled).sum()
    }

    pub(crate) fn epoch_numbers(&self) -> impl Iterator<Item = u64> {
        self.epochs.iter().map(|epoch| epoch.number)
    }

    /// The message that waits longest.
    pub(crate) fn oldest_waiting(&mut self) -> Option<(Place, Held)> {
        self.epochs.iter_mut().find_map(|epoch| {
            let (epoch, sequence, held) = epoch.first_waiting()?;
            Some((Place { epoch, sequence }, held))
        })
    }

    /// The message that goes next: one of a live lane that did not get through, since it holds up what comes now; else
    /// the one that waits longest.
    pub(crate) fn next_waiting(&mut self) -> Option<(Place, Held)> {
        let live = self.epochs.iter_mut().find_map(|epoch| {
            let number = epoch.number;
            let (sequence, held) = epoch.track(number)?.first_waiting()?;
            let place = Place {
                epoch: number,
                sequence,
            };
            Some((place, held))
        });
        live.or_else(|| self.oldest_waiting())
    }

    pub(crate) fn mark_sent(&mut self, place: Place) {
        if let Some(epoch) = self.epoch(place)
            && let Some(track) = epoch.track(place.epoch)
        {
            track.mark_sent(place.sequence);
            self.waiting -= 1;
            self.parking.sent();
        }
    }

    /// The other end will never take it.
    pub(crate) fn refuse(&mut self, place: Place) {
        self.parking.answered();
        self.discard(place, Discarded::Refused);
    }

    /// The message came back; `may_park`: others may pass it.
    pub(crate) fn put_back(&mut self, place: Place, now_ms: u64, may_park: bool) {
        let track = self.epoch(place).and_then(|epoch| epoch.track(place.epoch));
        if track.is_some_and(|track| track.settled_rows() > SETTLED_ROWS_MAX) {
            return self.discard(place, Discarded::Refused);
        }
        if self.parking.returned(place, now_ms, may_park) == ComesBack::Waits {
            self.mark_waiting(place);
        }
    }

    /// The message did not get through.
    pub(crate) fn take_back(&mut self, place: Place) {
        self.parking.unsent();
        self.mark_waiting(place);
    }

    /// What was aside for long enough waits again.
    pub(crate) fn unpark(&mut self, now_ms: u64) {
        for place in self.parking.take_due(now_ms) {
            self.mark_waiting(place);
        }
    }

    /// Whether a message waits that may go now.
    pub(crate) fn has_next(&self, now_ms: u64) -> bool {
        self.waiting > 0 && self.parking.is_open(now_ms)
    }

    fn mark_waiting(&mut self, place: Place) {
        let track = self.epoch(place).and_then(|epoch| epoch.track(place.epoch));
        if track.is_some_and(|track| track.mark_waiting(place.sequence)) {
            self.waiting += 1;
        }
    }

    /// The other end has the message.
    pub(crate) fn deliver(&mut self, place: Place) {
        self.parking.answered();
        if self.settle(place) {
            self.ledger.delivered += 1;
        }
    }

    /// The message will never leave.
    pub(crate) fn discard(&mut self, place: Place, why: Discarded) {
        if self.settle(place) {
            self.ledger.drop(why, 1);
        }
    }

    /// No message of its lane below the first is to be expected any more, and none is between the second and it.
    pub(crate) fn floor_and_after(&self, place: Place) -> (u64, u64) {
        let known = self.epochs.iter().find_map(|epoch| {
            let track = epoch.look(place.epoch)?;
            Some((track.floor(epoch.end), track.after(place.sequence)))
        });
        known.unwrap_or((0, place.sequence))
    }

    pub(crate) fn relocate(&mut self, place: Place, from: Position, to: Position) {
        if let Some(track) = self.epoch(place).and_then(|epoch| epoch.track(place.epoch)) {
            track.relocate(place.sequence, from, to);
        }
    }

    /// Whether the log has this message here, and it is still needed.
    pub(crate) fn holds(&self, place: Place, position: Position) -> bool {
        let track = self.epochs.iter().find_map(|epoch| epoch.look(place.epoch));
        let held = track.and_then(|track| track.get(place.sequence));
        held.is_some_and(|held| held.position == position && held.state() != State::Settled)
    }

    /// What the log is to remember.
    pub(crate) fn kept(&self) -> Kept {
        let epochs = self.epochs.iter().map(|epoch| KeptEpoch {
            number: epoch.number,
            end: epoch.end,
            lanes: LANES.map(|lane| {
                let track = epoch.look(of_lane(epoch.number, lane)).expect("a lane of this epoch");
                KeptLane {
                    floor: track.floor(epoch.end),
                    settled: track.settled_above_floor().take(SETTLED_MAX).collect(),
                }
            }),
        });
        Kept {
            route: self.route.to_string(),
            ledger: self.ledger,
            finished_below: self.finished_below,
            epochs: epochs.collect(),
            edge: self.edge.as_deref().map(str::to_owned),
        }
    }

    fn settle(&mut self, place: Place) -> bool {
        let track = self.epoch(place).and_then(|epoch| epoch.track(place.epoch));
        let Some(held) = track.and_then(|track| track.settle(place.sequence)) else {
            return false;
        };
        self.waiting -= u64::from(held.state() == State::Waiting);
        self.bytes -= held.bytes();
        self.unneeded.push(held.position);
        self.parking.forget(place);
        self.forget_finished();
        true
    }

    /// Epochs of earlier starts of which everything is settled.
    fn forget_finished(&mut self) {
        while self.epochs.len() > 1 && self.epochs.front().is_some_and(Epoch::is_empty) {
            let finished = self.epochs.pop_front().expect("there is one");
            self.finished_below = finished.number + 1;
        }
    }

    fn epoch(&mut self, place: Place) -> Option<&mut Epoch> {
        let number = of_lane(place.epoch, Lane::Live);
        // The youngest is meant most often.
        self.epochs.iter_mut().rev().find(|epoch| epoch.number == number)
    }
}

fn in_row(place: Place) -> InRow {
    (of_lane(place.epoch, Lane::Live), place.sequence)
}

/// A queue while the log is read.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    /// Its state, the last one that was found, and where.
    kept: Option<(Kept, Position)>,
    messages: Vec<(Place, Held)>,
    ages: Ages,
    /// Positions that something later stands for.
    unneeded: Vec<Position>,
}

impl Returning {
    pub(crate) fn state(&mut self, kept: Kept, position: Position) {
        if let Some((_, older)) = self.kept.replace((kept, position)) {
            self.unneeded.push(older);
        }
    }

    /// A message, which came in this second of the shard's clock: before 0, if the clock has begun since.
    pub(crate) fn message(&mut self, place: Place, held: Held, came_s: i64) {
        self.messages.push((place, held));
        self.ages.found(in_row(place), came_s);
    }

    /// The queue as it was, and positions that nothing needs; `None` if the log has no state of it.
    pub(crate) fn finish(mut self, tenant_number: u32, tenant: Arc<str>) -> Option<(Queue, Vec<Position>)> {
        let (kept, position) = self.kept.take()?;
        let edge = kept.edge.as_deref().map(Arc::from);
        let mut queue = Queue::new(tenant_number, tenant, kept.route.as_str().into(), edge);
        queue.position = position;
        queue.ledger = kept.ledger;
        queue.finished_below = kept.finished_below;
        self.ages.sort();
        queue.ages = std::mem::take(&mut self.ages);
        self.sort();
        self.leave_out_finished(&kept);
        let mut epochs = kept.epochs;
        for (place, _) in &self.messages {
            let number = of_lane(place.epoch, Lane::Live);
            match epochs.binary_search_by_key(&number, |epoch| epoch.number) {
                Ok(at) => {
                    let new = (place.sequence + 1).saturating_sub(epochs[at].end);
                    epochs[at].end += new;
                    queue.ledger.received += new;
                }
                Err(at) => {
                    queue.ledger.received += place.sequence + 1;
                    let end = place.sequence + 1;
                    epochs.insert(
                        at,
                        KeptEpoch {
                            number,
                            end,
                            ..KeptEpoch::default()
                        },
                    );
                }
            }
        }
        for kept in &epochs {
            let mut epoch = Epoch::new(kept.number);
            epoch.end = kept.end;
            queue.epochs.push_back(epoch);
        }
        for (place, held) in std::mem::take(&mut self.messages) {
            let lane = usize::from(of_lane(place.epoch, Lane::Live) != place.epoch);
            let number = of_lane(place.epoch, Lane::Live);
            let at = epochs
                .binary_search_by_key(&number, |epoch| epoch.number)
                .expect("added above");
            let track = queue.epochs[at].track(place.epoch).expect("a lane of this epoch");
            track.push(place.sequence, held);
            if epochs[at].lanes[lane].is_settled(place.sequence) {
                // Its record may be found once more: what is known of it is known further on.
                track.settle(place.sequence);
                self.unneeded.push(held.position);
            } else {
                queue.bytes += held.bytes();
                queue.waiting += 1;
            }
        }
        let owed = queue.ledger.unsettled();
        queue
            .ledger
            .drop(Discarded::Damaged, owed.saturating_sub(queue.waiting));
        // What the log was not told of is delivered again.
        let again = queue.waiting.saturating_sub(owed);
        queue.ledger.delivered = queue.ledger.delivered.saturating_sub(again);
        Some((queue, self.unneeded))
    }

    /// The log may still have messages of epochs that are forgotten.
    fn leave_out_finished(&mut self, kept: &Kept) {
        let is_known = |number: u64| kept.epochs.iter().any(|epoch| epoch.number == number);
        let is_finished = |place: &Place| {
            let number = of_lane(place.epoch, Lane::Live);
            number < kept.finished_below && !is_known(number)
        };
        let unneeded = self.messages.extract_if(.., |(place, _)| is_finished(place));
        self.unneeded.extend(unneeded.map(|(_, held)| held.position));
    }

    /// The log moves old records to its head: order is by sequence, and of two copies the later one counts.
    fn sort(&mut self) {
        self.messages.sort_by_key(|(place, held)| (*place, held.position));
        let mut sorted: Vec<(Place, Held)> = Vec::with_capacity(self.messages.len());
        for (place, held) in self.messages.drain(..) {
            match sorted.last_mut() {
                Some((last, older)) if *last == place => {
                    self.unneeded.push(older.position);
                    *older = held;
                }
                _ => sorted.push((place, held)),
            }
        }
        self.messages = sorted;
    }
}

#[cfg(test)]
mod tests;
