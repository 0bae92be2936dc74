//! The order of things: every block does each cell by each of its arms, in a seeded random order (rule 9).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::cells::jobs;
use super::load::{self, Window};
use super::nodes::{Nodes, forgotten};
use super::options::{Options, Part};
use super::proxies::Proxy;
use super::record::{Arm, BalancingRun, Cell, Done, Event, FORMAT, Job, Load, Seen};
use super::table::cell_name;
use super::{EXPERIMENT, NODES};
use crate::arms::Helper;
use crate::environment;
use crate::gateway::left;
use crate::interrupt;
use crate::privacy::without_paths;
use crate::rtt::{Progress, Step};

/// From starting the first client until all may ask.
const HEAD_START: Duration = Duration::from_millis(20);

/// Measures. `before`: an earlier run that was ended, with which this one goes on; `keep` is given what there is after
/// each cell.
///
/// # Errors
/// The machine refuses what every cell needs, or what was measured cannot be kept, in words; or SIGINT or SIGTERM has
/// ended it, with what is left of what it had started: nothing, if all went well.
pub fn run(
    options: &Options,
    helper: &Helper,
    before: Option<BalancingRun>,
    progress: &mut dyn Progress,
    keep: &mut dyn FnMut(&BalancingRun) -> Result<(), String>,
) -> Result<BalancingRun, String> {
    interrupt::listen().map_err(|error| format!("SIGINT and SIGTERM: {error}"))?;
    let options = options.clone().effective();
    let (started, observed) = (Instant::now(), environment::observe(Vec::new()));
    let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let seed = before.as_ref().map(|run| run.seed).or(options.seed);
    let seed = seed.unwrap_or_else(rand::random);
    progress.say("Starting three edges and making them one site");
    let (nodes, programs) = Nodes::start(&options, helper, directory.path(), seed)?;
    let run = BalancingRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        options: options.clone(),
        seed,
        programs,
        done: before.map_or_else(Vec::new, |run| run.done),
        skipped: Vec::new(),
        environment: observed,
    };
    let mut bench = Bench {
        nodes,
        started,
        run,
        left_out: Vec::new(),
    };
    let result = bench.blocks(progress, keep);
    let Bench { nodes, mut run, .. } = bench;
    drop(nodes);
    if let (Err(_), Some(told)) = (&result, interrupt::told()) {
        keep(&run)?;
        return Err(format!(
            "{told}{}; what {} jobs gave is kept, and --resume goes on with it",
            left(directory),
            run.done.len()
        ));
    }
    result?;
    run.environment = environment::conclude(run.environment, None, started.elapsed());
    keep(&run)?;
    progress.done();
    Ok(run)
}

/// About how long it takes.
#[must_use]
pub fn estimate(options: &Options) -> Duration {
    const START: Duration = Duration::from_secs(20);
    /// Of a policy or a proxy, seen on a machine of two cores.
    const SET_UP: Duration = Duration::from_millis(350);
    /// Of other pods.
    const SCALE: Duration = Duration::from_secs(5);
    /// Of another delay.
    const DELAY: Duration = Duration::from_millis(4_500);
    let options = options.clone().effective();
    let jobs = shuffled(&jobs(&options), 0, 0);
    let changes = |of: fn(&Job, &Job) -> bool| jobs.windows(2).filter(|pair| of(&pair[0], &pair[1])).count() as u32 + 1;
    let each = SET_UP + options.warm_up() + options.measure();
    let disturbs = |job: &&Job| matches!(job.cell.event, Some(Event::CutOff | Event::Returns | Event::Slow));
    let disturbed = jobs.iter().filter(disturbs).count();
    let block = each * jobs.len() as u32
        + forgotten(&options) * disturbed as u32
        + SCALE * changes(|one, next| (one.cell.pods, one.cell.work) != (next.cell.pods, next.cell.work))
        + DELAY * changes(|one, next| one.cell.round_trip_ms != next.cell.round_trip_ms);
    START + block * options.blocks
}

struct Bench {
    nodes: Nodes,
    started: Instant,
    run: BalancingRun,
    /// Jobs that failed once are not tried again.
    left_out: Vec<Job>,
}

