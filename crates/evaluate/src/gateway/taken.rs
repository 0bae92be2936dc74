//! What an edge and all that it runs take, as the kernel says it: nothing is asked of the edge, which that would cost
//! some.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::capacity::pause;
use crate::gateway::edge::Edge;
use crate::proc;

const MOUNT: &str = "/sys/fs/cgroup";
/// What the group of an edge's containers is in.
const CONTAINERS: &str = "selvedge";
/// Of version 1, what counts processor time.
const CONTROLLER: &str = "cpuacct";

/// Until the kernel has let go of who was in a group.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(50);

/// Processes of an edge, of what it has beside containers, and of its containers.
pub(super) struct Processes {
    pids: Vec<u32>,
    /// Arguments of those that name its data directory.
    words: Vec<String>,
}

impl Processes {
    /// Those of now.
    pub(super) fn of(edge: &Edge) -> Processes {
        Processes::naming(&edge.data().display().to_string())
    }

    /// Those whose arguments have a text in them, with all that they have started.
    pub(super) fn naming(text: &str) -> Processes {
        let named = proc::naming(text);
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, proc::parent(pid)?))).collect();
        Processes {
            pids: with_descendants(named.iter().map(|(pid, _)| *pid), &parents),
            words: named.into_iter().map(|(_, words)| words).collect(),
        }
    }

    /// Memory of all of them; what several share counts once.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.pids.iter().filter_map(|pid| proc::pss_bytes(*pid)).sum()
    }

    /// Whether a container of an application is there.
    pub(super) fn has(&self, application: &str) -> bool {
        let name = format!("+{application}+");
        self.words.iter().any(|words| words.contains(&name))
    }

    /// Whether there are none.
    pub(super) fn are_none(&self) -> bool {
        self.pids.is_empty()
    }

    /// Ends them as `kill -9` does.
    pub(super) fn kill(&self) {
        for pid in self.pids.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            // One that has ended meanwhile needs no signal.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The groups that edges have for all containers of a tenant.
    pub(super) fn groups_of_containers(&self) -> Vec<Group> {
        let own = self.pids.iter().filter_map(|pid| of_containers(&Group::of(*pid)?.0));
        let mut groups: Vec<PathBuf> = own.collect();
        groups.sort_unstable();
        groups.dedup();
        groups.into_iter().map(Group).collect()
    }

    /// The control group of an application's container.
    pub(super) fn group_of(&self, application: &str) -> Option<Group> {
        let name = format!("+{application}+");
        let mut groups = self.pids.iter().filter_map(|pid| Group::of(*pid));
        groups.find(|group| group.0.to_string_lossy().contains(&name))
    }
}

/// The group of all containers that a process is in one of, of its own path; none for one that is in no container.
fn of_containers(path: &Path) -> Option<PathBuf> {
    let place = path.iter().position(|part| part == CONTAINERS)?;
    let group: PathBuf = path.iter().take(place + 2).collect();
    (path.iter().count() > place + 2).then_some(group)
}

/// These processes with those that they have started, and so on.
fn with_descendants(first: impl Iterator<Item = u32>, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut known: HashSet<u32> = first.collect();
    loop {
        let before = known.len();
        let more: Vec<u32> = parents
            .iter()
            .filter(|(_, parent)| known.contains(parent))
            .map(|(pid, _)| *pid)
            .collect();
        known.extend(more);
        if known.len() == before {
            return known.into_iter().collect();
        }
    }
}

/// A control group, by its directory, in which processor time is counted of those too that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group(PathBuf);

impl Group {
    /// The group that a process is in.
    fn of(pid: u32) -> Option<Group> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        Some(Group(tree().join(path_in(&text)?.trim_start_matches('/'))))
    }

    /// The one above it.
    pub(super) fn parent(&self) -> Option<Group> {
        Some(Group(self.0.parent()?.to_owned()))
    }

    /// Removes it with those in it wherever it is, once they are empty: of version 1, who makes one makes it in every
    /// tree.
    pub(super) fn remove(&self) {
        let Ok(name) = self.0.strip_prefix(tree()) else { return };
        let trees = fs::read_dir(MOUNT).into_iter().flatten().flatten();
        let mut places: Vec<PathBuf> = trees
            .map(|tree| tree.path().join(name))
            .chain([self.0.clone()])
            .collect();
        let began = Instant::now();
        loop {
            places.retain(|place| {
                let inner = fs::read_dir(place).into_iter().flatten().flatten();
                inner.for_each(|entry| drop(fs::remove_dir(entry.path())));
                fs::remove_dir(place).is_err() && place.exists()
            });
            if places.is_empty() || began.elapsed() > PATIENCE {
                return;
            }
            pause(STEP);
        }
    }

    fn make(parent: &Path) -> Result<Group, String> {
        let directory = parent.join(format!("selvedge-evaluate-{}-day", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Group(directory))
    }

    /// Processor seconds of all that are or were in it.
    ///
    /// # Errors
    /// The kernel does not say, with the file.
    pub(super) fn cpu_s(&self) -> Result<f64, String> {
        let (name, parse): (&str, fn(&str) -> Option<f64>) = if is_unified() {
            ("cpu.stat", usage_s)
        } else {
            ("cpuacct.usage", |text| Some(text.trim().parse::<f64>().ok()? / 1e9))
        };
        let file = self.0.join(name);
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        parse(&text).ok_or_else(|| format!("{}: no processor time in `{}`", file.display(), text.trim()))
    }
}

