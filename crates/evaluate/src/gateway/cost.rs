//! What a container costs a program: the benchmark programs of the paper, natively and in each runtime, one to four at a
//! time, all within the same limits.

mod native;
mod tools;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::native::Native;
pub(super) use self::tools::{IMAGE, add, add_file, fill};
use super::edge::Edge;
use super::options::Options;
use super::power;
use super::record::{Arm, Benchmark, Figure, Sample};
use super::site::Site;
use crate::interrupt::pause;

/// Of each instance.
pub(super) const MEMORY_MIB: u32 = 64;
pub(super) const CPU_MILLIS: u32 = 1_000;
/// Times the memory limit, as the paper's 6 GB file on boards of 1 GB.
pub(super) const FILE_TIMES: u32 = 6;
/// Where a container has what instances share with us.
const VOLUME: &str = "/work";
/// How long all instances together may take.
const PATIENCE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(20);

/// Where instances are told to begin, and leave what they have found.
struct Place {
    directory: PathBuf,
}

impl Place {
    fn make(site: &Site) -> Result<Place, String> {
        let directory = site.make_directory("cost")?;
        Ok(Place { directory })
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
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What stays goes with the run's directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One instance or several at once, of a program, by an arm.
pub(super) fn measure(
    edge: Option<&Edge>,
    site: &Site,
    (arm, benchmark, instances): (Arm, Benchmark, u32),
    options: &Options,
) -> Result<Vec<Sample>, String> {
    let place = Place::make(site)?;
    let started = Started::start(edge, site, &place, (arm, benchmark, instances), options)?;
    place.wait_for("ready", instances)?;
    let (energy_j, began) = (power::energy_j(), Instant::now());
    let go = place.directory.join("go");
    std::fs::write(&go, "").map_err(|error| format!("{}: {error}", go.display()))?;
    let mut samples = match benchmark {
        Benchmark::Udp => tools::udp(site, &started.addresses(edge, instances)?, options)?,
        _ => {
            place.wait_for("end", instances)?;
            let said: Vec<String> = (0..instances)
                .map(|number| place.read("out", number))
                .collect::<Result<_, _>>()?;
            tools::found(benchmark, &said)?
        }
    };
    if let Some(used_j) = power::used_j(energy_j) {
        samples.push(Sample {
            figure: Figure::PowerW,
            values: vec![Some(used_j / began.elapsed().as_secs_f64())],
        });
    }
    started.end(edge)?;
    Ok(samples)
}

/// The instances of one measurement.
enum Started {
    Native(Vec<Native>),
    ByEdge(Vec<String>),
}

impl Started {
    fn start(
        edge: Option<&Edge>,
        site: &Site,
        place: &Place,
        (arm, benchmark, instances): (Arm, Benchmark, u32),
        options: &Options,
    ) -> Result<Started, String> {
        let script = |number, places| tools::script(benchmark, number, places, options);
        if matches!(arm, Arm::Native | Arm::NativeAgain) {
            let own = place.directory.as_path();
            let start = |number| Native::start(site, &script(number, (own, own)), own, number);
            return Ok(Started::Native((0..instances).map(start).collect::<Result<_, _>>()?));
        }
        let edge = edge.ok_or("there is no edge")?;
        let names: Vec<String> = (0..instances).map(|number| format!("cost-{number}")).collect();
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
    fn addresses(&self, edge: Option<&Edge>, instances: u32) -> Result<Vec<String>, String> {
        let loopback = || "127.0.0.1".to_owned();
        let (Started::ByEdge(names), Some(edge)) = (self, edge) else {
            return Ok((0..instances).map(|_| loopback()).collect());
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
