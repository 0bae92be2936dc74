//! The messages of one route that are to leave the hub, and what became of those before.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::Position;
use route::Upstream;

use super::epoch::{Epoch, Held, State};
use super::ledger::{Discarded, Ledger};

/// Ranges of settled messages above the floor of an epoch that the log is told of; further ones are delivered again
/// after a crash, and known at the other end.
const RANGES_MAX: usize = 1_024;

/// One queue: all that one route of one tenant sends.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Number of its tenant in the log.
    pub(crate) tenant_number: u32,
    pub(crate) tenant: Arc<str>,
    pub(crate) route: Arc<str>,
    pub(crate) settings: Upstream,
    pub(crate) ledger: Ledger,
    /// Bytes that its messages take in the log.
    pub(crate) bytes: u64,
    /// Oldest first; all but the last are of earlier starts.
    epochs: VecDeque<Epoch>,
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
}

/// A message of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

/// A state as the log keeps it: what cannot be told from the messages that are still there.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Kept {
    pub(crate) route: String,
    pub(crate) ledger: Ledger,
    pub(crate) epochs: Vec<KeptEpoch>,
}

/// See [`Kept`].
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct KeptEpoch {
    pub(crate) number: u64,
    pub(crate) floor: u64,
    pub(crate) end: u64,
    /// Settled above the floor, ends excluded.
    pub(crate) settled: Vec<(u64, u64)>,
}

impl Queue {
    pub(crate) fn new(tenant_number: u32, tenant: Arc<str>, route: Arc<str>) -> Self {
        Self {
            tenant_number,
            tenant,
            route,
            settings: Upstream::default(),
            ledger: Ledger::default(),
            bytes: 0,
            epochs: VecDeque::new(),
            position: Position::default(),
            is_changed: true,
            unneeded: Vec::new(),
            share_bytes: 0,
            waiting: 0,
            loading: 0,
        }
    }

    /// The place that the next message gets in an epoch.
    pub(crate) fn next_place(&self, epoch: u64) -> Place {
        let last = self.epochs.back().filter(|last| last.number == epoch);
        let sequence = last.map_or(0, Epoch::end);
        Place { epoch, sequence }
    }

    /// Takes in a message that the log has, at the place that was next.
    pub(crate) fn push(&mut self, place: Place, held: Held) {
        if self.epochs.back().is_none_or(|last| last.number != place.epoch) {
            self.epochs.push_back(Epoch::new(place.epoch, 0));
        }
        self.bytes += held.bytes();
        self.waiting += 1;
        let sequence = self.epochs.back_mut().expect("there is one").push(held);
        debug_assert_eq!(sequence, place.sequence);
    }

    pub(crate) fn epoch_numbers(&self) -> impl Iterator<Item = u64> {
        self.epochs.iter().map(|epoch| epoch.number)
    }

    /// The message that waits longest.
    pub(crate) fn first_waiting(&mut self) -> Option<(Place, Held)> {
        self.epochs.iter_mut().find_map(|epoch| {
            let (sequence, held) = epoch.first_waiting()?;
            let place = Place {
                epoch: epoch.number,
                sequence,
            };
            Some((place, held))
        })
    }

    pub(crate) fn mark_sent(&mut self, place: Place) {
        if let Some(epoch) = self.epoch(place.epoch) {
            epoch.mark_sent(place.sequence);
            self.waiting -= 1;
        }
    }

    pub(crate) fn mark_waiting(&mut self, place: Place) {
        let Some(epoch) = self.epoch(place.epoch) else { return };
        if epoch
            .get(place.sequence)
            .is_some_and(|held| held.state() == State::Sent)
        {
            epoch.mark_waiting(place.sequence);
            self.waiting += 1;
        }
    }

