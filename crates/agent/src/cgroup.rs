//! What a container may take: a group of processes of the kernel's, by control groups of version 1 or 2.

use std::fs;
use std::io;
use std::ops::Add;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::freezer::Freezer;
use crate::throttle::Rates;

/// All groups of this program's are below one of this name.
const PARENT: &str = "selvedge";
/// Those that systemd makes for it are below this one of that, which is there by its name (systemd.slice(5)).
const SLICES: &str = "selvedge.slice";
/// A period of processor time; a container that has used its share waits for the next.
const CPU_PERIOD_US: u64 = 100_000;
/// The kernel takes no less.
const CPU_QUOTA_LEAST_US: u64 = 1_000;
/// Until the kernel has ended what was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// How often a sum is worked out again that others change meanwhile.
const SUM_TRIES: u32 = 10;
/// What is limited or measured here, as version 1 names it.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "freezer"];
const UNLIMITED: u64 = u64::MAX;
/// Those of version 2 that have to be let in from group to group; the freezer is in each by itself.
const LET_IN: [&str; 3] = ["cpu", "memory", "pids"];
/// What limits reading and writing, as each version names it: groups are made in it once one asks for that.
const IO_1: &str = "blkio";
const IO_2: &str = "io";

/// The host's control groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hierarchy {
    /// Version 1: a tree for each controller, by its directory.
    One(PathBuf),
    /// Version 2: one tree for all.
    Two(PathBuf),
}

/// What a container may take; `None`: what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Thousandths of a core.
    pub cpu_millis: Option<u32>,
    /// Memory, without any of the swap beyond.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Bytes that it reads each second from each disk of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<u64>,
    /// Bytes that it writes each second to each disk of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<u64>,
    /// Of the processor where there is not enough for all, in thousandths of a core beside those of others.
    pub promised_cpu_millis: Option<u32>,
    /// Memory that is taken from others first where there is not enough for all.
    pub promised_memory_bytes: Option<u64>,
}

impl Limits {
    /// What of it a controller has to keep, as manifests and quotas name it.
    fn asked_of(&self, controller: &str) -> Option<&'static str> {
        match controller {
            "cpu" if self.cpu_millis.is_some() => Some("limits.cpu or the quota app_cpu_millis"),
            "cpu" if self.promised_cpu_millis.is_some() => Some("requests.cpu"),
            "memory" if self.memory_bytes.is_some() => Some("limits.memory or the quota app_memory_bytes"),
            "memory" if self.promised_memory_bytes.is_some() => Some("requests.memory"),
            "pids" if self.pids.is_some() => Some("limits of selvedge.dev/pids"),
            IO_2 if self.read_bytes_per_s.is_some() => Some("limits of selvedge.dev/read-bytes-per-s"),
            IO_2 if self.write_bytes_per_s.is_some() => Some("limits of selvedge.dev/write-bytes-per-s"),
            _ => None,
        }
    }

    fn rates(&self) -> Rates {
        Rates {
            read_bytes_per_s: self.read_bytes_per_s,
            write_bytes_per_s: self.write_bytes_per_s,
        }
    }
}

/// What a container has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time, µs.
    pub cpu_us: u64,
    /// Memory now.
    pub memory_bytes: u64,
    /// Processes and threads now.
    pub pids: u64,
    /// Processes that were killed because there was no memory left within the limit.
    pub oom_kills: u64,
    /// Bytes that its processes of now have read from disks.
    pub read_bytes: u64,
    /// Bytes that they have written to disks.
    pub written_bytes: u64,
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            cpu_us: self.cpu_us + other.cpu_us,
            memory_bytes: self.memory_bytes + other.memory_bytes,
            pids: self.pids + other.pids,
            oom_kills: self.oom_kills + other.oom_kills,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }
}

/// A group of processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    hierarchy: Hierarchy,
    /// The one at the root of the tree that it is below.
    #[serde(skip, default = "parent")]
    top: &'static str,
    name: String,
}

fn parent() -> &'static str {
    PARENT
}

impl Hierarchy {
    /// The one that is mounted at `/sys/fs/cgroup`; with both versions mounted (hybrid) the controllers are version
    /// 1's.
    #[must_use]
    pub fn of_host() -> Option<Self> {
        Hierarchy::at(Path::new("/sys/fs/cgroup"))
    }

