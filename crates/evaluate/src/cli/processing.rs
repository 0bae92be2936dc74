//! `selvedge evaluate processing`, as one of the experiments that can be gone on with.

use std::time::Duration;

use super::resume::Resumable;
use crate::environment::Environment;
use crate::processing::{self, Options, ProcessingRun};
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

impl Resumable for ProcessingRun {
    type Options = Options;

    const NAME: &'static str = processing::EXPERIMENT;
    const MEASURES: &'static str = "models that are trained and that predict";

    fn of(raw: Raw) -> Option<ProcessingRun> {
        match raw {
            Raw::Processing(run) => Some(*run),
            _ => None,
        }
    }

    fn into_raw(self) -> Raw {
        Raw::Processing(Box::new(self))
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
        processing::estimate(options)
    }

    fn measure(
        options: &Options,
        helper: &Helper,
        before: Option<ProcessingRun>,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&ProcessingRun) -> Result<(), String>,
    ) -> Result<ProcessingRun, String> {
        processing::run(options, helper, before, progress, keep)
    }
}
