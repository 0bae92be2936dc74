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

    /// Takes a whole range in; false: not, because the mark has no room for another one.
    pub(crate) fn fill(&mut self, range: RangeInclusive<u64>) -> bool {
        let touched = range.start().saturating_sub(1)..=range.end() + 1;
        let joined = self.now.overlapping(&touched).count() as u64;
        if joined == 0 && self.count >= MAX_RANGES {
            return false;
        }
        self.count = self.count + 1 - joined;
        self.now.insert(range);
        true
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_run_that_closes_a_hole_joins_the_ranges_around_it() {
        let mut mark = Mark::new([1..=3, 6..=9], 2);
        assert_eq!(
            [4, 5, 4].map(|sequence| mark.take(sequence)),
            [Taken::New, Taken::New, Taken::Duplicate]
        );
        let expected = Changes {
            removed: vec![6],
            written: vec![1..=9],
            count: Some(1),
        };
        assert_eq!(mark.changes(), expected);
    }

    #[test]
    fn a_full_mark_defers_what_needs_another_range_and_takes_what_does_not() {
        let mut mark = Mark::new([10..=10, 20..=20], MAX_RANGES);
        assert_eq!(mark.take(15), Taken::Deferred);
        assert_eq!(mark.take(11), Taken::New);
        assert_eq!(mark.take(19), Taken::New);
        assert_eq!(mark.take(10), Taken::Duplicate);
        assert!(!mark.fill(15..=16));
        assert_eq!(mark.take(15), Taken::Deferred);
        let mut mark = Mark::new([10..=10, 20..=20], MAX_RANGES);
        assert!(mark.fill(11..=19));
        assert_eq!(mark.take(30), Taken::New);
        assert_eq!(mark.take(32), Taken::Deferred);
    }

    #[test]
    fn the_ends_of_all_sequences_are_sequences_too() {
        let mut mark = Mark::default();
        for sequence in [crate::MAX_NUMBER, 0, crate::MAX_NUMBER - 1, 1] {
            assert_eq!(mark.take(sequence), Taken::New);
        }
        assert_eq!(
            mark.changes().written,
            [0..=1, crate::MAX_NUMBER - 1..=crate::MAX_NUMBER]
        );
    }

    proptest! {
        #[test]
        fn changes_make_what_is_stored_what_it_shall_be(
            stored in prop::collection::btree_set(0..60_u64, 0..40),
            taken in prop::collection::vec(0..60_u64, 0..40),
            filled in 0..60_u64,
            length in 0..10_u64,
        ) {
            let before = runs(stored.iter().copied());
            let mut mark = Mark::new(before.clone(), before.len() as u64);
            let mut model: BTreeSet<u64> = stored;
            for sequence in taken {
                let expected = if model.insert(sequence) { Taken::New } else { Taken::Duplicate };
                prop_assert_eq!(mark.take(sequence), expected);
            }
            prop_assert!(mark.fill(filled..=filled + length));
            model.extend(filled..=filled + length);

            let changes = mark.changes();
            let mut after = before.clone();
            after.retain(|range| !changes.removed.contains(range.start()));
            for range in &changes.written {
                after.retain(|present| present.start() != range.start());
                after.push(range.clone());
            }
            after.sort_by_key(|range| *range.start());
            prop_assert_eq!(changes.count.unwrap_or(before.len() as u64), after.len() as u64);
            prop_assert_eq!(after, runs(model));
        }
    }
}
