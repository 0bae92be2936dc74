//! The messages of one queue since one start of the hub: one row of sequences, in two lanes.

use super::Lane;
use super::track::{Held, Track};

/// The bit of an epoch's number that tells the backlog from the live lane.
const BACKLOG: u64 = 1;

/// The number of a lane of an epoch.
pub(crate) fn of_lane(epoch: u64, lane: Lane) -> u64 {
    match lane {
        Lane::Live => epoch & !BACKLOG,
        Lane::Backlog => epoch | BACKLOG,
    }
}

/// One epoch of a queue.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// Its number, that of its live lane: greater than those of the epochs before it.
    pub(crate) number: u64,
    /// The sequence that the next message gets, in whichever lane.
    pub(crate) end: u64,
    live: Track,
    backlog: Track,
}

impl Epoch {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number: of_lane(number, Lane::Live),
            end: 0,
            live: Track::default(),
            backlog: Track::default(),
        }
    }

    /// Whether everything is settled.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.backlog.is_empty()
    }

    /// The sequence of the first message that is not settled, of both lanes; that of the next one if all are.
    pub(crate) fn first(&self) -> u64 {
        self.live.floor(self.end).min(self.backlog.floor(self.end))
    }

    /// Messages that are not settled.
    pub(crate) fn unsettled(&self) -> u64 {
        self.live.unsettled() + self.backlog.unsettled()
    }

    /// The lane of this number, if it is one of this epoch.
    pub(crate) fn track(&mut self, number: u64) -> Option<&mut Track> {
        match number {
            number if number == self.number => Some(&mut self.live),
            number if number == self.number | BACKLOG => Some(&mut self.backlog),
            _ => None,
        }
    }

    /// As [`Epoch::track`], to look at.
    pub(crate) fn look(&self, number: u64) -> Option<&Track> {
        match number {
            number if number == self.number => Some(&self.live),
            number if number == self.number | BACKLOG => Some(&self.backlog),
            _ => None,
        }
    }

    /// The message that waits longest, with the number of its lane.
    pub(crate) fn first_waiting(&mut self) -> Option<(u64, u64, Held)> {
        let live = self
            .live
            .first_waiting()
            .map(|(sequence, held)| (self.number, sequence, held));
        let backlog = self.backlog.first_waiting();
        let backlog = backlog.map(|(sequence, held)| (self.number | BACKLOG, sequence, held));
        [live, backlog]
            .into_iter()
            .flatten()
            .min_by_key(|(_, sequence, _)| *sequence)
    }
}
