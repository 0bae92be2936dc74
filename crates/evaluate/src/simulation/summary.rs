//! Which policy wins where, and what `local-first` costs beside the best of the others.

use balance::Policy;
use serde::Serialize;

use super::record::{Cell, Figures, SimulationRun, by_name};
use crate::stats::{Bootstrap, Estimate, median, ratio_of_costs};

/// Who is so near to the best has won too.
pub(super) const WINS: f64 = 0.03;
/// Who leaves no more than this share of requests for later keeps up.
pub(super) const LATE: f64 = 0.03;

/// A cell with all its policies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// Which.
    pub cell: Cell,
    /// Requests a second of a site.
    pub asked_per_s: f64,
    /// Each policy.
    pub rows: Vec<Row>,
    /// By the mean of what answers took.
    pub by_mean: Winners,
    /// By the 99th percentile.
    pub by_p99: Winners,
}

/// A policy in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    #[serde(serialize_with = "by_name::serialize")]
    pub policy: Policy,
    /// Answers a second.
    pub per_s: Estimate,
    /// How long they took on average, in microseconds.
    pub mean_us: Option<Estimate>,
    /// The 99th percentile; none: too few, or lost.
    pub p99_us: Option<Estimate>,
    /// Of the answers, those by the node that was asked.
    pub here_share: f64,
    /// Requests without an answer, of all units.
    pub lost: u64,
    /// Whether few of the requests are left when the time is over.
    pub keeps_up: bool,
}

/// Those that are best, of all that keep up; the best one first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Winners(pub Vec<Winner>);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Winner {
    /// Which.
    #[serde(serialize_with = "by_name::serialize")]
    pub policy: Policy,
    /// Whether all of the interval is as near to the best as it takes; else it may be.
    pub is_sure: bool,
}

/// What `local-first` costs in the worst of all cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What of it.
    pub what: &'static str,
    /// How many times worse it is.
    pub ratio: Estimate,
    /// Than which policy.
    #[serde(serialize_with = "by_name::serialize")]
    pub than: Policy,
    /// Where.
    pub cell: Cell,
}

/// What is compared: less is better; none: there is none, or it is lost.
type Cost = fn(&Figures) -> Option<f64>;

const MEAN: Cost = |figures| figures.mean_us;
const P99: Cost = |figures| figures.p99_us;
const THROUGHPUT: Cost = |figures| (figures.per_s > 0.0).then(|| 1.0 / figures.per_s);

impl Winners {
    /// Whether a policy is one, for sure.
    pub(crate) fn has(&self, policy: Policy) -> bool {
        self.0.iter().any(|winner| winner.policy == policy && winner.is_sure)
    }
}

/// Every cell.
pub fn summarise(run: &SimulationRun) -> Vec<CellSummary> {
    let mut all: Vec<CellSummary> = Vec::new();
    for done in &run.done {
        if all.last().is_none_or(|last| last.cell != done.cell) {
            all.push(summary(run, done.cell));
        }
    }
    all
}

fn of(run: &SimulationRun, cell: Cell, policy: Policy) -> impl Iterator<Item = &Figures> {
    let done = run
        .done
        .iter()
        .filter(move |done| done.cell == cell && done.policy == policy);
    done.map(|done| &done.figures)
}

fn summary(run: &SimulationRun, cell: Cell) -> CellSummary {
    let asked: Vec<f64> = of(run, cell, Policy::LocalFirst)
        .map(|figures| figures.asked_per_s)
        .collect();
    let rows = Policy::ALL.map(|policy| row(run, cell, policy)).to_vec();
    CellSummary {
        cell,
        asked_per_s: median(&asked).unwrap_or_default(),
        by_mean: winners(run, cell, &rows, MEAN),
        by_p99: winners(run, cell, &rows, P99),
        rows,
    }
}

fn row(run: &SimulationRun, cell: Cell, policy: Policy) -> Row {
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let mut middle = |of_one: Cost| Estimate::median_of(&all(run, cell, policy, of_one)?, bootstrap);
    let late = all(run, cell, policy, |figures| Some(figures.late_share));
    let here = all(run, cell, policy, |figures| Some(figures.here_share));
    let of_units = |values: Option<Vec<f64>>| values.as_deref().and_then(median).unwrap_or_default();
    Row {
        policy,
        per_s: middle(|figures| Some(figures.per_s)).unwrap_or_else(|| Estimate::exact(0.0)),
        mean_us: middle(MEAN),
        p99_us: middle(P99),
        here_share: of_units(here),
        lost: of(run, cell, policy).map(|figures| figures.lost).sum(),
        keeps_up: of_units(late) <= LATE,
    }
}

/// Of all units; none: one has none.
fn all(run: &SimulationRun, cell: Cell, policy: Policy, of_one: Cost) -> Option<Vec<f64>> {
    of(run, cell, policy).map(of_one).collect()
}

fn winners(run: &SimulationRun, cell: Cell, rows: &[Row], cost: Cost) -> Winners {
    let able = rows.iter().filter(|row| row.keeps_up);
    let middle = |row: &Row| Some((row.policy, median(&all(run, cell, row.policy, cost)?)?));
    let mut able: Vec<(Policy, f64)> = able.filter_map(middle).collect();
    able.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let Some((best, _)) = able.first().copied() else {
        return Winners::default();
    };
    let winner = |(policy, _): (Policy, f64)| {
        if policy == best {
            return Some(Winner { policy, is_sure: true });
        }
        let ratio = ratio(run, cell, (policy, best), cost)?;
        (ratio.interval.low <= 1.0 + WINS).then_some(Winner {
            policy,
            is_sure: ratio.interval.high <= 1.0 + WINS,
        })
    };
    Winners(able.into_iter().filter_map(winner).collect())
}