/// A group of this run's. It goes with this, once it is empty.
pub(super) struct Own {
    group: Group,
    /// One that is kept for what it counts, and not of this run's.
    held: Option<Group>,
}

impl Own {
    /// One for an edge and what it has beside containers.
    ///
    /// # Errors
    /// The kernel refuses, with the file.
    pub(super) fn make() -> Result<Own, String> {
        Ok(Own {
            group: Group::make(&tree())?,
            held: None,
        })
    }

    /// Puts an edge into it that has started no application yet: what it starts beside containers will be in it too.
    ///
    /// # Errors
    /// The kernel refuses, with the file.
    pub(super) fn take(&self, edge: &Edge) -> Result<(), String> {
        let file = self.group.0.join("cgroup.procs");
        let put = |(pid, _): (u32, String)| fs::write(&file, pid.to_string());
        let put = edge.processes().into_iter().try_for_each(put);
        put.map_err(|error| format!("{}: {error}", file.display()))
    }

    /// One in the group of an edge's containers, which otherwise would go, and with it what it has counted, whenever
    /// there is no container.
    ///
    /// # Errors
    /// The kernel refuses, with the file.
    pub(super) fn in_it(held: Group) -> Result<Own, String> {
        Ok(Own {
            group: Group::make(&held.0)?,
            held: Some(held),
        })
    }

    /// What it counts, or the one that it is in.
    pub(super) fn group(&self) -> &Group {
        self.held.as_ref().unwrap_or(&self.group)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.group.remove();
        if let Some(held) = &self.held {
            held.remove();
        }
    }
}

fn is_unified() -> bool {
    Path::new(MOUNT).join("cgroup.controllers").exists()
}

/// Where processor time is counted.
fn tree() -> PathBuf {
    let mount = Path::new(MOUNT);
    if is_unified() {
        mount.to_owned()
    } else {
        mount.join(CONTROLLER)
    }
}

/// The path of a process's group, of the lines that `/proc/PID/cgroup` has.
fn path_in(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let counts = |controllers: &str| controllers.split(',').any(|one| one == CONTROLLER);
    let of_controller = lines.clone().find(|(_, controllers, _)| counts(controllers));
    let (_, _, path) =
        of_controller.or_else(|| lines.find(|(number, controllers, _)| *number == "0" && controllers.is_empty()))?;
    Some(path)
}

/// Of `cpu.stat`.
fn usage_s(text: &str) -> Option<f64> {
    let us = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(us.trim().parse::<f64>().ok()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_children_belong_to_it_and_others_do_not() {
        let mut found = with_descendants([10].into_iter(), &[(12, 11), (11, 10), (10, 1), (20, 1), (21, 20)]);
        found.sort_unstable();
        assert_eq!(found, [10, 11, 12]);
    }

    #[test]
    fn the_group_of_all_containers_is_that_of_the_tenant() {
        let found = |path| of_containers(Path::new(path));
        let group = Some(PathBuf::from("/sys/fs/cgroup/memory/selvedge/1f-default"));
        assert_eq!(found("/sys/fs/cgroup/memory/selvedge/1f-default/default+web+0"), group);
        assert_eq!(found("/sys/fs/cgroup/memory/system.slice/a"), None);
        assert_eq!(found("/sys/fs/cgroup/memory/selvedge/1f-default"), None);
    }

    #[test]
    fn the_group_is_that_of_the_controller_or_of_the_one_tree() {
        assert_eq!(path_in("9:name=systemd:/s\n2:cpu,cpuacct:/a/b\n0::/u\n"), Some("/a/b"));
        assert_eq!(path_in("0::/a/b:c\n"), Some("/a/b:c"));
        assert_eq!(path_in("1:memory:/a\n"), None);
        assert_eq!(usage_s("usage_usec 2500000\nuser_usec 1\n"), Some(2.5));
    }
}
