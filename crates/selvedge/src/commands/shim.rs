//! `selvedge shim`: the process beside a container.

use std::path::PathBuf;

use anyhow::Context;

#[derive(clap::Args)]
pub(crate) struct Shim {
    /// Directory of the container's files
    directory: PathBuf,
}

impl Shim {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        agent::shim::run(&self.directory).with_context(|| self.directory.display().to_string())
    }
}
