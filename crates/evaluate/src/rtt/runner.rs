//! Runs a plan: interleaves the arms' blocks in a seeded random order (rule 9), or searches for knees (rule 8).

use std::io;
use std::time::Instant;

use super::bench::Bench;
use super::knee;
use super::plan::Plan;
use super::progress::{Progress, Step};
use super::stand::Stand;
use crate::arms::Helper;
use crate::environment;
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
    let mut bench = Bench::new(plan, Stand::set_up(plan, helper, progress)?, started);
    if let Some(bounds) = plan.knee() {
        let steps = knee::search(plan, &bounds, &mut bench, progress)?;
        progress.done();
        return Ok(bench.conclude("knee", steps, before));
    }
    measure(plan, &mut bench, progress)?;
    progress.done();
    Ok(bench.conclude("rtt", Vec::new(), before))
}

fn measure(plan: &Plan, bench: &mut Bench<'_>, progress: &mut dyn Progress) -> io::Result<()> {
    for index in 0..plan.blocks() {
        for cell in bench.shuffled((0..plan.cells().len()).collect()) {
            let dues = bench.schedule(cell, index);
            for arm in bench.shuffled(bench.arms()) {
                progress.block(&Step {
                    done: bench.blocks().len(),
                    total: plan.cells().len() * bench.arm_count() * plan.blocks() as usize,
                    arm: bench.arm_name(arm),
                    block: index + 1,
                    blocks: plan.blocks(),
                });
                // All arms have the same schedule.
                bench.measure((cell, arm), index, dues.clone(), progress)?;
            }
        }
    }
    Ok(())
}
