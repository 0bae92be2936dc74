//! What a report makes of the first paper's models, on runs whose truth is known.

use super::synthetic::{Behaviour, cell, run};
use super::*;
use crate::figures::Shape;
use crate::network::{Bandwidth, Counters, Settings};
use crate::rtt::{Options, Preset};
use crate::run::{Cell, Run};
use crate::stats::Outcome;

fn line(bandwidth_bit_per_s: Bandwidth) -> Settings {
    Settings {
        bandwidth_bit_per_s,
        round_trip_us: 30_000,
        ..Settings::default()
    }
}

/// One device every 10 ms over a line of 30 ms.
fn over_line() -> Cell {
    Cell {
        devices: 1,
        duration_us: 3_000_000,
        wan: Some(line(Bandwidth::UNSHAPED)),
        ..cell()
    }
}

fn every(interval_us: u64) -> Cell {
    Cell {
        interval_us: Some(interval_us),
        duration_us: interval_us * 300,
        ..over_line()
    }
}

fn models() -> Vec<Behaviour> {
    vec![
        Behaviour::new("d-e", 200.0),
        Behaviour::new("d-c", 6_000.0),
        Behaviour::new("d-e-c", 8_000.0),
        Behaviour::new("d-c-again", 6_000.0),
    ]
}

fn measured(cells: Vec<Cell>) -> Run {
    run(3, cells, &models(), 6)
}

fn summarise(run: Run) -> Summary {
    let judging = Judging {
        resamples: 60,
        ..Judging::default()
    };
    summarise_by(&[run], &judging)
}

fn arm(summary: &Summary, name: &str) -> usize {
    summary.arms.iter().position(|arm| arm.name == name).unwrap()
}

fn result<'a>(summary: &'a Summary, name: &str) -> &'a ArmResult {
    summary.cells[0].arm(arm(summary, name)).unwrap()
}

fn findings(summary: Summary) -> Findings {
    Findings::of_round_trips(vec![summary])
}

/// 2 ms of base, a quarter more at QoS 1, 7.5 % more at the median, up to a fifth more by the block.
#[test]
fn what_the_edge_adds_is_found_within_blocks_and_the_noise_beside_it() {
    let summary = summarise(measured(vec![over_line()]));
    let added = |name: &str| {
        let all = &summary.cells[0].added;
        all.iter()
            .find(|added| added.arm == arm(&summary, name))
            .unwrap()
            .p50_us
            .unwrap()
    };
    assert!(
        (2_500.0..3_400.0).contains(&added("d-e-c").value),
        "{:?}",
        added("d-e-c")
    );
    assert!(added("d-c-again").value.abs() < 500.0);
    assert_eq!(
        summary.cells[0].added.len(),
        2,
        "the model without the line has no place here"
    );
    let claim = summary.claims.iter().find(|claim| claim.id == "c0.3").unwrap();
    assert_eq!(claim.findings[0].shape, Shape::Agrees);
}

#[test]
fn what_the_link_may_add_is_promised_under_tls_alone() {
    let mut run = measured(vec![over_line()]);
    assert!(findings(summarise(run.clone())).promises.is_empty());
    run.options = Options {
        preset: Some(Preset::Link),
        ..Options::default()
    };
    let lines = findings(summarise(run)).promises;
    let p50 = &lines[0];
    assert_eq!(
        (p50.promise.as_str(), p50.aim.as_str()),
        ("d-e-c: p50 more than d-c", "≤ 150 µs")
    );
    assert_eq!(p50.outcome, Some(Outcome::Fail), "{p50:?}");
    assert!(
        p50.figure.starts_with('+') && p50.figure.contains(" ms ("),
        "{}",
        p50.figure
    );
}

#[test]
fn over_a_line_the_deadline_is_no_shorter_than_twice_its_delay() {
    let summary = summarise(measured(vec![every(1_000)]));
    assert_eq!(result(&summary, "d-e-c").deadline_us, 60_000.0);
    assert_eq!(result(&summary, "d-e").deadline_us, 1_000.0);
    assert_eq!(result(&summary, "d-c").determinism.outcome(), Outcome::Pass);
}

/// As much as a line of 128 kbit/s carries in a share of a block's time.
fn carrying(run: &mut Run, share: f64, late: u64) {
    for block in &mut run.blocks {
        let delivered_bytes = (128e3 / 8.0 * block.usage.wall_s * share) as u64;
        let way = Counters {
            delivered: 1_000,
            delivered_bytes,
            delivered_late: late,
            ..Counters::default()
        };
        block.line = Some([way; 2]);
    }
}

#[test]
fn a_line_that_is_full_is_what_limits_and_one_that_is_half_full_is_not() {
    let cells = vec![Cell {
        wan: Some(line(Bandwidth::of(128_000))),
        ..over_line()
    }];
    for (share, limited) in [(0.95, true), (0.5, false)] {
        let mut run = measured(cells.clone());
        carrying(&mut run, share, 0);
        let summary = summarise(run);
        let limit = result(&summary, "d-c").limit();
        assert_eq!(matches!(limit, Some(Limit::Line(_))), limited, "{limit:?}");
        assert_eq!(result(&summary, "d-e").limit(), None, "it does not use the line");
    }
}

#[test]
fn an_emulated_line_that_is_late_leaves_no_result() {
    let mut run = measured(vec![over_line()]);
    carrying(&mut run, 0.1, 101);
    let summary = summarise(run);
    assert!(!result(&summary, "d-c").is_valid());
    assert!(summary.cells[0].added.is_empty(), "what is no result adds nothing");
    assert_eq!(result(&summary, "d-c").limit(), Some(Limit::Instrument));
}

#[test]
fn the_report_says_in_plain_words_what_each_model_can_promise() {
    let mut run = measured([200_000, 10_000, 1_000].map(every).to_vec());
    for block in run.blocks.iter_mut().filter(|block| block.cell == 2) {
        // Messages queue up at the shortest interval, each 100 µs longer than the one before.
        for (place, received) in block.samples.received_ns.iter_mut().enumerate() {
            *received = received.map(|ns| ns + place as u64 * 100_000);
        }
    }
    let summary = summarise(run);
    let table = super::table(&findings(summary.clone()));
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let text = table.replace("\n    ", " ");
    for words in [
        "d-c: p50 ",
        "good for process monitoring (~ 50 ms) and all that ask for less; not for factory automation (2–10 ms)",
        "d-e: p50 ",
        "good for motion control (< 2 ms)",
        "d-c: deterministic, by the time between messages: yes at 10 ms, 200 ms; no at 1 ms (the round trip rises)",
        "d-c: what limits it: every 1 ms: messages queue up",
        "The way to the cloud takes 30 ms by itself",
        "the paper's defaults",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let page = super::html(&findings(summary));
    for words in [
        "The gap to what industry asks for",
        "paper: D-E-C",
        "(the paper&#39;s Fig. 4",
        "no at 1 ms",
    ] {
        let plain = words.replace("&#39;", "'");
        assert!(page.contains(words) || page.contains(&plain), "{words}");
    }
}

#[test]
fn spreadsheets_have_the_line_and_what_was_added() {
    let csv = super::csv(&findings(summarise(measured(vec![over_line()]))));
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let of = |arm: &str| rows.iter().find(|row| row[0] == arm).unwrap();
    assert_eq!(of("d-c")[column("line_round_trip_us")], "30000");
    assert!(of("d-e-c")[column("p50_added_us")].parse::<f64>().unwrap() > 2_000.0);
    assert_eq!(of("d-e")[column("p50_added_us")], "");
}
