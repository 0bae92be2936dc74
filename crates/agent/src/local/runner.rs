//! The program that runs bundles, by the command line that all of its kind have (`runc`, `crun`, `youki`).

use std::env;
use std::fs;
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

/// Runs another command in a container, with its environment, user and rights.
pub(super) async fn exec(
    instance: &Instance,
    runner: &Path,
    command: Vec<String>,
    cgroup: Option<&Cgroup>,
) -> Result<Done, Error> {
    let pid_file = instance
        .directory()
        .join(format!("exec-{:08x}.pid", rand::random::<u32>()));
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
