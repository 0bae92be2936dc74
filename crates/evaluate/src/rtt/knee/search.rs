//! Which load to try next on the way to the highest that holds. Pure.
//!
//! Loads are levels of a geometric grid. The search climbs an octave at a time until a level breaks, halves what lies
//! between, and confirms the highest level that held with blocks of its own.

/// Levels that make twice the load.
pub(crate) const OCTAVE: i32 = 8;
/// Confirmations that may fail before the search gives up.
const CONFIRMATIONS: u32 = 3;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) level: i32,
    /// Whether this level held before and is tried once more.
    pub(crate) confirming: bool,
}

/// A search under way.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    start: i32,
    lowest: i32,
    highest: i32,
    held: Vec<i32>,
    broken: Option<i32>,
    confirmations_left: u32,
    done: bool,
}

impl Search {
    /// Starts at `start`, within `lowest..=highest`.
    pub(crate) fn new(start: i32, lowest: i32, highest: i32) -> Search {
        Search {
            start,
            lowest,
            highest,
            held: Vec::new(),
            broken: None,
            confirmations_left: CONFIRMATIONS,
            done: false,
        }
    }

    /// The next level; none once the search is over.
    pub(crate) fn next(&self) -> Option<Trial> {
        if self.done {
            return None;
        }
        let trial = |level| Trial {
            level,
            confirming: self.held.contains(&level),
        };
        Some(match (self.held.iter().max(), self.broken) {
            (None, None) => trial(self.start),
            (None, Some(broken)) => trial((broken - OCTAVE).max(self.lowest)),
            (Some(held), None) => trial((held + OCTAVE).min(self.highest)),
            (Some(held), Some(broken)) => trial(held + (broken - held) / 2),
        })
    }

    /// Notes whether the trial that [`Search::next`] named held.
    pub(crate) fn note(&mut self, trial: Trial, holds: bool) {
        match (holds, trial.confirming) {
            (true, true) => self.done = true,
            (true, false) => self.held.push(trial.level),
            (false, confirming) => {
                self.confirmations_left -= u32::from(confirming);
                self.held.retain(|level| *level < trial.level);
                self.broken = Some(trial.level);
                self.done = trial.level <= self.lowest || self.confirmations_left == 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches where every level up to `limit` holds; the levels tried.
    fn searched(limit: i32) -> Vec<Trial> {
        let mut search = Search::new(0, -24, 48);
        let mut trials = Vec::new();
        while let Some(trial) = search.next() {
            search.note(trial, trial.level <= limit);
            trials.push(trial);
            assert!(trials.len() < 64, "{trials:?}");
        }
        trials
    }

    #[test]
    fn every_knee_on_the_grid_is_found_and_confirmed() {
        for limit in -24..48 {
            let trials = searched(limit);
            let last = Trial {
                level: limit,
                confirming: true,
            };
            assert_eq!(trials.last(), Some(&last), "{trials:?}");
            assert!(trials.len() <= 12, "{trials:?}");
        }
    }

    #[test]
    fn the_edge_of_the_search_is_confirmed_where_all_holds() {
        let edge = Trial {
            level: 48,
            confirming: true,
        };
        assert_eq!(searched(99).last(), Some(&edge));
    }

    #[test]
    fn where_not_even_the_lowest_level_holds_the_search_ends() {
        assert_eq!(searched(-99).last().unwrap().level, -24);
    }

    #[test]
    fn a_level_that_fails_its_confirmation_is_no_knee() {
        let mut search = Search::new(0, 0, 1);
        for (level, confirming, holds) in [(0, false, true), (1, false, true), (1, true, false), (0, true, true)] {
            let trial = Trial { level, confirming };
            assert_eq!(search.next(), Some(trial));
            search.note(trial, holds);
        }
        assert_eq!(search.next(), None);
    }
}
