//! What clients saw, by cell and arm, and whether `local-first` is as good as the best of the others (decision 49).

use serde::Serialize;

use super::NODES;
use super::cells::measured;
use super::options::Part;
use super::paper::paper;
use super::prediction::{Prediction, predict};
use super::record::{Arm, BalancingRun, Cell, Done, Job, Load};
use crate::capacity::{Promise, outcome};
use crate::stats::{
    Bootstrap, Check, Conditions, Estimate, LittlesLaw, Outcome, Pool, Undecided, Units, keeps, littles_law, median,
    ratio, ratio_of_costs,
};

/// How much worse than the best of the others `local-first` may be.
const MARGIN: f64 = 0.03;
/// Of an open loop, p99 may be so many service times beside the way.
const OVERLOAD_SERVICES: u32 = 3;

/// A cell with all that was measured of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// Which.
    pub cell: Cell,
    /// Each arm.
    pub rows: Vec<Row>,
    /// What is aimed at, each with what is nearest to missing it.
    pub judged: Vec<Judged>,
}

/// An arm of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub arm: Arm,
    /// Answers a second, of all nodes.
    pub per_s: Estimate,
    /// How long they took on average, in microseconds; none: there were none.
    pub mean_us: Option<Estimate>,
    /// The middle one.
    pub p50_us: Option<Estimate>,
    /// The 99th percentile; none: too few.
    pub p99_us: Option<Estimate>,
    /// How long they took on average of those who asked each node, in microseconds; none: nobody was answered there.
    pub by_node_us: [Option<Estimate>; NODES],
    /// Of the answers, those by the node that was asked.
    pub here_share: f64,
    /// Requests without an answer.
    pub lost: u64,
    /// Processor time of who led it, of each answer, in microseconds; none where that was not looked at.
    pub cpu_us: Option<Estimate>,
    /// Of a closed loop: the block that is furthest from Little's law.
    pub law: Option<Check>,
    /// By service time and delay alone.
    pub predicted: Option<Prediction>,
    /// The paper's answers a second.
    pub paper_per_s: Option<f64>,
    /// Its average response time, in milliseconds.
    pub paper_mean_ms: Option<f64>,
}

/// What `local-first` is held against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// What of it.
    pub what: &'static str,
    /// The other policy; none: a bound.
    pub against: Option<&'static str>,
    /// How many times worse than that it is; of a bound, the figure in microseconds, or what was lost.
    pub figure: Option<Estimate>,
    /// What it may be.
    pub most: f64,
    /// Whether it keeps to it.
    pub outcome: Outcome,
    /// Why that is undecided.
    pub why: Option<Undecided>,
}

/// What a block of a job comes to.
struct Block {
    number: u32,
    per_s: f64,
    mean_us: Option<f64>,
    cpu_us: Option<f64>,
    /// Lost ones infinite.
    answers_us: Vec<f64>,
}

/// Every cell that was measured.
pub fn summarise(run: &BalancingRun) -> Vec<CellSummary> {
    let mut all: Vec<CellSummary> = Vec::new();
    for job in measured(run) {
        let row = row(run, &job);
        match all.iter_mut().find(|summary| summary.cell == job.cell) {
            Some(summary) => summary.rows.push(row),
            None => all.push(CellSummary {
                cell: job.cell,
                rows: vec![row],
                judged: Vec::new(),
            }),
        }
    }
    for summary in &mut all {
        summary.judged = judge(run, summary);
    }
    all
}

fn done_of<'a>(run: &'a BalancingRun, job: &'a Job) -> impl Iterator<Item = &'a Done> {
    run.done.iter().filter(move |done| done.job == *job)
}

fn blocks(run: &BalancingRun, job: &Job) -> Vec<Block> {
    done_of(run, job).map(block).collect()
}

