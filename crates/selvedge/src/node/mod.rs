//! `selvedge edge` and `selvedge cloud`: wires the rooms of a role together and runs them until told to stop.

mod certificates;
mod config;
mod config_check;
mod config_error;
mod database;
mod flags;
mod link;
mod listeners;
mod logging;
mod origin;
mod reload;
mod retention;
mod role;
mod running;

use std::time::Instant;

use anyhow::Context;
use clap::Args;
use identity::ClientKind;

use self::flags::Flags;
use self::logging::Logging;
use self::role::Role;
use crate::commands::clients;

/// Where an edge keeps what survives a restart, unless told otherwise.
pub(crate) const DEFAULT_DATA: &str = "./selvedge-data/edge";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Edge {
    #[command(subcommand)]
    command: Option<clients::Command>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Args)]
pub(crate) struct Cloud {
    #[command(flatten)]
    flags: Flags,
}

impl Edge {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Some(command) => command.run(ClientKind::Edge),
            None => run(Role::Edge, &self.flags),
        }
    }
}

impl Cloud {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        run(Role::Cloud, &self.flags)
    }
}

fn run(role: Role, flags: &Flags) -> anyhow::Result<()> {
    let start = Instant::now();
    let config = flags.config(role)?;
    let log = Logging::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting tokio")?;
    let done = runtime.block_on(running::run(role, flags, config, log, start));
    // What still waits for a disk or a client is left: the time for a good stop is over.
    runtime.shutdown_background();
    done
}

/// Seconds of Unix time.
pub(crate) fn unix_now_s() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "credentials carry dates of the wall clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
