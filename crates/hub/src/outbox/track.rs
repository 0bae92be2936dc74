//! The messages of one lane of an epoch, in the order of their sequences.

use std::collections::VecDeque;

use broker::Position;
use rangemap::RangeSet;

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits in the log.
    Waiting = 0,
    /// It is with the one who carries it away.
    Sent = 1,
    /// It is delivered or dropped.
    Settled = 2,
}

/// What is remembered of a message while it is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Where the log has it.
    pub(crate) position: Position,
    /// Bytes it takes there; the two upper bits are its [`State`].
    bytes_and_state: u32,
    /// When it is dropped if it still waits, in seconds of the shard's clock; [`NEVER_S`]: not for its age.
    pub(crate) expires_s: u32,
}

/// Later than any clock of a shard goes.
pub(crate) const NEVER_S: u32 = u32::MAX;

const STATE_SHIFT: u32 = 30;
const BYTES_MASK: u32 = (1 << STATE_SHIFT) - 1;

impl Held {
    /// A message that waits. A record is smaller than 2^30 bytes: the log takes none that is larger.
    pub(crate) fn waiting(position: Position, bytes: usize, expires_s: u32) -> Self {
        Self {
            position,
            bytes_and_state: (bytes as u32).min(BYTES_MASK),
            expires_s,
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.bytes_and_state & BYTES_MASK)
    }

    pub(crate) fn state(self) -> State {
        match self.bytes_and_state >> STATE_SHIFT {
            0 => State::Waiting,
            1 => State::Sent,
            _ => State::Settled,
        }
    }

    fn set(&mut self, state: State) {
        self.bytes_and_state = self.bytes_and_state & BYTES_MASK | (state as u32) << STATE_SHIFT;
    }
}

/// A message and its sequence: 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Row {
    sequence: u64,
    held: Held,
}

/// The messages of a lane that are not settled, and those between them.
#[derive(Debug, Default)]
pub(crate) struct Track {
    rows: VecDeque<Row>,
    /// Rows at the front that do not wait.
    passed: usize,
    /// Behind the last message of the lane that is no row any more.
    begin: u64,
    /// Sequences from there on of which every message of the lane is settled.
    settled: RangeSet<u64>,
    /// Rows that are settled.
    settled_rows: usize,
}

impl Track {
    /// Whether everything is settled.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// No message of the lane below is to be expected any more; `end`: the sequence that comes next.
    pub(crate) fn floor(&self, end: u64) -> u64 {
        self.rows.front().map_or(end, |row| row.sequence)
    }

    /// Adds the message that comes next.
    pub(crate) fn push(&mut self, sequence: u64, held: Held) {
        self.rows.push_back(Row { sequence, held });
    }

