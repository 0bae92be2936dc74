//! What was busy while an arm answered: where its limit lies.

use serde::Serialize;

use super::ArmResult;
use super::gather::Group;
use crate::network::Settings;
use crate::run::Block;
use crate::stats::Outcome;

/// Above this share of a core a server queues more than it works.
const CPU_IS_FULL: f64 = 0.8;
/// Above this share of its bandwidth a line is full: the rest is what bursts leave.
const LINE_IS_FULL: f64 = 0.9;
/// CPUs from which on edge and cloud have one each.
const CPUS_APART: usize = 3;

/// Shares of what there is, over all blocks of an arm under a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Busy {
    /// Of the core of the servers; where edge and cloud have a core each, of the busier one.
    pub cpu: Option<f64>,
    /// Of a core, by the edge (the first paper's Fig. 5 j).
    pub edge_cpu: Option<f64>,
    /// Of the line's bandwidth in its busier direction; absent where it has none.
    pub line: Option<f64>,
    /// Packets that found the queue before the line full.
    pub dropped_packets: u64,
}

/// What holds an arm up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The instrument, that is the generator or the emulated line: there is no result.
    Instrument,
    /// The line between edge and cloud, busy for this share of the time.
    Line(f64),
    /// The servers' core, busy for this share of the time.
    Cpu(f64),
    /// Messages queue up though neither is full.
    Buffering,
}

pub(super) fn busy(group: &Group<'_>, wan: Option<Settings>, cpus: usize) -> Busy {
    let wall_s: f64 = group.blocks().map(|block| block.usage.wall_s).sum();
    let share = |of: &dyn Fn(&Block) -> Option<f64>| -> Option<f64> {
        let sum: f64 = group.blocks().map(of).sum::<Option<f64>>()?;
        (wall_s > 0.0).then_some(sum / wall_s)
    };
    let (all, edge) = (
        share(&|block| block.usage.server_cpu_s),
        share(&|block| block.usage.edge_cpu_s),
    );
    let cpu = match (all, edge) {
        (Some(all), Some(edge)) if cpus >= CPUS_APART => Some(edge.max(all - edge)),
        _ => all,
    };
    let bit_per_s = wan.and_then(|wan| wan.bandwidth_bit_per_s.bit_per_s);
    let carried = |way: usize| share(&|block| Some(block.line?[way].delivered_bytes as f64 * 8.0));
    let line = [0, 1].map(carried).into_iter().flatten().max_by(f64::total_cmp);
    let dropped = |block: &Block| {
        block
            .line
            .map_or(0, |ways| ways.iter().map(|way| way.dropped_at_queue).sum())
    };
    Busy {
        cpu,
        edge_cpu: edge,
        line: line.zip(bit_per_s).map(|(line, bit_per_s)| line / bit_per_s as f64),
        dropped_packets: group.blocks().map(dropped).sum(),
    }
}

impl ArmResult {
    /// What holds it up, as far as can be seen; absent where nothing does.
    pub fn limit(&self) -> Option<Limit> {
        let Busy { cpu, line, .. } = self.busy;
        let full = |share: Option<f64>, from: f64| share.filter(|share| *share >= from);
        let dropped = line.filter(|_| self.busy.dropped_packets > 0);
        if !self.is_valid() {
            return Some(Limit::Instrument);
        }
        let line = full(line, LINE_IS_FULL).or(dropped).map(Limit::Line);
        let buffers = (self.determinism.no_buffering == Outcome::Fail).then_some(Limit::Buffering);
        line.or(full(cpu, CPU_IS_FULL).map(Limit::Cpu)).or(buffers)
    }
}
