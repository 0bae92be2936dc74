//! The order of things: every block measures each part for each system, in a seeded random order (rule 9).

use std::path::Path;
use std::time::Instant;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use super::contender::{Contender, Site};
use super::options::{Options, Part};
use super::ready::Queue;
use super::record::{CapacityRun, FORMAT, Figure, Sample};
use super::{cut, drain, durable, far, memory, readings, ready, storm, thin};
use crate::arms::{self, Helper};
use crate::environment::{self, Environment};
use crate::privacy::without_paths;
use crate::report::words;
use crate::rtt::{Progress, Step};

/// Files of this program beside its connections.
const FILES_OF_OUR_OWN: u64 = 128;
/// Files for each edge that reconnects: that by which it is watched, and those of its start.
const FILES_PER_EDGE: u64 = 4;

/// What one system does at a time.
#[derive(Clone, Copy, PartialEq)]
struct Job {
    part: Part,
    contender: Contender,
    payload_bytes: Option<u32>,
}

/// Measures. `helper` says how this program reaches its own hidden commands.
///
/// # Errors
/// The machine refuses what every part needs, in words.
pub fn run(options: &Options, helper: &Helper, progress: &mut dyn Progress) -> Result<CapacityRun, String> {
    let options = options.clone().effective();
    if options.edges > storm::EDGES_MAX {
        return Err(format!(
            "--edges is {}; it may be {} at most",
            options.edges,
            storm::EDGES_MAX
        ));
    }
    let needed = u64::from(options.connections) + FILES_PER_EDGE * u64::from(options.edges) + FILES_OF_OUR_OWN;
    if !arms::raise_file_limit(needed) {
        return Err(format!(
            "{} connections and {} edges need {needed} open files; raise the limit (ulimit -n) or ask for fewer \
             --connections and --edges",
            options.connections, options.edges
        ));
    }
    // Before this thread is pinned: it says on how many CPUs it may run.
    let (started, before) = (Instant::now(), environment::observe(Vec::new()));
    let affinity_before = sched_getaffinity(None).map_err(|error| format!("cannot see our CPUs: {error}"))?;
    let cpus = arms::Cpus::apart(&affinity_before);
    cpus.generator
        .map_or(Ok(()), arms::pin_to)
        .map_err(|error| format!("cannot pin the generator: {error}"))?;
    let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let result = measure(&options, helper, (cpus, before), directory.path(), progress).map(|run| CapacityRun {
        environment: environment::conclude(run.environment, cpus.generator, started.elapsed()),
        ..run
    });
    // The set was ours before, so that it can be again.
    let _ = sched_setaffinity(None, &affinity_before);
    progress.done();
    result
}

fn measure(
    options: &Options,
    helper: &Helper,
    (cpus, before): (arms::Cpus, Environment),
    directory: &Path,
    progress: &mut dyn Progress,
) -> Result<CapacityRun, String> {
    let (site, programs, missing) = Site::prepare(options, helper, cpus, directory)?;
    let seed = options.seed.unwrap_or_else(rand::random);
    let mut bench = Bench {
        options,
        site: &site,
        seed,
        queues: Vec::new(),
        samples: Vec::new(),
        skipped: missing.iter().map(|reason| without_paths(reason)).collect(),
        left_out: Vec::new(),
    };
    bench.fill_queues(progress);
    bench.blocks(progress);
    bench.empty_queues(progress);
    Ok(CapacityRun {
        format: FORMAT,
        experiment: "capacity".to_owned(),
        options: Options {
            // Its URL may hold a password.
            database: options.database.as_ref().map(|_| "postgresql".to_owned()),
            ..options.clone()
        },
        seed,
        programs,
        samples: bench.samples,
        skipped: bench.skipped,
        environment: before,
    })
}

struct Bench<'a> {
    options: &'a Options,
    site: &'a Site,
    seed: u64,
    queues: Vec<(Contender, Queue<'a>)>,
    samples: Vec<Sample>,
    skipped: Vec<String>,
    /// Jobs that failed once are not tried again.
    left_out: Vec<Job>,
}

