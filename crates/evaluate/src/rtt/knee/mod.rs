//! Searches for the highest rate at which an arm keeps p99 and losses within bounds (rule 8 b).

pub(crate) mod search;

use std::io;

use self::search::{OCTAVE, Search, Trial};
use super::bench::Bench;
use super::calm::Patience;
use super::plan::{KneeBounds, Plan};
use super::progress::{Progress, Step};
use crate::run::{Block, Cell, SearchStep};
use crate::stats::{self, Pool, Units};

/// Messages a second of level 0, from where the search starts.
const START_PER_S: f64 = 1_000.0;
/// Three octaves below the start, and six above.
const LOWEST: i32 = -3 * OCTAVE;
const HIGHEST: i32 = 6 * OCTAVE;
/// How often a rate is tried again at which the generator was late, before it counts as beyond what can be measured: a
/// machine that others disturb for a moment is no limit.
const TRIES_AGAIN: u32 = 2;
/// Steps of an arm that are usual, for the progress.
const USUAL_STEPS: usize = 11;

/// One arm's search.
struct Climb {
    arm: usize,
    search: Search,
    tries_left: u32,
}

impl Climb {
    fn new(arm: usize) -> Climb {
        Climb {
            arm,
            search: Search::new(0, LOWEST, HIGHEST),
            tries_left: TRIES_AGAIN,
        }
    }

    fn note(&mut self, trial: Trial, held: Option<bool>) {
        if held.is_none() && self.tries_left > 0 {
            self.tries_left -= 1;
            return;
        }
        self.tries_left = TRIES_AGAIN;
        self.search.note(trial, held == Some(true));
    }
}

/// Searches for the knees of all arms at once, a step of each in turn, so that what disturbs the machine for a while
/// disturbs all of them.
pub(super) fn search(
    plan: &Plan,
    bounds: &KneeBounds,
    bench: &mut Bench<'_>,
    progress: &mut dyn Progress,
) -> io::Result<Vec<SearchStep>> {
    let mut climbs: Vec<Climb> = bench.arms().into_iter().map(Climb::new).collect();
    let mut steps: Vec<SearchStep> = Vec::new();
    let mut patience = Patience::of(plan);
    loop {
        climbs.retain(|climb| bench.arms().contains(&climb.arm));
        let round: Vec<(usize, Trial)> = climbs
            .iter()
            .enumerate()
            .filter_map(|(place, climb)| Some((place, climb.search.next()?)))
            .collect();
        if round.is_empty() {
            return Ok(steps);
        }
        let trials: Vec<(usize, Trial)> = round
            .iter()
            .map(|(place, trial)| (climbs[*place].arm, *trial))
            .collect();
        let measured_before = steps.len();
        let measured = measure(plan, &trials, steps.len(), bench, progress)?;
        for ((place, trial), step) in round.into_iter().zip(measured) {
            let step = judged(step, bounds, bench.blocks());
            progress.say(&words(&step, bench));
            climbs[place].note(trial, step.held);
            steps.push(step);
        }
        if steps[measured_before..].iter().any(|step| step.held.is_none()) {
            patience.wait_for_calm();
        }
    }
}

/// All blocks of one step of each arm, in random order within each block. A confirmation takes twice the blocks.
fn measure(
    plan: &Plan,
    trials: &[(usize, Trial)],
    steps_before: usize,
    bench: &mut Bench<'_>,
    progress: &mut dyn Progress,
) -> io::Result<Vec<SearchStep>> {
    let mut steps: Vec<SearchStep> = trials
        .iter()
        .map(|(arm, trial)| SearchStep {
            arm: *arm,
            cell: bench.cell(&cell_at(&plan.cells()[0], trial.level)),
            confirming: trial.confirming,
            blocks: Vec::new(),
            held: None,
        })
        .collect();
    for number in 0..2 * plan.blocks() {
        let wanted = |step: &SearchStep| step.confirming || number < plan.blocks();
        let due: Vec<usize> = (0..steps.len()).filter(|place| wanted(&steps[*place])).collect();
        for place in bench.shuffled(due) {
            let (cell, arm) = (steps[place].cell, steps[place].arm);
            progress.block(&Step {
                done: steps_before.min(USUAL_STEPS * bench.arm_count()),
                total: USUAL_STEPS * bench.arm_count(),
                arm: bench.arm_name(arm),
                block: number + 1,
                blocks: plan.blocks(),
            });
            let index = bench.blocks().len() as u32;
            let dues = bench.schedule(cell, index);
            bench.measure((cell, arm), index, dues, progress)?;
            if bench.blocks().len() > index as usize {
                steps[place].blocks.push(index as usize);
            }
        }
    }
    Ok(steps)
}

/// The load of a level: the devices send more or less often.
fn cell_at(cell: &Cell, level: i32) -> Cell {
    let per_s = START_PER_S * 2f64.powf(f64::from(level) / f64::from(OCTAVE));
    let interval_us = (f64::from(cell.devices) * 1e6 / per_s).round().max(1.0) as u64;
    Cell {
        interval_us: Some(interval_us),
        duration_us: cell.duration_us.max(interval_us),
        ..cell.clone()
    }
}

/// Whether the bounds were kept; unknown where the generator was the limit, or no block could be measured.
fn judged(step: SearchStep, bounds: &KneeBounds, all: &[Block]) -> SearchStep {
    let blocks: Vec<&Block> = step.blocks.iter().map(|number| &all[*number]).collect();
    let us = |block: &Block, ns: fn(&Block, usize) -> Option<u64>| -> Vec<f64> {
        let messages = 0..block.samples.len();
        messages
            .map(|message| ns(block, message).map_or(f64::INFINITY, |ns| ns as f64 / 1e3))
            .collect()
    };
    let pooled =
        |ns: fn(&Block, usize) -> Option<u64>| -> Vec<f64> { blocks.iter().flat_map(|block| us(block, ns)).collect() };
    let responses = pooled(|block, message| block.samples.response_ns(message));
    let mut lags = pooled(|block, message| block.samples.send_lag_ns(message));
    lags.retain(|lag| lag.is_finite());
    let quantile = |samples: &[f64], q| Pool::new(&Units::of_block(samples)).value(q).unwrap_or(f64::INFINITY);
    let busy_s: f64 = blocks
        .iter()
        .map(|block| block.usage.generator_cpu_s - block.usage.generator_spin_s)
        .sum();
    let wall_s: f64 = blocks.iter().map(|block| block.usage.wall_s).sum();
    let lost = responses.iter().filter(|response| response.is_infinite()).count();
    let (p50, p99) = (quantile(&responses, 0.5), quantile(&responses, 0.99));
    let kept = p99 <= bounds.p99_us as f64 && lost as f64 <= bounds.lost * responses.len() as f64;
    let generator_kept_up =
        stats::send_lag(quantile(&lags, 0.99), p50).holds && stats::generator_cpu(busy_s, wall_s, 1).holds;
    SearchStep {
        held: (generator_kept_up && !responses.is_empty()).then_some(kept),
        ..step
    }
}

fn words(step: &SearchStep, bench: &Bench<'_>) -> String {
    let cell = bench.cell_of(step.cell);
    let per_s = f64::from(cell.devices) * 1e6 / cell.interval_us.unwrap_or(1) as f64;
    let what = match step.held {
        Some(true) if step.confirming => "holds again: the knee",
        Some(true) => "holds",
        Some(false) => "breaks",
        None => "cannot be measured: the generator was the limit",
    };
    format!("  {}: {per_s:.0} messages/s {what}", bench.arm_name(step.arm))
}
