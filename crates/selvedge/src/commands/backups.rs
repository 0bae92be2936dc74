//! `selvedge backup`: all of an edge or a cloud in one sealed file, and back.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Where, passphrase};
use crate::output::note;

/// What takes room and is had again: images from where they came, applications' files from their snapshots.
const LEFT_OUT: [&str; 4] = ["images", "volumes", "snapshots", "sockets"];
/// What is of containers of this machine alone.
const OF_CONTAINERS: &str = "containers";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write all of an edge or a cloud, running or not, into a file that is sealed by a passphrase
    Create(Create),
    /// Put what is in such a file into a new data directory
    Restore(Back),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Create(create) => create.run(),
            Command::Restore(back) => back.run(),
        }
    }
}

#[derive(Args)]
struct Seal {
    /// A file with a passphrase, or with a key; without it the backup is of no use
    #[arg(long, value_name = "FILE")]
    passphrase_file: PathBuf,
}

#[derive(Args)]
pub(crate) struct Create {
    /// The file, which is made or replaced
    file: PathBuf,
    #[command(flatten)]
    seal: Seal,
    #[command(flatten)]
    edge: Where,
}

impl Create {
    fn run(self) -> anyhow::Result<()> {
        let data = self.edge.absolute()?;
        // Each file of a log is held for a moment.
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let most = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Nofile, most).context("raising the limit on open files")?;
        let is_left_out = |name: &str| LEFT_OUT.contains(&name) || name.starts_with(OF_CONTAINERS);
        backup::create(
            &data,
            &self.file,
            &passphrase::read(&self.seal.passphrase_file)?,
            is_left_out,
        )?;
        note(format_args!(
            "{} has all of {} but the files of applications: selvedge snapshot export has those",
            self.file.display(),
            data.display()
        ));
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Back {
    /// The file
    file: PathBuf,
    /// The data directory, which is new or empty
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    seal: Seal,
}

impl Back {
    fn run(self) -> anyhow::Result<()> {
        let data = std::path::absolute(&self.data).with_context(|| self.data.display().to_string())?;
        if data.file_name().is_none() {
            bail!("{}: this is no name for a data directory", data.display());
        }
        backup::restore(&self.file, &data, &passphrase::read(&self.seal.passphrase_file)?)?;
        note(format_args!("{} is as it was when the backup was made", data.display()));
        Ok(())
    }
}
