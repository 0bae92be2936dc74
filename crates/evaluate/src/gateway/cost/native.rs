//! The baseline: a program of the host without an edge, in a control group of the same limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CPU_MILLIS, MEMORY_MIB};
use crate::arms::ServerProcess;
use crate::capacity::pause;
use crate::gateway::site::Site;

const MOUNT: &str = "/sys/fs/cgroup";
const PERIOD_US: u32 = 100_000;
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// One instance.
pub(super) struct Native {
    server: ServerProcess,
    groups: Vec<PathBuf>,
}

impl Native {
    /// Starts a script within the limits.
    pub(super) fn start(site: &Site, script: &str, directory: &Path, number: u32) -> Result<Native, String> {
        let groups = groups(&format!("selvedge-evaluate-{}-{number}", std::process::id()))?;
        let joined: String = groups
            .iter()
            .map(|group| format!("echo $$ > {}/cgroup.procs\n", group.display()))
            .collect();
        let words = ["sh", "-c", &format!("{joined}{script}")].map(str::to_owned);
        let log = directory.join(format!("log-{number}"));
        fs::create_dir_all(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let server = ServerProcess::start(&site.edge_helper(), None, &site.busybox, &words, &log)?;
        Ok(Native { server, groups })
    }

    /// Ends it, and its groups.
    pub(super) fn end(self) -> Result<(), String> {
        let stopped = self.server.kill(PATIENCE);
        drop(self.server);
        // The kernel lets a group go once it has let go of who was in it.
        pause(STEP);
        for group in &self.groups {
            let _ = fs::remove_dir(group);
        }
        stopped
    }
}

/// Control groups of this name with the limits: one, of version 2, or one for each controller of version 1.
fn groups(name: &str) -> Result<Vec<PathBuf>, String> {
    let mount = Path::new(MOUNT);
    let memory_bytes = u64::from(MEMORY_MIB) << 20;
    let quota_us = CPU_MILLIS * PERIOD_US / 1_000;
    if mount.join("cgroup.controllers").exists() {
        let group = mount.join(name);
        // They may be there already.
        let _ = fs::write(mount.join("cgroup.subtree_control"), "+cpu +memory");
        let limits = [
            ("cpu.max", format!("{quota_us} {PERIOD_US}")),
            ("memory.max", memory_bytes.to_string()),
        ];
        return Ok(vec![limited(group, &limits)?]);
    }
    let cpu = [
        ("cpu.cfs_period_us", PERIOD_US.to_string()),
        ("cpu.cfs_quota_us", quota_us.to_string()),
    ];
    let memory = [("memory.limit_in_bytes", memory_bytes.to_string())];
    Ok(vec![
        limited(mount.join("cpu").join(name), &cpu)?,
        limited(mount.join("memory").join(name), &memory)?,
    ])
}

fn limited(group: PathBuf, limits: &[(&str, String)]) -> Result<PathBuf, String> {
    let named = |error: std::io::Error| format!("{}: {error}", group.display());
    fs::create_dir_all(&group).map_err(named)?;
    for (file, value) in limits {
        fs::write(group.join(file), value).map_err(named)?;
    }
    Ok(group)
}
