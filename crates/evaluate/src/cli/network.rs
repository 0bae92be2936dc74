//! `selvedge evaluate network`: the emulated lines, set against got.

use std::path::Path;

use super::Failure;
use super::outcome::Outcome;
use super::rtt::progress;
use crate::network::{self, Options};
use crate::raw::Raw;
use crate::rtt::Progress;

/// Measure the emulated lines between device, edge and cloud
#[derive(Debug, clap::Args)]
pub struct Network {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    outcome: Outcome,
}

impl Network {
    pub(super) fn run(self) -> Result<(), Failure> {
        let path = self.outcome.out.join("network.json");
        let raw = measure(&self.options, &path, progress().as_mut())?;
        self.outcome.report(vec![raw])
    }
}

/// Measures and writes the raw file to `path`.
pub(super) fn measure(options: &Options, path: &Path, progress: &mut dyn Progress) -> Result<Raw, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(named)?;
    let run = network::run(options, progress)?;
    std::fs::write(path, serde_json::to_string_pretty(&run)?).map_err(named)?;
    progress.say(&format!("Samples: {}", path.display()));
    Ok(Raw::Network(Box::new(run)))
}
