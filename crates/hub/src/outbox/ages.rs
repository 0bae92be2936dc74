//! For how long the oldest message of a queue waits: remembered of one message a second, not of each.

use std::collections::VecDeque;

/// A message of a queue whose lanes are one row: the number of its epoch, and its sequence.
pub(crate) type InRow = (u64, u64);

/// When messages of a queue came: at most one mark for each of them, and one for each second.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    /// The first message of some seconds of the shard's clock, in their order; what came before the start has
    /// less than 0.
    marks: VecDeque<(InRow, i64)>,
}

impl Ages {
    /// A message has come, behind all others; `oldest`: the first that waits.
    pub(crate) fn note(&mut self, place: InRow, now_s: i64, oldest: InRow) {
        if self.marks.back().is_some_and(|(_, at_s)| *at_s >= now_s) {
            return;
        }
        let unneeded = self.known_by(oldest);
        self.marks.drain(..unneeded);
        self.marks.push_back((place, now_s));
    }

    /// A message was found in the log, in whichever order.
    pub(crate) fn found(&mut self, place: InRow, at_s: i64) {
        if self.marks.back().is_none_or(|(_, last_s)| *last_s != at_s) {
            self.marks.push_back((place, at_s));
        }
    }

    /// All were found.
    pub(crate) fn sort(&mut self) {
        self.marks.make_contiguous().sort_unstable();
        let mut last_s = i64::MIN;
        self.marks.retain(|(_, at_s)| {
            let is_later = *at_s > last_s;
            last_s = last_s.max(*at_s);
            is_later
        });
    }

    /// When this message came, on the clock of the marks, or up to a second before; `None`: nothing is known of any.
    pub(crate) fn of(&self, place: InRow) -> Option<i64> {
        self.marks.get(self.known_by(place)).map(|(_, at_s)| *at_s)
    }

    /// The place of the mark that a message is known by: the last one that is not behind it.
    fn known_by(&self, place: InRow) -> usize {
        let marks = self.marks.partition_point(|(first, _)| *first <= place);
        marks.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_old_as_the_first_of_its_second() {
        let mut ages = Ages::default();
        assert_eq!(ages.of((2, 0)), None);
        for (sequence, now_s) in [(0, 10), (1, 10), (5, 12), (6, 12), (7, 20)] {
            ages.note((2, sequence), now_s, (2, 0));
        }
        let came: Vec<_> = [0, 1, 4, 5, 6, 9]
            .map(|sequence| ages.of((2, sequence)).unwrap())
            .into();
        assert_eq!(came, [10, 10, 10, 12, 12, 20]);
    }

    #[test]
    fn marks_of_what_is_gone_go_with_the_next() {
        let mut ages = Ages::default();
        for second in 0..1_000 {
            ages.note((2, second), second as i64, (2, second.saturating_sub(3)));
        }
        assert_eq!((ages.marks.len(), ages.of((2, 996))), (4, Some(996)));
    }

    #[test]
    fn what_the_log_gives_back_in_another_order_is_as_old_as_it_was() {
        let mut ages = Ages::default();
        for (place, at_s) in [
            ((4, 0), -3),
            ((4, 1), -3),
            ((2, 7), -60),
            ((2, 8), -60),
            ((4, 2), -3),
            ((2, 3), -90),
        ] {
            ages.found(place, at_s);
        }
        ages.sort();
        let came = [(2, 3), (2, 7), (4, 0), (4, 2)].map(|place| ages.of(place));
        assert_eq!(came, [Some(-90), Some(-60), Some(-3), Some(-3)]);
        ages.note((6, 0), 1, (2, 3));
        assert_eq!(ages.of((6, 0)), Some(1));
    }
}
