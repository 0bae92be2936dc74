//! The cells, how they are ordered, and which of them a run has measured.

use std::time::Duration;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::board::{Board, Profile};
use super::options::{Options, Part};
use super::record::{Case, Group, InterferenceRun, Job, Kind};
use crate::gateway::Runtime;
use crate::report::words;

/// Every job of a block.
pub(super) fn jobs(options: &Options) -> Vec<Job> {
    let mut jobs = Vec::new();
    for profile in &options.profiles {
        for runtime in &options.runtimes {
            for part in &options.parts {
                let groups = match part {
                    Part::Pairs => pairs(options),
                    Part::Hub => hub(options),
                };
                let job = |(case, group)| Job {
                    profile: *profile,
                    runtime: *runtime,
                    case,
                    group,
                };
                jobs.extend(groups.into_iter().map(job));
            }
        }
    }
    jobs
}

/// Each service by itself, twice, and each pair in each case.
fn pairs(options: &Options) -> Vec<(Case, Group)> {
    let has = |kind: &Kind| options.pairs.iter().any(|pair| pair.0 == *kind || pair.1 == *kind);
    let alone = Kind::ALL.into_iter().filter(has).map(Group::One);
    let mut all: Vec<(Case, Group)> = alone
        .flat_map(|group| [(Case::Alone, group), (Case::AloneAgain, group)])
        .collect();
    let together = options.cases.iter().filter(|case| **case != Case::Alone);
    for case in together {
        all.extend(options.pairs.iter().map(|pair| (*case, Group::Pair(pair.0, pair.1))));
    }
    all
}

/// The hub by itself, twice, and beside each service, without and with limits.
fn hub(options: &Options) -> Vec<(Case, Group)> {
    let mut all = vec![(Case::Alone, Group::Hub), (Case::AloneAgain, Group::Hub)];
    for case in [Case::Unlimited, Case::Limited] {
        if options.cases.contains(&case) {
            all.extend(Kind::ALL.map(|kind| (case, Group::HubBeside(kind))));
        }
    }
    all
}

/// In random order, but those of a board and a runtime after each other, so that what is compared stays close in time.
/// The same of a seed and block, wherever a run began.
pub(super) fn shuffled(jobs: &[Job], seed: u64, block: u32) -> Vec<Job> {
    let mut order = ChaCha8Rng::seed_from_u64(seed);
    order.set_stream(u64::from(block));
    let mut jobs = jobs.to_vec();
    jobs.shuffle(&mut order);
    let mut places: Vec<(Profile, Runtime)> = Vec::new();
    for job in &jobs {
        if !places.contains(&(job.profile, job.runtime)) {
            places.push((job.profile, job.runtime));
        }
    }
    jobs.sort_by_key(|job| places.iter().position(|place| *place == (job.profile, job.runtime)));
    jobs
}

/// About how long all takes.
#[must_use]
pub fn estimate(options: &Options) -> Duration {
    const START: Duration = Duration::from_secs(10);
    let options = options.clone().effective();
    let block: Duration = jobs(&options).iter().map(|job| takes(*job, &options)).sum();
    START + block * options.blocks
}

/// As seen on a machine of two cores.
fn takes(job: Job, options: &Options) -> Duration {
    const SET_UP: Duration = Duration::from_secs(2);
    /// A file is written once and written over once, and read twice, by so much a second in all.
    const MIB_PER_S: u32 = 700;
    let board = Board::here(job.profile, options.divisor);
    let bonnies = job.group.kinds().iter().filter(|kind| **kind == Kind::Bonnie).count() as u32;
    let files = Duration::from_secs(u64::from(4 * board.sizes.file_mib * bonnies / MIB_PER_S));
    let measure = options.measure();
    SET_UP
        + if job.group.has_hub() {
            measure
        } else {
            measure.max(files)
        }
}

/// Which cells were measured of how many a full run has.
pub(crate) struct Cells {
    pub(crate) heading: String,
    pub(crate) lines: Vec<String>,
}

pub(crate) fn cells(run: &InterferenceRun) -> Cells {
    let full = Options::default();
    let all = jobs(&full);
    let measured: Vec<Job> = jobs(&run.options)
        .into_iter()
        .filter(|job| run.done.iter().any(|done| done.job == *job))
        .collect();
    let of_full = measured.iter().filter(|job| all.contains(job)).count();
    let heading = format!(
        "Measured {of_full} of the {} cells of a full run, {} of its {} blocks of each; a full run takes {}, and --resume goes on \
         with one that was ended.",
        all.len(),
        run.options.blocks,
        full.blocks,
        words::about(estimate(&full)),
    );
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for job in &measured {
        let line = format!("{}, {}, {}", job.profile.name(), job.runtime.name(), job.case.name());
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, groups)) => groups.push(job.group.name()),
            None => lines.push((line, vec![job.group.name()])),
        }
    }
    Cells {
        heading,
        lines: lines
            .into_iter()
            .map(|(line, groups)| format!("{line}: {}", groups.join(" ")))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_has_every_case_of_every_pair_on_both_boards_in_both_runtimes_and_the_hub_beside_each_service() {
        let all = jobs(&Options::default());
        // Three services alone and again, six pairs in three cases; the hub alone and again, beside three in two cases.
        assert_eq!(all.len(), 2 * 2 * (3 * 2 + 6 * 3 + 2 + 3 * 2));
        let unique: std::collections::HashSet<Job> = all.iter().copied().collect();
        assert_eq!(unique.len(), all.len());
    }

    #[test]
    fn a_block_has_the_same_order_again_another_block_another_and_what_is_compared_stays_together() {
        let jobs = jobs(&Options::default());
        let first = shuffled(&jobs, 7, 0);
        assert_eq!(first, shuffled(&jobs, 7, 0));
        assert_ne!(first, shuffled(&jobs, 7, 1));
        let place = |job: &Job| (job.profile, job.runtime);
        let changes = first
            .windows(2)
            .filter(|pair| place(&pair[0]) != place(&pair[1]))
            .count();
        assert_eq!(changes, 3);
    }

    #[test]
    fn the_short_run_ends_within_ten_minutes_and_has_what_it_says() {
        let quick = Options {
            quick: true,
            ..Options::default()
        };
        let time = estimate(&quick);
        assert!(time < Duration::from_secs(600), "{time:?}");
        let effective = quick.effective();
        assert_eq!(
            (
                effective.profiles.len(),
                effective.runtimes.len(),
                effective.pairs.len()
            ),
            (1, 1, 3)
        );
    }
}
