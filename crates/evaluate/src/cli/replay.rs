//! `selvedge evaluate replay`: the same again.

use std::path::PathBuf;

use super::Failure;
use super::capacity::measure as measure_capacity;
use super::network::measure as measure_network;
use super::outcome::Outcome;
use super::resume::again;
use super::rtt::{data_set, measure, progress};
use super::simulate::simulate;
use crate::capacity::{self, CapacityRun};
use crate::network::{self, NetworkRun};
use crate::raw::Raw;
use crate::rtt::Plan;
use crate::run::Run;
use crate::simulation::{self, SimulationRun};

/// Repeat a run from its raw file
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// The raw file of the run
    raw_file: PathBuf,
    #[command(flatten)]
    outcome: Outcome,
}

impl Replay {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let again = match Raw::read(&self.raw_file)? {
            Raw::RoundTrip(before) => self.round_trip(*before, prefix)?,
            Raw::Capacity(before) => self.capacity(*before, prefix)?,
            Raw::Gateway(before) => again(&*before, &self.outcome.out, prefix)?,
            Raw::Balancing(before) => again(&*before, &self.outcome.out, prefix)?,
            Raw::Interference(before) => again(&*before, &self.outcome.out, prefix)?,
            Raw::Processing(before) => again(&*before, &self.outcome.out, prefix)?,
            Raw::Simulation(before) => self.simulation(*before)?,
            Raw::Network(before) => self.network(*before)?,
        };
        self.outcome.report(vec![again])
    }

    /// The same options and seed; says so where they no longer make the same schedule.
    fn round_trip(&self, before: Run, prefix: &[&str]) -> Result<Raw, Failure> {
        let mut progress = progress();
        let trace = data_set(&before.options, progress.as_mut())?;
        let mut plan = Plan::new(before.options, trace)?;
        if let ([cell], true) = (before.cells.as_slice(), plan.has_network()) {
            plan = plan.part(cell);
        }
        let plan = plan.with_seed(before.seed);
        let again = measure(&plan, "rtt", prefix, &self.outcome.out, progress.as_mut())?;
        // A search chooses its loads by what it finds.
        if plan.knee().is_none() && again.schedule_hash != before.schedule_hash {
            return Err("the schedule differs from the first run's: it was made by another version".into());
        }
        Ok(Raw::RoundTrip(Box::new(again)))
    }

    fn capacity(&self, before: CapacityRun, prefix: &[&str]) -> Result<Raw, Failure> {
        let options = capacity::Options {
            seed: Some(before.seed),
            ..before.options
        };
        let path = self.outcome.out.join("capacity-again.json");
        measure_capacity(&options, &path, prefix, progress().as_mut())
    }

    /// The same to the last figure; says so where a day is another than it was.
    fn simulation(&self, before: SimulationRun) -> Result<Raw, Failure> {
        let options = simulation::Options {
            seed: Some(before.seed),
            ..before.options
        };
        let run = simulate(&options, &self.outcome.out.join("simulation-again.json"))?;
        if run.day.sha256 != before.day.sha256 {
            return Err("the readings of the day differ from the first run's".into());
        }
        Ok(Raw::Simulation(Box::new(run)))
    }

    fn network(&self, before: NetworkRun) -> Result<Raw, Failure> {
        let options = network::Options {
            seed: Some(before.seed),
            ..before.options
        };
        let path = self.outcome.out.join("network-again.json");
        measure_network(&options, &path, progress().as_mut())
    }
}