    /// The first message that waits.
    pub(crate) fn first_waiting(&mut self) -> Option<(u64, Held)> {
        while let Some(row) = self.rows.get(self.passed) {
            if row.held.state() == State::Waiting {
                return Some((row.sequence, row.held));
            }
            self.passed += 1;
        }
        None
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<Held> {
        Some(self.rows[self.find(sequence)?].held)
    }

    /// Behind the message of the lane before this one: no sequence from there up to this one is of this lane.
    pub(crate) fn after(&self, sequence: u64) -> u64 {
        match self.rows.partition_point(|row| row.sequence < sequence) {
            0 => self.begin,
            at => self.rows[at - 1].sequence + 1,
        }
    }

    /// The message is on its way.
    pub(crate) fn mark_sent(&mut self, sequence: u64) {
        if let Some(at) = self.find(sequence) {
            self.rows[at].held.set(State::Sent);
            self.passed += usize::from(self.passed == at);
        }
    }

    /// The message waits again; false if it was not on its way.
    pub(crate) fn mark_waiting(&mut self, sequence: u64) -> bool {
        let at = self
            .find(sequence)
            .filter(|at| self.rows[*at].held.state() == State::Sent);
        if let Some(at) = at {
            self.rows[at].held.set(State::Waiting);
            self.passed = self.passed.min(at);
        }
        at.is_some()
    }

    /// The message is delivered or dropped: what was remembered of it, once.
    pub(crate) fn settle(&mut self, sequence: u64) -> Option<Held> {
        let at = self.find(sequence)?;
        let held = self.rows[at].held;
        if held.state() == State::Settled {
            return None;
        }
        self.rows[at].held.set(State::Settled);
        self.settled_rows += 1;
        if at > 0 {
            self.settled.insert(self.after(sequence)..sequence + 1);
            return Some(held);
        }
        while let Some(row) = self.rows.pop_front_if(|row| row.held.state() == State::Settled) {
            self.passed = self.passed.saturating_sub(1);
            self.settled_rows -= 1;
            self.begin = row.sequence + 1;
        }
        if !self.settled.is_empty() {
            self.settled.remove(0..self.begin);
        }
        Some(held)
    }

    /// The log has moved the message.
    pub(crate) fn relocate(&mut self, sequence: u64, from: Position, to: Position) {
        if let Some(at) = self.find(sequence)
            && self.rows[at].held.position == from
        {
            self.rows[at].held.position = to;
        }
    }

    /// Ranges of sequences behind one that is not settled, their ends excluded, of which every message of the lane is.
    pub(crate) fn settled_above_floor(&self) -> impl Iterator<Item = (u64, u64)> {
        self.settled.iter().map(|range| (range.start, range.end))
    }

    /// Messages that are not settled.
    pub(crate) fn unsettled(&self) -> u64 {
        (self.rows.len() - self.settled_rows) as u64
    }

    /// Messages that are settled, though one before them is not.
    pub(crate) fn settled_rows(&self) -> usize {
        self.settled_rows
    }

    fn find(&self, sequence: u64) -> Option<usize> {
        self.rows.binary_search_by_key(&sequence, |row| row.sequence).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(position: u64) -> Held {
        Held::waiting(Position(position), 100, NEVER_S)
    }

    fn track(sequences: &[u64]) -> Track {
        let mut track = Track::default();
        for sequence in sequences {
            track.push(*sequence, held(sequence + 1));
        }
        track
    }

    fn send(track: &mut Track, sequences: &[u64]) {
        for sequence in sequences {
            assert_eq!(track.first_waiting().map(|(first, _)| first), Some(*sequence));
            track.mark_sent(*sequence);
        }
    }

    #[test]
    fn the_floor_rises_over_what_is_settled_and_stops_at_what_is_not() {
        let mut track = track(&[0, 2, 5, 7]);
        send(&mut track, &[0, 2, 5]);
        assert_eq!(track.settle(5).map(|held| held.position), Some(Position(6)));
        assert_eq!(
            (track.floor(9), track.settled_above_floor().collect::<Vec<_>>()),
            (0, vec![(3, 6)])
        );
        assert!(track.settle(0).is_some() && track.settle(2).is_some());
        assert_eq!((track.floor(9), track.settled_rows()), (7, 0));
        assert_eq!(track.settled_above_floor().count(), 0);
        assert_eq!(track.settle(5), None, "once only");
        assert_eq!(track.settle(3), None, "of another lane");
        assert!(track.settle(7).is_some());
        assert_eq!(track.floor(9), 9);
    }

    #[test]
    fn behind_which_message_one_comes_is_known_though_that_is_settled() {
        let mut track = track(&[3, 5, 9]);
        assert_eq!([3, 5, 9].map(|sequence| track.after(sequence)), [0, 4, 6]);
        track.settle(3);
        assert_eq!(track.after(5), 4);
        track.settle(9);
        track.settle(5);
        track.push(20, held(21));
        assert_eq!(track.after(20), 10);
    }

    #[test]
    fn what_comes_back_is_the_first_that_waits() {
        let mut track = track(&[0, 1, 2]);
        send(&mut track, &[0, 1]);
        assert!(track.mark_waiting(0) && !track.mark_waiting(0));
        send(&mut track, &[0, 2]);
    }

    #[test]
    fn a_message_keeps_its_bytes_through_its_states() {
        let mut track = track(&[4]);
        track.mark_sent(4);
        let held = track.get(4).unwrap();
        assert_eq!((held.bytes(), held.state()), (100, State::Sent));
        assert_eq!(std::mem::size_of::<Row>(), 24);
    }
}
