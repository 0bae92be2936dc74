//! The order of things: every block does each task for each arm, in a seeded random order (rule 9).

use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use super::edge::Edge;
use super::options::{Options, Part, Runtime};
use super::record::{Arm, Benchmark, DayTraffic, Done, FORMAT, GatewayRun, Job, Measured, Mode, Sample, Task};
use super::site::Site;
use super::{EXPERIMENT, activation, burst, cost, day, footprint, throughput, work};
use crate::arms::{self, Helper};
use crate::environment;
use crate::interrupt;
use crate::privacy::without_paths;
use crate::proc;
use crate::rtt::{Progress, Step};

/// What is said where `--quick` leaves it out.
const DAY_BY_ITSELF: &str =
    "day: beside the others it would not end within ten minutes; `--quick --parts day` measures it";
/// Files of this program beside the connections of a burst.
const FILES_OF_OUR_OWN: u64 = 128;

/// Measures. `before`: an earlier run that was ended, with which this one goes on; `keep` is given what there is after
/// each job.
///
/// # Errors
/// The machine refuses what every task needs, or what was measured cannot be kept, in words; or SIGINT or SIGTERM has
/// ended it, with what is left of what it had started: nothing, if all went well.
pub fn run(
    options: &Options,
    helper: &Helper,
    before: Option<GatewayRun>,
    progress: &mut dyn Progress,
    keep: &mut dyn FnMut(&GatewayRun) -> Result<(), String>,
) -> Result<GatewayRun, String> {
    interrupt::listen().map_err(|error| format!("SIGINT and SIGTERM: {error}"))?;
    let asked = &options.parts;
    let options = options.clone().effective();
    let by_itself = (asked != &options.parts).then(|| DAY_BY_ITSELF.to_owned());
    let needed = u64::from(options.burst) + FILES_OF_OUR_OWN;
    if !arms::raise_file_limit(needed) {
        return Err(format!(
            "a burst of {} requests needs {needed} open files; raise the limit (ulimit -n) or ask for a smaller --burst",
            options.burst
        ));
    }
    let traffic = options
        .parts
        .contains(&Part::Day)
        .then(|| day::Traffic::of(options.day.as_deref()));
    let traffic = traffic.transpose()?;
    let about = traffic.as_ref().map(|traffic| traffic.about.clone());
    if let Some(before) = before.as_ref().filter(|before| before.day != about) {
        let source = |day: &Option<DayTraffic>| day.as_ref().map_or("none".to_owned(), |day| day.source.clone());
        return Err(format!(
            "the run that is to be gone on with replayed another day ({}) than this one ({}): leave out --resume",
            source(&before.day),
            source(&about)
        ));
    }
    let hashes = about.iter().map(|day| (day.source.clone(), day.sha256.clone()));
    let (started, observed) = (Instant::now(), environment::observe(hashes.collect()));
    let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let (site, programs, mut missing) = Site::prepare(&options, helper, directory.path())?;
    missing.extend(by_itself);
    for reason in &missing {
        progress.say(&format!("Left out: {reason}"));
    }
    let seed = before
        .as_ref()
        .map(|run| run.seed)
        .or(options.seed)
        .unwrap_or_else(rand::random);
    let run = GatewayRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        options: options.clone(),
        seed,
        programs,
        day: about,
        done: before.map_or_else(Vec::new, |run| run.done),
        skipped: missing.iter().map(|reason| without_paths(reason)).collect(),
        environment: observed,
    };
    let mut bench = Bench {
        options: &options,
        site: &site,
        traffic,
        edge: None,
        started,
        run,
        left_out: Vec::new(),
    };
    let result = bench.blocks(progress, keep);
    // Its applications end with it, before the engine that runs some of them.
    bench.edge = None;
    let mut run = bench.run;
    if let (Err(_), Some(told)) = (&result, interrupt::told()) {
        drop(site);
        return Err(format!("{told}{}; {}", left(directory), kept(&run)));
    }
    result?;
    run.environment = environment::conclude(run.environment, None, started.elapsed());
    keep(&run)?;
    progress.done();
    Ok(run)
}

