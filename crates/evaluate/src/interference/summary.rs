//! What the turns say: each figure with its interval, how many times slower than in case 1 within blocks, and which pairs
//! may share a board.

use serde::Serialize;

use super::board::Profile;
use super::cells::jobs;
use super::record::{Case, Figure, Group, InterferenceRun, Job, Kind, RoundTrips, Seen};
use crate::gateway::Runtime;
use crate::stats::{
    Bootstrap, Comparison, Conditions, Estimate, Pool, Undecided, Units, compare, keeps, ratio, ratio_of_costs,
};

/// A ratio this near to 1 counts as no difference.
const MARGIN: f64 = 0.05;
/// Services go together where each loses no more than this share of what it does in case 1.
pub(crate) const LOSS_MOST: f64 = 0.10;

/// What a run says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Figures of services.
    pub rows: Vec<Row>,
    /// Round trips of the hub.
    pub hub: Vec<HubRow>,
    /// Which pairs may share a board.
    pub sharing: Vec<Sharing>,
    /// Services in one container beside the same in containers of their own (case 2 beside case 3).
    pub one_container: Vec<Beside>,
    /// Containers of their own with limits beside one container (case 4 beside case 2).
    pub limits: Vec<Beside>,
}

/// A figure of a service in a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which job.
    pub job: Job,
    /// Whose figure.
    pub kind: Kind,
    /// Which.
    pub figure: Figure,
    /// The median of blocks, each by what its turns did in all their time; none: no turn could be timed.
    pub value: Option<Estimate>,
    /// Turns that it is made of.
    pub turns: usize,
    /// How many times slower than in case 1; of case 1 itself none.
    pub slower: Option<Comparison>,
}

/// The hub beside a service, or beside nobody.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HubRow {
    /// Which job.
    pub job: Job,
    /// Messages.
    pub messages: usize,
    /// Without an answer.
    pub lost: usize,
    /// Response time, in microseconds.
    pub p50_us: Option<Estimate>,
    /// The same.
    pub p99_us: Option<Estimate>,
    /// p99 as a multiple of that beside nobody.
    pub slower: Option<Comparison>,
    /// The worst block's send lag at the 99th percentile, in microseconds.
    pub send_lag_p99_us: Option<f64>,
}

/// What follows for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// They go together as they are.
    Together,
    /// They go together with limits, and not without.
    WithLimits,
    /// They do not, with limits either.
    Apart,
}

/// Whether a pair may share a board.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sharing {
    /// On which.
    pub profile: Profile,
    /// By which runtime.
    pub runtime: Runtime,
    /// Which pair.
    pub group: Group,
    /// By the medians.
    pub advice: Advice,
    /// Whether the intervals say so, too.
    pub is_sure: bool,
    /// Who loses most without limits: whose figure, and how many times slower it is.
    pub unlimited: Option<(Kind, Figure, Estimate)>,
    /// And with limits.
    pub limited: Option<(Kind, Figure, Estimate)>,
}

/// A figure of one case beside the same of another, within blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// The job of the first.
    pub job: Job,
    /// Whose figure.
    pub kind: Kind,
    /// Which.
    pub figure: Figure,
    /// How many times slower the first is.
    pub slower: Comparison,
}

/// Of a run.
pub fn summarise(run: &InterferenceRun) -> Summary {
    let measured: Vec<Job> = jobs(&run.options)
        .into_iter()
        .filter(|job| run.seen(*job).next().is_some())
        .collect();
    let of_services = measured.iter().filter(|job| !job.group.has_hub());
    let rows: Vec<Row> = of_services.flat_map(|job| rows(run, *job)).collect();
    let of_hub = measured.iter().filter(|job| job.group.has_hub());
    let beside = |case, other| {
        let jobs = measured.iter().filter(|job| job.case == case && !job.group.has_hub());
        jobs.flat_map(|job| besides(run, *job, other)).collect()
    };
    Summary {
        sharing: sharing(&rows),
        hub: of_hub.map(|job| hub_row(run, *job)).collect(),
        one_container: beside(Case::OneContainer, Case::Unlimited),
        limits: beside(Case::Limited, Case::OneContainer),
        rows,
    }
}

/// What a figure was, block by block.
type Blocks = Vec<(u32, f64)>;

