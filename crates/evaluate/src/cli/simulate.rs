//! `selvedge evaluate simulate`: from options to one raw file and its report.

use std::path::Path;

use super::Failure;
use super::outcome::Outcome;
use super::rtt::progress;
use crate::raw::Raw;
use crate::simulation::{self, Options, SimulationRun};

/// Name of the raw file.
const FILE: &str = "simulation.json";

/// Simulate which node answers, by every policy
#[derive(Debug, clap::Args)]
pub struct Simulate {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    outcome: Outcome,
}

impl Simulate {
    pub(super) fn run(self) -> Result<(), Failure> {
        let run = simulate(&self.options, &self.outcome.out.join(FILE))?;
        self.outcome.report(vec![Raw::Simulation(Box::new(run))])
    }
}

/// Simulates and writes the raw file to `path`.
pub(super) fn simulate(options: &Options, path: &Path) -> Result<SimulationRun, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(named)?;
    let mut progress = progress();
    let run = simulation::run(options, progress.as_mut())?;
    std::fs::write(path, serde_json::to_string_pretty(&run)?).map_err(named)?;
    progress.say(&format!("  raw file {}", path.display()));
    Ok(run)
}