/// What is left of what a run had started, whose directory this is.
pub(crate) fn left(directory: TempDir) -> String {
    let path = directory.path().display().to_string();
    let files = directory.close().err().map(|error| format!("{path}: {error}"));
    let processes = proc::naming(&path).into_iter().map(|(pid, _)| format!("process {pid}"));
    let all: Vec<String> = files.into_iter().chain(processes).collect();
    if all.is_empty() {
        ": its containers, networks and files are gone".to_owned()
    } else {
        format!(", and of what it had started there is left: {}", all.join(", "))
    }
}

fn kept(run: &GatewayRun) -> String {
    match run.done.len() {
        0 => "nothing was measured yet".to_owned(),
        count => format!("what {count} jobs gave is kept, and --resume goes on with it"),
    }
}

/// About how long it takes, with what is there for it.
#[must_use]
pub fn estimate(options: &Options) -> Duration {
    let options = options.clone().effective();
    let jobs = jobs(&options, |_| true);
    let block: Duration = jobs.iter().map(|job| takes(*job, &options)).sum();
    block * options.blocks
}

/// As seen on a machine of two cores.
fn takes(job: Job, options: &Options) -> Duration {
    const SET_UP: Duration = Duration::from_secs(1);
    SET_UP
        + match job.task {
            Task::Activation(_) if job.arm.runtime() == Runtime::Docker => {
                options.activations * Duration::from_millis(500)
            }
            Task::Activation(_) => options.activations * Duration::from_millis(250),
            Task::Throughput => Duration::from_secs(5) + 4 * Duration::from_millis(u64::from(options.throughput_ms)),
            Task::Burst => Duration::from_secs(7),
            Task::Work => Duration::from_secs(5) + options.work_time(),
            Task::Day => {
                Duration::from_secs(8) + Duration::from_millis(u64::from(options.rest_ms)) + options.day_time()
            }
            Task::Running | Task::Sleeping => {
                Duration::from_secs(12) + 2 * Duration::from_millis(u64::from(options.rest_ms))
            }
            // Containers are started and ended.
            Task::Services => {
                Duration::from_secs(10)
                    + options.services * Duration::from_millis(700)
                    + 2 * Duration::from_millis(u64::from(options.rest_ms))
            }
            Task::Apply => options.applies * Duration::from_millis(600),
            Task::Cost(benchmark, instances) => cost_takes(benchmark, options) * instances.div_ceil(2),
        }
}

fn cost_takes(benchmark: Benchmark, options: &Options) -> Duration {
    let whole = match benchmark {
        Benchmark::Cpu => 3 * Duration::from_millis(u64::from(options.events) * 3 / 2),
        Benchmark::Memory => Duration::from_secs(6),
        Benchmark::Disk => Duration::from_secs(14),
        Benchmark::Udp => 2 * Duration::from_secs(u64::from(options.udp_s)),
    };
    whole / options.cost_divisor + Duration::from_secs(1)
}

