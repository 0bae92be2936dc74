//! Runs a plan: interleaves the arms' blocks in a seeded random order and keeps what was seen (rule 9).

use std::io;
use std::time::Instant;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ring::digest;

use super::pacer::{ClosedLoop, Pacer};
use super::plan::Plan;
use super::progress::{Progress, Step};
use super::recorder::Recorder;
use super::schedule::{Due, hash_into, schedule};
use super::stand::{Clients, Stand, Standing};
use crate::arms::{Helper, RunningArm};
use crate::environment::{self, Environment, hexadecimal};
use crate::generator::block::{self, GeneratorUsage, WARM_UP_TAGS};
use crate::generator::payload::Payloads;
use crate::privacy::without_paths;
use crate::proc;
use crate::run::{Block, Cell, FORMAT, Run, Skipped, Usage};

/// Why a run could not be made at all. What befalls a single arm is in [`Run::skipped`].
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine refused something that every arm needs.
    #[error("cannot measure on this machine: {0}")]
    Machine(#[from] io::Error),
    /// The baseline, or every arm, is missing.
    #[error("nothing to compare with: {0}")]
    NoArms(String),
    /// No certificates for the arms under TLS.
    #[error("{0}")]
    Certificates(String),
}

/// Measures everything that `plan` asks for. `helper` says how this program reaches its own hidden commands.
///
/// # Errors
/// Nothing could be measured; see [`RunError`].
pub fn run(plan: &Plan, helper: &Helper, progress: &mut dyn Progress) -> Result<Run, RunError> {
    let started = Instant::now();
    let data = plan.trace().map(|trace| (trace.source.clone(), trace.sha256.clone()));
    let before = environment::observe(data.into_iter().collect());
    let mut runner = Runner::new(plan, Stand::set_up(plan, helper, progress)?, started);
    runner.measure(progress)?;
    progress.done();
    Ok(runner.conclude(before))
}

struct Runner<'a> {
    plan: &'a Plan,
    stand: Stand,
    started: Instant,
    payloads: Vec<Payloads>,
    order: ChaCha8Rng,
    digest: digest::Context,
    next_tag: u32,
    blocks: Vec<Block>,
}

impl<'a> Runner<'a> {
    fn new(plan: &'a Plan, stand: Stand, started: Instant) -> Runner<'a> {
        let payloads = plan.cells().iter().map(|cell| match plan.trace() {
            Some(trace) => Payloads::rows(trace),
            None => Payloads::padded(cell.payload_bytes),
        });
        Runner {
            plan,
            stand,
            started,
            payloads: payloads.collect(),
            order: ChaCha8Rng::seed_from_u64(plan.seed()),
            digest: digest::Context::new(&digest::SHA256),
            next_tag: 1,
            blocks: Vec::new(),
        }
    }

    fn measure(&mut self, progress: &mut dyn Progress) -> io::Result<()> {
        for index in 0..self.plan.blocks() {
            let mut cells: Vec<usize> = (0..self.plan.cells().len()).collect();
            cells.shuffle(&mut self.order);
            for cell in cells {
                self.measure_cell(cell, index, progress)?;
            }
        }
        Ok(())
    }

    /// One block of every arm, all with the same schedule.
    fn measure_cell(&mut self, cell: usize, index: u32, progress: &mut dyn Progress) -> io::Result<()> {
        let seed = schedule_seed(self.plan.seed(), cell, index);
        let dues = schedule(&self.plan.cells()[cell], self.plan.trace(), seed);
        hash_into(&mut self.digest, &self.plan.cells()[cell], &dues);
        let mut arms: Vec<usize> = (0..self.stand.standing.len()).collect();
        arms.shuffle(&mut self.order);
        for arm in arms {
            if self.stand.standing[arm].out {
                continue;
            }
            progress.block(&self.step(arm, index));
            match self.measure_block(cell, arm, index, dues.clone(), progress)? {
                Ok(block) => self.blocks.push(block),
                Err(reason) => self.leave_out(arm, &reason, progress),
            }
        }
        Ok(())
    }

    fn step(&self, arm: usize, index: u32) -> Step<'_> {
        let total = self.plan.cells().len() * self.stand.standing.len() * self.plan.blocks() as usize;
        let arm = &self.stand.standing[arm].about.name;
        Step {
            done: self.blocks.len(),
            total,
            arm,
            block: index + 1,
            blocks: self.plan.blocks(),
        }
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
    fn measure_block(
        &mut self,
        cell: usize,
        arm: usize,
        index: u32,
        dues: Vec<Due>,
        progress: &mut dyn Progress,
    ) -> io::Result<Result<Block, String>> {
        let tag = self.next_tag;
        self.next_tag += WARM_UP_TAGS + 1;
        let point = &self.plan.cells()[cell];
        let Standing { running, clients, .. } = &mut self.stand.standing[arm];
        let spins = self.stand.generator_cpu.is_some();
        let fleet = match clients.fleet(&running.access, point, spins) {
            Ok(fleet) => fleet,
            Err(problem) => return Ok(Err(running.ended().unwrap_or(problem))),
        };
        let timeout_ns = point.timeout_us * 1_000;
        let warm_up = block::warm_up(fleet, point.devices, timeout_ns, &mut self.payloads[cell], tag)?;
        progress.measuring();
        let started_s = self.started.elapsed().as_secs_f64();
        let mut recorder = Recorder::new(point.devices, timeout_ns, dues.len());
        let meter = Meter::start(running);
        let payloads = &mut self.payloads[cell];
        let generator = block::run_block(
            fleet,
            &mut pacer(point, dues),
            &mut recorder,
            payloads,
            tag + WARM_UP_TAGS,
        )?;
        let usage = meter.stop(running, generator);
        let failure = running.ended().or_else(|| fleet.failure.clone());
        if !self.stand.keeps_clients {
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
            failure: failure.as_deref().map(without_paths),
        }))
    }

    fn conclude(self, before: Environment) -> Run {
        let generator_cpu = self.stand.generator_cpu;
        let (arms, skipped) = self.stand.take_down();
        Run {
            format: FORMAT,
            experiment: "rtt".to_owned(),
            options: self.plan.options().clone(),
            seed: self.plan.seed(),
            schedule_hash: hexadecimal(self.digest.finish().as_ref()),
            arms,
            cells: self.plan.cells().to_vec(),
            blocks: self.blocks,
            skipped,
            environment: environment::conclude(before, generator_cpu, self.started.elapsed()),
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

/// What a block cost: read before and after.
struct Meter {
    server_cpu_s: Option<f64>,
    steal_s: f64,
}

impl Meter {
    fn start(running: &RunningArm) -> Meter {
        Meter {
            server_cpu_s: running.cpu_s(),
            steal_s: proc::load().steal_s,
        }
    }

    fn stop(self, running: &RunningArm, generator: GeneratorUsage) -> Usage {
        Usage {
            wall_s: generator.wall_s,
            generator_cpu_s: generator.cpu_s,
            generator_spin_s: generator.spin_s,
            client_s: generator.client_s,
            server_cpu_s: running
                .cpu_s()
                .zip(self.server_cpu_s)
                .map(|(after, before)| after - before),
            server_rss_bytes: running.rss_bytes(),
            steal_s: proc::load().steal_s - self.steal_s,
        }
    }
}
