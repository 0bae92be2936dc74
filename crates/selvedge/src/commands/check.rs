//! `selvedge check`: how fit this machine is for an edge, a line a finding, and how to mend what is not.

use std::fmt;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rustix::process::{Resource, getrlimit};

use crate::node::{EDGE_DATA, unix_now_s};
use crate::output::say;

/// Free bytes below which the disk is too small for the default log.
const DISK_LOW_BYTES: u64 = 1 << 30;
/// Free bytes below which an edge cannot start.
const DISK_LEAST_BYTES: u64 = 64 << 20;
/// File descriptors that 10,000 devices need, with some to spare.
const DESCRIPTORS: u64 = 16_384;
/// Memory that 10,000 devices need.
const MEMORY_LOW_BYTES: u64 = 512 << 20;
/// 2026-01-01: a machine that says it is earlier does not know the time.
const EARLIEST_UNIX_S: i64 = 1_767_225_600;

#[derive(Args)]
pub(crate) struct Check {
    /// Data directory of the edge
    #[arg(long, value_name = "DIR", default_value = EDGE_DATA)]
    data: PathBuf,
    /// Address that the edge shall listen at; may be repeated
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:1883")]
    mqtt: Vec<SocketAddr>,
}

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One line.
struct Finding {
    level: Level,
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok  ",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        write!(f, "{level}  {}", self.text)
    }
}

fn ok(text: impl Into<String>) -> Finding {
    Finding {
        level: Level::Ok,
        text: text.into(),
    }
}

fn warn(text: impl Into<String>) -> Finding {
    Finding {
        level: Level::Warn,
        text: text.into(),
    }
}

fn fail(text: impl Into<String>) -> Finding {
    Finding {
        level: Level::Fail,
        text: text.into(),
    }
}

impl Check {
    pub(crate) fn run(self) -> ExitCode {
        let mut findings = of_machine(&self.data);
        let is_running = std::os::unix::net::UnixStream::connect(self.data.join(api::CONTROL_SOCKET)).is_ok();
        findings.extend(self.mqtt.iter().map(|address| port(*address, is_running)));
        findings.iter().for_each(|finding| say(format_args!("{finding}\n")));
        match findings.iter().any(|finding| finding.level == Level::Fail) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        }
    }
}

/// The findings about the machine, for a bundle.
pub(crate) fn report(data: &Path) -> String {
    of_machine(data).iter().map(|finding| format!("{finding}\n")).collect()
}

fn of_machine(data: &Path) -> Vec<Finding> {
    let mut findings = vec![
        ok(format!(
            "{}, {}, {} cores",
            kernel(),
            cgroups(&read("/proc/mounts")),
            cores()
        )),
        memory(&read("/proc/meminfo")),
        directory(data),
        disk(data),
        descriptors(getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum),
        clock(unix_now_s()),
    ];
    findings.extend(containers());
    findings
}

/// Whether applications of images can be run.
fn containers() -> Vec<Finding> {
    let missing = agent::local::missing();
    match missing.is_empty() {
        true => vec![ok("containers: images can be run")],
        false => missing
            .into_iter()
            .map(|what| warn(format!("containers: {what}")))
            .collect(),
    }
}

/// Name and version of the kernel.
pub(crate) fn kernel() -> String {
    let name = rustix::system::uname();
    format!(
        "kernel {} {} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy(),
        name.machine().to_string_lossy()
    )
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Which cgroups are mounted, and the file system of `/`.
fn cgroups(mounts: &str) -> String {
    let mounts: Vec<(&str, &str)> = mounts.lines().filter_map(place_and_type).collect();
    let has = |kind: &str| mounts.iter().any(|(_, found)| *found == kind);
    let cgroups = match (has("cgroup"), has("cgroup2")) {
        (true, true) => "cgroup v1 (hybrid)",
        (true, false) => "cgroup v1",
        (false, true) => "cgroup v2",
        (false, false) => "no cgroups",
    };
    let root = mounts
        .iter()
        .find(|(place, _)| *place == "/")
        .map_or("unknown", |(_, kind)| kind);
    format!("{cgroups}, {root}")
}

fn place_and_type(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split(' ').skip(1);
    Some((fields.next()?, fields.next()?))
}

fn memory(meminfo: &str) -> Finding {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = total.and_then(|total| total.trim().strip_suffix(" kB")?.parse().ok());
    match kib.map(|kib| kib * 1024) {
        None => warn("memory: /proc/meminfo does not say how much there is"),
        Some(bytes) if bytes < MEMORY_LOW_BYTES => warn(format!(
            "memory: {} in all; 10,000 devices need {}",
            size(bytes),
            size(MEMORY_LOW_BYTES)
        )),
        Some(bytes) => ok(format!("memory: {}", size(bytes))),
    }
}

fn directory(data: &Path) -> Finding {
    let shown = data.display();
    if !data.exists() {
        return ok(format!("data directory {shown}: not there yet; an edge makes it"));
    }
    if !data.is_dir() {
        return fail(format!("data directory {shown}: is a file; choose another with --data"));
    }
    match rustix::fs::access(data, rustix::fs::Access::WRITE_OK) {
        Ok(()) => ok(format!("data directory {shown}: can be written")),
        Err(error) => fail(format!(
            "data directory {shown}: cannot be written ({error}); chown it to the user of the edge"
        )),
    }
}

fn disk(data: &Path) -> Finding {
    let there: PathBuf = data
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("."))
        .into();
    let Ok(about) = rustix::fs::statvfs(&there) else {
        return warn(format!("disk: {} does not say how much is free", there.display()));
    };
    disk_finding(about.f_bavail * about.f_frsize, data)
}