/// Every task with the arms that it is done by, as far as they are there.
pub(super) fn jobs(options: &Options, has: impl Fn(Arm) -> bool) -> Vec<Job> {
    const BY_EDGE: [Arm; 3] = [Arm::Process, Arm::Oci, Arm::Docker];
    const RUNS: [Arm; 5] = [Arm::Process, Arm::Oci, Arm::Docker, Arm::DockerRun, Arm::DockerRunAgain];
    const COSTS: [Arm; 5] = [Arm::Native, Arm::NativeAgain, Arm::Process, Arm::Oci, Arm::Docker];
    const BARE: [Arm; 5] = [
        Arm::DockerStart,
        Arm::DockerStartAgain,
        Arm::DockerEngine,
        Arm::RuncRun,
        Arm::RuncRunAgain,
    ];
    const PAUSED: [Arm; 3] = [Arm::DockerUnpause, Arm::DockerUnpauseAgain, Arm::DockerUnpauseEngine];
    const ROOTS: [Arm; 2] = [Arm::OciRoot, Arm::DockerRoot];
    const DAYS: [Arm; 3] = [Arm::AlwaysOn, Arm::AlwaysOnAgain, Arm::OnDemand];
    let mut jobs = Vec::new();
    for part in &options.parts {
        match part {
            Part::Activation => {
                let task = |task| BY_EDGE.map(|arm| Job { task, arm });
                jobs.extend(Mode::ALL.into_iter().flat_map(|mode| task(Task::Activation(mode))));
                jobs.extend(BARE.map(|arm| Job {
                    task: Task::Activation(Mode::Cold),
                    arm,
                }));
                jobs.extend(PAUSED.map(|arm| Job {
                    task: Task::Activation(Mode::Paused),
                    arm,
                }));
                jobs.extend([Task::Throughput, Task::Burst].into_iter().flat_map(task));
            }
            Part::Footprint => {
                let at_rest = [Task::Running, Task::Sleeping, Task::Services];
                jobs.extend(at_rest.map(|task| Job { task, arm: Arm::Oci }));
                jobs.extend(RUNS.map(|arm| Job { task: Task::Apply, arm }));
            }
            Part::Cost => {
                let counts = options.instances.iter();
                let tasks = counts.flat_map(|count| Benchmark::ALL.map(|benchmark| Task::Cost(benchmark, *count)));
                jobs.extend(tasks.flat_map(|task| {
                    let has_files = matches!(task, Task::Cost(Benchmark::Disk, _));
                    let roots = ROOTS.into_iter().filter(move |_| has_files);
                    COSTS.into_iter().chain(roots).map(move |arm| Job { task, arm })
                }));
            }
            Part::Work => jobs.push(Job {
                task: Task::Work,
                arm: Arm::Oci,
            }),
            Part::Day => jobs.extend(DAYS.map(|arm| Job { task: Task::Day, arm })),
        }
    }
    jobs.retain(|job| options.has(job.arm.runtime()) && has(job.arm));
    jobs
}

struct Bench<'a> {
    options: &'a Options,
    site: &'a Site,
    traffic: Option<day::Traffic>,
    /// Started once for all blocks.
    edge: Option<Edge>,
    started: Instant,
    run: GatewayRun,
    /// Jobs that failed once are not tried again.
    left_out: Vec<Job>,
}

