//! Which sequences of an epoch are in: ranges, of which only those near a batch are looked at.

use std::ops::RangeInclusive;

use rangemap::RangeInclusiveSet;

/// Most ranges of one epoch. Each further hole needs one more; what would need more than this is deferred until
/// sequences before it have come or were declared dropped. The lowest missing sequence never is, so an edge that sends
/// its oldest records at last always gets on.
pub const MAX_RANGES: u64 = 65_536;

/// The part of an epoch's mark that a batch can change, and what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    before: RangeInclusiveSet<u64>,
    now: RangeInclusiveSet<u64>,
    /// Ranges of the whole epoch, before and now.
    count_before: u64,
    count: u64,
}

/// What is to be done with a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Store its reading: now it is in.
    New,
    /// It is in already.
    Duplicate,
    /// The mark has no room for another range.
    Deferred,
}

/// What a batch changes in the ranges that are stored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Ranges to remove, by their first sequence.
    pub(crate) removed: Vec<u64>,
    /// Ranges to write, over one with the same first sequence if there is one.
    pub(crate) written: Vec<RangeInclusive<u64>>,
    /// Ranges of the epoch afterwards, if they are not as many as before.
    pub(crate) count: Option<u64>,
}

impl Mark {
    /// `near`: all stored ranges that overlap or touch what will be added. `count`: ranges of the whole epoch.
    pub(crate) fn new(near: impl IntoIterator<Item = RangeInclusive<u64>>, count: u64) -> Self {
        let before: RangeInclusiveSet<u64> = near.into_iter().collect();
        Mark {
            now: before.clone(),
            before,
            count_before: count,
            count,
        }
    }

    /// Takes one sequence in.
    pub(crate) fn take(&mut self, sequence: u64) -> Taken {
        if self.now.contains(&sequence) {
            return Taken::Duplicate;
        }
        let touches_below = sequence > 0 && self.now.contains(&(sequence - 1));
        let touches_above = self.now.contains(&(sequence + 1));
        match (touches_below, touches_above) {
            (false, false) if self.count >= MAX_RANGES => return Taken::Deferred,
            (false, false) => self.count += 1,
            (true, true) => self.count -= 1,
            _ => {}
        }
        self.now.insert(sequence..=sequence);
        Taken::New
    }

    /// Takes a whole range in; false: the mark has no room for another one.
    pub(crate) fn fill(&mut self, range: RangeInclusive<u64>) -> bool {
        let ranges = self.now.len() as u64;
        self.now.insert(range);
        self.count = self.count + self.now.len() as u64 - ranges;
        self.count <= MAX_RANGES
    }

    /// The difference between what is stored and what shall be.
    pub(crate) fn changes(&self) -> Changes {
        let removed = self.before.iter().map(|range| *range.start());
        let written = self
            .now
            .iter()
            .filter(|range| self.before.get(range.start()) != Some(range));
        Changes {
            removed: removed.filter(|first| !starts_at(&self.now, *first)).collect(),
            written: written.cloned().collect(),
            count: (self.count != self.count_before).then_some(self.count),
        }
    }
}

fn starts_at(ranges: &RangeInclusiveSet<u64>, first: u64) -> bool {
    ranges.get(&first).is_some_and(|range| *range.start() == first)
}

/// Sequences as runs without a hole.
pub(crate) fn runs(sequences: impl IntoIterator<Item = u64>) -> Vec<RangeInclusive<u64>> {
    let set: RangeInclusiveSet<u64> = sequences.into_iter().map(|sequence| sequence..=sequence).collect();
    set.into_iter().collect()
}
