//! `selvedge evaluate capacity`: from options to one JSON file and a table.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::rtt::progress;
use super::{Failure, say};
use crate::capacity::{self, CapacityRun, Options, Row};
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

/// Name of the raw file.
pub(super) const FILE: &str = "capacity.json";

/// Measure what a broker takes and holds
#[derive(Debug, clap::Args)]
pub struct Capacity {
    #[command(flatten)]
    options: Options,
    /// Directory for the JSON file
    #[arg(long, default_value = "target/evaluate", value_name = "DIR")]
    out: PathBuf,
}

/// The file: what was seen, and what follows from it.
#[derive(Serialize)]
struct File<'a> {
    run: &'a CapacityRun,
    rows: &'a [Row],
}

impl Capacity {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let path = self.out.join(FILE);
        let raw = measure(&self.options, &path, prefix, progress().as_mut())?;
        if let Raw::Capacity(run) = raw {
            say(capacity::table(&run, &capacity::summarise(&run)));
        }
        say(format_args!(
            "  Samples: {0}\n  For a page: selvedge evaluate report {0}\n",
            path.display()
        ));
        Ok(())
    }
}

/// Measures and writes the raw file to `path`.
pub(super) fn measure(
    options: &Options,
    path: &Path,
    prefix: &[&str],
    progress: &mut dyn Progress,
) -> Result<Raw, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(named)?;
    progress.say("Measuring what a broker takes, holds and carries on, Selvedge beside Mosquitto");
    let run = capacity::run(options, &Helper::this_program(prefix)?, progress)?;
    let rows = capacity::summarise(&run);
    let json = serde_json::to_string_pretty(&File { run: &run, rows: &rows })?;
    std::fs::write(path, json).map_err(named)?;
    Ok(Raw::Capacity(Box::new(run)))
}
