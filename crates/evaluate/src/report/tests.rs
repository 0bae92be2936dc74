use super::synthetic::{Behaviour, behaviours, cell, closed, run};
use super::*;
use crate::figures::Shape;
use crate::run::{Cell, Run};
use crate::stats::{Knee, Outcome, Undecided, Verdict};

/// Few resamples: the tests are about what is made of the intervals.
fn summarise(runs: &[Run]) -> Summary {
    summarise_by(
        runs,
        &Judging {
            seed: runs[0].seed,
            resamples: 60,
            ..Judging::default()
        },
    )
}

fn found(summary: &Summary) -> Findings {
    Findings::of_round_trips(vec![summary.clone()])
}

fn table(summary: &Summary) -> String {
    super::table(&found(summary))
}

fn html(summary: &Summary) -> String {
    super::html(&found(summary))
}

fn csv(summary: &Summary) -> String {
    super::csv(&found(summary))
}

fn arm<'a>(summary: &'a Summary, name: &str) -> &'a ArmResult {
    let number = summary.arms.iter().position(|arm| arm.name == name).unwrap();
    summary.cells[0].arm(number).unwrap()
}

fn with(name: &'static str, change: impl Fn(&mut Behaviour)) -> Vec<Behaviour> {
    let mut behaviours = behaviours();
    change(behaviours.iter_mut().find(|behaviour| behaviour.name == name).unwrap());
    behaviours
}

#[test]
fn a_faster_arm_is_found_faster_by_its_true_ratio() {
    let summary = summarise(&[run(1, vec![cell()], &behaviours(), 6)]);
    let against = arm(&summary, "selvedge").against.unwrap();
    let ratio = against.p50.ratio.unwrap();
    assert_eq!(against.p50.verdict, Verdict::Faster);
    assert!((ratio.value - 80.0 / 95.0).abs() < 0.01, "{ratio:?}");
    assert!(
        arm(&summary, "mosquitto").against.is_none(),
        "the baseline is not compared with itself"
    );
}

#[test]
fn the_noise_of_the_machine_is_the_ratio_of_an_arm_to_itself() {
    let summary = summarise(&[run(1, vec![cell()], &behaviours(), 6)]);
    let noise = summary.cells[0].noise.unwrap();
    assert_eq!(summary.arms[noise.other].name, "mosquitto");
    assert_eq!(noise.p50.verdict, Verdict::Equivalent { within: 0.05 });
}

#[test]
fn four_blocks_give_a_range_and_no_verdict() {
    let summary = summarise(&[run(1, vec![cell()], &behaviours(), 4)]);
    assert_eq!(
        arm(&summary, "selvedge").against.unwrap().p50.verdict,
        Verdict::Undecided(Undecided::TooFewBlocks)
    );
}

#[test]
fn a_late_generator_makes_its_arm_invalid_and_its_comparisons_too() {
    let late = with("selvedge", |behaviour| behaviour.lag_us = 150.0);
    let summary = summarise(&[run(1, vec![cell()], &late, 6)]);
    let result = arm(&summary, "selvedge");
    assert!(!result.is_valid() && arm(&summary, "mosquitto").is_valid());
    assert_eq!(
        result.against.unwrap().p50.verdict,
        Verdict::Undecided(Undecided::Invalid)
    );
    let table = table(&summary).replace("\n   ", "");
    assert!(table.contains("INVALID selvedge"), "{table}");
    assert!(
        table.contains("Invalid: 1 of 4 results break “generator sends on time”, the first being selvedge"),
        "{table}"
    );
}

#[test]
fn a_lag_near_the_difference_leaves_it_undecided() {
    let late = with("selvedge", |behaviour| behaviour.lag_us = 20.0);
    let summary = summarise(&[run(1, vec![cell()], &late, 6)]);
    let result = arm(&summary, "selvedge");
    assert!(result.is_valid());
    assert_eq!(
        result.against.unwrap().p50.verdict,
        Verdict::Undecided(Undecided::SendLag)
    );
}

