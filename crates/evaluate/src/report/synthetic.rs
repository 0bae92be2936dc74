//! Runs whose truth is known, for tests of the report.

use crate::environment::Environment;
use crate::rtt::Options;
use crate::run::{Arm, Block, Cell, Counters, LoadModel, Run, Samples, Skipped, Usage, WarmUp};
use crate::stats::test_numbers::Numbers;

/// How an arm behaves.
#[derive(Clone, Copy)]
pub(crate) struct Behaviour {
    pub(crate) name: &'static str,
    /// Median of the round trip without load, in µs.
    pub(crate) base_us: f64,
    /// What each message adds to the next one's round trip below an interval of 10 ms, in µs.
    pub(crate) buffering_us: f64,
    /// Share of messages lost.
    pub(crate) lost: f64,
    /// Send lag of the generator, in µs.
    pub(crate) lag_us: f64,
}

impl Behaviour {
    pub(crate) fn new(name: &'static str, base_us: f64) -> Behaviour {
        Behaviour {
            name,
            base_us,
            buffering_us: 0.0,
            lost: 0.0,
            lag_us: 0.5,
        }
    }
}

/// 20 devices every 10 ms, 64 bytes, QoS 1.
pub(crate) fn cell() -> Cell {
    Cell {
        load: LoadModel::Periodic,
        interval_us: Some(10_000),
        payload_bytes: 64,
        devices: 20,
        qos: 1,
        concurrency: 0,
        think_us: 0,
        duration_us: 200_000,
        timeout_us: 1_000_000,
        wan: None,
    }
}

/// The same load in a closed loop of one.
pub(crate) fn closed() -> Cell {
    Cell {
        load: LoadModel::Closed,
        interval_us: None,
        devices: 1,
        concurrency: 1,
        ..cell()
    }
}

/// Echo, relay, baseline, two arms of ours and the baseline again.
pub(crate) fn behaviours() -> Vec<Behaviour> {
    vec![
        Behaviour::new("tcp-echo", 18.0),
        Behaviour::new("mosquitto", 95.0),
        Behaviour::new("selvedge", 80.0),
        Behaviour::new("mosquitto-again", 95.0),
    ]
}

/// A run of all behaviours over all cells; the second arm is the baseline, an arm `X-again` repeats `X`.
pub(crate) fn run(seed: u64, cells: Vec<Cell>, behaviours: &[Behaviour], blocks: u32) -> Run {
    let mut numbers = Numbers(seed);
    let mut measured = Vec::new();
    for cell in 0..cells.len() {
        for index in 0..blocks {
            let level = 1.0 + 0.2 * numbers.next();
            for (arm, behaviour) in behaviours.iter().enumerate() {
                measured.push(block(&cells, cell, arm, behaviour, index, level, &mut numbers));
            }
        }
    }
    Run {
        format: crate::run::FORMAT,
        experiment: "rtt".to_owned(),
        options: Options::default(),
        seed,
        schedule_hash: "0f1e2d3c".repeat(8),
        arms: arms(behaviours),
        cells,
        blocks: measured,
        search: Vec::new(),
        network: None,
        skipped: vec![Skipped {
            arm: "mosquitto-tls".into(),
            reason: "no mosquitto built with TLS found".into(),
        }],
        environment: environment(),
    }
}

fn arms(behaviours: &[Behaviour]) -> Vec<Arm> {
    let arm = |(number, behaviour): (usize, &Behaviour)| {
        let original = behaviour.name.strip_suffix("-again");
        Arm {
            name: behaviour.name.to_owned(),
            baseline: number == 1,
            again_of: original.and_then(|name| behaviours.iter().position(|other| other.name == name)),
            version: match behaviour.name {
                "mosquitto" => "mosquitto 2.0.11".into(),
                "selvedge" => "selvedge 0.1.0".into(),
                _ => String::new(),
            },
            settings: match behaviour.name {
                "mosquitto" => "nothing switched on".into(),
                "selvedge" => "passwords + ACL + route + twins".into(),
                "tcp-echo" => "raw TCP, no broker".into(),
                _ => String::new(),
            },
            ready_ms: Some(21.0),
            idle_rss_bytes: Some(6_300_000),
            server_cpu: Some(1),
        }
    };
    behaviours.iter().enumerate().map(arm).collect()
}

fn environment() -> Environment {
    Environment {
        started_at: "2026-01-01T12:00:00Z".into(),
        wall_s: 90.0,
        program_version: "0.1.0".into(),
        optimised: true,
        cpu_model: Some("Example CPU @ 2.40 GHz".into()),
        cpus: 2,
        kernel: Some("6.18.5".into()),
        versions: vec![("mosquitto".into(), "2.0.11".into())],
        ..Environment::default()
    }
}

fn block(
    cells: &[Cell],
    number: usize,
    arm: usize,
    behaviour: &Behaviour,
    index: u32,
    level: f64,
    numbers: &mut Numbers,
) -> Block {
    let cell = &cells[number];
    let count = cell
        .interval_us
        .map_or(200, |us| u64::from(cell.devices) * cell.duration_us / us);
    let mut samples = Samples::default();
    let mut free_ns = 0;
    for message in 0..count {
        let due_ns = cell
            .interval_us
            .map_or(free_ns, |us| message * us * 1000 / u64::from(cell.devices));
        let sent_ns = due_ns + (behaviour.lag_us * 1e3 * numbers.next()) as u64;
        let took_us = round_trip_us(cell, behaviour, message, numbers) * level;
        let lost = numbers.next() < behaviour.lost;
        free_ns = sent_ns + (took_us * 1e3) as u64;
        samples.device.push((message % u64::from(cell.devices)) as u32);
        samples.sequence.push((message / u64::from(cell.devices)) as u32);
        samples.intended_ns.push(due_ns);
        samples.sent_ns.push(Some(sent_ns));
        samples.received_ns.push((!lost).then_some(free_ns));
        samples.server_ns.push(Some(2000));
    }
    let answered = samples.received_ns.iter().flatten().count() as u64;
    let wall_s = cell
        .interval_us
        .map_or(free_ns as f64 / 1e9, |_| cell.duration_us as f64 / 1e6);
    Block {
        cell: number,
        arm,
        index,
        started_s: 0.0,
        warm_up: WarmUp {
            messages: 200,
            windows: 4,
            settled: true,
        },
        samples,
        counters: Counters {
            scheduled: count,
            sent: count,
            answered,
            lost: count - answered,
            ..Counters::default()
        },
        usage: Usage {
            wall_s,
            generator_cpu_s: 0.3 * wall_s,
            server_cpu_s: Some(answered as f64 * 30e-6),
            server_rss_bytes: Some(7_000_000),
            ..Usage::default()
        },
        line: None,
        failure: None,
        set_aside: None,
    }
}

fn round_trip_us(cell: &Cell, behaviour: &Behaviour, message: u64, numbers: &mut Numbers) -> f64 {
    let tail = if numbers.next() < 0.02 {
        1.2 * numbers.next()
    } else {
        0.0
    };
    let buffered = if cell.interval_us.is_some_and(|us| us < 10_000) {
        behaviour.buffering_us * message as f64
    } else {
        0.0
    };
    let copying = f64::from(cell.payload_bytes) / 1000.0;
    let acknowledging = 1.0 + 0.25 * f64::from(cell.qos);
    behaviour.base_us * acknowledging * (1.0 + 0.15 * numbers.next() + tail) + copying + buffered
}