impl Bench {
    fn blocks(
        &mut self,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&BalancingRun) -> Result<(), String>,
    ) -> Result<(), String> {
        let jobs = jobs(&self.run.options);
        let (blocks, mut done) = (self.run.options.blocks, 0);
        for block in 0..blocks {
            let order = shuffled(&jobs, self.run.seed, block);
            for (place, job) in order.iter().enumerate() {
                progress.block(&Step {
                    done,
                    total: jobs.len() * blocks as usize,
                    arm: &name(job),
                    block: block + 1,
                    blocks,
                });
                done += 1;
                self.attempt(*job, block, progress)?;
                let is_last = order.get(place + 1).is_none_or(|next| next.cell != job.cell);
                if is_last {
                    keep(&self.run)?;
                }
            }
        }
        Ok(())
    }

    /// Does a job that is not done yet and has not failed.
    ///
    /// # Errors
    /// The run was told to end; what the job has seen until then is not kept.
    fn attempt(&mut self, job: Job, block: u32, progress: &mut dyn Progress) -> Result<(), String> {
        interrupt::check()?;
        let is_done = self.run.done.iter().any(|one| one.block == block && one.job == job);
        if is_done || self.left_out.contains(&job) {
            return Ok(());
        }
        let started_s = self.started.elapsed().as_secs_f64();
        let performed = self.perform(job, block);
        interrupt::check()?;
        match performed {
            Ok(seen) => self.run.done.push(Done {
                block,
                job,
                started_s,
                seen,
            }),
            Err(reason) => {
                let said = format!("{}: left out from here on: {reason}", name(&job));
                progress.say(&said);
                self.run.skipped.push(without_paths(&said));
                self.left_out.push(job);
            }
        }
        Ok(())
    }

    fn perform(&mut self, job: Job, block: u32) -> Result<[Seen; NODES], String> {
        let (cell, arm) = (job.cell, job.arm);
        self.nodes.set(&cell, arm.policy())?;
        let asked: Vec<usize> = match cell.load {
            Load::Closed(clients) => (0..NODES).filter(|place| clients[*place] > 0).collect(),
            Load::Open(_) if cell.event == Some(Event::Moves) => vec![0, 1],
            Load::Open(_) => vec![0],
        };
        let mut proxies: Vec<Proxy> = Vec::new();
        let mut ways: Vec<(usize, SocketAddr)> = Vec::new();
        for place in asked {
            if arm == Arm::Direct {
                let pods = self.nodes.pods_seen_from(place);
                ways.push((place, *pods.first().ok_or("there is no pod to be asked")?));
            } else if arm.policy().is_some() {
                ways.push((place, self.nodes.all()[place].door()?));
            } else {
                let proxy = Proxy::start(arm, &self.nodes, place)?;
                ways.push((place, proxy.address));
                proxies.push(proxy);
            }
        }
        let seed = self.run.seed.wrapping_add(block.into());
        // Of the node that is asked, where one alone is.
        let cpu_s = || match (arm, &proxies[..]) {
            (Arm::Direct, _) => None,
            (_, [proxy]) => proxy.cpu_s(),
            _ => self.nodes.all()[0].edge.cpu_s(),
        };
        let seen = ask(&self.nodes, &self.run.options, (&cell, seed), &ways, &cpu_s);
        drop(proxies);
        if let Some(event) = cell.event {
            self.nodes.undo(event)?;
        }
        seen
    }
}

