//! One arm under one cell: figures, verdicts and what the plots draw.

use super::against::Pair;
use super::gather::{Gathered, Group, durations_us};
use super::{
    Against, ArmFacts, ArmResult, CellSummary, Figures, Judging, Latency, Load, RequirementVerdict, Terms, added, busy,
    laws, promises, shapes,
};
use crate::figures::Requirement;
use crate::network::Settings;
use crate::run::{Block, Cell, Counters};
use crate::stats::{self, Bootstrap, Pool, Units, at_most};

/// All arms of a cell; `number` is that of the cell.
pub(super) fn cell(number: usize, gathered: &Gathered<'_>, arms: &[ArmFacts], terms: &Terms<'_>) -> CellSummary {
    let judging = terms.judging;
    // Each load has its own random streams: one an arm, the upper half for comparisons.
    let stream = (number as u64) << 32;
    let mut results: Vec<ArmResult> = gathered
        .groups
        .iter()
        .map(|group| {
            let bootstrap = &mut Bootstrap::new(judging.seed, stream + group.arm as u64, judging.resamples);
            let over_line = arms[group.arm].crosses_line();
            arm_result((gathered.cell, over_line), group, terms, bootstrap)
        })
        .collect();
    let pair = |ours: usize, theirs: usize, noise: Option<Against>| Pair {
        groups: (&gathered.groups[ours], &gathered.groups[theirs]),
        results: (&results[ours], &results[theirs]),
        cell: gathered.cell,
        noise,
        stream: stream + (1 << 31),
    };
    let noise = pair_of(gathered, |arm| arms[arm].again_of)
        .map(|(again, original)| pair(again, original, None).against(judging));
    let compared: Vec<Option<Against>> = (0..results.len())
        .map(|ours| {
            let theirs = gathered.groups.iter().position(|group| arms[group.arm].baseline)?;
            (ours != theirs).then(|| pair(ours, theirs, noise).against(judging))
        })
        .collect();
    let place_of = |name: &str| gathered.groups.iter().position(|group| arms[group.arm].name == name);
    let added = added::added(gathered, arms, stream + (1 << 31), judging);
    let promises = promises::judged(
        (gathered.cell, terms.tls),
        |name| Some(&results[place_of(name)?]),
        |ours, theirs| Some(pair(place_of(ours)?, place_of(theirs)?, noise)),
        judging,
    );
    for (result, against) in results.iter_mut().zip(compared) {
        result.against = against;
    }
    CellSummary {
        cell: gathered.cell.clone(),
        arms: results,
        noise,
        added,
        promises,
    }
}

/// The first group whose arm names another one that is here too.
fn pair_of(gathered: &Gathered<'_>, other: impl Fn(usize) -> Option<usize>) -> Option<(usize, usize)> {
    gathered.groups.iter().enumerate().find_map(|(position, group)| {
        let other = other(group.arm)?;
        Some((position, gathered.groups.iter().position(|group| group.arm == other)?))
    })
}

fn arm_result(
    (cell, over_line): (&Cell, bool),
    group: &Group<'_>,
    terms: &Terms<'_>,
    bootstrap: &mut Bootstrap,
) -> ArmResult {
    let judging = terms.judging;
    let by_run = group.responses();
    let pool = Pool::new(&Units::new(&by_run));
    let response = latency(&pool, bootstrap);
    let blocks: Vec<&[f64]> = by_run.iter().flatten().copied().collect();
    let lags = sent_lags_us(group);
    let lag_p99_us = Pool::new(&Units::of_block(&lags)).value(0.99).unwrap_or(0.0);
    let quantiles = response.p50.zip(response.p99).map(|(p50, p99)| (p50.value, p99.value));
    let trend = stats::trend(&blocks);
    let wan = cell.wan.filter(|_| over_line);
    let deadline_us = deadline_us(cell, wan, judging);
    ArmResult {
        arm: group.arm,
        blocks: blocks.len(),
        set_aside: group.set_aside,
        unsettled: group.blocks().filter(|block| !block.warm_up.settled).count(),
        failures: group.blocks().filter_map(|block| block.failure.clone()).collect(),
        counts: counts(group),
        service: figures(group, |block, message| block.samples.service_ns(message)),
        paper: paper(group),
        send_lag_p99_us: lag_p99_us,
        load: load(cell, group),
        busy: busy::busy(group, wan, terms.cpus),
        deadline_us,
        determinism: stats::determinism(
            pool.sorted(),
            deadline_us,
            trend.as_ref(),
            quantiles,
            &judging.determinism,
        ),
        requirements: terms
            .requirements
            .iter()
            .map(|required| verdict(required, &response, &pool))
            .collect(),
        laws: laws::laws(cell, group, lag_p99_us, pool.value(0.5).unwrap_or(f64::INFINITY)),
        against: None,
        shapes: shapes::shapes(&pool, response.p50.as_ref(), &blocks, &lags),
        trend,
        response,
    }
}

