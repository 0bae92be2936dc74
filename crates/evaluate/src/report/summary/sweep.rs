//! Which parameters were varied, and where a varied load bends the latency.

use super::{ArmFacts, ArmResult, CellSummary, Judging, Sweep, SweepKnees, Swept};
use crate::run::Cell;
use crate::stats::{LoadPoint, bounded_latency, optimum_load};

const ALL: [Swept; 7] = [
    Swept::Interval,
    Swept::Payload,
    Swept::Devices,
    Swept::Qos,
    Swept::Concurrency,
    Swept::Bandwidth,
    Swept::Delay,
];

impl Swept {
    /// The parameter's value in a cell; absent where it has none.
    pub fn value(self, cell: &Cell) -> Option<f64> {
        match self {
            Swept::Interval => cell.interval_us.map(|us| us as f64),
            Swept::Payload => Some(f64::from(cell.payload_bytes)),
            Swept::Devices => Some(f64::from(cell.devices)),
            Swept::Qos => Some(f64::from(cell.qos)),
            Swept::Concurrency => cell.load.is_closed().then_some(f64::from(cell.concurrency)),
            Swept::Bandwidth => {
                let unshaped = f64::INFINITY;
                cell.wan
                    .map(|wan| wan.bandwidth_bit_per_s.bit_per_s.map_or(unshaped, |rate| rate as f64))
            }
            Swept::Delay => cell.wan.map(|wan| wan.round_trip_us as f64),
        }
    }

    /// Whether it changes the rate of messages.
    pub fn is_load(self) -> bool {
        matches!(self, Swept::Interval | Swept::Devices | Swept::Concurrency)
    }

    /// Whether two cells differ in nothing else. How long they were measured, and what they waited for, may differ:
    /// long intervals need longer blocks.
    fn alone(self, a: &Cell, b: &Cell) -> bool {
        let same = |other: Swept| other == self || other.value(a) == other.value(b);
        a.load == b.load && a.think_us == b.think_us && ALL.into_iter().all(same)
    }
}

/// Every parameter with at least two values, all else equal; each group of cells once.
pub(super) fn sweeps(cells: &[CellSummary], arms: &[ArmFacts], judging: &Judging) -> Vec<Sweep> {
    let mut sweeps = Vec::new();
    for swept in ALL {
        let mut left: Vec<usize> = (0..cells.len())
            .filter(|cell| swept.value(&cells[*cell].cell).is_some())
            .collect();
        while let Some(first) = left.first().copied() {
            let (mut group, rest) = left
                .into_iter()
                .partition::<Vec<_>, _>(|cell| swept.alone(&cells[first].cell, &cells[*cell].cell));
            left = rest;
            if group.len() >= 2 {
                let value = |cell: &usize| swept.value(&cells[*cell].cell).unwrap_or(0.0);
                group.sort_by(|a, b| value(a).total_cmp(&value(b)));
                sweeps.push(Sweep {
                    swept,
                    knees: knees(swept, &group, cells, arms, judging),
                    cells: group,
                });
            }
        }
    }
    sweeps
}

fn knees(
    swept: Swept,
    group: &[usize],
    cells: &[CellSummary],
    arms: &[ArmFacts],
    judging: &Judging,
) -> Vec<SweepKnees> {
    if !swept.is_load() {
        return Vec::new();
    }
    let of_arm = |arm: usize| {
        let results = group.iter().filter_map(|cell| cells[*cell].arm(arm));
        let mut points: Vec<LoadPoint> = results.filter(|result| result.is_valid()).filter_map(point).collect();
        points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
        SweepKnees {
            arm,
            optimum: optimum_load(&points),
            bounded: bounded_latency(&points, judging.knee_p99_us, judging.knee_lost),
            points,
        }
    };
    let measured = (0..arms.len()).filter(|arm| arms[*arm].again_of.is_none()).map(of_arm);
    measured.filter(|knees| knees.points.len() >= 2).collect()
}

/// `None` where there are too few messages for p99.
fn point(result: &ArmResult) -> Option<LoadPoint> {
    let unanswered = result.counts.scheduled - result.counts.answered.min(result.counts.scheduled);
    Some(LoadPoint {
        offered_per_s: result.load.offered_per_s,
        answered_per_s: result.load.answered_per_s,
        p50_us: result.response.p50?.value,
        p99_us: result.response.p99?.value,
        lost: unanswered as f64 / result.counts.scheduled.max(1) as f64,
    })
}
