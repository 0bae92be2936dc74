//! Starts a program pinned to a CPU that ends with its parent. A hidden command of our own, because a process can set
//! these things only for itself, before it becomes the program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::network;

/// How the hidden commands of this program are reached.
#[derive(Clone, Debug)]
pub struct Helper {
    /// This program.
    pub program: PathBuf,
    /// What stands before a hidden command, such as `evaluate`.
    pub prefix: Vec<OsString>,
    /// Network namespace that launched programs run in; none = our own. An emulated host sets it.
    pub network_namespace: Option<PathBuf>,
}

impl Helper {
    /// This very program, its hidden commands behind `prefix`.
    ///
    /// # Errors
    /// The path of this program is not known.
    pub fn this_program(prefix: &[&str]) -> io::Result<Helper> {
        Ok(Helper {
            program: std::env::current_exe()?,
            prefix: prefix.iter().map(OsString::from).collect(),
            network_namespace: None,
        })
    }

    /// The arguments that reach a hidden command.
    pub(crate) fn arguments(&self, command: &[&str]) -> Vec<String> {
        let prefix = self.prefix.iter().map(|word| word.to_string_lossy().into_owned());
        prefix.chain(command.iter().map(ToString::to_string)).collect()
    }

    /// A command that starts `program` on `cpu` and in the helper's network namespace, and ends it with the thread that
    /// started it. What a terminal's Ctrl-C ends is us alone: we end it in its turn, after what it runs.
    pub fn launching(&self, cpu: Option<usize>, program: &Path, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.prefix).arg("launch").process_group(0);
        if let Some(cpu) = cpu {
            command.arg("--cpu").arg(cpu.to_string());
        }
        if let Some(namespace) = &self.network_namespace {
            command.arg("--network-namespace").arg(namespace);
        }
        command.arg("--").arg(program).args(arguments);
        command
    }
}

/// Pins this process to `cpu`, moves it into a network namespace, ties its life to its parent's, and becomes `program`.
///
/// # Errors
/// Always an error where it returns: the CPU is not ours, the namespace is gone, or the program cannot be run.
pub(crate) fn launch(
    cpu: Option<usize>,
    network_namespace: Option<&Path>,
    program: &Path,
    arguments: &[OsString],
) -> io::Error {
    let prepared = cpu
        .map_or(Ok(()), pin_to)
        .and_then(|()| network_namespace.map_or(Ok(()), network::join_at))
        .and_then(|()| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
    match prepared {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    }
}

/// Keeps this thread, and what it starts, on one CPU.
///
/// # Errors
/// The CPU is not there or not ours.
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// What is pinned where; none where there is but one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpus {
    pub(crate) server: Option<usize>,
    /// A cloud, in reality, shares no CPU with its edge: here only where there are fewer than three.
    pub(crate) cloud: Option<usize>,
    pub(crate) generator: Option<usize>,
}

impl Cpus {
    /// Servers and generator as far apart as they can be.
    pub(crate) fn apart(ours: &CpuSet) -> Cpus {
        let mut all = (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu));
        match (all.next(), all.next_back()) {
            (Some(first), Some(last)) => Cpus {
                server: Some(first),
                cloud: Some(all.next().unwrap_or(first)),
                generator: Some(last),
            },
            _ => Cpus::default(),
        }
    }
}

/// Raises this process's limit of open files to `needed`, or as near as may be. Servers inherit it. Returns whether
/// that is enough.
pub(crate) fn raise_file_limit(needed: u64) -> bool {
    let hard = getrlimit(Resource::Nofile).maximum;
    let wanted = [hard.map(|hard| hard.max(needed)), hard];
    wanted.into_iter().any(|limit| {
        let set = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit,
                maximum: limit,
            },
        );
        set.is_ok() && limit.is_none_or(|limit| limit >= needed)
    })
}
