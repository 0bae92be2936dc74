//! `selvedge edge` and `selvedge cloud`: wires the rooms of a role together and runs them until told to stop.

mod applications;
mod certificates;
mod config;
mod config_check;
mod config_error;
mod database;
mod enrolment;
mod flags;
mod link;
mod listeners;
mod logging;
mod logins;
mod origin;
mod reload;
mod role;
mod running;
mod site;

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, Subcommand};
use identity::ClientKind;

use self::flags::{Flags, with_default};
use self::logging::Logging;
pub(crate) use self::role::{EDGE_DATA, Role};
use crate::commands::clients;
use crate::commands::invite::Invite;
use crate::commands::join::Join;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, mut_args(with_default(Role::Edge)))]
pub(crate) struct Edge {
    #[command(subcommand)]
    command: Option<EdgeCommand>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Subcommand)]
enum EdgeCommand {
    /// Join a cloud, with the token that its operator gave: the edge gets a certificate, links, and renews it by itself
    Join(Join),
    /// At a cloud: invite an edge, which is added if it is not there; prints the one command for its machine
    Invite(Invite),
    #[command(flatten)]
    Clients(clients::Command),
}

#[derive(Args)]
#[command(mut_args(with_default(Role::Cloud)))]
pub(crate) struct Cloud {
    #[command(flatten)]
    flags: Flags,
}

impl Edge {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Some(EdgeCommand::Join(join)) => join.run(),
            Some(EdgeCommand::Invite(invite)) => invite.run(),
            Some(EdgeCommand::Clients(command)) => command.run(ClientKind::Edge),
            None => run(Role::Edge, &self.flags),
        }
    }
}

impl Cloud {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        run(Role::Cloud, &self.flags)
    }
}

/// Tasks that have their turn before it is looked again whose sockets are ready. Where a thousand edges come back at
/// once there is always one with a step of a handshake to do, and what edges that are connected send is not to wait for
/// sixty.
const TASKS_PER_LOOK: u32 = 8;

/// Of threads that wait for a disk, a database or a program of the host; what more there is to wait for waits for one.
/// A hundred applications that were applied at once took three hundred, and memory for each.
const WAITING_MAX: usize = 32;
/// After its last work.
const WAITING_KEPT: Duration = Duration::from_secs(2);
/// Of address space for each. The C library keeps 40 MB of the stacks of threads that have ended, with 24 KB of memory in
/// each: 4 of these, and 20 of the usual ones.
const STACK_BYTES: usize = 8 << 20;

/// Threads that the runtime starts write to databases and check passwords (`SCHED_BATCH`): where all cores are busy,
/// one that wakes up for them takes none from a message. Live messages waited for 90 ms behind a backlog that went into
/// SQLite on the same core, and then for 9.
fn let_messages_go_first() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // A kernel that does not grant it schedules them as all others.
    // SAFETY: the kernel reads a struct that outlives the call, and writes none.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

/// Heaps that threads have. What one leaves free no other uses, and the C library makes eight for each core: after a
/// hundred applications were applied at once half of what they took was free.
const HEAPS_MAX: libc::c_int = 4;

fn share_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number, and no other thread runs yet.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX) };
}

fn run(role: Role, flags: &Flags) -> anyhow::Result<()> {
    share_heaps();
    let start = Instant::now();
    let config = flags.config(role)?;
    let log = Logging::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .event_interval(TASKS_PER_LOOK)
        .on_thread_start(let_messages_go_first)
        .max_blocking_threads(WAITING_MAX)
        .thread_keep_alive(WAITING_KEPT)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
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