/// Of all services of a kind in a job: what their turns did in all their time.
fn blocks(run: &InterferenceRun, job: Job, kind: Kind, figure: Figure) -> Blocks {
    let Some(place) = kind.figures().iter().position(|other| *other == figure) else {
        return Vec::new();
    };
    let of_block = |(block, seen): (u32, &Seen)| {
        let kinds = job.group.kinds();
        let services = kinds.iter().zip(&seen.services).filter(|(other, _)| **other == kind);
        let values: Vec<f64> = services
            .flat_map(|(_, turns)| turns.iter().filter_map(|turn| *turn.values.get(place)?))
            .collect();
        // Turns are of the same work: their rates' harmonic mean is all of it in all the time.
        let time: f64 = values.iter().map(|rate| rate.recip()).sum();
        (!values.is_empty()).then(|| (block, values.len() as f64 / time))
    };
    run.seen(job).filter_map(of_block).collect()
}

fn turns(run: &InterferenceRun, job: Job, kind: Kind) -> usize {
    let kinds = job.group.kinds();
    let of_kind = |seen: &Seen| {
        let services = kinds.iter().zip(&seen.services);
        services
            .filter(|(other, _)| **other == kind)
            .map(|(_, turns)| turns.len())
            .sum::<usize>()
    };
    run.seen(job).map(|(_, seen)| of_kind(seen)).sum()
}

fn kinds(group: Group) -> Vec<Kind> {
    let mut kinds = group.kinds();
    kinds.dedup();
    kinds
}

fn rows(run: &InterferenceRun, job: Job) -> Vec<Row> {
    let of_kind = |kind: Kind| {
        let row = move |figure: &Figure| {
            let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
            let ours = blocks(run, job, kind, *figure);
            let values: Vec<f64> = ours.iter().map(|(_, value)| *value).collect();
            Row {
                job,
                kind,
                figure: *figure,
                value: Estimate::median_of(&values, bootstrap),
                turns: turns(run, job, kind),
                slower: (job.case != Case::Alone).then(|| {
                    let alone = blocks(run, alone(job, kind, Case::Alone), kind, *figure);
                    slower(run, &ours, &alone, noise(run, job, kind, *figure))
                }),
            }
        };
        kind.figures().iter().map(row).collect::<Vec<_>>()
    };
    kinds(job.group).into_iter().flat_map(of_kind).collect()
}

/// The same service by itself, on the same board and in the same runtime.
fn alone(job: Job, kind: Kind, case: Case) -> Job {
    Job {
        case,
        group: Group::One(kind),
        ..job
    }
}

/// How far a service by itself is from itself.
fn noise(run: &InterferenceRun, job: Job, kind: Kind, figure: Figure) -> Option<Estimate> {
    let of = |case| blocks(run, alone(job, kind, case), kind, figure);
    times(run, &of(Case::AloneAgain), &of(Case::Alone)).ok()
}

/// The ratio of rates within blocks, as a cost: the second rate by the first.
fn times(run: &InterferenceRun, ours: &Blocks, theirs: &Blocks) -> Result<Estimate, Undecided> {
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let of_block = |block: u32| theirs.iter().find(|(other, _)| *other == block).map(|(_, rate)| *rate);
    let pairs = ours.iter().filter_map(|(block, rate)| Some((of_block(*block)?, *rate)));
    ratio_of_costs(&[pairs.collect()], bootstrap)
}

fn slower(run: &InterferenceRun, ours: &Blocks, theirs: &Blocks, noise: Option<Estimate>) -> Comparison {
    let conditions = Conditions {
        margin: MARGIN,
        noise,
        ..Conditions::default()
    };
    compare(times(run, ours, theirs), (1.0, 1.0), &conditions)
}

fn besides(run: &InterferenceRun, job: Job, other: Case) -> Vec<Beside> {
    let beside = |kind: Kind| {
        kind.shown().iter().filter_map(move |figure| {
            let ours = blocks(run, job, kind, *figure);
            let theirs = blocks(run, Job { case: other, ..job }, kind, *figure);
            (!ours.is_empty() && !theirs.is_empty()).then(|| Beside {
                job,
                kind,
                figure: *figure,
                slower: slower(run, &ours, &theirs, noise(run, job, kind, *figure)),
            })
        })
    };
    kinds(job.group).into_iter().flat_map(beside).collect()
}