/// Throughput beside all others; mean and p99 beside those that keep up where it does. The worst of each.
pub fn worst(run: &SimulationRun, cells: &[CellSummary]) -> Vec<Finding> {
    let measures = [("throughput", THROUGHPUT), ("mean", MEAN), ("p99", P99)];
    let finding = |(what, cost): (&'static str, Cost)| {
        let beside = |summary: &CellSummary| {
            let keeps_up = |policy: Policy| summary.rows.iter().any(|row| row.policy == policy && row.keeps_up);
            let compared = |other: &Policy| {
                let both = keeps_up(*other) && keeps_up(Policy::LocalFirst);
                *other != Policy::LocalFirst && (what == "throughput" || both)
            };
            let finding = |than: Policy| {
                Some(Finding {
                    what,
                    ratio: ratio(run, summary.cell, (Policy::LocalFirst, than), cost)?,
                    than,
                    cell: summary.cell,
                })
            };
            let others = Policy::ALL.into_iter().filter(compared);
            others.filter_map(finding).collect::<Vec<_>>()
        };
        let all = cells.iter().flat_map(beside);
        all.max_by(|one, other| one.ratio.value.total_cmp(&other.ratio.value))
    };
    measures.into_iter().filter_map(finding).collect()
}

/// How many times the cost of the other one has, over units, of which each was asked the same of both.
fn ratio(run: &SimulationRun, cell: Cell, (one, other): (Policy, Policy), cost: Cost) -> Option<Estimate> {
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let costs = all(run, cell, one, cost)?.into_iter().zip(all(run, cell, other, cost)?);
    ratio_of_costs(&[costs.collect()], bootstrap).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment;
    use crate::gateway::DayTraffic;
    use crate::simulation::record::{Done, FORMAT, Law};
    use crate::simulation::{EXPERIMENT, Options};

    const CELL: Cell = Cell::Map {
        law: Law::Constant,
        neighbours_percent: 0,
        round_trip_ms: 15,
        load_percent: 60,
    };

    /// Of each policy the mean, or p99, of each unit in microseconds, and what it leaves for later.
    fn run(policies: &[(Policy, [f64; 5], f64)]) -> SimulationRun {
        let done = |(policy, each_us, late_share): &(Policy, [f64; 5], f64)| {
            let of_unit = |(unit, us): (u32, f64)| Done {
                cell: CELL,
                policy: *policy,
                unit,
                figures: Figures {
                    asked_per_s: 100.0,
                    per_s: 100.0 * (1.0 - late_share),
                    late_share: *late_share,
                    lost: 0,
                    mean_us: Some(us),
                    p99_us: Some(us),
                    here_share: 1.0,
                },
            };
            (0..).zip(*each_us).map(of_unit).collect::<Vec<_>>()
        };
        SimulationRun {
            format: FORMAT,
            experiment: EXPERIMENT.to_owned(),
            options: Options::default(),
            seed: 7,
            day: DayTraffic {
                source: String::new(),
                sha256: String::new(),
                date: None,
                requests: Vec::new(),
            },
            done: policies.iter().flat_map(done).collect(),
            environment: environment::program(),
        }
    }

    #[test]
    fn who_is_near_the_best_has_won_who_may_be_is_open_and_who_does_not_keep_up_has_not() {
        let run = run(&[
            (Policy::Local, [1.0; 5], 0.2),
            (Policy::LocalFirst, [100.0, 110.0, 120.0, 130.0, 140.0], 0.0),
            (Policy::LeastRequest, [102.0, 112.2, 122.4, 132.6, 142.8], 0.0),
            (Policy::RoundRobin, [99.0, 121.0, 121.0, 160.0, 139.0], 0.0),
            (Policy::Random, [110.0, 121.0, 132.0, 143.0, 154.0], 0.0),
        ]);
        let found = &summarise(&run)[0];
        let winners: Vec<(Policy, bool)> = found
            .by_mean
            .0
            .iter()
            .map(|winner| (winner.policy, winner.is_sure))
            .collect();
        let wanted = [
            (Policy::LocalFirst, true),
            (Policy::RoundRobin, false),
            (Policy::LeastRequest, true),
        ];
        assert_eq!(winners.len(), wanted.len());
        assert!(wanted.iter().all(|winner| winners.contains(winner)), "{winners:?}");
        assert!(found.by_mean.has(Policy::LeastRequest) && !found.by_mean.has(Policy::RoundRobin));
    }

    #[test]
    fn the_worst_of_local_first_is_beside_who_keeps_up_and_throughput_beside_all() {
        let run = run(&[
            (Policy::Local, [10.0; 5], 0.2),
            (Policy::LocalFirst, [150.0; 5], 0.0),
            (Policy::LeastRequest, [100.0; 5], 0.0),
        ]);
        let cells = summarise(&run);
        let of = |what| {
            let all = worst(&run, &cells);
            all.into_iter().find(|finding| finding.what == what).unwrap()
        };
        assert_eq!((of("mean").than, of("mean").ratio.value), (Policy::LeastRequest, 1.5));
        assert_eq!(
            (of("p99").than, of("throughput").ratio.value),
            (Policy::LeastRequest, 1.0)
        );
    }

    #[test]
    fn what_is_lost_is_no_figure() {
        let mut run = run(&[(Policy::LocalFirst, [150.0; 5], 0.0)]);
        run.done[2].figures.p99_us = None;
        let found = &summarise(&run)[0];
        let row = found.rows.iter().find(|row| row.policy == Policy::LocalFirst).unwrap();
        assert!(row.p99_us.is_none() && row.mean_us.is_some());
        assert!(found.by_p99.0.is_empty());
    }
}
