//! `selvedge evaluate processing`: from options to one raw file and its report.

use std::path::Path;

use super::Failure;
use super::gateway::write;
use super::outcome::Outcome;
use super::resume::{Resumable, kept};
use super::rtt::{about, progress};
use crate::environment::Environment;
use crate::processing::{self, Options, ProcessingRun};
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

/// Name of the raw file.
pub(super) const FILE: &str = "processing.json";

/// Measure what it costs to train and to run models at the edge
#[derive(Debug, clap::Args)]
pub struct Processing {
    #[command(flatten)]
    options: Options,
    /// Go on with the run that --out holds a part of, if it was of the same program and options
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    outcome: Outcome,
}

impl Processing {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let path = self.outcome.out.join(FILE);
        let before = if self.resume {
            kept(&path, &of_any_seed(&self.options))?
        } else {
            None
        };
        let raw = measure(&self.options, before, (&path, prefix), progress().as_mut())?;
        self.outcome.report(vec![raw])
    }
}

/// Measures; the raw file at `path` holds what is done after each job.
pub(super) fn measure(
    options: &Options,
    before: Option<ProcessingRun>,
    (path, prefix): (&Path, &[&str]),
    progress: &mut dyn Progress,
) -> Result<Raw, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(named)?;
    let resumed = before.as_ref().map_or(String::new(), |run| {
        format!(", of which {} jobs are done", run.done.len())
    });
    progress.say(&format!(
        "Measuring models that are trained and that predict: {}{resumed}; --resume goes on where it was ended",
        about(processing::estimate(options))
    ));
    let mut keep = |run: &ProcessingRun| write(run, path).map_err(named);
    let run = processing::run(options, &Helper::this_program(prefix)?, before, progress, &mut keep)?;
    progress.say(&format!("  raw file {}", path.display()));
    Ok(Raw::Processing(Box::new(run)))
}

impl Resumable for ProcessingRun {
    type Options = Options;

    fn of(raw: Raw) -> Option<ProcessingRun> {
        match raw {
            Raw::Processing(run) => Some(*run),
            _ => None,
        }
    }

    fn options(&self) -> Options {
        of_any_seed(&self.options)
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn of_any_seed(options: &Options) -> Options {
    Options {
        seed: None,
        ..options.clone().effective()
    }
}
