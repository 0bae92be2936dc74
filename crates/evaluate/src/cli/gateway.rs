//! `selvedge evaluate gateway`: from options to one raw file and its report.

use std::path::Path;

use serde::Serialize;

use super::Failure;
use super::outcome::Outcome;
use super::resume::{Resumable, kept};
use super::rtt::{about, progress};
use crate::environment::Environment;
use crate::gateway::{self, GatewayRun, Options};
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

/// Name of the raw file.
pub(super) const FILE: &str = "gateway.json";

/// Measure what containers cost a gateway, and activation on demand
#[derive(Debug, clap::Args)]
pub struct Gateway {
    #[command(flatten)]
    options: Options,
    /// Go on with the run that --out holds a part of, if it was of the same program and options
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    outcome: Outcome,
}

impl Gateway {
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
    before: Option<GatewayRun>,
    (path, prefix): (&Path, &[&str]),
    progress: &mut dyn Progress,
) -> Result<Raw, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(named)?;
    let resumed = before.as_ref().map_or(String::new(), |run| {
        format!(", of which {} jobs are done", run.done.len())
    });
    progress.say(&format!(
        "Measuring what containers cost a gateway: {}{resumed}; --resume goes on where it was ended",
        about(gateway::estimate(options))
    ));
    let mut keep = |run: &GatewayRun| write(run, path).map_err(named);
    let run = gateway::run(options, &Helper::this_program(prefix)?, before, progress, &mut keep)?;
    progress.say(&format!("  raw file {}", path.display()));
    Ok(Raw::Gateway(Box::new(run)))
}

/// Whole or not at all.
pub(super) fn write(run: &impl Serialize, path: &Path) -> std::io::Result<()> {
    let unfinished = path.with_extension("partial");
    let file = std::io::BufWriter::new(std::fs::File::create(&unfinished)?);
    serde_json::to_writer(file, run)?;
    std::fs::rename(unfinished, path)
}

impl Resumable for GatewayRun {
    type Options = Options;

    fn of(raw: Raw) -> Option<GatewayRun> {
        match raw {
            Raw::Gateway(run) => Some(*run),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment;

    #[test]
    fn a_run_is_gone_on_with_where_options_and_program_are_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let options = Options {
            quick: true,
            ..Options::default()
        };
        let kept = |options: &Options| kept::<GatewayRun>(&path, &of_any_seed(options));
        assert!(kept(&options).unwrap().is_none());
        let run = GatewayRun {
            format: gateway::FORMAT,
            experiment: gateway::EXPERIMENT.to_owned(),
            options: options.clone().effective(),
            seed: 7,
            programs: Vec::new(),
            day: None,
            done: Vec::new(),
            skipped: Vec::new(),
            environment: environment::program(),
        };
        write(&run, &path).unwrap();
        assert_eq!(kept(&options).unwrap().map(|run| run.seed), Some(7));
        assert!(kept(&Options::default()).unwrap().is_none(), "others");
        let other = GatewayRun {
            environment: environment::Environment::default(),
            ..run
        };
        write(&other, &path).unwrap();
        assert!(kept(&options).unwrap().is_none(), "of another program");
    }
}