fn hub_row(run: &InterferenceRun, job: Job) -> HubRow {
    let idle = |case| Job {
        case,
        group: Group::Hub,
        ..job
    };
    let ours = round_trips(run, job);
    let (theirs, again) = (
        round_trips(run, idle(Case::Alone)),
        round_trips(run, idle(Case::AloneAgain)),
    );
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let slices: Vec<&[f64]> = ours.iter().map(|(_, us, _)| us.as_slice()).collect();
    let pool = Pool::new(&Units::new(&[slices]));
    let lags = ours.iter().filter_map(|(_, _, trips)| trips.send_lag_p99_us);
    let send_lag_p99_us = lags.reduce(f64::max);
    let all = || ours.iter().flat_map(|(_, us, _)| us);
    let conditions = Conditions {
        margin: MARGIN,
        noise: p99_times(&again, &theirs, run.seed).ok(),
        send_lag_p99: send_lag_p99_us,
        fine_below: 1e3,
    };
    let p99 = pool.quantile(0.99, bootstrap);
    let middle = p99.map_or(f64::INFINITY, |p99| p99.value);
    HubRow {
        job,
        messages: all().count(),
        lost: all().filter(|us| us.is_infinite()).count(),
        p50_us: pool.quantile(0.5, bootstrap),
        p99_us: p99,
        slower: (job.case != Case::Alone).then(|| {
            let times = p99_times(&ours, &theirs, run.seed);
            let idle = times.map_or(middle, |times| middle / times.value);
            compare(times, (middle, idle), &conditions)
        }),
        send_lag_p99_us,
    }
}

/// Block by block, in microseconds, lost ones infinite.
fn round_trips(run: &InterferenceRun, job: Job) -> Vec<(u32, Vec<f64>, &RoundTrips)> {
    let of_block = |(block, seen): (u32, &'_ Seen)| {
        let us = seen.hub.as_ref()?.responses_us.iter();
        Some((block, us.map(|us| us.unwrap_or(f64::INFINITY)).collect::<Vec<f64>>()))
    };
    run.seen(job)
        .filter_map(|(block, seen)| Some((of_block((block, seen))?, seen.hub.as_ref()?)))
        .map(|((block, us), trips)| (block, us, trips))
        .collect()
}

fn p99_times(
    ours: &[(u32, Vec<f64>, &RoundTrips)],
    theirs: &[(u32, Vec<f64>, &RoundTrips)],
    seed: u64,
) -> Result<Estimate, Undecided> {
    let bootstrap = &mut Bootstrap::new(seed, 0, Bootstrap::RESAMPLES);
    let pairs = ours.iter().filter_map(|(block, us, _)| {
        let (_, other, _) = theirs.iter().find(|(other, ..)| other == block)?;
        Some((us.as_slice(), other.as_slice()))
    });
    ratio(&[pairs.collect()], 0.99, bootstrap)
}

/// A service that does so many times as long for the same has lost more than it may.
fn slower_most() -> f64 {
    (1.0 - LOSS_MOST).recip()
}

fn sharing(rows: &[Row]) -> Vec<Sharing> {
    let mut all: Vec<Sharing> = Vec::new();
    for row in rows {
        let (profile, runtime, group) = (row.job.profile, row.job.runtime, row.job.group);
        let is_known = |known: &Sharing| (known.profile, known.runtime, known.group) == (profile, runtime, group);
        if !matches!(group, Group::Pair(..)) || all.iter().any(is_known) {
            continue;
        }
        let of = |case| {
            rows.iter().filter(move |row| {
                let job = row.job;
                (job.profile, job.runtime, job.group, job.case) == (profile, runtime, group, case)
                    && row.kind.shown().contains(&row.figure)
            })
        };
        let (unlimited, limited) = (worst(of(Case::Unlimited)), worst(of(Case::Limited)));
        let fits = |worst: &Option<(Kind, Figure, Estimate)>| worst.map(|(_, _, ratio)| ratio.value <= slower_most());
        let advice = match (fits(&unlimited), fits(&limited)) {
            (Some(true), _) => Advice::Together,
            (_, Some(true)) => Advice::WithLimits,
            (None, None) => continue,
            _ => Advice::Apart,
        };
        let (without, with) = (kept(of(Case::Unlimited)), kept(of(Case::Limited)));
        all.push(Sharing {
            profile,
            runtime,
            group,
            advice,
            is_sure: match advice {
                Advice::Together => without == Some(true),
                Advice::WithLimits => without == Some(false) && with == Some(true),
                Advice::Apart => without == Some(false) && with == Some(false),
            },
            unlimited,
            limited,
        });
    }
    all
}

fn worst<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<(Kind, Figure, Estimate)> {
    let ratios = rows.filter_map(|row| Some((row.kind, row.figure, row.slower?.ratio?)));
    ratios.max_by(|(_, _, one), (_, _, other)| one.value.total_cmp(&other.value))
}

/// Whether the intervals of all say that it loses no more than it may, or that of one that it does; else none.
fn kept<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<bool> {
    let each: Vec<Option<bool>> = rows
        .filter_map(|row| row.slower?.ratio)
        .map(|ratio| keeps(&ratio, slower_most(), (ratio.value, 1.0), &Conditions::default()).ok())
        .collect();
    match &each[..] {
        [] => None,
        all if all.contains(&Some(false)) => Some(false),
        all => all.iter().all(|one| *one == Some(true)).then_some(true),
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
pub(crate) mod tests;