fn block(done: &Done) -> Block {
    let of_all = || done.seen.iter().flat_map(|seen| &seen.answers_us);
    let answers_us: Vec<f64> = of_all().map(|us| us.map_or(f64::INFINITY, f64::from)).collect();
    let wall_s = done.seen.iter().map(|seen| seen.wall_s).fold(0.0, f64::max);
    let answered = done.seen.iter().map(|seen| seen.answered).sum::<u64>() as f64;
    let cpu_s = done.seen.iter().find_map(|seen| seen.cpu_s);
    Block {
        number: done.block,
        per_s: answered / wall_s,
        cpu_us: cpu_s.map(|cpu_s| cpu_s * 1e6 / answered),
        mean_us: mean(answers_us.iter().copied().filter(|us| us.is_finite())),
        answers_us,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn row(run: &BalancingRun, job: &Job) -> Row {
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let blocks = blocks(run, job);
    let answers: Vec<&[f64]> = blocks.iter().map(|block| block.answers_us.as_slice()).collect();
    let pool = Pool::new(&Units::new(&[answers]));
    let per_s: Vec<f64> = blocks.iter().map(|block| block.per_s).collect();
    let means: Vec<f64> = blocks.iter().filter_map(|block| block.mean_us).collect();
    let cpu_us: Vec<f64> = blocks.iter().filter_map(|block| block.cpu_us).collect();
    let all = || blocks.iter().flat_map(|block| &block.answers_us);
    let lost = all().filter(|us| us.is_infinite()).count() as u64;
    let answered = all().count() as u64 - lost;
    let here: u64 = done_of(run, job)
        .flat_map(|done| &done.seen)
        .map(|seen| seen.here)
        .sum();
    let beside = paper(&job.cell, job.arm);
    let by_node_us = std::array::from_fn(|node| {
        let of_node = |done: &Done| mean(done.seen[node].answers_us.iter().flatten().copied().map(f64::from));
        Estimate::median_of(&done_of(run, job).filter_map(of_node).collect::<Vec<_>>(), bootstrap)
    });
    Row {
        arm: job.arm,
        per_s: Estimate::median_of(&per_s, bootstrap).unwrap_or_else(|| Estimate::exact(0.0)),
        mean_us: Estimate::median_of(&means, bootstrap),
        p50_us: pool.quantile(0.5, bootstrap),
        p99_us: pool.quantile(0.99, bootstrap),
        by_node_us,
        here_share: here as f64 / answered.max(1) as f64,
        lost,
        cpu_us: Estimate::median_of(&cpu_us, bootstrap),
        law: law(run, job),
        predicted: predict(job, &run.options),
        paper_per_s: beside.map(|paper| paper.per_s),
        paper_mean_ms: beside.and_then(|paper| paper.mean_ms),
    }
}

/// The first block that breaks it, else the last.
fn law(run: &BalancingRun, job: &Job) -> Option<Check> {
    let concurrency = f64::from(job.cell.clients()?.iter().sum::<u32>());
    let checks = done_of(run, job).filter_map(|done| {
        let seen = block(done);
        Some(littles_law(&LittlesLaw {
            concurrency,
            answered: done.seen.iter().map(|seen| seen.answered).sum(),
            wall_s: done.seen.iter().map(|seen| seen.wall_s).fold(0.0, f64::max),
            mean_response_s: seen.mean_us? / 1e6,
            think_s: 0.0,
        }))
    });
    let mut all: Vec<Check> = checks.collect();
    let broken = all.iter().position(|check| !check.holds);
    let place = broken.or(all.len().checked_sub(1))?;
    Some(all.swap_remove(place))
}

fn judge(run: &BalancingRun, summary: &CellSummary) -> Vec<Judged> {
    match summary.cell.load {
        Load::Closed(_) if summary.cell.part == Part::Proxy => beside_nginx(run, summary),
        // Elsewhere there is no choice, or nothing is promised.
        Load::Closed(_) if !matches!(summary.cell.part, Part::Delay | Part::Policies) => Vec::new(),
        Load::Closed(_) => beside_others(run, summary),
        Load::Open(_) => overload(run, summary),
    }
}

/// Nothing is lost, and where nothing happens p99 is within its bound.
fn overload(run: &BalancingRun, summary: &CellSummary) -> Vec<Judged> {
    let Some(row) = summary.rows.iter().find(|row| row.arm == Arm::LocalFirst) else {
        return Vec::new();
    };
    let way_us = f64::from(summary.cell.round_trip_ms) * 1e3;
    let most_us = f64::from(OVERLOAD_SERVICES * run.options.service_ms) * 1e3 + way_us;
    let lost = Estimate::exact(row.lost as f64);
    let bound = |what, figure: Option<Estimate>, most, outcome| Judged {
        what,
        against: None,
        figure,
        most,
        outcome,
        why: None,
    };
    let nothing_lost = bound("lost", Some(lost), 0.0, Outcome::of(Some(row.lost == 0)));
    if summary.cell.event.is_some() {
        return vec![nothing_lost];
    }
    vec![
        nothing_lost,
        bound(
            "p99",
            row.p99_us,
            most_us,
            outcome(Promise::AtMost(most_us), row.p99_us.as_ref()),
        ),
    ]
}

/// Throughput and mean beside every other policy, p99 beside those that answer as many within the margin; of each the
/// policy that is best.
fn beside_others(run: &BalancingRun, summary: &CellSummary) -> Vec<Judged> {
    let of = |arm| blocks_of(run, summary, arm);
    let (ours, again) = (of(Arm::LocalFirst), of(Arm::LocalFirstAgain));
    let others = [Arm::RoundRobin, Arm::Random, Arm::Local, Arm::LeastRequest].map(|arm| (arm, of(arm)));
    let per_s = |blocks: &[Block]| median(&blocks.iter().map(|block| block.per_s).collect::<Vec<_>>());
    let answers_as_many = |blocks: &[Block]| per_s(blocks) >= per_s(&ours).map(|ours| ours * (1.0 - MARGIN));
    let judged = WORSE.iter().filter_map(|(what, worse)| {
        let compared = others.iter().filter(|(_, other)| !other.is_empty());
        let compared = compared.filter(|(_, other)| *what != "p99" || answers_as_many(other));
        let ratios = compared.map(|(arm, other)| (*arm, ratio_of(worse, &ours, other, run.seed)));
        let noise = ratio_of(worse, &again, &ours, run.seed).ok();
        let (arm, ratio) = ratios.max_by(|(_, one), (_, other)| size(one).total_cmp(&size(other)))?;
        Some(verdict(what, arm, ratio, noise, 1.0 + MARGIN))
    });
    judged.collect()
}

/// What the door of a node takes for a request: one at a time no more than nginx, and of many no fewer a second, nor more
/// processor time of each.
fn beside_nginx(run: &BalancingRun, summary: &CellSummary) -> Vec<Judged> {
    let of = |arm| blocks_of(run, summary, arm);
    let (ours, again, nginx) = (of(Arm::LocalFirst), of(Arm::LocalFirstAgain), of(Arm::NginxRoundRobin));
    if nginx.is_empty() {
        return Vec::new();
    }
    let is_one_at_a_time = summary.cell.clients() == Some([1, 0, 0]);
    let aims: [(&str, &Worse); 2] = match is_one_at_a_time {
        true => [("p50", &WORSE_P50), ("p99", &WORSE[2].1)],
        false => [("throughput", &WORSE[0].1), ("processor time", &WORSE_CPU)],
    };
    let judged = aims.map(|(what, worse)| {
        let noise = ratio_of(worse, &again, &ours, run.seed).ok();
        let ratio = ratio_of(worse, &ours, &nginx, run.seed);
        verdict(what, Arm::NginxRoundRobin, ratio, noise, 1.0)
    });
    judged.into()
}

fn blocks_of(run: &BalancingRun, summary: &CellSummary, arm: Arm) -> Vec<Block> {
    let cell = summary.cell;
    blocks(run, &Job { cell, arm })
}

/// How many times worse one is than another within blocks.
type Worse = fn(&[(&Block, &Block)], &mut Bootstrap) -> Result<Estimate, Undecided>;

const WORSE: [(&str, Worse); 3] = [
    ("throughput", |pairs, bootstrap| {
        let costs = pairs.iter().map(|(ours, other)| (other.per_s, ours.per_s)).collect();
        ratio_of_costs(&[costs], bootstrap)
    }),
    ("mean", |pairs, bootstrap| {
        let mean = |block: &Block| block.mean_us.unwrap_or(f64::INFINITY);
        let costs = pairs.iter().map(|(ours, other)| (mean(ours), mean(other))).collect();
        ratio_of_costs(&[costs], bootstrap)
    }),
    ("p99", |pairs, bootstrap| worse_quantile(pairs, 0.99, bootstrap)),
];

/// Where nobody waits for anybody.
const WORSE_P50: Worse = |pairs, bootstrap| worse_quantile(pairs, 0.5, bootstrap);
const WORSE_CPU: Worse = |pairs, bootstrap| {
    let cost = |block: &Block| block.cpu_us.unwrap_or(f64::INFINITY);
    let costs = pairs.iter().map(|(ours, other)| (cost(ours), cost(other))).collect();
    ratio_of_costs(&[costs], bootstrap)
};

fn worse_quantile(pairs: &[(&Block, &Block)], quantile: f64, bootstrap: &mut Bootstrap) -> Result<Estimate, Undecided> {
    let pairs = pairs.iter();
    let answers = pairs.map(|(ours, other)| (ours.answers_us.as_slice(), other.answers_us.as_slice()));
    ratio(&[answers.collect()], quantile, bootstrap)
}

fn ratio_of(worse: &Worse, ours: &[Block], others: &[Block], seed: u64) -> Result<Estimate, Undecided> {
    let bootstrap = &mut Bootstrap::new(seed, 0, Bootstrap::RESAMPLES);
    let of_block = |block: &Block| others.iter().find(|other| other.number == block.number);
    let pairs: Vec<(&Block, &Block)> = (ours.iter())
        .filter_map(|block| Some((block, of_block(block)?)))
        .collect();
    worse(&pairs, bootstrap)
}

/// What cannot be compared comes last.
fn size(ratio: &Result<Estimate, Undecided>) -> f64 {
    ratio.as_ref().map_or(f64::NEG_INFINITY, |ratio| ratio.value)
}

fn verdict(
    what: &'static str,
    arm: Arm,
    ratio: Result<Estimate, Undecided>,
    noise: Option<Estimate>,
    most: f64,
) -> Judged {
    let conditions = Conditions {
        noise,
        ..Conditions::default()
    };
    let kept = ratio.and_then(|ratio| keeps(&ratio, most, (ratio.value, 1.0), &conditions));
    Judged {
        what,
        against: Some(arm.name()),
        figure: ratio.ok(),
        most,
        outcome: Outcome::of(kept.ok()),
        why: kept.err(),
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
pub(super) mod tests;