#[test]
fn losses_are_samples() {
    let lossy = with("selvedge", |behaviour| behaviour.lost = 0.03);
    let summary = summarise(&[run(1, vec![cell()], &lossy, 6)]);
    let result = arm(&summary, "selvedge");
    assert!(result.response.p99.unwrap().value.is_infinite());
    assert!(result.response.p50.unwrap().value.is_finite());
    assert_eq!(result.requirements[0].outcome, Outcome::Fail);
    assert_eq!(result.counts.lost, result.requirements[0].missed as u64);
    assert_eq!(result.determinism.outcome(), Outcome::Fail);
}

#[test]
fn littles_law_is_tested_in_a_closed_loop_and_holds() {
    let summary = summarise(&[run(1, vec![closed()], &behaviours(), 6)]);
    let law = arm(&summary, "selvedge")
        .laws
        .iter()
        .find(|law| law.law == "Little's law")
        .unwrap();
    assert_eq!((law.tested, law.broken), (6, 0), "{}", law.detail);
}

#[test]
fn the_generators_cpu_is_judged_over_all_blocks_and_not_by_one_that_the_machine_disturbed() {
    let busy = |blocks: std::ops::Range<usize>, share: f64| {
        let mut run = run(1, vec![closed()], &behaviours(), 6);
        let ours = run.blocks.iter_mut().filter(|block| block.arm == 2).collect::<Vec<_>>();
        for (number, block) in ours.into_iter().enumerate() {
            let share = if blocks.contains(&number) { share } else { 0.7 };
            block.usage.generator_spin_s = 0.1 * block.usage.wall_s;
            block.usage.generator_cpu_s = (share + 0.1) * block.usage.wall_s;
        }
        arm(&summarise(&[run]), "selvedge").is_valid()
    };
    assert!(busy(0..1, 0.95), "one block of six, the generator's spin apart");
    assert!(!busy(0..6, 0.85));
}

/// The load that the figures of the closed loop are promised for.
fn promised() -> Cell {
    Cell { qos: 0, ..closed() }
}

fn outcome(summary: &Summary, promise: &str) -> Option<Outcome> {
    let lines = found(summary).promises;
    let line = lines.iter().find(|line| line.promise == promise);
    line.unwrap_or_else(|| panic!("no {promise} among {lines:?}")).outcome
}

#[test]
fn a_promise_is_met_or_missed_by_the_interval_of_its_ratio() {
    let summary = |base_us: f64| {
        let ours = with("selvedge", |behaviour| behaviour.base_us = base_us);
        summarise(&[run(1, vec![promised()], &ours, 8)])
    };
    let p50 = "selvedge: p50 × mosquitto";
    assert_eq!(outcome(&summary(80.0), p50), Some(Outcome::Pass));
    assert_eq!(outcome(&summary(120.0), p50), Some(Outcome::Fail));
    assert_eq!(outcome(&summary(95.0), p50), Some(Outcome::Undecided));
    let cpu = "selvedge: server CPU × mosquitto";
    assert_eq!(
        outcome(&summary(80.0), cpu),
        Some(Outcome::Undecided),
        "all arms cost the same"
    );
}

#[test]
fn a_hub_by_an_edge_is_to_take_as_long_as_on_the_host() {
    let summary = |base_us: f64| {
        let systems = ["tcp-echo", "selvedge", "selvedge@oci", "selvedge-again"];
        let hubs = systems.map(|name| Behaviour::new(name, if name == "selvedge@oci" { base_us } else { 80.0 }));
        summarise(&[run(1, vec![promised()], &hubs, 8)])
    };
    let p50 = "selvedge@oci: p50 × selvedge";
    assert_eq!(outcome(&summary(80.4), p50), Some(Outcome::Pass));
    assert_eq!(outcome(&summary(100.0), p50), Some(Outcome::Fail));
    assert_eq!(outcome(&summary(80.4), "selvedge@oci: p99 × selvedge"), None);
}

