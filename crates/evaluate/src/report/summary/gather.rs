//! Blocks of all raw files, by cell and arm.

use super::ArmFacts;
use crate::run::{Arm, Block, Cell, Run, Skipped};

/// All that was measured under one cell.
pub(super) struct Gathered<'a> {
    pub(super) cell: &'a Cell,
    /// By arm, in the order of the summary's; arms without a block are left out.
    pub(super) groups: Vec<Group<'a>>,
}

/// The blocks of one arm under one cell.
pub(super) struct Group<'a> {
    /// Index in the summary's arms.
    pub(super) arm: usize,
    /// By run.
    pub(super) runs: Vec<Vec<Measured<'a>>>,
    /// How many of its blocks were set aside.
    pub(super) set_aside: usize,
}

/// A block and its response times.
pub(super) struct Measured<'a> {
    pub(super) block: &'a Block,
    /// In the order of sending; lost messages are infinite.
    pub(super) response_us: Vec<f64>,
}

impl Group<'_> {
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.runs.iter().flatten().map(|measured| measured.block)
    }

    /// Response times by run and block.
    pub(super) fn responses(&self) -> Vec<Vec<&[f64]>> {
        self.runs
            .iter()
            .map(|run| run.iter().map(|measured| measured.response_us.as_slice()).collect())
            .collect()
    }

    /// Response times of blocks measured together, by run: this arm's and the other's.
    pub(super) fn paired<'a>(&'a self, other: &'a Group<'_>) -> Vec<Vec<(&'a [f64], &'a [f64])>> {
        self.pairs(other, |ours, theirs| {
            Some((ours.response_us.as_slice(), theirs.response_us.as_slice()))
        })
    }

    /// CPU seconds of the servers an answered message, of blocks measured together, by run: this arm's and the other's.
    pub(super) fn paired_costs(&self, other: &Group<'_>) -> Vec<Vec<(f64, f64)>> {
        self.pairs(other, |ours, theirs| cost(ours.block).zip(cost(theirs.block)))
    }

    fn pairs<'a, T>(
        &'a self,
        other: &'a Group<'_>,
        of: impl Fn(&'a Measured<'_>, &'a Measured<'_>) -> Option<T>,
    ) -> Vec<Vec<T>> {
        let pair = |ours: &'a Measured<'_>, theirs: &'a [Measured<'_>]| {
            let partner = theirs
                .iter()
                .find(|measured| measured.block.index == ours.block.index)?;
            of(ours, partner)
        };
        let runs = self.runs.iter().zip(&other.runs);
        runs.map(|(ours, theirs)| ours.iter().filter_map(|block| pair(block, theirs)).collect())
            .collect()
    }
}

fn cost(block: &Block) -> Option<f64> {
    let answered = block.counters.answered;
    let cpu_s = block.usage.server_cpu_s.filter(|_| answered > 0)?;
    Some(cpu_s / answered as f64)
}

/// Durations of a block in µs, message by message; those that never ended are infinite.
pub(super) fn durations_us(block: &Block, ns: impl Fn(usize) -> Option<u64>) -> Vec<f64> {
    (0..block.samples.len())
        .map(|message| ns(message).map_or(f64::INFINITY, |ns| ns as f64 / 1e3))
        .collect()
}

/// The arms of all runs, each once.
pub(super) fn arms(runs: &[Run]) -> Vec<ArmFacts> {
    let mut arms: Vec<ArmFacts> = Vec::new();
    for run in runs {
        for arm in &run.arms {
            if arms.iter().all(|known| known.name != arm.name) {
                let original = arm.again_of.map(|index| run.arms[index].name.as_str());
                let again_of = original.and_then(|name| arms.iter().position(|known| known.name == name));
                arms.push(facts(arm, again_of));
            }
        }
    }
    arms
}

fn facts(arm: &Arm, again_of: Option<usize>) -> ArmFacts {
    let named = match arm.version.as_str() {
        "" => arm.name.clone(),
        version if version.starts_with(&arm.name) => version.to_owned(),
        version => format!("{} ({version})", arm.name),
    };
    let label = if arm.settings.is_empty() {
        named
    } else {
        format!("{named}, {}", arm.settings)
    };
    ArmFacts {
        name: arm.name.clone(),
        label,
        baseline: arm.baseline,
        again_of,
        ready_ms: arm.ready_ms,
        idle_rss_bytes: arm.idle_rss_bytes,
    }
}

/// Arms that no run measured.
pub(super) fn skipped(runs: &[Run]) -> Vec<Skipped> {
    let mut skipped: Vec<Skipped> = Vec::new();
    for skip in runs.iter().flat_map(|run| &run.skipped) {
        if !skipped.contains(skip) {
            skipped.push(skip.clone());
        }
    }
    skipped
}

/// The cells of all runs, each once, with their blocks.
pub(super) fn cells<'a>(runs: &'a [Run], arms: &[ArmFacts]) -> Vec<Gathered<'a>> {
    let mut cells: Vec<&Cell> = Vec::new();
    for cell in runs.iter().flat_map(|run| &run.cells) {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    let gathered = |cell: &'a Cell| {
        let groups = (0..arms.len()).map(|arm| group(runs, cell, arm, &arms[arm].name));
        Gathered {
            cell,
            groups: groups.filter(|group| group.blocks().next().is_some()).collect(),
        }
    };
    cells.into_iter().map(gathered).collect()
}

fn group<'a>(runs: &'a [Run], cell: &Cell, arm: usize, name: &str) -> Group<'a> {
    let ours = |run: &Run, block: &Block| run.cells[block.cell] == *cell && run.arms[block.arm].name == name;
    let blocks = |run: &'a Run| run.blocks.iter().filter(move |block| ours(run, block));
    let set_aside = runs
        .iter()
        .flat_map(blocks)
        .filter(|block| block.set_aside.is_some())
        .count();
    // Where the generator is always late, it is the limit, and the result shall say so.
    let all = set_aside == runs.iter().flat_map(blocks).count();
    let of_run = |run: &'a Run| {
        let counting = blocks(run).filter(|block| all || block.set_aside.is_none());
        counting.map(measured).collect()
    };
    Group {
        arm,
        runs: runs.iter().map(of_run).collect(),
        set_aside,
    }
}

fn measured(block: &Block) -> Measured<'_> {
    let response_us = durations_us(block, |message| block.samples.response_ns(message));
    Measured { block, response_us }
}
