//! The next step from old replicas to new ones. Pure.

use std::cmp::Reverse;
use std::time::Duration;

/// How far old and new replicas overlap, and when the new ones are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// So many more than wanted may run.
    pub surge: u32,
    /// So many fewer than wanted may be available.
    pub unavailable: u32,
    /// A replica is available once it has been ready for so long.
    pub min_ready: Duration,
    /// From one that became available to the next; what takes longer is taken back.
    pub deadline: Duration,
}

impl Update {
    /// Old replicas have ended before new ones start.
    #[must_use]
    pub fn recreate() -> Self {
        Update {
            surge: 0,
            unavailable: u32::MAX,
            min_ready: Duration::ZERO,
            deadline: Duration::from_secs(600),
        }
    }
}

/// A replica as it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its number.
    pub(super) replica: u32,
    pub(super) is_new: bool,
    /// Whether it has been ready for long enough.
    pub(super) is_available: bool,
    /// Whether it is of use to nobody, for all that is known: what was found lately may yet say that it is ready.
    pub(super) is_broken: bool,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// These end.
    Stop(Vec<u32>),
    /// So many new ones are started.
    Start(u32),
    /// Until something changes.
    Wait,
    /// All is as it is wanted.
    Done,
}

/// Of all that are `seen`, `wanted` new ones are to be left.
pub(super) fn next(wanted: u32, update: &Update, seen: &[Seen]) -> Step {
    let (new, old): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|one| one.is_new);
    let count = |seen: &[&Seen]| u32::try_from(seen.len()).unwrap_or(u32::MAX);
    if count(&new) > wanted {
        let mut surplus = new;
        surplus.sort_by_key(|one| (one.is_available, Reverse(one.replica)));
        surplus.truncate(surplus.len() - wanted as usize);
        return Step::Stop(surplus.iter().map(|one| one.replica).collect());
    }
    let available = seen.iter().filter(|one| one.is_available).count() as u32;
    let least = wanted.saturating_sub(update.unavailable);
    let broken = old.iter().filter(|one| one.is_broken && !one.is_available);
    let to_spare = available.saturating_sub(least) as usize;
    let spared = old.iter().filter(|one| one.is_available).take(to_spare);
    let stopped: Vec<u32> = broken.chain(spared).map(|one| one.replica).collect();
    // Nothing of the old is asked whether it is ready where none need be.
    let stopped = match least {
        0 => old.iter().map(|one| one.replica).collect(),
        _ => stopped,
    };
    if !stopped.is_empty() {
        return Step::Stop(stopped);
    }
    let most = match old.is_empty() {
        true => wanted,
        false => wanted.saturating_add(update.surge),
    };
    let room = most.saturating_sub(count(&old) + count(&new));
    match room.min(wanted - count(&new)) {
        0 if old.is_empty() && new.iter().all(|one| one.is_available) => Step::Done,
        0 => Step::Wait,
        more => Step::Start(more),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn update(surge: u32, unavailable: u32) -> Update {
        Update {
            surge,
            unavailable,
            ..Update::recreate()
        }
    }

    fn of(text: &str) -> Vec<Seen> {
        let seen = |(replica, letter): (usize, char)| Seen {
            replica: replica as u32,
            is_new: matches!(letter, 'N' | 'n'),
            is_available: matches!(letter, 'N' | 'O'),
            is_broken: letter == 'x',
        };
        text.chars().enumerate().map(seen).collect()
    }

    /// Large letters are available, `x` is old and broken.
    #[test]
    fn the_steps_of_usual_ways() {
        for (wanted, how, seen, step) in [
            (2, update(1, 0), "", Step::Start(2)),
            (2, update(1, 0), "nn", Step::Wait),
            (2, update(1, 0), "NN", Step::Done),
            (2, update(1, 0), "OO", Step::Start(1)),
            (2, update(1, 0), "OOn", Step::Wait),
            (2, update(1, 0), "OON", Step::Stop(vec![0])),
            (2, update(1, 0), "oo", Step::Start(1)),
            (2, update(1, 0), "xO", Step::Stop(vec![0])),
            (2, update(0, 1), "OO", Step::Stop(vec![0])),
            (2, update(0, 1), "O", Step::Start(1)),
            (2, update(0, 1), "On", Step::Wait),
            (2, Update::recreate(), "Oo", Step::Stop(vec![0, 1])),
            (1, update(1, 0), "NNn", Step::Stop(vec![2, 1])),
            (1, update(1, 0), "nn", Step::Stop(vec![1])),
            (0, update(1, 0), "O", Step::Stop(vec![0])),
        ] {
            assert_eq!(next(wanted, &how, &of(seen)), step, "{wanted} of {seen:?} by {how:?}");
        }
    }

    proptest! {
        /// Whatever becomes of single replicas meanwhile, no step takes more than it may, and once all new ones become
        /// available it comes to its end.
        #[test]
        fn no_step_takes_more_than_it_may_and_the_end_is_reached(
            wanted in 0_u32..6,
            surge in 0_u32..4,
            unavailable in 0_u32..4,
            begun in "[Oox]{0,6}",
            fates in proptest::collection::vec(any::<(u8, bool)>(), 0..40),
        ) {
            prop_assume!(surge + unavailable > 0);
            let how = update(surge, unavailable);
            let mut seen = of(&begun);
            let mut fates = fates.into_iter();
            let mut free = 100;
            for _ in 0..200 {
                let (old, all) = (seen.iter().filter(|one| !one.is_new).count() as u32, seen.len() as u32);
                let available = |seen: &[Seen]| seen.iter().filter(|one| one.is_available).count() as u32;
                let before = available(&seen);
                match next(wanted, &how, &seen) {
                    Step::Done => {
                        prop_assert_eq!((old, all), (0, wanted));
                        return Ok(());
                    }
                    Step::Start(more) => {
                        let most = wanted + if old == 0 { 0 } else { surge };
                        prop_assert!(all + more <= most);
                        for _ in 0..more {
                            free += 1;
                            seen.push(Seen { replica: free, is_new: true, is_available: false, is_broken: false });
                        }
                    }
                    Step::Stop(replicas) => {
                        prop_assert!(!replicas.is_empty());
                        seen.retain(|one| !replicas.contains(&one.replica));
                        let now = available(&seen);
                        prop_assert!(now == before || now >= wanted.saturating_sub(unavailable));
                    }
                    Step::Wait => {
                        for one in &mut seen {
                            // What is not available for long counts as broken in the end.
                            one.is_broken = !one.is_new && !one.is_available;
                            one.is_available |= one.is_new;
                        }
                    }
                }
                if let Some((which, is_available)) = fates.next()
                    && !seen.is_empty()
                {
                    let which = which as usize % seen.len();
                    seen[which].is_available = is_available;
                }
            }
            prop_assert!(false, "no end: {:?}", seen);
        }
    }
}
