//! The test stand at work: measures one block after the other and keeps what was seen.

use std::io;
use std::time::Instant;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ring::digest;

use super::pacer::{ClosedLoop, Pacer};
use super::plan::Plan;
use super::progress::Progress;
use super::recorder::Recorder;
use super::schedule::{Due, hash_into, schedule};
use super::stand::{Clients, Stand, Standing};
use super::uplink::Uplink;
use crate::arms::RunningArm;
use crate::environment::{self, Environment, hexadecimal};
use crate::generator::block::{self, GeneratorUsage, WARM_UP_TAGS};
use crate::generator::payload::Payloads;
use crate::interrupt;
use crate::network::{self, Counters, Measured, Place};
use crate::priority::First;
use crate::privacy::without_paths;
use crate::proc;
use crate::run::{Block, Cell, FORMAT, Run, SearchStep, Skipped, Usage};
use crate::stats::{Pool, Units, samples_needed, send_lag};

/// A stand with the loads that it measures and the blocks that it has measured.
pub(super) struct Bench<'a> {
    plan: &'a Plan,
    stand: Stand,
    started: Instant,
    cells: Vec<Cell>,
    /// By cell.
    payloads: Vec<Payloads>,
    order: ChaCha8Rng,
    digest: digest::Context,
    next_tag: u32,
    blocks: Vec<Block>,
    /// Whether the generator ran before all ordinary threads.
    runs_first: bool,
}