fn disk_finding(free_bytes: u64, data: &Path) -> Finding {
    let (free, data) = (size(free_bytes), data.display());
    match free_bytes {
        ..DISK_LEAST_BYTES => fail(format!(
            "disk: {free} free for {data}; an edge needs {}",
            size(DISK_LEAST_BYTES)
        )),
        DISK_LEAST_BYTES..DISK_LOW_BYTES => warn(format!(
            "disk: {free} free for {data}; lower store.limit_bytes, or make room"
        )),
        _ => ok(format!("disk: {free} free for {data}")),
    }
}

/// `None` is no limit.
fn descriptors(soft: Option<u64>, hard: Option<u64>) -> Finding {
    // An edge raises its own limit as far as it may.
    match hard.or(soft) {
        Some(limit) if limit < DESCRIPTORS => warn(format!(
            "file descriptors: {limit}, one for each connection; 10,000 devices need {DESCRIPTORS}: \
             LimitNOFILE={DESCRIPTORS} in the systemd unit, or ulimit -n {DESCRIPTORS}"
        )),
        Some(limit) => ok(format!("file descriptors: {limit}")),
        None => ok("file descriptors: no limit"),
    }
}

fn clock(unix_s: i64) -> Finding {
    if unix_s < EARLIEST_UNIX_S {
        return warn(
            "clock: this machine does not know the time, so certificates and tokens seem not yet valid: \
             timedatectl set-ntp true",
        );
    }
    ok("clock: set")
}

fn port(address: SocketAddr, is_running: bool) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => ok(format!("{address}: free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && is_running => {
            ok(format!("{address}: in use while this edge runs"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => fail(format!(
            "{address}: in use by another program (ss -ltnp shows which); stop it, or choose another with --mqtt"
        )),
        Err(error) => fail(format!("{address}: cannot be listened at: {error}")),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0x4000_0000.. => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(finding: &Finding, level: Level, word: &str) {
        assert_eq!(finding.level, level, "{finding}");
        assert!(finding.text.contains(word), "{finding}");
    }

    #[test]
    fn cgroups_are_told_apart_by_their_mounts() {
        let v1 =
            "tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw 0 0\noverlay / overlay rw 0 0\n";
        assert_eq!(cgroups(v1), "cgroup v1, overlay");
        assert_eq!(
            cgroups("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n/dev/sda1 / ext4 rw 0 0"),
            "cgroup v2, ext4"
        );
        assert_eq!(
            cgroups(&format!("{v1}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0")),
            "cgroup v1 (hybrid), overlay"
        );
        assert_eq!(cgroups(""), "no cgroups, unknown");
    }

    #[test]
    fn what_is_too_little_is_said_with_what_would_do() {
        check(&memory("MemTotal:  262144 kB\n"), Level::Warn, "256 MiB");
        check(&memory("MemTotal:  4194304 kB\n"), Level::Ok, "4.0 GiB");
        check(&descriptors(Some(1_024), Some(1_024)), Level::Warn, "LimitNOFILE=16384");
        check(&descriptors(Some(1_024), None), Level::Warn, "1024");
        check(&descriptors(None, None), Level::Ok, "no limit");
        check(&disk_finding(1 << 20, Path::new("d")), Level::Fail, "1 MiB free for d");
        check(&disk_finding(1 << 29, Path::new("d")), Level::Warn, "store.limit_bytes");
        check(&clock(0), Level::Warn, "timedatectl");
        check(&clock(EARLIEST_UNIX_S), Level::Ok, "set");
    }

    #[test]
    fn a_port_in_use_is_named_unless_it_is_the_edges_own() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        check(&port(address, false), Level::Fail, &address.to_string());
        check(&port(address, true), Level::Ok, "this edge");
        drop(taken);
        check(&port(address, false), Level::Ok, "free");
    }

    #[test]
    fn a_data_directory_that_is_a_file_is_a_failure() {
        let file = tempfile::NamedTempFile::new().unwrap();
        check(&directory(file.path()), Level::Fail, "is a file");
        check(&directory(Path::new("/no/such/place")), Level::Ok, "not there yet");
    }
}
