//! The program that runs bundles, by the command line that all of its kind have (`runc`, `crun`, `youki`).

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::Command;

use super::program;
use crate::cgroup::Cgroup;
use crate::instance::Instance;
use crate::runtime::{Done, Error};
use crate::tools;

/// Those that are known to work, the better known first.
const RUNNERS: [&str; 2] = ["runc", "crun"];
/// Where machines have a file system in memory.
const IN_MEMORY: [&str; 2] = ["/run", "/dev/shm"];
/// The container of a bundle, in the directory of its own that its runner has.
pub(crate) const CONTAINER: &str = "container";

/// The whole path of the one that is here.
pub(super) fn find() -> Result<PathBuf, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NoRuntime(
            "containers of images need root; run the edge as root, or the program with runtimeClassName: process"
                .to_owned(),
        ));
    }
    let found = RUNNERS.iter().find_map(|name| tools::find(name));
    found
        .ok_or_else(|| Error::NoRuntime("neither runc nor crun is here; install one (apt-get install runc)".to_owned()))
}

/// Where a runner keeps what it knows of a container.
pub(crate) fn state_dir(directory: &Path) -> PathBuf {
    directory.join("runner")
}

/// Makes it: in memory, where it is called `name` as nothing else of this machine. There `runc` does not wait for a
/// disk until a process that it has started is written down, and a probe by a command writes to none. Where that cannot
/// be had it is in `directory`, once the runner makes it.
pub(super) fn make_state_dir(directory: &Path, name: &str) -> io::Result<()> {
    let Some(memory) = IN_MEMORY.iter().find(|place| is_memory(place)) else {
        return Ok(());
    };
    let (link, place) = (state_dir(directory), Path::new(memory).join(format!("selvedge-{name}")));
    // First: whoever removes the container finds what there is.
    symlink(&place, &link)?;
    // What somebody who may write there has put in the way does not become the runner's.
    let made = remove(&place).and_then(|()| DirBuilder::new().mode(0o700).create(&place));
    match made {
        Ok(()) => Ok(()),
        Err(_) => fs::remove_file(link),
    }
}

/// Removes it, unless it goes with `directory`.
pub(super) fn remove_state_dir(directory: &Path) -> io::Result<()> {
    match fs::read_link(state_dir(directory)) {
        Ok(place) => remove(&place),
        Err(_) => Ok(()),
    }
}

fn is_memory(place: &str) -> bool {
    rustix::fs::statfs(place).is_ok_and(|of| of.f_type == libc::TMPFS_MAGIC)
}

fn remove(place: &Path) -> io::Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Runs another command in a container, with its environment, user and rights.
pub(super) async fn exec(
    instance: &Instance,
    runner: &Path,
    command: Vec<String>,
    cgroup: Option<&Cgroup>,
) -> Result<Done, Error> {
    let pid_file = state_dir(instance.directory()).join(format!("exec-{:08x}.pid", rand::random::<u32>()));
    let _ending = Ending {
        pid_file: &pid_file,
        cgroup,
    };
    let mut exec = exec_by(instance, runner);
    exec.arg("--pid-file").arg(&pid_file).arg(CONTAINER).args(command);
    program::run(Command::from(exec)).await
}

/// Another command in a container, for whoever runs this.
pub(super) fn command_in(
    instance: &Instance,
    runner: &Path,
    command: &[String],
    is_terminal: bool,
) -> std::process::Command {
    let mut exec = exec_by(instance, runner);
    if is_terminal {
        let kind = env::var("TERM").unwrap_or_else(|_| "xterm".to_owned());
        exec.arg("--tty").arg("--env").arg(format!("TERM={kind}"));
    }
    exec.arg(CONTAINER).args(command);
    exec
}

fn exec_by(instance: &Instance, runner: &Path) -> std::process::Command {
    let mut exec = std::process::Command::new(runner);
    exec.args(["--log", "/dev/null", "--root"])
        .arg(state_dir(instance.directory()))
        .arg("exec")
        .env_clear()
        .current_dir("/");
    exec
}

/// Ends what runs in a container once nobody waits for it: its runner, which is ended, does not take it along.
struct Ending<'a> {
    pid_file: &'a Path,
    cgroup: Option<&'a Cgroup>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.pid_file).ok();
        let pid: Option<i32> = pid.and_then(|pid| pid.trim().parse().ok());
        let _ = fs::remove_file(self.pid_file);
        let process = pid.and_then(Pid::from_raw);
        let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // Its number may be another's by now, but no other is in the container.
        let processes = self
            .cgroup
            .and_then(|cgroup| cgroup.processes().ok())
            .unwrap_or_default();
        if let (Some(process), Some(pid)) = (process, pid)
            && processes.contains(&pid)
        {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}
