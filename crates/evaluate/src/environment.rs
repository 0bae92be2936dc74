//! What of the machine may have shaped a figure (rule 14).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::proc::{self, line};

/// The machine and the program, as they were during a run. What a kernel does not say is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// When the run began, UTC, as RFC 3339.
    pub started_at: String,
    /// Seconds that it took.
    pub wall_s: f64,
    /// Version of this program.
    pub program_version: String,
    /// Commit that it was built from; `build.rs` says when that is known.
    pub program_commit: Option<String>,
    /// Whether it was built with optimisation; figures of a debug build are not results.
    pub optimised: bool,
    /// Versions of libraries and programs that took part, name and version.
    pub versions: Vec<(String, String)>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs that this process may run on.
    pub cpus: usize,
    /// CPU of the load generator, if pinned.
    pub generator_cpu: Option<usize>,
    /// Whether the load generator ran before all ordinary threads, as devices that are machines of their own do.
    #[serde(default)]
    pub generator_runs_first: bool,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Driver of idle states; `none` in most virtual machines.
    pub idle_driver: Option<String>,
    /// Source of the monotonic clock.
    pub clock_source: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Limits of this process's cgroup, file and content.
    pub cgroup_limits: Vec<(String, String)>,
    /// Queueing discipline of the loopback device.
    pub loopback_qdisc: Option<String>,
    /// Options of the generator's sockets, and the kernel's settings that shape TCP, name and value.
    pub socket_options: Vec<(String, String)>,
    /// SHA-256 of each data file replayed, name and hash.
    pub data_hashes: Vec<(String, String)>,
    /// Load before the first block.
    pub before: Load,
    /// Load after the last.
    pub after: Load,
}

/// How busy the machine was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Load average over a minute.
    pub average_1m: f64,
    /// Seconds that the hypervisor gave to others since boot, all CPUs together.
    pub steal_s: f64,
    /// Seconds that the CPUs were idle since boot, all together.
    pub idle_s: f64,
}

impl Environment {
    /// Whether it is one of this very program.
    pub(crate) fn is_of_this_program(&self) -> bool {
        let program = program();
        (&self.program_version, &self.program_commit, self.optimised)
            == (&program.program_version, &program.program_commit, program.optimised)
    }
}

/// The program alone.
pub(crate) fn program() -> Environment {
    Environment {
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        program_commit: option_env!("SELVEDGE_COMMIT").map(str::to_owned),
        optimised: !cfg!(debug_assertions),
        ..Environment::default()
    }
}

/// What can be said before a run that replays data of these names and hashes.
pub(crate) fn observe(data_hashes: Vec<(String, String)>) -> Environment {
    Environment {
        started_at: utc_now(),
        versions: locked_versions(),
        cpu_model: cpu_model(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        idle_driver: line("/sys/devices/system/cpu/cpuidle/current_driver"),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        kernel: line("/proc/sys/kernel/osrelease"),
        memory_bytes: proc::memory_bytes(),
        cgroup_limits: cgroup_limits(),
        loopback_qdisc: loopback_qdisc(),
        socket_options: socket_options(),
        data_hashes,
        before: proc::load(),
        ..program()
    }
}

/// Adds what can be said only after it.
pub(crate) fn conclude(before: Environment, generator_cpu: Option<usize>, wall: Duration) -> Environment {
    Environment {
        generator_cpu,
        wall_s: wall.as_secs_f64(),
        after: proc::load(),
        ..before
    }
}

/// Versions of the libraries that shape the client's part of a round trip, as locked when this was built.
fn locked_versions() -> Vec<(String, String)> {
    let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
    let packages = lock.split("[[package]]").filter_map(|package| {
        let value = |key: &str| {
            package
                .lines()
                .find_map(|line| line.strip_prefix(key)?.trim_matches(['=', ' ', '"']).into())
        };
        value("name").zip(value("version"))
    });
    let shaping = packages.filter(|(name, _): &(&str, &str)| ["ring", "rustix", "rustls"].contains(name));
    shaping
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}

/// The one reading of the wall clock: a run has to say when it was.
fn utc_now() -> String {
    let now = time::OffsetDateTime::now_utc();
    let (date, (hour, minute, second)) = (now.date(), now.to_hms());
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
}

fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info
        .lines()
        .find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}

/// Limits of the cgroup that this process is in, of version 2 and 1, as far as its files can be seen.
fn cgroup_limits() -> Vec<(String, String)> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path_of = |controller: &str| {
        let fields = own
            .lines()
            .filter_map(|line| line.split(':').nth(1).zip(line.split(':').nth(2)));
        fields
            .into_iter()
            .find(|(names, _)| names.split(',').any(|name| name == controller))
            .map(|(_, path)| path)
    };
    let files = [
        ("", "cpu.max"),
        ("", "memory.max"),
        ("cpu", "cpu.cfs_quota_us"),
        ("memory", "memory.limit_in_bytes"),
    ];
    let known = files.into_iter().filter_map(|(controller, file)| {
        let path = format!("/sys/fs/cgroup/{controller}{}/{file}", path_of(controller)?);
        line(&path).map(|value| (file.to_owned(), value))
    });
    known.collect()
}

/// As `ip` says it.
fn loopback_qdisc() -> Option<String> {
    let output = std::process::Command::new("ip")
        .args(["-o", "link", "show", "lo"])
        .output()
        .ok();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let mut words = text.split_whitespace().skip_while(|word| *word != "qdisc");
    words.nth(1).map(str::to_owned)
}

fn socket_options() -> Vec<(String, String)> {
    let sysctls = ["tcp_rmem", "tcp_wmem", "tcp_congestion_control", "tcp_autocorking"];
    let kernel = sysctls
        .into_iter()
        .filter_map(|name| line(format!("/proc/sys/net/ipv4/{name}")).map(|value| (format!("net.ipv4.{name}"), value)));
    std::iter::once(("TCP_NODELAY".to_owned(), "1".to_owned()))
        .chain(kernel)
        .collect()
}

/// Bytes as hexadecimal text.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_when_it_was_on_what_and_with_which_libraries() {
        let seen = observe(Vec::new());
        assert!(
            seen.started_at.len() == 20 && seen.started_at.ends_with('Z'),
            "{}",
            seen.started_at
        );
        assert!(seen.kernel.is_some() && seen.cpus > 0);
        let names: Vec<&str> = seen.versions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["ring", "rustix", "rustls"]);
        assert!(
            seen.versions.iter().all(|(_, version)| version.contains('.')),
            "{:?}",
            seen.versions
        );
    }
}
