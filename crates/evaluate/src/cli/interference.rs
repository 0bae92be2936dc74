//! `selvedge evaluate interference`, as one of the experiments that can be gone on with.

use std::time::Duration;

use super::resume::Resumable;
use crate::environment::Environment;
use crate::interference::{self, InterferenceRun, Options};
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

impl Resumable for InterferenceRun {
    type Options = Options;

    const NAME: &'static str = interference::EXPERIMENT;
    const MEASURES: &'static str = "services beside each other";

    fn of(raw: Raw) -> Option<InterferenceRun> {
        match raw {
            Raw::Interference(run) => Some(*run),
            _ => None,
        }
    }

    fn into_raw(self) -> Raw {
        Raw::Interference(Box::new(self))
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
        interference::estimate(options)
    }

    fn measure(
        options: &Options,
        helper: &Helper,
        before: Option<InterferenceRun>,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&InterferenceRun) -> Result<(), String>,
    ) -> Result<InterferenceRun, String> {
        interference::run(options, helper, before, progress, keep)
    }
}