    fn at(mount: &Path) -> Option<Self> {
        if mount.join("cgroup.controllers").exists() {
            return Some(Hierarchy::Two(mount.to_owned()));
        }
        let is_there = CONTROLLERS.iter().all(|controller| mount.join(controller).is_dir());
        is_there.then(|| Hierarchy::One(mount.to_owned()))
    }

    /// Whether the kernel has a controller, by its name.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        match self {
            Hierarchy::One(mount) if controller == IO_2 => mount.join(IO_1).is_dir(),
            // None is taken up that lacks one of the others.
            Hierarchy::One(_) => true,
            Hierarchy::Two(mount) => {
                let known = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
                known.split_whitespace().any(|known| known == controller)
            }
        }
    }

    fn freezer(&self, directory: PathBuf) -> Freezer {
        match self {
            Hierarchy::One(_) => Freezer::One(directory),
            Hierarchy::Two(_) => Freezer::Two(directory),
        }
    }

    /// That of a group that somebody else made, as of [`Hierarchy::directory_of`].
    pub(crate) fn freezer_of(&self, pid: i64, id: &str) -> Option<Freezer> {
        let directory = self.directory_of("freezer", pid, id)?;
        Some(self.freezer(directory))
    }

    /// What counts how many of a group's processes were killed because there was no memory left; the group as of
    /// [`Hierarchy::directory_of`].
    pub(crate) fn oom_kills_of(&self, pid: i64, id: &str) -> Option<OomKills> {
        let directory = self.directory_of("memory", pid, id)?;
        Some(OomKills(directory.join(match self {
            Hierarchy::One(_) => "memory.oom_control",
            Hierarchy::Two(_) => "memory.events",
        })))
    }

    /// That of the group that a process is in, or of one that this is in, which has `id` in its name. `None`: it is in
    /// none, as where it is not a process of this machine.
    fn directory_of(&self, controller: &str, pid: i64, id: &str) -> Option<PathBuf> {
        let (tree, controller) = match self {
            Hierarchy::One(mount) => (mount.join(controller), controller),
            Hierarchy::Two(mount) => (mount.clone(), ""),
        };
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let directory = tree.join(group_in(&groups, controller, id)?);
        directory.is_dir().then_some(directory)
    }

    /// What is asked of a controller that the kernel has not.
    fn check(&self, limits: &Limits) -> io::Result<()> {
        let mut asked = LET_IN
            .into_iter()
            .chain([IO_2])
            .filter_map(|controller| Some((controller, limits.asked_of(controller)?)));
        let Some((controller, asked)) = asked.find(|(controller, _)| !self.has(controller)) else {
            return Ok(());
        };
        let way = match controller {
            "memory" => {
                "start it with cgroup_enable=memory (on a Raspberry Pi, at the end of the line in /boot/firmware/cmdline.txt)"
            }
            "cpu" => "it needs CONFIG_CGROUP_SCHED and CONFIG_CFS_BANDWIDTH",
            IO_2 => "it needs CONFIG_BLK_CGROUP and CONFIG_BLK_DEV_THROTTLING",
            _ => "it needs CONFIG_CGROUP_PIDS",
        };
        let message = format!(
            "this kernel has no control group controller \"{controller}\", which {asked} needs; {way}, or leave that out"
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// The group of this name, whether it is there or not.
    #[must_use]
    pub fn group(&self, name: &str) -> Cgroup {
        Cgroup {
            hierarchy: self.clone(),
            top: PARENT,
            name: name.to_owned(),
        }
    }

    /// That of a slice of systemd's, `selvedge-….slice`, whether it is there or not; `None` with version 1, in which
    /// systemd has groups in some of the trees alone.
    pub(crate) fn slice(&self, name: &str) -> Option<Cgroup> {
        let Hierarchy::Two(_) = self else {
            return None;
        };
        Some(Cgroup {
            top: SLICES,
            ..self.group(name)
        })
    }
}

/// What of a group counts the processes that were killed because there was no memory left.
#[derive(Clone, Debug)]
pub(crate) struct OomKills(PathBuf);

impl OomKills {
    /// How many there were; 0 where the group has gone.
    pub(crate) fn count(&self) -> u64 {
        read(&self.0).map_or(0, |text| value_of(&text, "oom_kill"))
    }
}

impl Cgroup {
    /// Makes it with these limits; one that is there already gets them.
    ///
    /// # Errors
    /// Of the file that could not be written, which it names, or of a controller that the kernel has not and a limit
    /// needs.
    pub fn create(&self, limits: &Limits) -> io::Result<()> {
        self.hierarchy.check(limits)?;
        if let Hierarchy::Two(mount) = &self.hierarchy {
            let own = self.directory("");
            let above = own.parent().unwrap_or(mount);
            fs::create_dir_all(above).map_err(naming(above))?;
            let mut above: Vec<&Path> = above.ancestors().take_while(|path| path.starts_with(mount)).collect();
            above.reverse();
            let of_io = (!limits.rates().is_none()).then_some(IO_2);
            let let_in = LET_IN
                .into_iter()
                .chain(of_io)
                .filter(|controller| self.hierarchy.has(controller));
            let let_in: Vec<String> = let_in.map(|controller| format!("+{controller}")).collect();
            for directory in above {
                write(&directory.join("cgroup.subtree_control"), &let_in.join(" "))?;
            }
        }
        let mut directories = self.directories();
        if matches!(self.hierarchy, Hierarchy::One(_)) && !limits.rates().is_none() {
            directories.push(self.directory(IO_1));
        }
        for directory in directories {
            fs::create_dir_all(&directory).map_err(naming(&directory))?;
        }
        self.limit(limits)
    }

    /// Whether it is there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.directories().iter().all(|directory| directory.is_dir())
    }

    /// Gives one that is there other limits, its processes running on.
    ///
    /// # Errors
    /// Of the file that could not be written, such as where more memory is taken than may be, or of a controller that
    /// the kernel has not and a limit needs.
    pub fn limit(&self, limits: &Limits) -> io::Result<()> {
        self.hierarchy.check(limits)?;
        let cpu_us = limits
            .cpu_millis
            .map(|millis| (u64::from(millis) * CPU_PERIOD_US / 1_000).max(CPU_QUOTA_LEAST_US));
        let pids = limits.pids.map_or("max".to_owned(), |pids| pids.to_string());
        match &self.hierarchy {
            Hierarchy::One(_) => {
                let quota = cpu_us.map_or("-1".to_owned(), |us| us.to_string());
                if let Some(us) = cpu_us {
                    self.limit_below_1(us)?;
                }
                write(&self.file("cpu", "cpu.cfs_period_us"), &CPU_PERIOD_US.to_string())?;
                write(&self.file("cpu", "cpu.cfs_quota_us"), &quota)?;
                let memory = limits.memory_bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
                self.limit_memory_1(&memory)?;
                if let Some(millis) = limits.promised_cpu_millis {
                    write(&self.file("cpu", "cpu.shares"), &shares(millis).to_string())?;
                }
                if let Some(bytes) = limits.promised_memory_bytes {
                    let file = self.file("memory", "memory.soft_limit_in_bytes");
                    write(&file, &bytes.to_string())?;
                }
                write(&self.file("pids", "pids.max"), &pids)?;
                limits.rates().keep_1(&self.directory(IO_1))
            }
            Hierarchy::Two(_) => {
                if self.hierarchy.has("cpu") {
                    let quota = cpu_us.map_or("max".to_owned(), |us| us.to_string());
                    write(&self.file("cpu", "cpu.max"), &format!("{quota} {CPU_PERIOD_US}"))?;
                    if let Some(millis) = limits.promised_cpu_millis {
                        write(&self.file("cpu", "cpu.weight"), &weight(millis).to_string())?;
                    }
                }
                if self.hierarchy.has("memory") {
                    self.limit_memory_2(limits)?;
                }
                if self.hierarchy.has("pids") {
                    write(&self.file("pids", "pids.max"), &pids)?;
                }
                limits.rates().keep_2(&self.directory(""))
            }
        }
    }

    /// In version 1 no group may be given more of the processor than the one above it: those below get less first.
    fn limit_below_1(&self, quota_us: u64) -> io::Result<()> {
        for below in self.below("cpu")? {
            let number = |name: &str| read(&below.join(name)).map(|text| text.trim().parse::<i64>().unwrap_or(-1));
            let (quota, period) = match (number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")) {
                (Ok(quota), Ok(period)) if quota > 0 && period > 0 => (quota.unsigned_abs(), period.unsigned_abs()),
                // It has no limit of its own, or has gone.
                _ => continue,
            };
            let most = quota_us * period / CPU_PERIOD_US;
            if quota > most {
                write(&below.join("cpu.cfs_quota_us"), &most.to_string())?;
            }
        }
        Ok(())
    }

    /// Whether there are groups in it.
    pub(crate) fn has_groups(&self) -> bool {
        self.below("pids").is_ok_and(|below| !below.is_empty())
    }

    /// Directories of the groups in it.
    fn below(&self, controller: &str) -> io::Result<Vec<PathBuf>> {
        let directory = self.directory(controller);
        let entries = fs::read_dir(&directory).map_err(naming(&directory))?;
        let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
        Ok(entries.filter(|path| path.is_dir()).collect())
    }

    /// The group that it is in; `None`: that of all.
    fn parent(&self) -> Option<Cgroup> {
        let (name, _) = self.name.rsplit_once('/')?;
        Some(Cgroup {
            name: name.to_owned(),
            ..self.clone()
        })
    }

    /// Whether the group that it is in ran out of its memory, and it never out of its own.
    #[must_use]
    pub fn is_short_by_parent(&self) -> bool {
        let was_full = |group: &Cgroup| group.was_full().unwrap_or(false);
        self.parent().is_some_and(|parent| was_full(&parent)) && !was_full(self)
    }

    /// Whether it had no memory left within its own limit at some time.
    ///
    /// # Errors
    /// Of the file that could not be read.
    pub fn was_full(&self) -> io::Result<bool> {
        match &self.hierarchy {
            // Not every kernel counts how often (`memory.failcnt`).
            Hierarchy::One(_) => {
                let bytes = |name: &str| read(&self.file("memory", name)).map(|text| text.trim().parse::<u64>().ok());
                Ok(bytes("memory.max_usage_in_bytes")? >= bytes("memory.limit_in_bytes")?)
            }
            Hierarchy::Two(_) => Ok(value_of(&read(&self.file("memory", "memory.events.local"))?, "oom") > 0),
        }
    }

    /// Memory and swap together may be no less than memory alone, in between as well.
    fn limit_memory_1(&self, bytes: &str) -> io::Result<()> {
        let memory = self.file("memory", "memory.limit_in_bytes");
        let both = self.file("memory", "memory.memsw.limit_in_bytes");
        if !both.exists() {
            return write(&memory, bytes);
        }
        write(&both, "-1")?;
        write(&memory, bytes)?;
        write(&both, bytes)
    }

    /// No swap beyond the limit, and all that there is where there is none.
    fn limit_memory_2(&self, limits: &Limits) -> io::Result<()> {
        let memory = limits.memory_bytes.map_or("max".to_owned(), |bytes| bytes.to_string());
        write(&self.file("memory", "memory.max"), &memory)?;
        let swap = self.file("memory", "memory.swap.max");
        // Not every kernel counts swap.
        if swap.exists() {
            write(&swap, if limits.memory_bytes.is_some() { "0" } else { "max" })?;
        }
        let Some(bytes) = limits.promised_memory_bytes else {
            return Ok(());
        };
        write(&self.file("memory", "memory.low"), &bytes.to_string())?;
        self.parent().map_or(Ok(()), |parent| parent.carry_promises())
    }

    /// Promises it, and those above it, as much memory as all in it are promised together. In version 2 nobody is given
    /// more than those above are; in version 1 it does not matter. One that is not there is promised nothing.
    ///
    /// # Errors
    /// Of the file that could not be read or written.
    pub fn carry_promises(&self) -> io::Result<()> {
        let Hierarchy::Two(mount) = &self.hierarchy else {
            return Ok(());
        };
        let (own, top) = (self.directory(""), mount.join(self.top));
        let mut groups = own.ancestors().take_while(|group| group.starts_with(&top));
        groups.try_for_each(promise_sum)
    }

    /// As a program has it that runs containers: from where the control groups are mounted.
    pub(crate) fn path_for_runner(&self) -> PathBuf {
        Path::new("/").join(self.top).join(&self.name)
    }

    /// The files that a process writes `0` to to become one of the group.
    #[must_use]
    pub fn process_files(&self) -> Vec<PathBuf> {
        self.directories()
            .into_iter()
            .map(|directory| directory.join("cgroup.procs"))
            .collect()
    }

    /// Its processes.
    ///
    /// # Errors
    /// Of reading the list; a group that is not there has none.
    pub fn processes(&self) -> io::Result<Vec<i32>> {
        let list = self.file("pids", "cgroup.procs");
        match fs::read_to_string(&list) {
            Ok(text) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(naming(&list)(error)),
        }
    }

    /// Ends all its processes, those that are made meanwhile among them.
    ///
    /// # Errors
    /// `TimedOut`: some of them do not end, as where they wait for a disk that does not answer.
    pub fn kill(&self) -> io::Result<()> {
        let until = Instant::now() + KILL_PATIENCE;
        loop {
            let processes = self.processes()?;
            if processes.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                let message = format!("{} processes of {} do not end", processes.len(), self.name);
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            let open = |pid: i32| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
            let processes: Vec<OwnedFd> = processes.into_iter().filter_map(open).collect();
            self.kill_once(&processes)?;
            for process in &processes {
                let left = until.saturating_duration_since(Instant::now());
                let left = Timespec::try_from(left).expect("some seconds fit");
                poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left))?;
            }
        }
    }

    fn kill_once(&self, processes: &[OwnedFd]) -> io::Result<()> {
        let all_at_once = self.file("pids", "cgroup.kill");
        if all_at_once.exists() {
            return write(&all_at_once, "1");
        }
        // Frozen, they cannot make others faster than they are killed. It is not waited for: one that waits for a disk
        // would keep the others from their end.
        let freezer = self.freezer();
        freezer.set(true)?;
        for process in processes {
            // It may have ended by itself.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        freezer.set(false)
    }

    /// Stops the time of its processes, or lets it go on. It stands still when this returns.
    ///
    /// # Errors
    /// Of the file that could not be written; `TimedOut`: it does not stand still in two seconds, as where a process
    /// waits for a disk, and goes on.
    pub fn freeze(&self, is_frozen: bool) -> io::Result<()> {
        self.freezer().freeze(is_frozen)
    }

    fn freezer(&self) -> Freezer {
        self.hierarchy.freezer(self.directory("freezer"))
    }

    /// What it has taken.
    ///
    /// # Errors
    /// Of a file that could not be read, such as of a group that is not there.
    pub fn usage(&self) -> io::Result<Usage> {
        let count = |text: &str| text.trim().parse().unwrap_or(UNLIMITED);
        let (cpu_us, memory, events) = match &self.hierarchy {
            Hierarchy::One(_) => (
                count(&read(&self.file("cpuacct", "cpuacct.usage"))?) / 1_000,
                read(&self.file("memory", "memory.usage_in_bytes"))?,
                read(&self.file("memory", "memory.oom_control"))?,
            ),
            Hierarchy::Two(_) => (
                value_of(&read(&self.file("cpu", "cpu.stat"))?, "usage_usec"),
                read(&self.file("memory", "memory.current"))?,
                read(&self.file("memory", "memory.events"))?,
            ),
        };
        let (mut read_bytes, mut written_bytes) = (0, 0);
        for process in self.processes()? {
            // One that has ended meanwhile reads nothing. Groups of version 1 count no writes that the kernel puts off.
            let counted = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
            read_bytes += value_of(&counted, "read_bytes:");
            written_bytes += value_of(&counted, "write_bytes:");
        }
        Ok(Usage {
            read_bytes,
            written_bytes,
            cpu_us,
            memory_bytes: count(&memory),
            pids: count(&read(&self.file("pids", "pids.current"))?),
            oom_kills: value_of(&events, "oom_kill"),
        })
    }

    /// Removes it, also where others have made it, as runners do in all trees of version 1; it has no process any more.
    /// One that is not there is no error.
    ///
    /// # Errors
    /// Of a directory that could not be removed.
    pub fn remove(&self) -> io::Result<()> {
        let directories = match &self.hierarchy {
            Hierarchy::One(mount) => {
                let trees = fs::read_dir(mount).map_err(naming(mount))?.filter_map(Result::ok);
                trees.map(|tree| tree.path().join(self.top).join(&self.name)).collect()
            }
            Hierarchy::Two(_) => self.directories(),
        };
        for directory in directories {
            match fs::remove_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(naming(&directory)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn directories(&self) -> Vec<PathBuf> {
        match &self.hierarchy {
            Hierarchy::One(_) => {
                let io = Some(self.directory(IO_1)).filter(|io| io.is_dir());
                let others = CONTROLLERS.iter().map(|controller| self.directory(controller));
                others.chain(io).collect()
            }
            Hierarchy::Two(_) => vec![self.directory("")],
        }
    }

    fn directory(&self, controller: &str) -> PathBuf {
        match &self.hierarchy {
            Hierarchy::One(mount) => mount.join(controller).join(self.top).join(&self.name),
            Hierarchy::Two(mount) => mount.join(self.top).join(&self.name),
        }
    }

    fn file(&self, controller: &str, name: &str) -> PathBuf {
        self.directory(controller).join(name)
    }
}

/// Of version 1: 1024 are a core's, as Kubernetes has it; 2 to 262144.
fn shares(millis: u32) -> u64 {
    (u64::from(millis) * 1_024 / 1_000).clamp(2, 262_144)
}

/// Of version 2: 1 to 10000 for the same range.
fn weight(millis: u32) -> u64 {
    1 + (shares(millis) - 2) * 9_999 / 262_142
}

/// Promises a group what all in it are promised together. Another agent may do so as well, and write what was so
/// before: who writes looks again.
fn promise_sum(group: &Path) -> io::Result<()> {
    let own = group.join("memory.low");
    for _ in 0..SUM_TRIES {
        let entries = match fs::read_dir(group) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(naming(group)(error)),
        };
        let mut sum: u64 = 0;
        for entry in entries {
            let path = entry.map_err(naming(group))?.path();
            if path.is_dir() {
                sum = sum.saturating_add(promised(&path.join("memory.low"))?);
            }
        }
        if promised(&own)? == sum {
            return Ok(());
        }
        write(
            &own,
            &if sum == UNLIMITED {
                "max".to_owned()
            } else {
                sum.to_string()
            },
        )?;
    }
    Ok(())
}

/// 0 where the group has gone, or nothing is promised by this kernel.
fn promised(file: &Path) -> io::Result<u64> {
    match fs::read_to_string(file) {
        Ok(text) if text.trim() == "max" => Ok(UNLIMITED),
        Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
        // A group that has gone while its file was open.
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_gone(&error) => Ok(0),
        Err(error) => Err(naming(file)(error)),
    }
}

/// The path of the group with `id` in its name, from where the groups are mounted, by what the kernel says of a process
/// (`cgroups(7)`, `/proc/PID/cgroup`).
fn group_in<'a>(groups: &'a str, controller: &str, id: &str) -> Option<&'a str> {
    let mut lines = groups.lines().map(|line| line.splitn(3, ':').skip(1));
    let path = lines.find_map(|mut line| {
        let mut controllers = line.next()?.split(',');
        controllers.any(|one| one == controller).then(|| line.next())?
    })?;
    let path = path.strip_prefix('/')?;
    let from = path.find(id).filter(|_| !id.is_empty() && !path.contains(".."))?;
    let end = path[from..].find('/').map_or(path.len(), |length| from + length);
    Some(&path[..end])
}

