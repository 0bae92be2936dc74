//! `selvedge evaluate balancing`, as one of the experiments that can be gone on with.

use std::time::Duration;

use super::resume::Resumable;
use crate::balancing::{self, BalancingRun, Options};
use crate::environment::Environment;
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

impl Resumable for BalancingRun {
    type Options = Options;

    const NAME: &'static str = balancing::EXPERIMENT;
    const MEASURES: &'static str = "which node answers";

    fn of(raw: Raw) -> Option<BalancingRun> {
        match raw {
            Raw::Balancing(run) => Some(*run),
            _ => None,
        }
    }

    fn into_raw(self) -> Raw {
        Raw::Balancing(Box::new(self))
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn worked_in(options: &Options, seed: Option<u64>) -> Options {
        Options {
            seed,
            ..options.clone().effective()
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn jobs_done(&self) -> usize {
        self.done.len()
    }

    fn estimate(options: &Options) -> Duration {
        balancing::estimate(options)
    }

    fn measure(
        options: &Options,
        helper: &Helper,
        before: Option<BalancingRun>,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&BalancingRun) -> Result<(), String>,
    ) -> Result<BalancingRun, String> {
        balancing::run(options, helper, before, progress, keep)
    }
}
