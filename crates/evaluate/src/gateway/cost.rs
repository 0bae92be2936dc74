//! What a container costs a program: the benchmark programs of the paper, natively and in each runtime, one to four at
//! a time, all within the same limits. The arms are all there at once and take turns within seconds, as a machine
//! drifts by more than what is looked for from one minute to the next.

mod native;
mod tools;

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::seq::SliceRandom;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

pub(crate) use self::native::Native;
pub(crate) use self::tools::add_file;
pub(super) use self::tools::{IMAGE, add, fill};
use super::edge::Edge;
use super::options::Options;
use super::power;
use super::record::{Arm, Benchmark, Figure, Job, Measured, Sample};
use super::site::Site;
use crate::interrupt::pause;

/// Of each instance.
pub(super) const MEMORY_MIB: u32 = 64;
pub(super) const CPU_MILLIS: u32 = 1_000;
/// Times the memory limit, as the paper's 6 GB file on boards of 1 GB.
pub(super) const FILE_TIMES: u32 = 6;
/// Where a container has what instances share with us.
const VOLUME: &str = "/work";
/// How long all instances together may take for a turn.
const PATIENCE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(5);

/// What all arms share.
struct Task<'a> {
    edge: Option<&'a Edge>,
    site: &'a Site,
    benchmark: Benchmark,
    instances: u32,
    options: &'a Options,
}

/// A program by the arm of each of the jobs, so many instances at once, in turn.
pub(super) fn measure(
    edge: Option<&Edge>,
    site: &Site,
    jobs: &[Job],
    (benchmark, instances): (Benchmark, u32),
    (options, order): (&Options, &mut impl Rng),
) -> Measured {
    let task = Task {
        edge,
        site,
        benchmark,
        instances,
        options,
    };
    let start = |job: &Job| Contender::start(&task, *job).map_err(|reason| (*job, reason));
    let mut contenders: Vec<Contender> = jobs.iter().map(start).collect::<Result<_, _>>()?;
    for round in 0..tools::rounds(benchmark, options) {
        contenders.shuffle(order);
        for contender in &mut contenders {
            let taken = contender.take_turn(&task, round);
            taken.map_err(|reason| (contender.job, reason))?;
        }
    }
    let end = |contender: Contender| {
        let job = contender.job;
        let samples = contender.end(&task).map_err(|reason| (job, reason))?;
        Ok((job, samples))
    };
    contenders.into_iter().map(end).collect()
}

/// An arm that takes part: its instances, which wait for their turn without doing anything.
struct Contender {
    job: Job,
    place: Place,
    started: Started,
    addresses: Vec<String>,
    /// Seen by whoever asks the instances.
    samples: Vec<Sample>,
    /// Of all turns, where the machine says it.
    energy_j: Option<f64>,
    took: Duration,
}

impl Contender {
    fn start(task: &Task, job: Job) -> Result<Contender, String> {
        let place = Place::make(task.site, job.arm, task.instances)?;
        let started = Started::start(task, &place, job.arm)?;
        place.wait_for("ready", task.instances)?;
        let addresses = started.addresses(task)?;
        Ok(Contender {
            job,
            place,
            started,
            addresses,
            samples: Vec::new(),
            energy_j: Some(0.0),
            took: Duration::ZERO,
        })
    }

    fn take_turn(&mut self, task: &Task, round: u32) -> Result<(), String> {
        let (energy_j, began) = (power::energy_j(), Instant::now());
        (0..task.instances).try_for_each(|number| self.place.tell(number))?;
        if task.benchmark == Benchmark::Udp {
            self.samples = tools::udp(task.site, &self.addresses, task.options)?;
        }
        self.place.wait_for(&format!("end-{round}"), task.instances)?;
        self.took += began.elapsed();
        self.energy_j = self.energy_j.zip(power::used_j(energy_j)).map(|(all, one)| all + one);
        Ok(())
    }

    fn end(self, task: &Task) -> Result<Vec<Sample>, String> {
        let said: Vec<String> = (0..task.instances)
            .map(|number| self.place.read("out", number))
            .collect::<Result<_, _>>()?;
        let mut samples = tools::found(task.benchmark, &said, task.options)?;
        samples.extend(self.samples);
        if let Some(energy_j) = self.energy_j {
            samples.push(Sample {
                figure: Figure::PowerW,
                values: vec![Some(energy_j / self.took.as_secs_f64())],
            });
        }
        self.started.end(task.edge)?;
        Ok(samples)
    }
}

/// Where the instances of an arm are told to begin, and leave what they have found.
struct Place {
    directory: PathBuf,
}

