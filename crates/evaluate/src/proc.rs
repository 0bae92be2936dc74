//! What the kernel says of processes and of the machine in `/proc` and `/sys`. Absent where it says nothing.

use std::fs;
use std::path::Path;

use crate::environment::Load;

/// Ticks a second of `/proc/stat`; the same on every Linux that user programs see.
const TICKS_PER_S: f64 = 100.0;

/// CPU seconds that a process has run, to the nanosecond, those of its threads that have ended among them.
pub(crate) fn cpu_s(pid: u32) -> Option<f64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both write to what is there for as long as they take.
    let is_known = unsafe {
        libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    is_known.then(|| time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// Processes whose arguments have a text in them, each with its arguments.
pub(crate) fn naming(text: &str) -> Vec<(u32, String)> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let with_words = pids.map(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&words).into_owned())
    });
    with_words.filter(|(_, words)| words.contains(text)).collect()
}

/// Who started a process, or has it since its parent ended.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// Resident memory of a process, in bytes.
pub(crate) fn rss_bytes(pid: u32) -> Option<u64> {
    kib_field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Rss:")
}

/// Proportional share of memory of a process, in bytes: a page that n processes map counts a n-th.
pub(crate) fn pss_bytes(pid: u32) -> Option<u64> {
    kib_field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:")
}

/// Memory of the machine, in bytes.
pub(crate) fn memory_bytes() -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Memory that programs can still have without any being taken from others, in bytes.
pub(crate) fn available_memory_bytes() -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// How busy the machine is and was.
pub(crate) fn load() -> Load {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = |field: usize| {
        let text = stat
            .lines()
            .next()
            .and_then(|all_cpus| all_cpus.split_whitespace().nth(field));
        text.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default() / TICKS_PER_S
    };
    let average_1m = average
        .split_whitespace()
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    Load {
        average_1m,
        idle_s: ticks(4),
        steal_s: ticks(8),
    }
}

/// Seconds that the CPUs have worked since boot, and seconds that they were there, all together.
pub(crate) fn busy_and_all_s() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<f64> = stat
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        // Guests count among users already.
        .take(8)
        .map(|text| text.parse().unwrap_or_default())
        .collect();
    let all: f64 = ticks.iter().sum();
    // Idle, and waiting for a disk.
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    Some(((all - idle) / TICKS_PER_S, all / TICKS_PER_S))
}

/// A file's one line, trimmed.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_its_machine_a_load() {
        assert!(rss_bytes(std::process::id()).is_some_and(|bytes| bytes > 100_000));
        assert!(cpu_s(std::process::id()).is_some());
        // Linux has no process of that number.
        assert_eq!(cpu_s(1 << 22), None);
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
        assert!(memory_bytes().is_some_and(|bytes| bytes > 1_000_000));
        assert!(load().idle_s > 0.0);
    }

    #[test]
    fn what_threads_have_run_that_have_ended_counts() {
        let run = || {
            let until = std::time::Instant::now() + std::time::Duration::from_millis(50);
            while std::time::Instant::now() < until {}
        };
        let before_s = cpu_s(std::process::id()).unwrap();
        std::thread::spawn(run).join().unwrap();
        let used_s = cpu_s(std::process::id()).unwrap() - before_s;
        // However busy the machine is, it ran for some of them.
        assert!(used_s > 0.001, "{used_s} s");
    }
}
