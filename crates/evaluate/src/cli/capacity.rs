//! `selvedge evaluate capacity`: from options to one JSON file and a table.

use std::path::PathBuf;

use serde::Serialize;

use super::Failure;
use super::rtt::progress;
use crate::capacity::{self, CapacityRun, Options, Row};
use crate::rtt::Helper;

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
struct Report<'a> {
    run: &'a CapacityRun,
    rows: &'a [Row],
}

impl Capacity {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.out).map_err(|error| format!("{}: {error}", self.out.display()))?;
        let helper = Helper::this_program(prefix)?;
        let mut progress = progress();
        progress.say("Measuring memory, time until ready and acknowledged messages, Selvedge beside Mosquitto");
        let run = capacity::run(&self.options, &helper, progress.as_mut())?;
        let rows = capacity::summarise(&run);
        let path = self.out.join("capacity.json");
        let json = serde_json::to_string_pretty(&Report { run: &run, rows: &rows })?;
        std::fs::write(&path, json).map_err(|error| format!("{}: {error}", path.display()))?;
        print!("{}", capacity::table(&run, &rows));
        println!("  Samples: {}", path.display());
        Ok(())
    }
}