impl Bench<'_> {
    fn blocks(
        &mut self,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&GatewayRun) -> Result<(), String>,
    ) -> Result<(), String> {
        // What was not there for that reason is none that this machine lacks.
        interrupt::check()?;
        let jobs = jobs(self.options, |arm| self.site.has(arm.runtime()));
        let (blocks, mut done) = (self.options.blocks, 0);
        for block in 0..blocks {
            for job in shuffled(&jobs, self.run.seed, block) {
                progress.block(&Step {
                    done,
                    total: jobs.len() * blocks as usize,
                    arm: &name(job),
                    block: block + 1,
                    blocks,
                });
                done += 1;
                interrupt::check()?;
                let together = self.together(&jobs, job, block);
                if !together.is_empty() && self.attempt(&together, block, progress)? {
                    keep(&self.run)?;
                }
            }
        }
        Ok(())
    }

    /// What is to be done now: a job that is not done yet, with those of its task where arms take turns; nothing where
    /// it is, or has failed once.
    fn together(&self, jobs: &[Job], job: Job, block: u32) -> Vec<Job> {
        let is_done = |job: Job| self.run.done.iter().any(|one| one.block == block && one.job == job);
        let is_one = |one: Job| match job.task {
            Task::Cost(..) => one.task == job.task,
            _ => one == job,
        };
        let all = jobs.iter().copied().filter(|one| is_one(*one));
        all.filter(|one| !self.left_out.contains(one) && !is_done(*one))
            .collect()
    }

    /// Whether there is something new to keep.
    ///
    /// # Errors
    /// The run was told to end; what the jobs have seen until then is none of their samples.
    fn attempt(&mut self, jobs: &[Job], block: u32, progress: &mut dyn Progress) -> Result<bool, String> {
        let started_s = self.started.elapsed().as_secs_f64();
        let performed = match jobs {
            [
                Job {
                    task: Task::Cost(benchmark, count),
                    ..
                },
                ..,
            ] => self.compare(jobs, (*benchmark, *count), block),
            [job, ..] => match self.perform(*job) {
                Ok(samples) => Ok(vec![(*job, samples)]),
                Err(reason) => Err((*job, reason)),
            },
            [] => Ok(Vec::new()),
        };
        interrupt::check()?;
        match performed {
            Ok(all) => {
                self.run.done.extend(all.into_iter().map(|(job, samples)| Done {
                    block,
                    job,
                    started_s,
                    samples,
                }));
                Ok(true)
            }
            Err((job, reason)) => {
                let said = format!("{}: left out from here on: {reason}", name(job));
                progress.say(&said);
                self.run.skipped.push(without_paths(&said));
                self.left_out.push(job);
                // What of it is left would be in the way.
                self.edge = None;
                Ok(false)
            }
        }
    }

    /// A benchmark program by several arms, in turn.
    fn compare(&mut self, jobs: &[Job], (benchmark, count): (Benchmark, u32), block: u32) -> Measured {
        if let Some(by_edge) = jobs.iter().find(|job| !job.arm.is_native())
            && self.edge.is_none()
        {
            self.edge = Some(start_edge(self.site).map_err(|reason| (*by_edge, reason))?);
        }
        let how = (self.options, &mut order(self.run.seed, block));
        cost::measure(self.edge.as_ref(), self.site, jobs, (benchmark, count), how)
    }

    fn perform(&mut self, job: Job) -> Result<Vec<Sample>, String> {
        let (site, options, runtime) = (self.site, self.options, job.arm.runtime());
        match (job.task, job.arm) {
            (Task::Running, _) => return footprint::running(site, runtime, options.rest_ms),
            (Task::Sleeping, _) => return footprint::sleeping(site, runtime, options.rest_ms),
            (Task::Services, _) => return footprint::services(site, options.services, options.rest_ms),
            (Task::Day, arm) => {
                let traffic = self.traffic.as_ref().ok_or("there are no requests of a day")?;
                return day::measure(site, arm, options, traffic);
            }
            (Task::Apply, Arm::DockerRun | Arm::DockerRunAgain) => return footprint::docker_run(site, options.applies),
            (_, Arm::Process | Arm::Oci | Arm::Docker) => {}
            (Task::Activation(Mode::Paused), arm) => return activation::bare_paused(site, arm, options.activations),
            _ => return activation::bare(site, job.arm, options.activations),
        }
        if self.edge.is_none() {
            self.edge = Some(start_edge(site)?);
        }
        let edge = self.edge.as_ref().ok_or("there is no edge")?;
        match job.task {
            Task::Activation(mode) => activation::by_edge(edge, site, runtime, (mode, options.activations)),
            Task::Throughput => throughput::measure(edge, site, runtime, options.throughput_ms),
            Task::Burst => burst::measure(edge, site, runtime, options.burst),
            Task::Work => work::measure(edge, site, options),
            Task::Apply => footprint::apply(edge, site, runtime, options.applies),
            Task::Cost(..) => Err("its arms take turns".to_owned()),
            Task::Running | Task::Sleeping | Task::Services | Task::Day => {
                Err("it takes an edge of its own".to_owned())
            }
        }
    }
}