impl<'a> Bench<'a> {
    pub(super) fn new(plan: &'a Plan, stand: Stand, started: Instant) -> Bench<'a> {
        let mut bench = Bench {
            plan,
            stand,
            started,
            cells: Vec::new(),
            payloads: Vec::new(),
            order: ChaCha8Rng::seed_from_u64(plan.seed()),
            digest: digest::Context::new(&digest::SHA256),
            next_tag: 1,
            blocks: Vec::new(),
            runs_first: false,
        };
        for cell in plan.cells() {
            bench.cell(cell);
        }
        bench
    }

    /// The number of a cell, which joins the others if it is new.
    pub(super) fn cell(&mut self, wanted: &Cell) -> usize {
        if let Some(known) = self.cells.iter().position(|cell| cell == wanted) {
            return known;
        }
        self.cells.push(wanted.clone());
        self.payloads.push(match self.plan.trace() {
            Some(trace) => Payloads::rows(trace),
            None => Payloads::padded(wanted.payload_bytes),
        });
        self.cells.len() - 1
    }

    pub(super) fn cell_of(&self, number: usize) -> &Cell {
        &self.cells[number]
    }

    /// In random order.
    pub(super) fn shuffled(&mut self, mut list: Vec<usize>) -> Vec<usize> {
        list.shuffle(&mut self.order);
        list
    }

    /// Arms that can still be measured.
    pub(super) fn arms(&self) -> Vec<usize> {
        let standing = self.stand.standing.iter().enumerate();
        standing.filter(|(_, arm)| !arm.out).map(|(number, _)| number).collect()
    }

    pub(super) fn arm_count(&self) -> usize {
        self.stand.standing.len()
    }

    pub(super) fn arm_name(&self, arm: usize) -> &str {
        &self.stand.standing[arm].about.name
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The schedule of a cell's block: the same for all arms, another for every cell and block.
    pub(super) fn schedule(&mut self, cell: usize, index: u32) -> Vec<Due> {
        let seed = schedule_seed(self.plan.seed(), cell, index);
        let dues = schedule(&self.cells[cell], self.plan.trace(), seed);
        hash_into(&mut self.digest, &self.cells[cell], &dues);
        dues
    }

    /// Measures one block of one arm; an arm that cannot be measured any more is left out from here on.
    ///
    /// # Errors
    /// The machine refused to wait, or the run was told to end.
    pub(super) fn measure(
        &mut self,
        (cell, arm): (usize, usize),
        index: u32,
        dues: Vec<Due>,
        progress: &mut dyn Progress,
    ) -> io::Result<()> {
        interrupt::check().map_err(io::Error::other)?;
        match self.block(cell, arm, index, dues, progress)? {
            Ok(block) => self.blocks.push(block),
            Err(reason) => self.leave_out(arm, &reason, progress),
        }
        Ok(())
    }

    /// Sets the blocks from `first` on aside if the generator was late in the last of them (rule 2): what they were to
    /// be compared in was not the same load.
    pub(super) fn set_aside_if_late(&mut self, first: usize) -> bool {
        let Some(reason) = self.blocks[first..].last().and_then(lateness) else {
            return false;
        };
        for block in &mut self.blocks[first..] {
            block.set_aside = Some(reason.clone());
        }
        true
    }

    /// Sets all blocks from `first` on aside where one of them is.
    pub(super) fn set_aside_together(&mut self, first: usize) {
        let round = &mut self.blocks[first..];
        let Some(reason) = round.iter().find_map(|block| block.set_aside.clone()) else {
            return;
        };
        for block in round {
            block.set_aside.get_or_insert_with(|| reason.clone());
        }
    }

    /// Blocks of every arm and cell.
    pub(super) fn planned_blocks(&self) -> u32 {
        self.plan.blocks()
    }

    fn leave_out(&mut self, arm: usize, reason: &str, progress: &mut dyn Progress) {
        let standing = &mut self.stand.standing[arm];
        standing.out = true;
        progress.say(&format!("{}: left out from here on: {reason}", standing.about.name));
        self.stand.skipped.push(Skipped {
            arm: standing.about.name.clone(),
            reason: without_paths(reason),
        });
    }

    /// Warms up and measures; else the words why the arm cannot be measured any more.
    fn block(
        &mut self,
        cell: usize,
        arm: usize,
        index: u32,
        dues: Vec<Due>,
        progress: &mut dyn Progress,
    ) -> io::Result<Result<Block, String>> {
        let tag = self.next_tag;
        self.next_tag += WARM_UP_TAGS + 1;
        let point = &self.cells[cell];
        let spins = self.stand.generator_cpu.is_some();
        let Stand {
            standing,
            uplink,
            keeps_clients,
            ..
        } = &mut self.stand;
        let Standing { running, clients, .. } = &mut standing[arm];
        uplink.widen(point).map_err(io::Error::other)?;
        let fleet = match clients.fleet(&running.access, point, spins) {
            Ok(fleet) => fleet,
            Err(problem) => return Ok(Err(running.ended().unwrap_or(problem))),
        };
        uplink.narrow(point).map_err(io::Error::other)?;
        let timeout_ns = point.timeout_us * 1_000;
        let warm_up = block::warm_up(fleet, point.devices, timeout_ns, &mut self.payloads[cell], tag)?;
        progress.measuring();
        let started_s = self.started.elapsed().as_secs_f64();
        let mut recorder = Recorder::new(point.devices, timeout_ns, dues.len());
        // Devices of hosts of their own are other machines: what keeps this one busy delays none of them.
        let first = (uplink.is_there() && !point.load.is_closed()).then(First::claim);
        let first = first.flatten();
        self.runs_first |= first.is_some();
        let meter = Meter::start(running, uplink);
        let payloads = &mut self.payloads[cell];
        let generator = block::run_block(
            fleet,
            &mut pacer(point, dues),
            &mut recorder,
            payloads,
            tag + WARM_UP_TAGS,
        )?;
        let (usage, line) = meter.stop(running, uplink, generator);
        drop(first);
        let failure = running.ended().or_else(|| fleet.failure.clone());
        if !*keeps_clients {
            *clients = Clients::default();
        }
        let (samples, counters) = recorder.finish();
        Ok(Ok(Block {
            cell,
            arm,
            index,
            started_s,
            warm_up,
            samples,
            counters,
            usage,
            line,
            failure: failure.as_deref().map(without_paths),
            set_aside: None,
        }))
    }

    /// What a raw file keeps of it all.
    pub(super) fn conclude(
        self,
        experiment: &str,
        search: Vec<SearchStep>,
        (before, measured): (Environment, Option<Measured>),
    ) -> Run {
        let generator_cpu = self.stand.generator_cpu;
        let network = self.stand.uplink.record().zip(measured);
        let network = network.map(|(network, measured)| network::Cell { network, measured });
        let (arms, skipped) = self.stand.take_down();
        Run {
            format: FORMAT,
            experiment: experiment.to_owned(),
            options: self.plan.options().clone(),
            seed: self.plan.seed(),
            schedule_hash: hexadecimal(self.digest.finish().as_ref()),
            arms,
            cells: self.cells,
            blocks: self.blocks,
            search,
            skipped,
            network,
            environment: Environment {
                generator_runs_first: self.runs_first,
                ..environment::conclude(before, generator_cpu, self.started.elapsed())
            },
        }
    }
}

/// The seed of one cell's block: the same for all arms, another for every cell and block.
fn schedule_seed(seed: u64, cell: usize, index: u32) -> u64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream((cell as u64 + 1) << 32 | u64::from(index));
    random.random()
}

fn pacer(cell: &Cell, dues: Vec<Due>) -> Pacer {
    if !cell.load.is_closed() {
        return Pacer::open(dues);
    }
    let (think_ns, end_ns) = (cell.think_us * 1_000, cell.duration_us * 1_000);
    Pacer::Closed(ClosedLoop::new(
        cell.concurrency,
        think_ns,
        cell.devices,
        end_ns,
        u64::MAX,
    ))
}

/// In which way the generator was late, where the block has enough messages to tell.
fn lateness(block: &Block) -> Option<String> {
    let samples = &block.samples;
    let quantile_us = |ns: &dyn Fn(usize) -> Option<u64>, q| {
        let us: Vec<f64> = (0..samples.len())
            .map(|message| ns(message).map_or(f64::INFINITY, |ns| ns as f64 / 1e3))
            .collect();
        Pool::new(&Units::of_block(&us)).value(q)
    };
    if samples.len() < samples_needed(0.99) {
        return None;
    }
    // A message that could not leave is a loss, not late.
    let lag_us = quantile_us(&|message| Some(samples.send_lag_ns(message).unwrap_or(0)), 0.99)?;
    let median_us = quantile_us(&|message| samples.response_ns(message), 0.5)?;
    let check = send_lag(lag_us, median_us);
    let stolen_ms = block.usage.steal_s * 1e3;
    (!check.holds).then(|| format!("{}; {stolen_ms:.0} ms of CPU went to others meanwhile", check.detail))
}

/// What a block cost: read before and after.
struct Meter {
    server_cpu_s: Option<f64>,
    edge_cpu_s: Option<f64>,
    line: Option<[Counters; 2]>,
    steal_s: f64,
}

impl Meter {
    fn start(running: &RunningArm, uplink: &Uplink) -> Meter {
        Meter {
            server_cpu_s: running.cpu_s(None),
            edge_cpu_s: running.cpu_s(Some(Place::Edge)),
            line: uplink.carried(),
            steal_s: proc::load().steal_s,
        }
    }

