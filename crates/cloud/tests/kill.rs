//! Kill -9 of a process that takes readings in, again and again, on either database: what it had reported is there,
//! each reading once, and the marks are those of the rows.
//!
//! The child sends all readings from the last reported on, as an edge would, and prints how far they are in. A program
//! of its own instead of a test harness, since it starts itself.

#[path = "database/cluster.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod cluster;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cloud::{Database, Origin, Queries, Reading};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use cluster::Cluster;

const KILLS: usize = 25;
/// On a slow machine either half of the test ends then, with fewer kills.
const LIMIT: Duration = Duration::from_secs(60);
const NOW_MS: i64 = 1_795_305_600_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.as_slice() {
        [_, command, url, from] if command == "ingest" => ingest(url, from.parse().unwrap()),
        _ => {
            let directory = tempfile::tempdir().unwrap();
            kill_again_and_again(&format!("sqlite:{}/telemetry.db", directory.path().display()));
            if let Some(cluster) = Cluster::shared() {
                kill_again_and_again(&cluster.make_database("killed"));
            }
        }
    }
}

/// The child: readings from `from` on, without end, in batches of any size; two streams each.
fn ingest(url: &str, from: u64) {
    let (mut database, mut random, mut next) = (Database::open(url).unwrap(), StdRng::seed_from_u64(from), from);
    loop {
        let batch = next..next + random.random_range(1..400);
        next = batch.end;
        database
            .ingest(&batch.map(reading).collect::<Vec<_>>(), NOW_MS)
            .unwrap();
        println!("{next}");
    }
}

fn reading(sequence: u64) -> Reading {
    Reading {
        tenant: "acme".to_owned(),
        device: "press-1".to_owned(),
        subtopic: String::new(),
        payload: format!("{{\"x\": {sequence}, \"y\": 1}}").into(),
        received_at_ms: NOW_MS + sequence as i64,
        origin: Origin::new("edge".into(), 1, sequence).unwrap(),
    }
}

fn kill_again_and_again(url: &str) {
    let (mut random, start, mut reported) = (StdRng::seed_from_u64(7), Instant::now(), 0);
    for kill in (0..KILLS).take_while(|_| start.elapsed() < LIMIT) {
        // Some is sent again that is in: the report may have been lost on its way.
        let from = reported - random.random_range(0..=reported.min(300));
        reported = run_child(url, from, random.random_range(1..120)).unwrap_or(reported);
        check(url, reported, kill);
    }
    assert!(reported > 0, "no reading went in");
}

/// Kills the child that long after its first report; what it reported last.
fn run_child(url: &str, from: u64, after_ms: u64) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["ingest", url, &from.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reports = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let first = reports.next();
    std::thread::park_timeout(Duration::from_millis(after_ms));
    child.kill().unwrap();
    child.wait().unwrap();
    reports.last().or(first)?.parse().ok()
}

/// Everything reported is in, once; all rows are of readings without a hole, and the mark says the same.
fn check(url: &str, reported: u64, kill: usize) {
    let mut database = Database::open(url).unwrap();
    // A server may be busy yet with the commit of a client that is gone: this waits for the epoch that it holds.
    database.ingest(&[reading(0)], NOW_MS).unwrap();
    let mut queries = Queries::open(url).unwrap();
    let counts = ["x", "y"].map(|stream| {
        let sequences = sequences(&mut queries, stream);
        let expected: Vec<u64> = (0..sequences.len() as u64).collect();
        assert!(
            sequences == expected,
            "{url}, kill {kill}: a reading is missing or there twice"
        );
        expected.len() as u64
    });
    assert_eq!(counts[0], counts[1], "{url}, kill {kill}: half of a reading");
    assert!(
        counts[0] >= reported,
        "{url}, kill {kill}: {reported} were reported, {} are there",
        counts[0]
    );
    let marks = database.marks("edge").unwrap();
    assert_eq!(marks[0].ranges, [0..=counts[0] - 1]);
}

fn sequences(queries: &mut Queries, stream: &str) -> Vec<u64> {
    let (mut sequences, mut after) = (Vec::new(), None);
    loop {
        let span = 0..i64::MAX;
        let page = queries
            .range("acme", "press-1", stream, span, 10_000, after.as_ref())
            .unwrap();
        sequences.extend(page.items.iter().map(|point| point.origin.sequence()));
        after = page.next;
        if after.is_none() {
            return sequences;
        }
    }
}
