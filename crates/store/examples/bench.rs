//! What the log does on this machine: records a second, and how long it takes to open.
//!
//! `cargo run --profile fast -p store --example bench [DIRECTORY]`. Nothing is judged here, only printed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use store::{Durability, Event, Kind, Log, Options, Position, Refused};

/// A queued message of about 150 bytes: what the broker needs of it, and the rest.
const META: [u8; 30] = [7; 30];
const BODY: [u8; 104] = [9; 104];
/// Bytes of one in a segment.
const RECORD_BYTES: f64 = 152.0;
const QUEUED: u32 = 1_000_000;
/// Pace of the queue's growth: four times what the whole hub promises.
const FILLED_PER_S: f64 = 200_000.0;
const MEASURED: Duration = Duration::from_secs(2);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [command, dir] if command == "fill-and-die" => fill_and_die(Path::new(dir)),
        [] => measure(&std::env::temp_dir()),
        [dir] => measure(Path::new(dir)),
        _ => eprintln!("usage: bench [DIRECTORY]"),
    }
}

fn measure(parent: &Path) {
    println!("records of {RECORD_BYTES} bytes in {}", parent.display());
    println!(
        "{:<6} {:>10} {:>12} {:>9} {:>10} {:>10}",
        "sync", "in flight", "records/s", "MB/s", "p50 µs", "p99 µs"
    );
    for durability in [Durability::Os, Durability::Disk] {
        for in_flight in [1, 16, 128, 1024, 8192] {
            append(parent, durability, in_flight);
        }
    }
    for (name, dies) in [("close", false), ("kill -9", true)] {
        open(parent, name, dies);
    }
}

/// Keeps `in_flight` records on their way for a while, releasing what is durable.
fn append(parent: &Path, durability: Durability, in_flight: usize) {
    let dir = scratch(parent);
    let (mut log, _recovery) = Log::open(
        &dir,
        Options {
            durability,
            ..Options::default()
        },
    )
    .expect("the log opens");
    let (start, mut events) = (Instant::now(), Vec::new());
    let mut waiting = std::collections::VecDeque::with_capacity(in_flight);
    let mut latencies_us = Vec::new();
    while start.elapsed() < MEASURED {
        let now = Instant::now();
        while waiting.len() < in_flight {
            match log.append(Kind::Value, &META, &BODY) {
                Ok(position) => waiting.push_back((position, now)),
                Err(Refused::Behind) => break,
                Err(refused) => panic!("{refused}"),
            }
        }
        log.submit();
        wait(&log);
        poll(&mut log, &mut events);
        let (durable, now) = (log.durable(), Instant::now());
        while let Some((position, since)) = waiting.front().copied().filter(|(position, _)| *position <= durable) {
            latencies_us.push((now - since).as_micros() as u64);
            log.release(position);
            waiting.pop_front();
        }
    }
    let per_s = latencies_us.len() as f64 / start.elapsed().as_secs_f64();
    latencies_us.sort_unstable();
    let at = |share: f64| latencies_us[(latencies_us.len() as f64 * share) as usize];
    let name = if durability == Durability::Os { "os" } else { "disk" };
    let mb_s = per_s * RECORD_BYTES / 1e6;
    println!(
        "{name:<6} {in_flight:>10} {per_s:>12.0} {mb_s:>9.1} {:>10} {:>10}",
        at(0.50),
        at(0.99)
    );
    drop(log);
    remove(&dir);
}

/// How long a log with a million queued records takes to open and replay.
fn open(parent: &Path, name: &str, dies: bool) {
    let dir = scratch(parent);
    if dies {
        let program = std::env::current_exe().expect("this program has a path");
        let status = Command::new(program)
            .arg("fill-and-die")
            .arg(&dir)
            .status()
            .expect("this program runs");
        assert!(!status.success(), "it was to die");
    } else {
        fill(&dir).close().expect("the log closes");
    }
    for run in ["first", "again"] {
        let start = Instant::now();
        let (log, recovery) = Log::open(&dir, os()).expect("the log opens");
        let opened = start.elapsed();
        let mut metas = 0_usize;
        let report = recovery
            .replay(|record| metas += record.meta.len())
            .expect("the log can be read");
        let replayed = start.elapsed();
        assert_eq!(
            (report.records, metas),
            (u64::from(QUEUED), QUEUED as usize * META.len())
        );
        println!(
            "open after {name}, {run}: {QUEUED} records in {:.1} ms, of which {:.1} ms before the replay; {}",
            replayed.as_secs_f64() * 1e3,
            opened.as_secs_f64() * 1e3,
            report.damage.len(),
        );
        log.close().expect("the log closes");
    }
    remove(&dir);
}

fn fill_and_die(dir: &Path) {
    let _log = fill(dir);
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).expect("we may die");
}

fn fill(dir: &Path) -> Log {
    let (mut log, _recovery) = Log::open(dir, os()).expect("the log opens");
    let (mut last, mut events) = (Position::NONE, Vec::new());
    let (start, mut queued) = (Instant::now(), 0);
    while queued < QUEUED {
        if queued % 1024 == 0 {
            turn(&mut log, &mut events);
            let due = Duration::from_secs_f64(f64::from(queued) / FILLED_PER_S);
            std::thread::park_timeout(due.saturating_sub(start.elapsed()));
        }
        match log.append(Kind::Value, &META, &BODY) {
            Ok(position) => (last, queued) = (position, queued + 1),
            Err(Refused::Behind) => turn(&mut log, &mut events),
            Err(refused) => panic!("{refused}"),
        }
    }
    while log.durable() < last {
        turn(&mut log, &mut events);
    }
    log
}

fn os() -> Options {
    Options {
        durability: Durability::Os,
        ..Options::default()
    }
}

fn turn(log: &mut Log, events: &mut Vec<Event>) {
    log.submit();
    if log.usage().pending_bytes > 0 {
        wait(log);
    }
    poll(log, events);
}

/// Waits for the commit thread, as the loop of a hub does, but reads the eventfd, which is level-triggered here.
fn wait(log: &Log) {
    let bell = log.event_fd();
    rustix::event::poll(&mut [PollFd::new(&bell, PollFlags::IN)], None).expect("an eventfd can be polled");
    rustix::io::read(bell, &mut [0; 8]).expect("an eventfd can be read");
}

fn poll(log: &mut Log, events: &mut Vec<Event>) {
    log.poll(events);
    for event in events.drain(..) {
        assert!(!matches!(event, Event::Stopped(_)), "{event:?}");
    }
}

fn scratch(parent: &Path) -> PathBuf {
    let dir = parent.join(format!("store-bench-{}", std::process::id()));
    remove(&dir);
    dir
}

fn remove(dir: &Path) {
    if dir.exists() {
        std::fs::remove_dir_all(dir).expect("the scratch directory can be removed");
    }
}