impl Bench<'_> {
    /// Each system in the setting that it comes in; for durable messages in all of them.
    fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for part in &self.options.parts {
            for contender in self.site.contenders() {
                let payloads: Vec<Option<u32>> = match (part, contender) {
                    (Part::Drain | Part::DrainPostgresql | Part::DrainFar | Part::Thin, Contender::SelvedgeDisk) => {
                        vec![Some(readings::PAYLOAD_BYTES)]
                    }
                    (Part::Storm | Part::Cut, Contender::SelvedgeDisk) => vec![None],
                    (part, _) if part.is_of_link() => Vec::new(),
                    (Part::Durable, _) => self.options.payload_bytes.iter().copied().map(Some).collect(),
                    (_, Contender::SelvedgeOs) => Vec::new(),
                    _ => vec![None],
                };
                jobs.extend(payloads.into_iter().map(|payload_bytes| Job {
                    part: *part,
                    contender,
                    payload_bytes,
                }));
            }
        }
        jobs
    }

    fn fill_queues(&mut self, progress: &mut dyn Progress) {
        for job in self.jobs().into_iter().filter(|job| job.part == Part::ReadyQueued) {
            progress.say(&format!(
                "{}: queueing {} messages",
                job.contender.name(),
                self.options.queued
            ));
            match Queue::fill(self.site, job.contender, self.options) {
                Ok(queue) => self.queues.push((job.contender, queue)),
                Err(reason) => self.leave_out(job, &reason, progress),
            }
        }
    }

    fn blocks(&mut self, progress: &mut dyn Progress) {
        let mut order = ChaCha8Rng::seed_from_u64(self.seed);
        let (mut jobs, blocks) = (self.jobs(), self.options.blocks);
        let once = jobs.iter().filter(|job| job.part.is_once()).count();
        let total = (jobs.len() - once) * blocks as usize + once;
        let mut done = 0;
        for block in 0..blocks {
            shuffle(&mut jobs, &mut order);
            for job in jobs.iter().filter(|job| block == 0 || !job.part.is_once()) {
                progress.block(&Step {
                    done,
                    total,
                    arm: job.contender.name(),
                    block: block + 1,
                    blocks,
                });
                if let Some(time) = job.part.takes(self.options) {
                    progress.say(&format!(
                        "  {:?}: {} at least",
                        job.part,
                        words::duration(time.as_secs_f64() * 1e6)
                    ));
                }
                self.attempt(*job, block, progress);
                done += 1;
            }
        }
    }

    fn attempt(&mut self, job: Job, block: u32, progress: &mut dyn Progress) {
        if self.left_out.contains(&job) {
            return;
        }
        match self.perform(job, block) {
            Ok(figures) => {
                for (figure, value) in figures {
                    self.keep(job, block, figure, value);
                }
            }
            Err(reason) => self.leave_out(job, &reason, progress),
        }
    }

    fn perform(&self, job: Job, block: u32) -> Result<Vec<(Figure, Option<f64>)>, String> {
        let (site, contender, options) = (self.site, job.contender, self.options);
        let name = format!("{:?}-{}-{block}", job.part, job.payload_bytes.unwrap_or_default());
        let figures = match (job.part, job.payload_bytes) {
            (Part::Durable, payload_bytes) => {
                return durable::measure(site, contender, &name, (options, payload_bytes.unwrap_or_default()));
            }
            (Part::Drain, _) => return drain::measure(site, &name, options, None),
            (Part::DrainPostgresql, _) => return drain::into_postgres(site, &name, options),
            (Part::DrainFar, _) => return far::measure(site, &name, options),
            (Part::Thin, _) => return thin::measure(site, &name, options),
            (Part::Storm, _) => return storm::measure(site, &name, options),
            (Part::Cut, _) => return cut::measure(site, &name, options, self.seed),
            (Part::Memory, _) => memory::measure(site, contender, &name, (options.connections, false))?,
            (Part::MemoryTls, _) => memory::measure(site, contender, &name, (options.connections, true))?,
            (Part::Ready, _) => ready::fresh(site, contender, &name, options)?,
            (Part::ReadyQueued, _) => {
                let queue = self.queues.iter().find(|(owner, _)| *owner == contender);
                let (_, queue) = queue.ok_or("it has no queue")?;
                queue.measure(options, block)?
            }
        };
        Ok(figures
            .into_iter()
            .map(|(figure, value)| (figure, Some(value)))
            .collect())
    }

    fn empty_queues(&mut self, progress: &mut dyn Progress) {
        let last = self.options.blocks.saturating_sub(1);
        for (contender, queue) in std::mem::take(&mut self.queues) {
            let job = Job {
                part: Part::ReadyQueued,
                contender,
                payload_bytes: None,
            };
            match queue.lost() {
                Ok(lost) => self.keep(job, last, Figure::QueueLostMessages, Some(lost as f64)),
                Err(reason) => self.leave_out(job, &reason, progress),
            }
        }
    }

    fn keep(&mut self, job: Job, block: u32, figure: Figure, value: Option<f64>) {
        self.samples.push(Sample {
            block,
            part: job.part,
            contender: job.contender,
            figure,
            payload_bytes: job.payload_bytes,
            value,
        });
    }

    fn leave_out(&mut self, job: Job, reason: &str, progress: &mut dyn Progress) {
        let said = format!(
            "{}, {:?}: left out from here on: {reason}",
            job.contender.name(),
            job.part
        );
        progress.say(&said);
        self.skipped.push(without_paths(&said));
        self.left_out.push(job);
    }
}

/// Parts in random order, and within each the systems, so that what is compared stays close in time.
fn shuffle(jobs: &mut [Job], order: &mut impl Rng) {
    jobs.shuffle(order);
    let mut parts: Vec<(Part, Option<u32>)> = Vec::new();
    for job in jobs.iter() {
        if !parts.contains(&(job.part, job.payload_bytes)) {
            parts.push((job.part, job.payload_bytes));
        }
    }
    let rank = |job: &Job| parts.iter().position(|part| *part == (job.part, job.payload_bytes));
    jobs.sort_by_key(rank);
}
