//! Kill -9 of a process that appends, again and again: what it had called durable is there.
//!
//! The child runs operations 1, 2, 3 … of which each puts or removes a key, and prints how far they are durable. The
//! parent kills it at some moment, replays the log, and compares it with the operations up to the last one in it.
//! A program of its own instead of a test harness, since it starts itself.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::event::{PollFd, PollFlags, Timespec};
use store::{Durability, Event, Kind, Log, Options, Position, Refused};

const KILLS: usize = 60;
const KEYS: u64 = 37;
/// The whole test ends by then.
const LIMIT: Duration = Duration::from_secs(55);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.as_slice() {
        [_, command, dir, durability] if command == "append" => {
            append(
                Path::new(dir),
                if durability == "disk" {
                    Durability::Disk
                } else {
                    Durability::Os
                },
            );
        }
        _ => {
            for durability in ["os", "disk"] {
                kill_again_and_again(durability);
            }
        }
    }
}

/// Small files, so that collection has something to do.
fn small(durability: Durability) -> Options {
    Options {
        durability,
        segment_bytes: 64 << 10,
        pending_bytes: 16 << 10,
        limit_bytes: 4 << 20,
        garbage_bytes: 128 << 10,
    }
}

/// What operation `number` does: the key, and the body that it puts; `None` for a removal.
fn operation(number: u64) -> (u64, Option<Vec<u8>>) {
    // Some keys are put once in a long while, so that collection has to move them.
    let key = if number.is_multiple_of(50) {
        KEYS + number / 50 % 5
    } else {
        number * 7 % KEYS
    };
    let body = vec![number as u8; (number * 13 % 300) as usize];
    (key, (!number.is_multiple_of(9)).then_some(body))
}

fn contents_after(last: u64) -> BTreeMap<u64, u64> {
    let mut contents = BTreeMap::new();
    for number in 1..=last {
        match operation(number) {
            (key, Some(_)) => contents.insert(key, number),
            (key, None) => contents.remove(&key),
        };
    }
    contents
}

fn meta(key: u64, number: u64) -> [u8; 16] {
    let mut meta = [0; 16];
    meta[..8].copy_from_slice(&key.to_le_bytes());
    meta[8..].copy_from_slice(&number.to_le_bytes());
    meta
}

fn parse(meta: &[u8]) -> (u64, u64) {
    let number = |at: usize| u64::from_le_bytes(meta[at..at + 8].try_into().expect("eight bytes"));
    (number(0), number(8))
}

/// The operations of one process, in a log.
struct Operations {
    log: Log,
    current: BTreeMap<u64, Position>,
    last: u64,
}

impl Operations {
    fn resume(dir: &Path, durability: Durability) -> Operations {
        let (mut log, recovery) = Log::open(dir, small(durability)).expect("the log opens");
        let (mut current, mut last) = (BTreeMap::new(), 0);
        let replayed = recovery.replay(|record| {
            let (key, number) = parse(record.meta);
            last = last.max(number);
            let before = if record.tombstone {
                current.remove(&key)
            } else {
                current.insert(key, record.position)
            };
            if let Some(before) = before {
                log.release(before);
            }
        });
        assert_eq!(replayed.expect("the files can be read").damage, []);
        Operations { log, current, last }
    }

    fn next(&mut self) -> Result<Position, Refused> {
        let number = self.last + 1;
        let (key, body) = operation(number);
        let kind = if body.is_some() { Kind::Value } else { Kind::Tombstone };
        let position = self
            .log
            .append(kind, &meta(key, number), body.as_deref().unwrap_or_default())?;
        self.last = number;
        let before = if body.is_some() {
            self.current.insert(key, position)
        } else {
            self.current.remove(&key)
        };
        if let Some(before) = before {
            self.log.release(before);
        }
        Ok(position)
    }

    fn answer(&mut self, event: Event) {
        match event {
            Event::Relocate { position, meta, body } => {
                let (key, _) = parse(&meta);
                if self.current.get(&key) == Some(&position)
                    && let Ok(moved) = self.log.append(Kind::Moved, &meta, &body)
                {
                    self.log.release(position);
                    self.current.insert(key, moved);
                }
            }
            event => assert!(matches!(event, Event::Room), "{event:?}"),
        }
    }
}

/// The child: runs until it is killed.
fn append(dir: &Path, durability: Durability) {
    let mut operations = Operations::resume(dir, durability);
    let (mut events, mut waiting) = (Vec::new(), std::collections::VecDeque::new());
    let mut out = std::io::stdout().lock();
    loop {
        for _ in 0..10 {
            if let Ok(position) = operations.next() {
                waiting.push_back((position, operations.last));
            }
        }
        operations.log.poll(&mut events);
        for event in events.drain(..) {
            operations.answer(event);
        }
        operations.log.submit();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let bell = operations.log.event_fd();
        rustix::event::poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&wait)).expect("an eventfd can be polled");
        // Empty if the time was up.
        _ = rustix::io::read(bell, &mut [0; 8]);
        let durable = operations.log.durable();
        let is_durable = waiting.partition_point(|(position, _)| *position <= durable);
        if let Some((_, number)) = waiting.drain(..is_durable).next_back() {
            writeln!(out, "{number}")
                .and_then(|()| out.flush())
                .expect("the parent reads");
        }
    }
}

fn kill_again_and_again(durability: &str) {
    let (start, mut random) = (Instant::now(), StdRng::seed_from_u64(3));
    let (dir, mut promised, mut kills) = (tempfile::tempdir().expect("a directory"), 0, 0);
    while kills < KILLS / 2 && start.elapsed() < LIMIT / 2 {
        let lines = random.random_range(1..60);
        promised = run_and_kill(dir.path(), durability, lines).unwrap_or(promised);
        kills += 1;
        check(dir.path(), promised);
    }
    println!("{durability}: killed {kills} times, {promised} operations promised, all there");
    assert!(kills >= 25, "only {kills} kills in {:?}", start.elapsed());
}

/// Starts a child, kills it after some lines, and returns the last number that it printed.
fn run_and_kill(dir: &Path, durability: &str, lines: usize) -> Option<u64> {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    let mut child: Child = command
        .arg("append")
        .arg(dir)
        .arg(durability)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut printed = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut last = None;
    for _ in 0..lines {
        last = printed.next().transpose().expect("the child writes lines").or(last);
    }
    child.kill().expect("it runs");
    // What it printed before it died counts too, but for a line that was cut off.
    for line in printed.map_while(Result::ok) {
        last = Some(line).filter(|line| !line.is_empty()).or(last);
    }
    child.wait().expect("it has died");
    last.and_then(|line| line.parse().ok())
}

fn check(dir: &Path, promised: u64) {
    let (_log, recovery) = Log::open(dir, small(Durability::Os)).expect("the log opens");
    let (mut contents, mut last) = (BTreeMap::new(), 0);
    let replayed = recovery.replay(|record| {
        let (key, number) = parse(record.meta);
        last = last.max(number);
        if record.tombstone {
            contents.remove(&key)
        } else {
            contents.insert(key, number)
        };
    });
    assert_eq!(replayed.expect("the files can be read").damage, []);
    assert!(
        last >= promised,
        "operation {promised} was durable, the log ends with {last}"
    );
    assert_eq!(contents, contents_after(last));
}
