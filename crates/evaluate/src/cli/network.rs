//! `selvedge evaluate network`: the emulated lines, set against got.

use std::path::{Path, PathBuf};

use super::outcome::Output;
use super::rtt::progress;
use super::{Failure, say};
use crate::network::{self, NetworkRun, Options};

/// Name of the raw file.
const FILE: &str = "network.json";

/// Measure the emulated lines between device, edge and cloud
#[derive(Debug, clap::Args)]
pub struct Network {
    #[command(flatten)]
    options: Options,
    /// Directory for the JSON file
    #[arg(long, default_value = "target/evaluate", value_name = "DIR")]
    out: PathBuf,
    /// What is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Network {
    pub(super) fn run(self) -> Result<(), Failure> {
        let run = network::run(&self.options, progress().as_mut())?;
        let path = self.out.join(FILE);
        let json = serde_json::to_string_pretty(&run)?;
        write(&path, &json)?;
        match self.output {
            Output::Json => say(format_args!("{json}\n")),
            Output::Table => say(words(&run, &path)),
        }
        Ok(())
    }
}

fn words(run: &NetworkRun, path: &Path) -> String {
    format!("{}\n  Samples: {}\n", network::table(run), path.display())
}

fn write(path: &Path, json: &str) -> Result<(), Failure> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, json));
    Ok(written.map_err(|error| format!("{}: {error}", path.display()))?)
}