    fn stop(self, running: &RunningArm, uplink: &Uplink, generator: GeneratorUsage) -> (Usage, Option<[Counters; 2]>) {
        let used = |after: Option<f64>, before: Option<f64>| after.zip(before).map(|(after, before)| after - before);
        let line = uplink.carried().zip(self.line);
        let line = line.map(|(after, before)| [0, 1].map(|way| after[way].since(&before[way])));
        let usage = Usage {
            wall_s: generator.wall_s,
            generator_cpu_s: generator.cpu_s,
            generator_spin_s: generator.spin_s,
            client_s: generator.client_s,
            server_cpu_s: used(running.cpu_s(None), self.server_cpu_s),
            edge_cpu_s: used(running.cpu_s(Some(Place::Edge)), self.edge_cpu_s).filter(|_| uplink.is_there()),
            server_rss_bytes: running.rss_bytes(),
            steal_s: proc::load().steal_s - self.steal_s,
        };
        (usage, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    #[test]
    fn a_block_whose_generator_was_late_says_by_how_much_and_one_on_time_says_nothing() {
        let lagging = |lag_us| {
            let mut behaviour = synthetic::behaviours().remove(1);
            behaviour.lag_us = lag_us;
            synthetic::run(1, vec![synthetic::cell()], &[behaviour, behaviour], 1)
        };
        assert_eq!(lateness(&lagging(50.0).blocks[0]), None);
        let late = lateness(&lagging(5_000.0).blocks[0]).unwrap();
        assert!(late.starts_with("p99 of the send lag 4"), "{late}");
    }
}