#[test]
fn promises_are_judged_only_under_the_load_that_they_were_made_for() {
    let summary = summarise(&[run(1, vec![cell()], &behaviours(), 6)]);
    assert_eq!(found(&summary).promises, []);
    assert!(!html(&summary).contains("id=\"promises\""));
}

#[test]
fn what_a_crowd_loses_breaks_its_promise() {
    let crowd = Cell {
        interval_us: Some(1_000_000),
        devices: 10_000,
        duration_us: 20_000,
        ..cell()
    };
    let lossy = with("selvedge", |behaviour| behaviour.lost = 0.01);
    for (behaviours, expected) in [(behaviours(), Outcome::Pass), (lossy, Outcome::Fail)] {
        let summary = summarise(&[run(1, vec![crowd.clone()], &behaviours, 5)]);
        assert_eq!(outcome(&summary, "selvedge: messages lost"), Some(expected));
    }
}

#[test]
fn a_report_of_several_experiments_has_a_part_for_each_and_no_id_twice() {
    let experiment = |cell| summarise(&[run(1, vec![cell], &behaviours(), 5)]);
    let findings = Findings::of_round_trips(vec![experiment(promised()), experiment(cell())]);
    let page = super::html(&findings);
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "{ids:?}");
    assert!(ids.contains(&"part-2") && ids.contains(&"results-2") && ids.contains(&"promises"));
    let table = super::table(&findings);
    let widest = table.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 100, "{widest}");
}

#[test]
fn a_message_that_is_counted_nowhere_makes_the_result_invalid() {
    let mut lost_track = run(1, vec![cell()], &behaviours(), 6);
    lost_track.blocks[2].counters.sent += 1;
    assert!(!arm(&summarise(&[lost_track]), "selvedge").is_valid());
}

fn intervals() -> Vec<Cell> {
    let cell = |us: u64| Cell {
        interval_us: Some(us),
        devices: 1,
        duration_us: 200 * us,
        ..cell()
    };
    [1000, 5000, 50_000, 200_000, 1_000_000].map(cell).to_vec()
}

fn claim<'a>(summary: &'a Summary, id: &str, arm: &str) -> &'a crate::figures::Finding {
    let claim = summary.claims.iter().find(|claim| claim.id == id).unwrap();
    claim
        .findings
        .iter()
        .find(|finding| finding.arm.as_deref() == Some(arm))
        .unwrap()
}

#[test]
fn buffering_is_reported_as_a_slope_and_agrees_with_the_papers_claim() {
    let buffering = with("selvedge", |behaviour| behaviour.buffering_us = 2.0);
    let summary = summarise(&[run(1, intervals(), &buffering, 5)]);
    let result = arm(&summary, "selvedge");
    let slope = result.trend.unwrap().slope_per_message.value;
    assert!(
        (slope / 2.2 - 1.0).abs() < 0.1,
        "2 µs a message, 10 % more by the blocks' level: {slope}"
    );
    assert_eq!(result.determinism.no_buffering, Outcome::Fail);
    assert_eq!(claim(&summary, "c0.2", "selvedge").shape, Shape::Agrees);
    assert_eq!(claim(&summary, "c0.2", "mosquitto").shape, Shape::Differs);
    assert_eq!(claim(&summary, "c0.1", "selvedge").shape, Shape::Agrees);
}

#[test]
fn an_interval_sweep_is_a_sweep_of_load_with_its_knees() {
    let summary = summarise(&[run(1, intervals(), &behaviours(), 5)]);
    let sweep = &summary.sweeps[0];
    assert_eq!(
        (sweep.swept, sweep.cells.as_slice()),
        (Swept::Interval, [0, 1, 2, 3, 4].as_slice())
    );
    assert_eq!(sweep.knees.len(), 3, "every arm but the repeated one");
    assert_eq!(sweep.knees[0].bounded, Some(Knee::NotReached { highest_per_s: 1000.0 }));
}