impl Place {
    fn make(site: &Site, arm: Arm, instances: u32) -> Result<Place, String> {
        let directory = site.make_directory(&format!("cost-{}", word(arm)))?;
        let place = Place { directory };
        for number in 0..instances {
            let pipe = place.pipe(number);
            let made = mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
            // In a container its root is another user.
            let opened = made
                .map_err(Into::into)
                .and_then(|()| fs::set_permissions(&pipe, Permissions::from_mode(0o666)));
            opened.map_err(|error: std::io::Error| format!("{}: {error}", pipe.display()))?;
        }
        Ok(place)
    }

    fn pipe(&self, number: u32) -> PathBuf {
        self.directory.join(format!("go-{number}"))
    }

    /// Has an instance begin, once it waits for that.
    fn tell(&self, number: u32) -> Result<(), String> {
        let (pipe, began) = (self.pipe(number), Instant::now());
        let mut writing = OpenOptions::new();
        // It fails where nobody reads, instead of waiting for ever.
        writing.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        loop {
            match writing.open(&pipe).and_then(|mut pipe| pipe.write_all(b"go\n")) {
                Ok(()) => return Ok(()),
                Err(error) if began.elapsed() > PATIENCE => {
                    return Err(format!("instance {number} does not wait for its turn: {error}"));
                }
                Err(_) => pause(STEP)?,
            }
        }
    }

    fn wait_for(&self, name: &str, instances: u32) -> Result<(), String> {
        let began = Instant::now();
        let all = || (0..instances).all(|number| self.directory.join(format!("{name}-{number}")).exists());
        while !all() {
            if began.elapsed() > PATIENCE {
                return Err(format!("no {name} of {instances} instances after {PATIENCE:?}"));
            }
            pause(STEP)?;
        }
        Ok(())
    }

    fn read(&self, name: &str, number: u32) -> Result<String, String> {
        let file = self.directory.join(format!("{name}-{number}"));
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What stays goes with the run's directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// An arm, in names of applications and files.
fn word(arm: Arm) -> String {
    arm.name().replace(", ", "-").replace(' ', "-")
}

/// The instances of an arm.
enum Started {
    Native(Vec<Native>),
    ByEdge(Vec<String>),
}

impl Started {
    fn start(task: &Task, place: &Place, arm: Arm) -> Result<Started, String> {
        let Task { site, instances, .. } = *task;
        let script = |number, places| tools::script(task.benchmark, number, places, task.options);
        if arm.is_native() {
            let own = place.directory.as_path();
            let start = |number| {
                let name = format!("{}-{number}", word(arm));
                let limits = Some((CPU_MILLIS, MEMORY_MIB));
                Native::start(site, &script(number, (own, own)), limits, (own, &name))
            };
            return Ok(Started::Native((0..instances).map(start).collect::<Result<_, _>>()?));
        }
        let edge = task.edge.ok_or("there is no edge")?;
        let names: Vec<String> = (0..instances)
            .map(|number| format!("cost-{}-{number}", word(arm)))
            .collect();
        let manifests = names.iter().zip(0..).map(|(name, number)| {
            let (volume, root) = (Path::new(VOLUME), Path::new("/"));
            let places = match arm {
                Arm::Process => (place.directory.as_path(), place.directory.as_path()),
                Arm::OciRoot | Arm::DockerRoot => (volume, root),
                _ => (volume, volume),
            };
            tools::manifest(site, (name, arm.runtime()), &script(number, places), &place.directory)
        });
        edge.apply(&manifests.collect::<Vec<_>>().join("---\n"))?;
        Ok(Started::ByEdge(names))
    }

    /// Where each is reached; a program of the host at its loopback address.
    fn addresses(&self, task: &Task) -> Result<Vec<String>, String> {
        let loopback = || "127.0.0.1".to_owned();
        let (Started::ByEdge(names), Some(edge)) = (self, task.edge) else {
            return Ok((0..task.instances).map(|_| loopback()).collect());
        };
        let address = |name: &String| {
            let ready = edge.wait(name, |one| one.is_ready() && !one.containers.is_empty())?;
            Ok(ready.containers[0].address.clone().unwrap_or_else(loopback))
        };
        names.iter().map(address).collect()
    }

    fn end(self, edge: Option<&Edge>) -> Result<(), String> {
        match (self, edge) {
            (Started::Native(all), _) => all.into_iter().try_for_each(Native::end),
            (Started::ByEdge(names), Some(edge)) => names.iter().try_for_each(|name| edge.delete(name)),
            (Started::ByEdge(_), None) => Ok(()),
        }
    }
}
