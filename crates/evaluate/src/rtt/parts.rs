//! What of a plan is measured and kept one by one, on which network, and how long it takes.

use std::time::Duration;

use super::arm_kind::ArmKind;
use super::plan::Plan;
use super::presets::defaults;
use crate::network::{self, LinePlan, Means, Settings};
use crate::run::Cell;

/// Blocks of a search, as a multiple of those of one step.
const KNEE_STEPS: u32 = 12;
const WARM_UP_GUESS: Duration = Duration::from_millis(100);
/// The same over a line: two windows of the warm-up that its delay stretches.
const WARM_UP_OVER_A_LINE_GUESS: Duration = Duration::from_millis(700);
/// To start servers on hosts of their own, and to measure the line between them.
const HOSTS_GUESS: Duration = Duration::from_secs(6);
/// Of one client: large fleets are connected anew for each block.
const CONNECT_GUESS: Duration = Duration::from_micros(300);

impl Plan {
    /// What is measured and kept one by one: of the models each load, with servers and a network of its own; else the
    /// whole. Arms that do not use the line between edge and cloud are measured once, not for each setting of it.
    pub fn parts(&self) -> Vec<Plan> {
        if !self.has_network() {
            return vec![self.clone()];
        }
        let number = |place: usize| self.seed.wrapping_add(place as u64);
        let parts = self.cells.iter().enumerate();
        parts
            .map(|(place, cell)| self.part(cell).with_seed(number(place)))
            .collect()
    }

    /// One load alone.
    #[must_use]
    pub fn part(&self, cell: &Cell) -> Plan {
        let baseline = &self.arms[self.baseline];
        let usual_line = cell.wan.is_none() || self.cells.first().is_some_and(|first| first.wan == cell.wan);
        let measured = |kind: &&ArmKind| usual_line || kind.crosses_line() || *kind == baseline;
        let arms: Vec<ArmKind> = self.arms.iter().filter(measured).cloned().collect();
        Plan {
            baseline: arms.iter().position(|kind| kind == baseline).unwrap_or(0),
            arms,
            cells: vec![cell.clone()],
            ..self.clone()
        }
    }

    /// Where nothing of a line can be varied: its settings are none of the loads', and those that differ in nothing
    /// else are one.
    #[must_use]
    pub(crate) fn without_line(self) -> Plan {
        let mut cells: Vec<Cell> = Vec::new();
        for cell in &self.cells {
            let cell = Cell {
                wan: None,
                ..cell.clone()
            };
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        Plan { cells, ..self }
    }

    /// The network of a part; none where all runs on this machine. All lines that have a delay are of one kind.
    pub(crate) fn network(&self) -> Option<network::Plan> {
        if !self.has_network() {
            return None;
        }
        let settings = self.cells.first().and_then(|cell| cell.wan).unwrap_or_default();
        let plan = network::Plan {
            means: self.shapes_lines().then_some(Means::Relay),
            ..network::Plan::wan(settings, self.seed)
        };
        let bare = settings == Settings::default();
        Some(network::Plan {
            edge_cloud: if bare { LinePlan::Plain } else { plan.edge_cloud },
            ..plan
        })
    }

    /// Whether any load of the whole experiment has a bandwidth.
    fn shapes_lines(&self) -> bool {
        let named = self.options.bandwidth_bit_per_s.iter().copied();
        let usual = defaults(self.options.preset()).sweeps;
        let usual = usual.iter().flat_map(|sweep| sweep.bandwidth_bit_per_s.clone());
        named.chain(usual).any(|rate| rate.bit_per_s.is_some())
    }

    /// About how long one of the runs takes.
    pub fn estimate(&self) -> Duration {
        self.parts().iter().map(Plan::estimate_part).sum()
    }

    fn estimate_part(&self) -> Duration {
        let (warm_up, set_up) = if self.has_network() {
            (WARM_UP_OVER_A_LINE_GUESS, HOSTS_GUESS)
        } else {
            (WARM_UP_GUESS, Duration::ZERO)
        };
        let round: Duration = self
            .cells
            .iter()
            .map(|cell| Duration::from_micros(cell.duration_us) + warm_up + CONNECT_GUESS * cell.devices)
            .sum();
        let arms = self.arms.len() as u32 + 1;
        let steps = if self.knee().is_some() { KNEE_STEPS } else { 1 };
        round * arms * self.blocks * steps + set_up
    }
}