#[test]
fn payload_and_qos_are_swept_apart() {
    let payloads = [64, 10_000, 250_000].map(|payload_bytes| Cell {
        payload_bytes,
        ..cell()
    });
    let qos = [0, 2].map(|qos| Cell { qos, ..cell() });
    let summary = summarise(&[run(1, payloads.into_iter().chain(qos).collect(), &behaviours(), 5)]);
    let sweeps: Vec<(Swept, Vec<usize>)> = summary.sweeps.iter().map(|s| (s.swept, s.cells.clone())).collect();
    assert_eq!(sweeps, [(Swept::Payload, vec![0, 1, 2]), (Swept::Qos, vec![3, 0, 4])]);
    assert_eq!(claim(&summary, "c0.6", "selvedge").shape, Shape::Agrees);
    assert_eq!(claim(&summary, "c0.9", "selvedge").shape, Shape::Agrees);
}

#[test]
fn what_needs_the_cloud_is_not_measured_in_this_run() {
    let summary = summarise(&[run(1, vec![cell()], &behaviours(), 5)]);
    for id in ["c0.3", "c0.4", "c0.7"] {
        let claim = summary.claims.iter().find(|claim| claim.id == id).unwrap();
        assert_eq!(claim.findings[0].shape, Shape::NotMeasured);
        assert!(claim.findings[0].words.starts_with("not measured in this run"));
    }
}

#[test]
fn a_figure_of_the_paper_stands_beside_the_same_load_of_ours() {
    let summary = summarise(&[run(1, intervals(), &behaviours(), 5)]);
    let ours = |id: &str| {
        summary
            .figures
            .iter()
            .find(|beside| beside.id == id)
            .unwrap()
            .ours
            .clone()
    };
    assert!(
        ours("s0.e1.interval.socket.mean_1ms")
            .unwrap()
            .ends_with("µs (tcp-echo)")
    );
    assert_eq!(ours("s0.e1.interval.deterministic_above").unwrap(), "1 ms (selvedge)");
    assert_eq!(ours("s0.e1.interval.dc.mean"), None);
}

#[test]
fn an_interval_with_too_few_messages_is_named_as_undecided_and_not_as_one_that_fails() {
    let [short, long] = [(1_000, 200), (200_000, 20)].map(|(us, messages)| Cell {
        interval_us: Some(us),
        devices: 1,
        duration_us: messages * us,
        ..cell()
    });
    let deterministic_above = |cells: Vec<Cell>| {
        let summary = summarise(&[run(1, cells, &behaviours(), 5)]);
        let mut figures = summary.figures.into_iter();
        figures
            .find(|figure| figure.id == "s0.e1.interval.deterministic_above")
            .unwrap()
            .ours
            .unwrap()
    };
    assert_eq!(
        deterministic_above(vec![short, long]),
        "1 ms, undecided at 200 ms (selvedge)"
    );
}

#[test]
fn the_terminal_table_fits_100_columns_and_names_every_arm() {
    let summary = summarise(&[
        run(1, intervals(), &behaviours(), 5),
        run(2, intervals(), &behaviours(), 5),
    ]);
    let table = table(&summary);
    let widest = table.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 100, "{widest}");
    for label in [
        "mosquitto 2.0.11, nothing",
        "selvedge 0.1.0, passwords",
        "noise of this machine",
    ] {
        assert!(table.contains(label), "{label} in\n{table}");
    }
}

