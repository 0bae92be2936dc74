//! Readings of the machine itself: real ones where no data set is at hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};

use super::{Pace, hexadecimal};
use crate::rtt::{Reading, Trace};

/// Bytes of a disk sector in `/proc/diskstats`, whatever the disk's own.
const SECTOR_BYTES: f64 = 512.0;

/// Reads CPU, memory, disks, network and temperatures; rates are over the time since the reading before.
pub struct Machine {
    root: PathBuf,
    before: Option<(Duration, Totals)>,
}

/// Counters since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Totals {
    busy_ticks: f64,
    all_ticks: f64,
    disk_read_bytes: f64,
    disk_written_bytes: f64,
    received_bytes: f64,
    sent_bytes: f64,
}

impl Machine {
    /// The machine whose `/proc` and `/sys` stand under `root`: `/`, or a copy in a test.
    pub fn new(root: &Path) -> Machine {
        Machine {
            root: root.to_owned(),
            before: None,
        }
    }

    /// One reading as a JSON object; `now` is the time since any start. The first has no rates. What the kernel does
    /// not say is left out.
    pub fn read(&mut self, now: Duration) -> Map<String, Value> {
        let mut reading = Map::new();
        let totals = self.totals();
        if let Some((then, before)) = self.before.replace((now, totals)) {
            rates(&mut reading, &before, &totals, now.saturating_sub(then).as_secs_f64());
        }
        let load = self
            .text("proc/loadavg")
            .split_whitespace()
            .next()
            .and_then(|text| text.parse::<f64>().ok());
        reading.extend(load.map(|load| ("load_1m".to_owned(), json!(load))));
        reading.extend(
            self.memory_used_percent()
                .map(|used| ("memory_used_percent".to_owned(), json!(used))),
        );
        reading.extend(
            self.temperatures()
                .into_iter()
                .map(|(name, celsius)| (name, json!(celsius))),
        );
        reading
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    fn totals(&self) -> Totals {
        let (busy_ticks, all_ticks) = cpu_ticks(&self.text("proc/stat"));
        let (read, written) = disk_sectors(&self.text("proc/diskstats"));
        let (received_bytes, sent_bytes) = network_bytes(&self.text("proc/net/dev"));
        Totals {
            busy_ticks,
            all_ticks,
            disk_read_bytes: read * SECTOR_BYTES,
            disk_written_bytes: written * SECTOR_BYTES,
            received_bytes,
            sent_bytes,
        }
    }

    fn memory_used_percent(&self) -> Option<f64> {
        let text = self.text("proc/meminfo");
        let kib = |name: &str| -> Option<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let (all, free) = (kib("MemTotal:")?, kib("MemAvailable:")?);
        Some(rounded(100.0 * (1.0 - free / all)))
    }

    /// By kind of sensor; of equal kinds the first.
    fn temperatures(&self) -> BTreeMap<String, f64> {
        let Ok(zones) = std::fs::read_dir(self.root.join("sys/class/thermal")) else {
            return BTreeMap::new();
        };
        let zone = |zone: std::io::Result<std::fs::DirEntry>| {
            let path = zone.ok()?.path();
            let kind = std::fs::read_to_string(path.join("type")).ok()?;
            let millicelsius: f64 = std::fs::read_to_string(path.join("temp")).ok()?.trim().parse().ok()?;
            Some((format!("temperature_{}_c", kind.trim()), millicelsius / 1e3))
        };
        zones.filter_map(zone).collect()
    }
}

fn rates(reading: &mut Map<String, Value>, before: &Totals, now: &Totals, seconds: f64) {
    let ticks = now.all_ticks - before.all_ticks;
    if ticks > 0.0 {
        let busy = 100.0 * (now.busy_ticks - before.busy_ticks) / ticks;
        reading.insert("cpu_percent".to_owned(), json!(rounded(busy)));
    }
    if seconds > 0.0 {
        for (name, from, to) in [
            ("disk_read_bytes_per_s", before.disk_read_bytes, now.disk_read_bytes),
            (
                "disk_written_bytes_per_s",
                before.disk_written_bytes,
                now.disk_written_bytes,
            ),
            (
                "network_received_bytes_per_s",
                before.received_bytes,
                now.received_bytes,
            ),
            ("network_sent_bytes_per_s", before.sent_bytes, now.sent_bytes),
        ] {
            reading.insert(name.to_owned(), json!(rounded((to - from) / seconds)));
        }
    }
}

/// Two digits behind the point are more than any of them means.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Busy and all ticks of all CPUs. Idle and waiting for disks (fields 4 and 5) are not busy; guests are part of user.
fn cpu_ticks(stat: &str) -> (f64, f64) {
    let fields = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    let all: f64 = ticks.iter().sum();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (all - idle, all)
}

/// Sectors read and written of whole disks: partitions are part of them, loop and memory disks of nothing.
fn disk_sectors(diskstats: &str) -> (f64, f64) {
    let lines = diskstats
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let disks = lines.filter(|fields| fields.get(2).is_some_and(|name| is_whole_disk(name)));
    let field = |fields: &[&str], place: usize| fields.get(place).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    disks.fold((0.0, 0.0), |(read, written), fields| {
        (read + field(&fields, 5), written + field(&fields, 9))
    })
}

fn is_whole_disk(name: &str) -> bool {
    let ends_in_digit = name.ends_with(|last: char| last.is_ascii_digit());
    match name {
        _ if name.starts_with("nvme") || name.starts_with("mmcblk") => !name.contains('p'),
        _ if name.starts_with("sd") || name.starts_with("vd") || name.starts_with("xvd") => !ends_in_digit,
        _ => false,
    }
}

/// Bytes received and sent of all interfaces but the loopback.
fn network_bytes(dev: &str) -> (f64, f64) {
    let interfaces = dev
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.trim() != "lo");
    interfaces.fold((0.0, 0.0), |(received, sent), (_, counters)| {
        let counters: Vec<f64> = counters
            .split_whitespace()
            .filter_map(|field| field.parse().ok())
            .collect();
        let counter = |place: usize| counters.get(place).copied().unwrap_or(0.0);
        (received + counter(0), sent + counter(8))
    })
}

/// Reads the machine `count` times, `every` so often, as a trace that the devices take in turn; it takes
/// `count × every`.
pub fn record(machine: &mut Machine, count: u32, every: Duration, pace: Pace) -> Trace {
    let start = Instant::now();
    machine.read(Duration::ZERO);
    let mut context = Context::new(&SHA256);
    let mut readings = Vec::new();
    // Nothing is ever sent: the channel is what a bounded wait is made of.
    let (_open, never): (SyncSender<()>, _) = sync_channel(0);
    for number in 0..count {
        let due = every * (number + 1);
        let waited = never.recv_timeout(due.saturating_sub(start.elapsed()));
        debug_assert_eq!(waited, Err(RecvTimeoutError::Timeout));
        let json = Value::Object(machine.read(start.elapsed())).to_string();
        context.update(json.as_bytes());
        let at_ns = (every.as_nanos() as f64 * f64::from(number) / pace.speed) as u64;
        readings.push(Reading {
            at_ns,
            device: number % pace.devices.max(1),
            json,
        });
    }
    Trace {
        source: "machine".to_owned(),
        sha256: hexadecimal(context),
        readings,
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