fn is_gone(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NODEV)
}

/// The number behind a name, in lines of both; 0 where it is not there.
pub(crate) fn value_of(text: &str, name: &str) -> u64 {
    let values = text.lines().filter_map(|line| line.split_once(' '));
    let mut found = values.filter(|(key, _)| *key == name);
    found
        .next()
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

pub(crate) fn read(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map_err(naming(file))
}

pub(crate) fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::write(file, text).map_err(naming(file))
}

/// Says of which file an error is.
fn naming(file: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let file = file.display().to_string();
    move |error| io::Error::new(error.kind(), format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_promise_of_the_processor_is_what_kubernetes_makes_of_it() {
        for (millis, expected) in [
            (0, (2, 1)),
            (100, (102, 4)),
            (1_000, (1_024, 39)),
            (u32::MAX, (262_144, 10_000)),
        ] {
            assert_eq!((shares(millis), weight(millis)), expected, "{millis}");
        }
    }

    /// Version 2 in plain files.
    fn two(controllers: &str) -> (TempDir, Hierarchy) {
        let mount = tempfile::tempdir().unwrap();
        fs::write(mount.path().join("cgroup.controllers"), controllers).unwrap();
        let found = Hierarchy::at(mount.path()).unwrap();
        (mount, found)
    }

    const ALL: &str = "cpuset cpu io memory pids\n";

    #[test]
    fn in_version_2_those_above_are_promised_what_all_in_them_are_together() {
        let (mount, hierarchy) = two(ALL);
        let promised = |bytes| Limits {
            promised_memory_bytes: Some(bytes),
            ..Limits::default()
        };
        let low = |name: &str| fs::read_to_string(mount.path().join("selvedge").join(name).join("memory.low")).ok();
        let low = |name: &str| low(name).unwrap_or_default();
        let (one, two) = (hierarchy.group("e-acme/one"), hierarchy.group("e-acme/two"));
        one.create(&promised(8 << 20)).unwrap();
        two.create(&promised(4 << 20)).unwrap();
        hierarchy.group("e-acme/three").create(&Limits::default()).unwrap();
        let other = hierarchy.group("e-default/one");
        other.create(&promised(1 << 20)).unwrap();
        assert_eq!(
            (&*low("e-acme"), &*low("e-default"), &*low("")),
            ("12582912", "1048576", "13631488")
        );
        // Limits of the tenant change nothing of it.
        hierarchy.group("e-acme").create(&Limits::default()).unwrap();
        assert_eq!(low("e-acme"), "12582912");
        fs::remove_dir_all(two.directory("")).unwrap();
        two.parent().unwrap().carry_promises().unwrap();
        assert_eq!((&*low("e-acme"), &*low("")), ("8388608", "9437184"));
        fs::write(one.file("memory", "memory.low"), "max\n").unwrap();
        one.parent().unwrap().carry_promises().unwrap();
        assert_eq!((&*low("e-acme"), &*low("")), ("max", "max"));
        fs::remove_dir_all(one.parent().unwrap().directory("")).unwrap();
        one.parent().unwrap().carry_promises().unwrap();
        assert_eq!(low(""), "1048576");
        assert!(
            !mount.path().join("memory.low").exists(),
            "the host's own group is promised nothing"
        );
    }

    #[test]
    fn in_version_2_a_limit_of_memory_that_is_lifted_leaves_its_swap() {
        let (_mount, hierarchy) = two(ALL);
        let group = hierarchy.group("one");
        group.create(&Limits::default()).unwrap();
        let swap = group.file("memory", "memory.swap.max");
        fs::write(&swap, "max").unwrap();
        for (memory_bytes, expected) in [(Some(1 << 20), "0"), (None, "max")] {
            let limits = Limits {
                memory_bytes,
                ..Limits::default()
            };
            group.limit(&limits).unwrap();
            assert_eq!(fs::read_to_string(&swap).unwrap(), expected);
        }
    }

    #[test]
    fn the_group_of_a_container_is_found_by_its_id_and_no_other_is() {
        let one = "12:freezer:/docker/abc\n3:cpu,cpuacct:/docker/xyz\n0::/\n";
        assert_eq!(group_in(one, "freezer", "abc"), Some("docker/abc"));
        assert_eq!(group_in(one, "freezer", "xyz"), None);
        let two = "0::/system.slice/docker-abc.scope/init.scope\n";
        assert_eq!(group_in(two, "", "abc"), Some("system.slice/docker-abc.scope"));
        for unknown in ["", "0::/\n", "0::/../../docker-abc.scope\n", "0::/user.slice\n", "0\n"] {
            assert_eq!(group_in(unknown, "", "abc"), None, "{unknown}");
        }
        assert_eq!(group_in(two, "", ""), None, "all paths have nothing in them");
    }

    #[test]
    fn a_controller_that_the_kernel_has_not_is_named_with_what_asks_for_it_and_what_to_do() {
        let (mount, hierarchy) = two("cpuset cpu pids\n");
        let group = hierarchy.group("e-acme/one");
        let memory = Limits {
            memory_bytes: Some(1 << 20),
            ..Limits::default()
        };
        let refused = group.create(&memory).unwrap_err().to_string();
        for part in [
            "\"memory\"",
            "limits.memory",
            "app_memory_bytes",
            "cgroup_enable=memory",
            "Raspberry Pi",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        // What it has is used all the same.
        let pids = Limits {
            pids: Some(7),
            ..Limits::default()
        };
        group.create(&pids).unwrap();
        assert_eq!(fs::read_to_string(group.file("pids", "pids.max")).unwrap(), "7");
        let let_in = mount.path().join("selvedge/e-acme/cgroup.subtree_control");
        assert_eq!(fs::read_to_string(let_in).unwrap(), "+cpu +pids");
        assert!(
            group
                .limit(&memory)
                .unwrap_err()
                .to_string()
                .contains("cgroup_enable=memory")
        );
    }
}
