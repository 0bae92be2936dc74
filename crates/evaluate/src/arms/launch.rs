//! Starts a program pinned to a CPU that ends with its parent. A hidden command of our own, because a process can set
//! these things only for itself, before it becomes the program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// How the hidden commands of this program are reached.
#[derive(Clone, Debug)]
pub struct Helper {
    /// This program.
    pub program: PathBuf,
    /// What stands before a hidden command, such as `evaluate`.
    pub prefix: Vec<OsString>,
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
        })
    }

    /// The arguments that reach a hidden command.
    pub(crate) fn arguments(&self, command: &[&str]) -> Vec<String> {
        let prefix = self.prefix.iter().map(|word| word.to_string_lossy().into_owned());
        prefix.chain(command.iter().map(ToString::to_string)).collect()
    }

    /// A command that starts `program` as [`launch`] does.
    pub(crate) fn launching(&self, cpu: Option<usize>, program: &Path, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.prefix).arg("launch");
        if let Some(cpu) = cpu {
            command.arg("--cpu").arg(cpu.to_string());
        }
        command.arg("--").arg(program).args(arguments);
        command
    }
}

/// Pins this process to `cpu`, ties its life to its parent's, and becomes `program`.
///
/// # Errors
/// Always an error where it returns: the CPU is not ours, or the program cannot be run.
pub(crate) fn launch(cpu: Option<usize>, program: &Path, arguments: &[OsString]) -> io::Error {
    let prepared = cpu
        .map_or(Ok(()), pin_to)
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
