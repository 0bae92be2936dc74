//! Experiments that measure for long, keep what they have after each job, and can be gone on with: from options to one raw
//! file and its report.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::Failure;
use super::outcome::Outcome;
use super::rtt::{about, progress};
use crate::environment::Environment;
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

/// A run that can be gone on with.
pub trait Resumable: Serialize + Sized {
    /// What can be asked for.
    type Options: clap::Args + Clone + PartialEq + Debug;

    /// Name of the raw file, but for `.json`.
    const NAME: &'static str;
    /// What is measured, in words.
    const MEASURES: &'static str;

    /// The run of a raw file, where it is one of this experiment.
    fn of(raw: Raw) -> Option<Self>;

    /// As a raw file.
    fn into_raw(self) -> Raw;

    /// What was asked for.
    fn options(&self) -> &Self::Options;

    /// The same with all worked in, and with a seed or none.
    fn worked_in(options: &Self::Options, seed: Option<u64>) -> Self::Options;

    /// Seed of its order.
    fn seed(&self) -> u64;

    /// What the program and the machine were.
    fn environment(&self) -> &Environment;

    /// Jobs that are done.
    fn jobs_done(&self) -> usize;

    /// About how long all of it takes.
    fn estimate(options: &Self::Options) -> Duration;

    /// Measures, and goes on with what was before.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn measure(
        options: &Self::Options,
        helper: &Helper,
        before: Option<Self>,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&Self) -> Result<(), String>,
    ) -> Result<Self, String>;
}

/// One of them, as it is asked for.
#[derive(Debug, clap::Args)]
pub struct Experiment<R: Resumable> {
    #[command(flatten)]
    options: R::Options,
    /// Go on with the run that --out holds a part of, if it was of the same program and options
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    outcome: Outcome,
}

impl<R: Resumable> Experiment<R> {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let path = self.outcome.out.join(file::<R>());
        let before = if self.resume {
            kept::<R>(&path, &self.options)?
        } else {
            None
        };
        let raw = measure(&self.options, before, (&path, prefix), progress().as_mut())?;
        self.outcome.report(vec![raw])
    }
}

/// Name of the raw file.
pub(super) fn file<R: Resumable>() -> String {
    format!("{}.json", R::NAME)
}

/// Measures; the raw file at `path` holds what is done after each job.
pub(super) fn measure<R: Resumable>(
    options: &R::Options,
    before: Option<R>,
    (path, prefix): (&Path, &[&str]),
    progress: &mut dyn Progress,
) -> Result<Raw, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(named)?;
    let resumed = before.as_ref().map_or(String::new(), |run| {
        format!(", of which {} jobs are done", run.jobs_done())
    });
    progress.say(&format!(
        "Measuring {}: {}{resumed}; --resume goes on where it was ended",
        R::MEASURES,
        about(R::estimate(options))
    ));
    let mut keep = |run: &R| write(run, path).map_err(named);
    let run = R::measure(options, &Helper::this_program(prefix)?, before, progress, &mut keep)?;
    progress.say(&format!("  raw file {}", path.display()));
    Ok(run.into_raw())
}

/// The same as an earlier run, with its seed, into a file beside.
pub(super) fn again<R: Resumable>(before: &R, out: &Path, prefix: &[&str]) -> Result<Raw, Failure> {
    let options = R::worked_in(before.options(), Some(before.seed()));
    let path = out.join(format!("{}-again.json", R::NAME));
    measure::<R>(&options, None, (&path, prefix), progress().as_mut())
}

/// Whole or not at all.
pub(super) fn write(run: &impl Serialize, path: &Path) -> std::io::Result<()> {
    let unfinished = path.with_extension("partial");
    let file = std::io::BufWriter::new(std::fs::File::create(&unfinished)?);
    serde_json::to_writer(file, run)?;
    std::fs::rename(unfinished, path)
}

/// The run that a file holds, if it is one of the same options, whatever their seed, and of this very program.
pub(super) fn kept<R: Resumable>(path: &Path, options: &R::Options) -> Result<Option<R>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let run = R::of(Raw::read(path)?);
    let is_of_now = |run: &R| {
        R::worked_in(run.options(), None) == R::worked_in(options, None) && run.environment().is_of_this_program()
    };
    Ok(run.filter(is_of_now))
}
