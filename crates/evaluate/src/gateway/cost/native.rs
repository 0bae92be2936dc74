//! The baseline: a program of the host without an edge, in a control group of the same limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::arms::ServerProcess;
use crate::capacity::pause;
use crate::gateway::site::Site;

const MOUNT: &str = "/sys/fs/cgroup";
const PERIOD_US: u32 = 100_000;
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// One instance. It ends with all that its script has started.
pub(crate) struct Native {
    server: ServerProcess,
    /// After the process, which is in them.
    _groups: Groups,
}

/// Control groups, which go with whoever is in them.
struct Groups(Vec<PathBuf>);

impl Native {
    /// Starts a script within limits (thousandths of a core, mebibytes), in groups of a name of its own; without limits in
    /// none.
    ///
    /// # Errors
    /// The kernel makes no such group, or it does not start.
    pub(crate) fn start(
        site: &Site,
        script: &str,
        limits: Option<(u32, u32)>,
        (directory, name): (&Path, &str),
    ) -> Result<Native, String> {
        let group = format!("selvedge-evaluate-{}-{name}", std::process::id());
        let groups = match limits {
            Some(limits) => groups(&group, limits)?,
            None => Groups(Vec::new()),
        };
        let joined: String = groups
            .0
            .iter()
            .map(|group| format!("echo $$ > {}/cgroup.procs\n", group.display()))
            .collect();
        let words = ["sh", "-c", &format!("{joined}{script}")].map(str::to_owned);
        let log = directory.join(format!("log-{name}"));
        fs::create_dir_all(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let server = ServerProcess::start(&site.edge_helper(), None, &site.busybox, &words, &log)?;
        Ok(Native {
            server,
            _groups: groups,
        })
    }

    /// Ends it, and its groups.
    pub(crate) fn end(self) -> Result<(), String> {
        self.server.kill(PATIENCE)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let began = Instant::now();
        // The kernel lets a group go once it has let go of who was in it.
        while self
            .0
            .iter()
            .any(|group| fs::remove_dir(group).is_err() && group.exists())
            && began.elapsed() < PATIENCE
        {
            self.0.iter().for_each(|group| kill_all(group));
            pause(STEP);
        }
    }
}

fn kill_all(group: &Path) {
    let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        // One that has ended meanwhile needs no signal.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Control groups of this name with the limits: one, of version 2, or one for each controller of version 1.
fn groups(name: &str, (cpu_millis, memory_mib): (u32, u32)) -> Result<Groups, String> {
    let mount = Path::new(MOUNT);
    let memory_bytes = u64::from(memory_mib) << 20;
    let quota_us = cpu_millis * PERIOD_US / 1_000;
    if mount.join("cgroup.controllers").exists() {
        let group = mount.join(name);
        // They may be there already.
        let _ = fs::write(mount.join("cgroup.subtree_control"), "+cpu +memory");
        let limits = [
            ("cpu.max", format!("{quota_us} {PERIOD_US}")),
            ("memory.max", memory_bytes.to_string()),
        ];
        return Ok(Groups(vec![limited(group, &limits)?]));
    }
    let cpu = [
        ("cpu.cfs_period_us", PERIOD_US.to_string()),
        ("cpu.cfs_quota_us", quota_us.to_string()),
    ];
    let memory = [("memory.limit_in_bytes", memory_bytes.to_string())];
    Ok(Groups(vec![
        limited(mount.join("cpu").join(name), &cpu)?,
        limited(mount.join("memory").join(name), &memory)?,
    ]))
}

fn limited(group: PathBuf, limits: &[(&str, String)]) -> Result<PathBuf, String> {
    let named = |error: std::io::Error| format!("{}: {error}", group.display());
    fs::create_dir_all(&group).map_err(named)?;
    for (file, value) in limits {
        fs::write(group.join(file), value).map_err(named)?;
    }
    Ok(group)
}
