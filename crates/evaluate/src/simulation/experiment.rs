//! All sites of all cells under every policy, on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use balance::Policy;
use balance::simulate::{self, Experiment, Outcome};

use super::EXPERIMENT;
use super::cells::{cells, site, units};
use super::options::Options;
use super::record::{Cell, Done, FORMAT, Figures, SimulationRun};
use super::table::cell_name;
use super::traffic::STEPS;
use crate::environment;
use crate::gateway::day_by_steps;
use crate::interrupt;
use crate::rtt::{Progress, Step};
use crate::stats::{rank, samples_needed};

/// A site of 250 nodes takes some 100 MB.
const MAX_THREADS: usize = 8;

/// A site under a policy.
#[derive(Clone, Copy)]
struct Job {
    cell: Cell,
    policy: Policy,
    unit: u32,
}

/// Simulates. The same options and seed are the same outcome.
///
/// # Errors
/// The file of readings cannot be read or has no whole day; or SIGINT or SIGTERM has ended it.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<SimulationRun, String> {
    interrupt::listen().map_err(|error| format!("SIGINT and SIGTERM: {error}"))?;
    let options = options.clone().effective();
    let (by_steps, day) = day_by_steps(options.replay.as_deref(), STEPS)?;
    let hashes = vec![(day.source.clone(), day.sha256.clone())];
    let (started, observed) = (Instant::now(), environment::observe(hashes));
    let seed = options.seed.unwrap_or_else(rand::random);
    let jobs = jobs(&options);
    if jobs.is_empty() {
        return Err("there is nothing to simulate: no part, or no number of nodes".to_owned());
    }
    let done = on_all_processors(&jobs, progress, &|job| {
        let site = site(job.cell, job.policy, (job.unit, seed), &options, &by_steps);
        figures(job.cell, &simulate::run(&site), &site)
    })?;
    progress.done();
    let done = jobs.iter().zip(done).map(|(job, figures)| Done {
        cell: job.cell,
        policy: job.policy,
        unit: job.unit,
        figures,
    });
    Ok(SimulationRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        done: done.collect(),
        options,
        seed,
        day,
        environment: environment::conclude(observed, None, started.elapsed()),
    })
}

fn jobs(options: &Options) -> Vec<Job> {
    let mut all = Vec::new();
    for cell in cells(options) {
        for policy in Policy::ALL {
            all.extend((0..units(cell, options.seeds)).map(|unit| Job { cell, policy, unit }));
        }
    }
    all
}

fn figures(cell: Cell, outcome: &Outcome, site: &Experiment) -> Figures {
    let took = outcome.all_took();
    let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let asked = sum(&outcome.asked);
    let lost = outcome.lost + outcome.refused;
    let all = took.len() + lost as usize;
    let p99 = took.get(rank(all, 0.99) - 1).filter(|_| all >= samples_needed(0.99));
    let late = outcome.late.iter().zip(&outcome.asked);
    let late_of_node = late.map(|(late, asked)| *late as f64 / (*asked).max(1) as f64);
    let measured_s = site.measured.as_secs_f64();
    let sum_us = took.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e6;
    Figures {
        asked_per_s: asked / measured_s,
        per_s: outcome.answered as f64 / measured_s,
        late_share: match cell {
            Cell::Map { .. } => late_of_node.fold(0.0, f64::max),
            Cell::Scale { .. } => sum(&outcome.late) / asked.max(1.0),
        },
        lost,
        mean_us: (!took.is_empty()).then(|| sum_us / took.len() as f64),
        p99_us: p99.map(|p99| p99.as_secs_f64() * 1e6),
        here_share: outcome.answered_here as f64 / took.len().max(1) as f64,
    }
}

/// In the order of the jobs.
fn on_all_processors(
    jobs: &[Job],
    progress: &mut dyn Progress,
    simulated: &(dyn Fn(Job) -> Figures + Sync),
) -> Result<Vec<Figures>, String> {
    let processors = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::sync_channel(processors);
    let mut done: Vec<(usize, Figures)> = Vec::new();
    thread::scope(|scope| {
        for _ in 0..processors {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while interrupt::told().is_none() {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(place) else { break };
                    if sender.send((place, simulated(*job))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (place, figures) in receiver {
            done.push((place, figures));
            let Job { cell, policy, unit } = jobs[place];
            progress.block(&Step {
                done: done.len(),
                total: jobs.len(),
                arm: &format!("{}, {}", cell_name(cell), policy.name()),
                block: unit + 1,
                blocks: units_of(jobs, cell),
            });
        }
    });
    interrupt::check()?;
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, figures)| figures).collect())
}

fn units_of(jobs: &[Job], cell: Cell) -> u32 {
    let of_cell = jobs.iter().filter(|job| job.cell == cell);
    of_cell.map(|job| job.unit + 1).max().unwrap_or_default()
}
