//! The sanity laws. Those that must hold message by message are tested in every block; the generator's lateness and its
//! CPU over all blocks together, since what a block of some 100 ms shows of them is mostly the machine's noise.

use super::LawResult;
use super::gather::Group;
use crate::network::Counters;
use crate::run::{Block, Cell};
use crate::stats::{self, Check, Exchange, LittlesLaw};

/// The generator of a block is one thread.
const GENERATOR_CORES: usize = 1;

/// Every law that applies to the load.
pub(super) fn laws(cell: &Cell, group: &Group<'_>, lag_p99_us: f64, median_response_us: f64) -> Vec<LawResult> {
    let each = |check: fn(&Block) -> Check| LawResult::of(&group.blocks().map(check).collect::<Vec<_>>());
    let mut laws = vec![
        LawResult::of(&[stats::send_lag(lag_p99_us, median_response_us)]),
        each(accounting),
        each(monotonic),
        LawResult::of(generator_cpu(group).as_slice()),
        LawResult::of(line_on_time(group).as_slice()),
    ];
    if cell.load.is_closed() {
        let checks: Vec<Check> = group
            .runs
            .iter()
            .flatten()
            .filter_map(|m| littles_law(cell, m.block, &m.response_us))
            .collect();
        laws.push(LawResult::of(&checks));
    }
    laws.into_iter().flatten().collect()
}

fn accounting(block: &Block) -> Check {
    let counters = &block.counters;
    stats::accounting(&Exchange {
        sent: counters.sent,
        answered: counters.answered,
        lost: counters.lost,
        in_flight: counters.in_flight,
        sampled: block.samples.received_ns.iter().flatten().count() as u64,
    })
}

fn monotonic(block: &Block) -> Check {
    let samples = &block.samples;
    let message = |i: usize| (samples.intended_ns[i], samples.sent_ns[i], samples.received_ns[i]);
    stats::monotonic((0..samples.len()).map(message))
}

/// What the generator's thread ran without what it spun, over all blocks in which it had something to send.
fn generator_cpu(group: &Group<'_>) -> Option<Check> {
    let busy = || group.blocks().filter(|block| !block.samples.is_empty());
    let usages = || busy().map(|block| &block.usage);
    let busy_s: f64 = usages()
        .map(|usage| (usage.generator_cpu_s - usage.generator_spin_s).max(0.0))
        .sum();
    let wall_s: f64 = usages().map(|usage| usage.wall_s).sum();
    (wall_s > 0.0).then(|| stats::generator_cpu(busy_s, wall_s, GENERATOR_CORES))
}

/// Of an arm whose messages go over an emulated line: not one whose links only stay alive there.
fn line_on_time(group: &Group<'_>) -> Option<Check> {
    let sum = |of: fn(&Counters) -> u64| -> u64 {
        let ways = group.blocks().filter_map(|block| block.line).flatten();
        ways.map(|way| of(&way)).sum()
    };
    let (late, delivered) = (sum(|way| way.delivered_late), sum(|way| way.delivered));
    let answered: u64 = group.blocks().map(|block| block.counters.answered).sum();
    (delivered >= answered.max(1)).then(|| stats::line_on_time(late, delivered))
}

fn littles_law(cell: &Cell, block: &Block, response_us: &[f64]) -> Option<Check> {
    let mean_us = super::arm_result::mean(response_us.iter().copied())?;
    Some(stats::littles_law(&LittlesLaw {
        concurrency: f64::from(cell.concurrency),
        answered: block.counters.answered,
        wall_s: block.usage.wall_s,
        mean_response_s: mean_us / 1e6,
        think_s: cell.think_us as f64 / 1e6 + block.usage.client_s / block.counters.answered.max(1) as f64,
    }))
}