/// The deadline that is set, else the period of the messages, else the timeout. Over a line whose delay is longer than
/// the period, no answer comes before the next message: there it is twice that delay.
fn deadline_us(cell: &Cell, wan: Option<Settings>, judging: &Judging) -> f64 {
    let delay_us = wan.map_or(0, |wan| wan.round_trip_us);
    let usual_us = cell.interval_us.unwrap_or(cell.timeout_us).max(2 * delay_us);
    judging.deadline_us.unwrap_or(usual_us as f64)
}

fn latency(pool: &Pool, bootstrap: &mut Bootstrap) -> Latency {
    let answered = || pool.sorted().take_while(|sample| sample.is_finite());
    Latency {
        mean_us: mean(answered()),
        worst_us: answered().last(),
        p50: pool.quantile(0.5, bootstrap),
        p95: pool.quantile(0.95, bootstrap),
        p99: pool.quantile(0.99, bootstrap),
        p999: pool.quantile(0.999, bootstrap),
    }
}

/// Mean of the finite samples; `None` without any.
pub(super) fn mean(samples: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = samples
        .filter(|sample| sample.is_finite())
        .fold((0.0, 0u64), |(sum, n), sample| (sum + sample, n + 1));
    (count > 0).then(|| sum / count as f64)
}

fn figures(group: &Group<'_>, ns: impl Fn(&Block, usize) -> Option<u64>) -> Figures {
    let of_block = |block: &Block| durations_us(block, |message| ns(block, message));
    let all = stats::sorted(&group.blocks().flat_map(of_block).collect::<Vec<_>>());
    let at = |q: f64| {
        all.get(stats::rank(all.len(), q) - 1)
            .copied()
            .filter(|us| us.is_finite())
    };
    Figures {
        mean_us: mean(all.iter().copied()),
        p50_us: at(0.5),
        p99_us: at(0.99),
    }
}

/// The paper's round trip, where the responder of this arm says its own time at all.
fn paper(group: &Group<'_>) -> Option<Figures> {
    let says = group
        .blocks()
        .any(|block| block.samples.server_ns.iter().any(Option::is_some));
    says.then(|| figures(group, |block, message| block.samples.paper_ns(message)))
}

/// Lags of the messages that were sent: one that could not be is a loss, not a late one.
fn sent_lags_us(group: &Group<'_>) -> Vec<f64> {
    let of_block = |block: &Block| durations_us(block, |message| block.samples.send_lag_ns(message));
    group
        .blocks()
        .flat_map(of_block)
        .filter(|lag| lag.is_finite())
        .collect()
}

fn counts(group: &Group<'_>) -> Counters {
    group.blocks().fold(Counters::default(), |sum, block| {
        let more = &block.counters;
        Counters {
            scheduled: sum.scheduled + more.scheduled,
            sent: sum.sent + more.sent,
            unsent: sum.unsent + more.unsent,
            answered: sum.answered + more.answered,
            lost: sum.lost + more.lost,
            in_flight: sum.in_flight + more.in_flight,
            late: sum.late + more.late,
            duplicates: sum.duplicates + more.duplicates,
            reordered: sum.reordered + more.reordered,
        }
    })
}

fn load(cell: &Cell, group: &Group<'_>) -> Load {
    let counts = counts(group);
    let wall_s: f64 = group.blocks().map(|block| block.usage.wall_s).sum();
    let sending_s = group.blocks().count() as f64 * cell.duration_us as f64 / 1e6;
    let cpu_s: Option<f64> = group.blocks().map(|block| block.usage.server_cpu_s).sum();
    Load {
        // A closed loop offers what is answered; an open one what its schedule holds.
        offered_per_s: counts.scheduled as f64 / if cell.load.is_closed() { wall_s } else { sending_s },
        answered_per_s: counts.answered as f64 / wall_s,
        server_cpu_us: cpu_s
            .filter(|_| counts.answered > 0)
            .map(|cpu_s| cpu_s * 1e6 / counts.answered as f64),
        server_rss_bytes: group.blocks().filter_map(|block| block.usage.server_rss_bytes).max(),
    }
}

fn verdict(requirement: &Requirement, response: &Latency, pool: &Pool) -> RequirementVerdict {
    let bound_us = requirement.bound_ms * 1e3;
    RequirementVerdict {
        requirement: requirement.clone(),
        outcome: at_most(response.p99.as_ref(), bound_us),
        missed: pool.sorted().filter(|sample| *sample > bound_us).count(),
        messages: pool.len(),
    }
}
