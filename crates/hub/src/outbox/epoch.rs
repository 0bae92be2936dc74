//! The messages of one queue since one start of the hub, by their sequence.

use std::collections::VecDeque;

use broker::Position;

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

/// What is remembered of a message while it is in the log: 16 bytes.
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

    /// Holds the place of a message that is not in the log.
    fn settled() -> Self {
        let mut held = Self::waiting(Position::default(), 0, NEVER_S);
        held.set(State::Settled);
        held
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

/// One epoch of a queue. Sequences begin at 0 and have no holes; all below [`Epoch::floor`] is settled.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// Its number: greater than those of the epochs before it.
    pub(crate) number: u64,
    floor: u64,
    held: VecDeque<Held>,
    /// Nothing below waits.
    next_waiting: u64,
}

impl Epoch {
    pub(crate) fn new(number: u64, floor: u64) -> Self {
        Self {
            number,
            floor,
            held: VecDeque::new(),
            next_waiting: floor,
        }
    }

    /// All below is settled.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// The sequence that the next message gets.
    pub(crate) fn end(&self) -> u64 {
        self.floor + self.held.len() as u64
    }

    /// Whether everything is settled.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn push(&mut self, held: Held) -> u64 {
        self.held.push_back(held);
        self.end() - 1
    }

    /// Makes room up to `end` for messages that are not known yet.
    pub(crate) fn extend_to(&mut self, end: u64) {
        let missing = end.saturating_sub(self.floor) as usize;
        if missing > self.held.len() {
            self.held.resize(missing, Held::settled());
        }
    }

    /// Puts a message that the log has in its place; the one that was there.
    pub(crate) fn put(&mut self, sequence: u64, held: Held) -> Option<Held> {
        let at = sequence.checked_sub(self.floor)? as usize;
        let place = self.held.get_mut(at)?;
        Some(std::mem::replace(place, held))
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<Held> {
        let at = sequence.checked_sub(self.floor)?;
        self.held.get(at as usize).copied()
    }

    /// The first message that waits.
    pub(crate) fn first_waiting(&mut self) -> Option<(u64, Held)> {
        loop {
            let held = self.get(self.next_waiting)?;
            if held.state() == State::Waiting {
                return Some((self.next_waiting, held));
            }
            self.next_waiting += 1;
        }
    }

    /// The message is on its way.
    pub(crate) fn mark_sent(&mut self, sequence: u64) {
        self.set(sequence, State::Sent);
    }

    /// The message is not on its way any more, and waits again.
    pub(crate) fn mark_waiting(&mut self, sequence: u64) {
        if self.get(sequence).is_some_and(|held| held.state() == State::Sent) {
            self.set(sequence, State::Waiting);
            self.next_waiting = self.next_waiting.min(sequence);
        }
    }

    /// The message is delivered or dropped: what was remembered of it, once.
    pub(crate) fn settle(&mut self, sequence: u64) -> Option<Held> {
        let held = self.get(sequence).filter(|held| held.state() != State::Settled)?;
        self.set(sequence, State::Settled);
        self.rise();
        Some(held)
    }

    /// Lifts the floor over what is settled.
    pub(crate) fn rise(&mut self) {
        while self
            .held
            .pop_front_if(|first| first.state() == State::Settled)
            .is_some()
        {
            self.floor += 1;
        }
        self.next_waiting = self.next_waiting.max(self.floor);
    }

    /// The log has moved the message.
    pub(crate) fn relocate(&mut self, sequence: u64, from: Position, to: Position) {
        let Some(at) = sequence.checked_sub(self.floor) else {
            return;
        };
        if let Some(held) = self.held.get_mut(at as usize).filter(|held| held.position == from) {
            held.position = to;
        }
    }

    /// Above the floor, the sequences that are settled, as ranges with their ends excluded.
    pub(crate) fn settled_above(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (sequence, held) in (self.floor..).zip(&self.held) {
            if held.state() != State::Settled {
                continue;
            }
            match ranges.last_mut() {
                Some((_, end)) if *end == sequence => *end += 1,
                _ => ranges.push((sequence, sequence + 1)),
            }
        }
        ranges
    }

    fn set(&mut self, sequence: u64, state: State) {
        let at = sequence.checked_sub(self.floor).expect("a sequence that is held");
        self.held[at as usize].set(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(position: u64) -> Held {
        Held::waiting(Position(position), 100, NEVER_S)
    }

    fn epoch(messages: u64) -> Epoch {
        let mut epoch = Epoch::new(7, 0);
        for position in 1..=messages {
            epoch.push(held(position));
        }
        epoch
    }

    #[test]
    fn the_floor_rises_over_what_is_settled_and_stops_at_what_is_not() {
        let mut epoch = epoch(5);
        for sequence in [1, 3, 0] {
            epoch.mark_sent(sequence);
            assert_eq!(
                epoch.settle(sequence).map(|held| held.position),
                Some(Position(sequence + 1))
            );
        }
        assert_eq!((epoch.floor(), epoch.end()), (2, 5));
        assert_eq!(epoch.settled_above(), [(3, 4)]);
        assert_eq!(epoch.settle(3), None, "once only");
        assert_eq!(epoch.settle(0), None, "below the floor");
        assert_eq!(epoch.settle(9), None, "never given out");
    }

    #[test]
    fn what_waits_is_found_in_order_around_what_is_on_its_way() {
        let mut epoch = epoch(4);
        epoch.mark_sent(0);
        epoch.mark_sent(2);
        assert_eq!(epoch.first_waiting().map(|(sequence, _)| sequence), Some(1));
        epoch.mark_sent(1);
        assert_eq!(epoch.first_waiting().map(|(sequence, _)| sequence), Some(3));
        epoch.mark_waiting(1);
        assert_eq!(epoch.first_waiting().map(|(sequence, _)| sequence), Some(1));
    }

    #[test]
    fn a_message_keeps_its_bytes_through_its_states() {
        let mut epoch = epoch(1);
        epoch.mark_sent(0);
        let held = epoch.get(0).unwrap();
        assert_eq!((held.bytes(), held.state()), (100, State::Sent));
        assert_eq!(std::mem::size_of::<Held>(), 16);
    }
}