/// Asks each node at its address, all at once.
fn ask(
    nodes: &Nodes,
    options: &Options,
    (cell, seed): (&Cell, u64),
    ways: &[(usize, SocketAddr)],
    cpu_s: &dyn Fn() -> Option<f64>,
) -> Result<[Seen; NODES], String> {
    let began = Instant::now() + HEAD_START;
    let begins = began + options.warm_up();
    let window = Window {
        begins,
        ends: begins + options.measure(),
    };
    let one = |place: usize, address: SocketAddr| {
        let node = &nodes.all()[place];
        let here = node.name().as_bytes();
        // Traffic that moves comes to the first node until it counts, and from then on to the other.
        let (began, window) = match (cell.event, place) {
            (Some(Event::Moves), 0) => (began, Window { ends: begins, ..window }),
            (Some(Event::Moves), _) => (begins, window),
            _ => (began, window),
        };
        node.site.enter(|| match cell.load {
            Load::Closed(clients) => load::closed(address, here, clients[place], window),
            Load::Open(per_s) => load::open(address, here, (per_s, seed), (began, window)),
        })?
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = ways
            .iter()
            .map(|(place, address)| (*place, scope.spawn(move || one(*place, *address))))
            .collect();
        if let Some(event) = cell.event {
            interrupt::pause(begins.saturating_duration_since(Instant::now()))?;
            nodes.happens(event)?;
            if event == Event::Returns {
                interrupt::pause(options.measure() / 2)?;
                nodes.returns()?;
            }
        }
        let mut used_s = None;
        if cell.part == Part::Proxy {
            interrupt::pause(window.begins.saturating_duration_since(Instant::now()))?;
            let before_s = cpu_s();
            interrupt::pause(window.ends.saturating_duration_since(Instant::now()))?;
            used_s = cpu_s().zip(before_s).map(|(after_s, before_s)| after_s - before_s);
        }
        let mut all: [Seen; NODES] = Default::default();
        for (place, thread) in started {
            all[place] = thread.join().expect("asking does not panic")?;
        }
        all[0].cpu_s = used_s;
        Ok(all)
    })
}

/// In the words of progress.
fn name(job: &Job) -> String {
    format!(
        "{}, {} pods, {}",
        job.arm.name(),
        job.cell.pods_words(),
        cell_name(&job.cell)
    )
}

/// Random, but for what takes time to change: pods, then the delay; arms of a cell follow each other. The same of a
/// seed and block, wherever a run began.
fn shuffled(jobs: &[Job], seed: u64, block: u32) -> Vec<Job> {
    let mut order = ChaCha8Rng::seed_from_u64(seed);
    order.set_stream(u64::from(block));
    let mut jobs = jobs.to_vec();
    jobs.shuffle(&mut order);
    together(&mut jobs, |job| job.cell);
    together(&mut jobs, |job| (job.cell.pods, job.cell.work, job.cell.round_trip_ms));
    together(&mut jobs, |job| (job.cell.pods, job.cell.work));
    jobs
}

/// Those with the same key one after the other, in the order of the first of each.
fn together<K: PartialEq>(jobs: &mut [Job], key: impl Fn(&Job) -> K) {
    let mut keys: Vec<K> = Vec::new();
    for job in jobs.iter() {
        let key = key(job);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    jobs.sort_by_cached_key(|job| keys.iter().position(|other| *other == key(job)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_same_order_again_another_block_another_and_arms_of_a_cell_stay_together() {
        let jobs = jobs(&Options::default());
        let first = shuffled(&jobs, 7, 0);
        assert_eq!(first, shuffled(&jobs, 7, 0));
        assert_ne!(first, shuffled(&jobs, 7, 1));
        let changes = |of: fn(&Job, &Job) -> bool| first.windows(2).filter(|pair| of(&pair[0], &pair[1])).count() + 1;
        let cells: std::collections::HashSet<_> = jobs.iter().map(|job| job.cell).collect();
        let pods = |job: &Job| (job.cell.pods, job.cell.work);
        let all_pods: std::collections::HashSet<_> = jobs.iter().map(pods).collect();
        assert_eq!(changes(|one, next| one.cell != next.cell), cells.len());
        let other_pods = |one: &Job, next: &Job| (one.cell.pods, one.cell.work) != (next.cell.pods, next.cell.work);
        assert_eq!(changes(other_pods), all_pods.len());
    }

    #[test]
    fn the_short_run_ends_within_ten_minutes() {
        let quick = Options {
            quick: true,
            ..Options::default()
        };
        assert!(estimate(&quick) < Duration::from_secs(600), "{:?}", estimate(&quick));
    }
}