    /// The other end has the message.
    pub(crate) fn deliver(&mut self, place: Place) {
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

    /// All below is settled, in this epoch.
    pub(crate) fn floor(&self, number: u64) -> u64 {
        let epoch = self.epochs.iter().find(|epoch| epoch.number == number);
        epoch.map_or(u64::MAX, Epoch::floor)
    }

    pub(crate) fn relocate(&mut self, place: Place, from: Position, to: Position) {
        if let Some(epoch) = self.epoch(place.epoch) {
            epoch.relocate(place.sequence, from, to);
        }
    }

    /// Whether the log has this message here, and it is still needed.
    pub(crate) fn holds(&self, place: Place, position: Position) -> bool {
        let epoch = self.epochs.iter().find(|epoch| epoch.number == place.epoch);
        let held = epoch.and_then(|epoch| epoch.get(place.sequence));
        held.is_some_and(|held| held.position == position && held.state() != State::Settled)
    }

    /// What the log is to remember.
    pub(crate) fn kept(&self) -> Kept {
        let epochs = self.epochs.iter().map(|epoch| {
            let mut settled = epoch.settled_above();
            settled.truncate(RANGES_MAX);
            KeptEpoch {
                number: epoch.number,
                floor: epoch.floor(),
                end: epoch.end(),
                settled,
            }
        });
        Kept {
            route: self.route.to_string(),
            ledger: self.ledger,
            epochs: epochs.collect(),
        }
    }

    fn settle(&mut self, place: Place) -> bool {
        let Some(epoch) = self.epoch(place.epoch) else {
            return false;
        };
        let Some(held) = epoch.settle(place.sequence) else {
            return false;
        };
        self.waiting -= u64::from(held.state() == State::Waiting);
        self.bytes -= held.bytes();
        self.unneeded.push(held.position);
        self.is_changed = true;
        self.forget_finished();
        true
    }

    /// Epochs of earlier starts of which everything is settled.
    fn forget_finished(&mut self) {
        while self.epochs.len() > 1 && self.epochs.front().is_some_and(Epoch::is_empty) {
            self.epochs.pop_front();
        }
    }

    fn epoch(&mut self, number: u64) -> Option<&mut Epoch> {
        // The youngest is meant most often.
        self.epochs.iter_mut().rev().find(|epoch| epoch.number == number)
    }
}

/// A queue while the log is read.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    /// Its state, the last one that was found, and where.
    kept: Option<(Kept, Position)>,
    messages: Vec<(Place, Held)>,
    /// Positions that something later stands for.
    pub(crate) unneeded: Vec<Position>,
}

impl Returning {
    pub(crate) fn state(&mut self, kept: Kept, position: Position) {
        if let Some((_, older)) = self.kept.replace((kept, position)) {
            self.unneeded.push(older);
        }
    }

    pub(crate) fn message(&mut self, place: Place, held: Held) {
        self.messages.push((place, held));
    }

    /// The queue as it was; `None` if the log has nothing of its route.
    pub(crate) fn finish(mut self, tenant_number: u32, tenant: Arc<str>) -> Option<(Queue, Vec<Position>)> {
        let (kept, position) = self.kept?;
        let mut queue = Queue::new(tenant_number, tenant, kept.route.as_str().into());
        queue.position = position;
        queue.ledger = kept.ledger;
        // The log moves old records to its head: order is by sequence, and of two copies the later one counts.
        self.messages
            .sort_by_key(|(place, held)| (place.epoch, place.sequence, held.position));
        let mut numbers: Vec<u64> = self.messages.iter().map(|(place, _)| place.epoch).collect();
        numbers.extend(kept.epochs.iter().map(|epoch| epoch.number));
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let of_epoch = |place: &Place| place.epoch == number;
            let kept = kept.epochs.iter().find(|epoch| epoch.number == number);
            let messages = self.messages.iter().filter(|(place, _)| of_epoch(place));
            let known = KeptEpoch {
                number,
                ..KeptEpoch::default()
            };
            queue.bring_back(kept.unwrap_or(&known), messages, &mut self.unneeded);
        }
        Some((queue, self.unneeded))
    }
}

impl Queue {
    /// Brings an epoch back from its state and from the messages that the log has.
    fn bring_back<'a>(
        &mut self,
        kept: &KeptEpoch,
        messages: impl Iterator<Item = &'a (Place, Held)> + Clone,
        unneeded: &mut Vec<Position>,
    ) {
        let last = messages.clone().last().map(|(place, _)| place.sequence + 1);
        let end = kept.end.max(last.unwrap_or(0));
        self.ledger.received += end - kept.end;
        let mut epoch = Epoch::new(kept.number, kept.floor);
        epoch.extend_to(end);
        let is_settled = |sequence: u64| kept.settled.iter().any(|(from, to)| (*from..*to).contains(&sequence));
        for (place, held) in messages {
            if place.sequence < kept.floor || is_settled(place.sequence) {
                unneeded.push(held.position);
                continue;
            }
            let older = epoch
                .put(place.sequence, *held)
                .filter(|older| older.state() != State::Settled);
            match older {
                Some(older) => unneeded.push(older.position),
                None => {
                    self.bytes += held.bytes();
                    self.waiting += 1;
                }
            }
        }
        let settled: u64 = kept.settled.iter().map(|(from, to)| to - from).sum();
        let expected = end - kept.floor - settled;
        let found = epoch_len(&epoch);
        self.ledger.drop(Discarded::Damaged, expected - found);
        epoch.rise();
        self.epochs.push_back(epoch);
    }
}

/// Messages of an epoch that are not settled.
fn epoch_len(epoch: &Epoch) -> u64 {
    let settled: u64 = epoch.settled_above().iter().map(|(from, to)| to - from).sum();
    epoch.end() - epoch.floor() - settled
}