/// One that has the image.
fn start_edge(site: &Site) -> Result<Edge, String> {
    let edge = Edge::start(site, "edge")?;
    edge.build_image(site)?;
    let images = [(cost::IMAGE, &site.tools), (work::IMAGE, &site.at_work)];
    for (image, folder) in images
        .into_iter()
        .filter_map(|(image, folder)| Some((image, folder.as_ref()?)))
    {
        edge.build(image, folder)?;
    }
    Ok(edge)
}

/// In the words of progress.
fn name(job: Job) -> String {
    format!("{}, {}", job.arm.name(), task_name(job.task))
}

/// What is done, in words.
pub(super) fn task_name(task: Task) -> String {
    match task {
        Task::Activation(mode) => format!("activation, {}", mode.name()),
        Task::Throughput => "throughput".to_owned(),
        Task::Burst => "burst".to_owned(),
        Task::Work => "the gateway at work".to_owned(),
        Task::Day => "a day of requests".to_owned(),
        Task::Running => "containers at rest".to_owned(),
        Task::Sleeping => "sleeping applications".to_owned(),
        Task::Services => "services and their endpoints".to_owned(),
        Task::Apply => "apply to answer".to_owned(),
        Task::Cost(benchmark, count) => format!("{benchmark:?} × {count}").to_lowercase(),
    }
}

/// Tasks in random order, and within each the arms, so that what is compared stays close in time. The same of a seed
/// and block, wherever a run began.
fn shuffled(jobs: &[Job], seed: u64, block: u32) -> Vec<Job> {
    let mut jobs = jobs.to_vec();
    shuffle(&mut jobs, &mut order(seed, block));
    jobs
}

fn order(seed: u64, block: u32) -> ChaCha8Rng {
    let mut order = ChaCha8Rng::seed_from_u64(seed);
    order.set_stream(u64::from(block));
    order
}

fn shuffle(jobs: &mut [Job], order: &mut impl Rng) {
    jobs.shuffle(order);
    let mut tasks: Vec<Task> = Vec::new();
    for job in jobs.iter() {
        if !tasks.contains(&job.task) {
            tasks.push(job.task);
        }
    }
    jobs.sort_by_key(|job| tasks.iter().position(|task| *task == job.task));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_same_order_again_and_another_block_another_and_arms_of_a_task_stay_together() {
        let jobs = jobs(&Options::default(), |_| true);
        let first = shuffled(&jobs, 7, 0);
        assert_eq!(first, shuffled(&jobs, 7, 0));
        assert_ne!(first, shuffled(&jobs, 7, 1));
        let changes = first.windows(2).filter(|pair| pair[0].task != pair[1].task).count();
        let tasks: std::collections::HashSet<Task> = jobs.iter().map(|job| job.task).collect();
        assert_eq!(changes + 1, tasks.len());
    }

    #[test]
    fn runtimes_that_are_not_wanted_or_not_there_have_no_jobs() {
        let options = Options {
            runtimes: vec![Runtime::Oci],
            ..Options::default()
        };
        let arms: Vec<Arm> = jobs(&options, |_| true).iter().map(|job| job.arm).collect();
        assert!(arms.contains(&Arm::Oci) && arms.contains(&Arm::RuncRun));
        assert!(!arms.contains(&Arm::Docker) && !arms.contains(&Arm::DockerStart) && !arms.contains(&Arm::Process));
        assert!(jobs(&options, |_| false).is_empty());
    }

    #[test]
    fn the_short_run_ends_within_ten_minutes() {
        let quick = Options {
            quick: true,
            ..Options::default()
        };
        assert!(estimate(&quick) < Duration::from_secs(600), "{:?}", estimate(&quick));
        let day = Options {
            parts: vec![Part::Day],
            ..quick.clone()
        };
        assert_eq!(day.clone().effective().parts, [Part::Day]);
        assert!(!quick.effective().parts.contains(&Part::Day));
        let time = estimate(&day);
        assert!(
            (Duration::from_secs(60)..Duration::from_secs(600)).contains(&time),
            "{time:?}"
        );
    }
}
