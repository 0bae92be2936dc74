//! What a telemetry database takes in on this machine, each batch on disk before the next begins, marks included.
//!
//! `cargo run --profile fast -p cloud --example bench URL [MESSAGES]`: messages of 100 bytes, from one device and from
//! a thousand, in batches of several sizes. The database should be empty. Nothing is judged here, only printed.

use std::time::{Duration, Instant};

use cloud::{Database, Origin, Queries, Reading};

const NOW_MS: i64 = 1_795_305_600_000;
const DEVICES: [u64; 2] = [1, 1_000];
const BATCHES: [usize; 4] = [100, 1_000, 5_000, 10_000];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(url) = arguments.next() else {
        eprintln!("usage: bench sqlite:PATH|postgres://… [MESSAGES]");
        std::process::exit(2);
    };
    let messages = arguments
        .next()
        .map_or(200_000, |count| count.parse().expect("MESSAGES is a number"));
    let mut database = Database::open(&url).expect("the database opens");
    println!(
        "{:<7} {:>8} {:>7} {:>12} {:>10} {:>10}",
        "value", "devices", "batch", "messages/s", "p50 ms", "p99 ms"
    );
    let mut epoch = 0;
    for (kind, value) in [("number", number as fn(u64) -> String), ("text", text), ("five", five)] {
        for devices in DEVICES {
            for batch in BATCHES {
                epoch += 1;
                let readings = readings(epoch, messages, devices, value);
                let (took, batches_ms) = ingest(&mut database, &readings, batch);
                println!(
                    "{kind:<7} {devices:>8} {batch:>7} {:>12.0} {:>10.1} {:>10.1}",
                    messages as f64 / took.as_secs_f64(),
                    quantile(&batches_ms, 0.50),
                    quantile(&batches_ms, 0.99)
                );
            }
        }
    }
    ask(&url);
}

/// 100 bytes that make 8 in a row.
fn number(sequence: u64) -> String {
    format!("{{\"temperature\": {:>81}}}", sequence as f64 / 10.0)
}

/// 100 bytes of which 81 are in the row.
fn text(sequence: u64) -> String {
    format!("{{\"temperature\": \"{sequence:>79}\"}}")
}

/// 100 bytes that make five rows.
fn five(sequence: u64) -> String {
    let (tenths, hundreds) = (sequence % 900 + 100, sequence % 90_000 + 10_000);
    format!(
        r#"{{"ts":{},"temperature":{:.2},"humidity":{:.2},"pressure":{:.1},"co2":{tenths},"ok":true}}       "#,
        NOW_MS + sequence as i64,
        hundreds as f64 / 1e3,
        hundreds as f64 / 1e3 + 0.01,
        hundreds as f64 / 10.0,
    )
}

fn readings(epoch: u64, messages: u64, devices: u64, payload: fn(u64) -> String) -> Vec<Reading> {
    let reading = |sequence: u64| Reading {
        tenant: "acme".to_owned(),
        device: format!("device-{}", sequence % devices),
        subtopic: String::new(),
        payload: payload(sequence).into(),
        received_at_ms: NOW_MS + sequence as i64,
        origin: Origin::new("edge".into(), epoch, sequence).expect("it is one"),
    };
    (0..messages).map(reading).collect()
}

/// How long all took, and each batch.
fn ingest(database: &mut Database, readings: &[Reading], batch: usize) -> (Duration, Vec<f64>) {
    let (start, mut batches_ms) = (Instant::now(), Vec::new());
    for batch in readings.chunks(batch) {
        let began = Instant::now();
        let done = database.ingest(batch, NOW_MS).expect("it goes in");
        assert_eq!(done.stored, batch.len() as u64);
        batches_ms.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let took = start.elapsed();
    batches_ms.sort_by(f64::total_cmp);
    (took, batches_ms)
}

fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * quantile).ceil() as usize]
}

fn ask(url: &str) {
    let mut queries = Queries::open(url).expect("the database opens");
    let span = NOW_MS..NOW_MS + 100_000_000;
    let mut timed = |what: &str, ask: &mut dyn FnMut(&mut Queries) -> usize| {
        let start = Instant::now();
        let answers = ask(&mut queries);
        println!(
            "{what}: {answers} answers in {:.1} ms",
            start.elapsed().as_secs_f64() * 1e3
        );
    };
    timed("latest of a device", &mut |queries| {
        queries
            .latest("acme", "device-0", None, 1_000)
            .expect("an answer")
            .len()
    });
    timed("1,000 rows", &mut |queries| {
        let page = queries.range("acme", "device-0", "temperature", span.clone(), 1_000, None);
        page.expect("an answer").items.len()
    });
    timed("100 buckets of all its rows", &mut |queries| {
        let buckets = queries.buckets("acme", "device-0", "temperature", span.clone(), 1_000_000);
        buckets.expect("an answer").len()
    });
}
