//! `selvedge evaluate balancing`: from options to one raw file and its report.

use std::path::Path;

use super::Failure;
use super::gateway::write;
use super::outcome::Outcome;
use super::resume::{Resumable, kept};
use super::rtt::{about, progress};
use crate::balancing::{self, BalancingRun, Options};
use crate::environment::Environment;
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

/// Name of the raw file.
pub(super) const FILE: &str = "balancing.json";

/// Measure which node of a site answers, by every policy
#[derive(Debug, clap::Args)]
pub struct Balancing {
    #[command(flatten)]
    options: Options,
    /// Go on with the run that --out holds a part of, if it was of the same program and options
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    outcome: Outcome,
}

impl Balancing {
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

/// Measures; the raw file at `path` holds what is done after each cell.
pub(super) fn measure(
    options: &Options,
    before: Option<BalancingRun>,
    (path, prefix): (&Path, &[&str]),
    progress: &mut dyn Progress,
) -> Result<Raw, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(named)?;
    let resumed = before.as_ref().map_or(String::new(), |run| {
        format!(", of which {} jobs are done", run.done.len())
    });
    progress.say(&format!(
        "Measuring which node answers: {}{resumed}; --resume goes on where it was ended",
        about(balancing::estimate(options))
    ));
    let mut keep = |run: &BalancingRun| write(run, path).map_err(named);
    let run = balancing::run(options, &Helper::this_program(prefix)?, before, progress, &mut keep)?;
    progress.say(&format!("  raw file {}", path.display()));
    Ok(Raw::Balancing(Box::new(run)))
}

impl Resumable for BalancingRun {
    type Options = Options;

    fn of(raw: Raw) -> Option<BalancingRun> {
        match raw {
            Raw::Balancing(run) => Some(*run),
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