#[test]
fn the_page_needs_nothing_else_and_closes_what_it_opens() {
    let page = html(&summarise(&[run(1, intervals(), &behaviours(), 5)]));
    for outside in ["http://", "https://", "<script", "src=", "@import", "NaN", "inf\""] {
        assert!(!page.contains(outside), "{outside}");
    }
    for element in ["svg", "table", "details", "figure", "tr", "td", "span", "li", "p", "h2"] {
        let opened = page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
}

#[test]
fn names_from_raw_files_cannot_become_markup() {
    let mut hostile = run(1, vec![cell()], &behaviours(), 5);
    hostile.arms[2].version = "<img src=x onerror=alert(1)>".into();
    hostile.arms[2].name = "\"><script>".into();
    let page = html(&summarise(&[hostile]));
    assert!(!page.contains("<img") && !page.contains("<script>"));
}

#[test]
fn the_report_is_a_pure_function_of_the_raw_files() {
    let runs = [run(1, vec![cell()], &behaviours(), 5)];
    let read: crate::run::Run = serde_json::from_str(&serde_json::to_string(&runs[0]).unwrap()).unwrap();
    let (first, second) = (summarise(&runs), summarise(&[read]));
    assert_eq!(html(&first), html(&second));
    assert_eq!(json(&found(&first)), json(&found(&second)));
}

#[test]
fn every_row_of_the_csv_has_every_column() {
    let lossy = with("selvedge", |behaviour| behaviour.lost = 0.6);
    let csv = csv(&summarise(&[run(1, vec![cell()], &lossy, 6)]));
    let mut rows = csv.split("\r\n").filter(|row| !row.is_empty());
    let columns = rows.next().unwrap().split(',').count();
    let widths: Vec<usize> = rows.map(|row| row.split(',').count()).collect();
    assert_eq!(widths, [columns; 4]);
    assert!(csv.contains(",inf,"), "a median among the losses");
}

#[test]
fn blocks_that_ended_early_or_were_not_warm_are_said() {
    let mut disturbed = run(1, vec![cell()], &behaviours(), 5);
    disturbed.blocks[1].failure = Some("the connection was reset".into());
    disturbed.blocks[2].warm_up.settled = false;
    let table = table(&summarise(&[disturbed])).replace("\n   ", "");
    assert!(
        table.contains("1 of 5 blocks, the first because the connection was reset"),
        "{table}"
    );
    assert!(table.contains("in 1 of 5 blocks the warm-up did not settle"), "{table}");
}

/// A run whose round `late` was measured again: its blocks come twice.
fn repeated(late: u32) -> crate::run::Run {
    let mut run = run(1, vec![cell()], &behaviours(), 6);
    for mut block in run.blocks.clone().into_iter().filter(|block| block.index == late) {
        block.samples.received_ns.fill(None);
        block.set_aside = Some("the generator was late".into());
        run.blocks.insert(0, block);
    }
    run
}

#[test]
fn a_round_that_was_set_aside_counts_nowhere_and_is_said() {
    let summary = summarise(&[repeated(3)]);
    let whole = summarise(&[run(1, vec![cell()], &behaviours(), 6)]);
    let (ours, same) = (arm(&summary, "selvedge"), arm(&whole, "selvedge"));
    assert_eq!((ours.blocks, ours.set_aside, &ours.response), (6, 1, &same.response));
    let table = table(&summary).replace("\n   ", "");
    assert!(
        table.contains("1 rounds in which the generator was late") && table.contains("6 count"),
        "{table}"
    );
}

#[test]
fn where_every_round_was_set_aside_the_generator_is_shown_to_be_the_limit() {
    let mut late = run(
        1,
        vec![cell()],
        &with("selvedge", |behaviour| behaviour.lag_us = 5_000.0),
        6,
    );
    for block in &mut late.blocks {
        block.set_aside = Some("the generator was late".into());
    }
    let summary = summarise(&[late]);
    assert_eq!(arm(&summary, "selvedge").blocks, 6);
    assert!(!arm(&summary, "selvedge").is_valid());
}

#[test]
fn a_block_without_a_sample_breaks_nothing() {
    let mut empty = run(1, vec![cell()], &behaviours(), 5);
    for block in &mut empty.blocks {
        if block.arm == 2 {
            block.samples = crate::run::Samples::default();
            block.counters = crate::run::Counters::default();
        }
    }
    let summary = summarise(&[empty]);
    assert_eq!(arm(&summary, "selvedge").response.p50, None);
    assert!(table(&summary).contains("too few") && html(&summary).contains("too few"));
}
