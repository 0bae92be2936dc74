//! Runs a plan: interleaves the arms' blocks in a seeded random order (rule 9), or searches for knees (rule 8).

use std::io;
use std::time::Instant;

use super::bench::Bench;
use super::calm::Patience;
use super::knee;
use super::plan::Plan;
use super::progress::{Progress, Step};
use super::schedule::Due;
use super::stand::Stand;
use crate::arms::Helper;
use crate::environment;
use crate::interrupt;
use crate::network::{self, Measured, Network, NetworkError, Place, round_trips};
use crate::run::Run;

/// Why a run could not be made at all. What befalls a single arm is in [`Run::skipped`].
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine refused something that every arm needs.
    #[error("cannot measure on this machine: {0}")]
    Machine(#[from] io::Error),
    /// The baseline, or every arm, is missing.
    #[error("nothing to compare with: {0}")]
    NoArms(String),
    /// The emulated network cannot be made or used.
    #[error("the emulated network: {0}")]
    Network(#[from] NetworkError),
    /// SIGINT or SIGTERM has ended it, and it what it had started.
    #[error("{0}: its containers, networks and files are gone")]
    Interrupted(String),
    /// No certificates for the arms under TLS.
    #[error("{0}")]
    Certificates(String),
}

/// Measures everything that `plan` asks for. `helper` says how this program reaches its own hidden commands.
///
/// # Errors
/// Nothing could be measured; see [`RunError`].
pub fn run(plan: &Plan, helper: &Helper, progress: &mut dyn Progress) -> Result<Run, RunError> {
    let started = Instant::now();
    let data = plan.trace().map(|trace| (trace.source.clone(), trace.sha256.clone()));
    let before = environment::observe(data.into_iter().collect());
    let network = plan.network().map(|network| Network::build(&network)).transpose()?;
    let measured = network
        .as_ref()
        .map(|network| probe(network, plan, progress))
        .transpose()?;
    let mut bench = Bench::new(plan, Stand::set_up(plan, helper, network, progress)?, started);
    let (experiment, found) = match plan.knee() {
        Some(bounds) => ("knee", knee::search(plan, &bounds, &mut bench, progress)),
        None => ("rtt", measure(plan, &mut bench, progress).map(|()| Vec::new())),
    };
    if let (Err(_), Some(told)) = (&found, interrupt::told()) {
        return Err(RunError::Interrupted(told.to_string()));
    }
    let steps = found?;
    progress.done();
    Ok(bench.conclude(experiment, steps, (before, measured)))
}

/// The plan as far as this machine allows: without hosts of its own, no setting of a line differs from another.
///
/// # Errors
/// The network is allowed and yet cannot be made.
pub fn as_possible_here(plan: Plan, progress: &mut dyn Progress) -> Result<Plan, RunError> {
    let network = plan.network().map(|network| Network::build(&network)).transpose()?;
    let Some(words) = network.as_ref().and_then(Network::not_varied) else {
        return Ok(plan);
    };
    progress.say(&format!("Not varied: {words}"));
    Ok(plan.without_line())
}

/// Round trips of probes over the line before anything is measured on it: what was set against what is got.
fn probe(network: &Network, plan: &Plan, progress: &mut dyn Progress) -> Result<Measured, RunError> {
    let settings = plan.cells().first().and_then(|cell| cell.wan).unwrap_or_default();
    let cell = network::Cell {
        measured: round_trips(network, (Place::Device, Place::Cloud), &settings)?,
        network: network.record()?,
    };
    progress.say(&format!(
        "The line, set against got: {}",
        network::set_against_got(&cell)
    ));
    Ok(cell.measured)
}

fn measure(plan: &Plan, bench: &mut Bench<'_>, progress: &mut dyn Progress) -> io::Result<()> {
    let rounds = plan.blocks() as usize * plan.cells().len();
    let mut repeats_left = plan.repeats();
    let mut patience = Patience::of(plan);
    let mut done = 0;
    for index in 0..plan.blocks() {
        for cell in bench.shuffled((0..plan.cells().len()).collect()) {
            let dues = bench.schedule(cell, index);
            while !measure_round(bench, (cell, index), &dues, (done, rounds), repeats_left == 0, progress)?
                && repeats_left > 0
            {
                repeats_left -= 1;
                patience.wait_for_calm();
            }
            done += 1;
        }
    }
    Ok(())
}

/// One block of every arm with the same schedule; false where the generator was late, and what was measured is set
/// aside. The round ends there, unless it is the last try: then every arm has something to show.
fn measure_round(
    bench: &mut Bench<'_>,
    (cell, index): (usize, u32),
    dues: &[Due],
    (done, rounds): (usize, usize),
    is_last_try: bool,
    progress: &mut dyn Progress,
) -> io::Result<bool> {
    let first = bench.blocks().len();
    let mut late = false;
    for (place, arm) in bench.shuffled(bench.arms()).into_iter().enumerate() {
        progress.block(&Step {
            done: done * bench.arm_count() + place,
            total: rounds * bench.arm_count(),
            arm: bench.arm_name(arm),
            block: index + 1,
            blocks: bench.planned_blocks(),
        });
        bench.measure((cell, arm), index, dues.to_vec(), progress)?;
        late |= bench.set_aside_if_late(first);
        if late && !is_last_try {
            return Ok(false);
        }
    }
    bench.set_aside_together(first);
    Ok(!late)
}
