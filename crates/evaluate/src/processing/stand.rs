//! What a job takes: Python with the models, in each of the places, within a board.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::looking::Looking;
use super::options::Options;
use super::python::Python;
use super::record::{Job, Limits, Place, Seen};
use crate::arms::Helper;
use crate::gateway::{self, About, Edge, Native, Runtime, Site};
use crate::interference::{Files, now_ns, turns};
use crate::interrupt::pause;
use crate::proc;

const IMAGE: &str = "models:1";
/// Where a container has what it shares with us: no path that a program is at.
const VOLUME: &str = "/shared-with-the-run";
/// The name of an application.
const NAME: &str = "work";
/// Until it is ready: Keras starts in some seconds, on a slow board in many.
const READY_PATIENCE: Duration = Duration::from_secs(300);
/// Until it has ended a turn, beside what was to be measured.
const TURN_PATIENCE: Duration = Duration::from_secs(1_200);
const STEP: Duration = Duration::from_millis(5);
/// The first paper's board: 4 cores of 1.4 GHz, 1 GB; a core beside one of the interference paper's desktop by its clock.
const BOARD_CORES: u32 = 4;
const BOARD_MEMORY_MIB: u32 = 1_024;
const BOARD_SHARE: (u32, u32) = (14, 45);
const MEMORY_ASIDE_MIB: u64 = 256;
/// Of the image, at the edge, in the engine, and on the way there.
const DISK_MIB: u64 = 5_000;
const MIB: u64 = 1 << 20;

/// The board on this machine: as many of its cores as there are here; all of its memory, as an interpreter and its libraries
/// take no less on a smaller machine.
pub(super) fn board() -> Limits {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    Limits {
        cpu_millis: cores.min(BOARD_CORES) * 1_000 * BOARD_SHARE.0 / BOARD_SHARE.1,
        memory_mib: BOARD_MEMORY_MIB,
    }
}

/// All that jobs share. The edge's applications end with it, before the engine does that runs some of them.
pub(super) struct Stand {
    edge: Edge,
    site: Site,
    python: Python,
    data: PathBuf,
    board: Limits,
    /// Jobs so far, by which their processes are known.
    jobs: u32,
}

/// What starts before a run and what it tells.
pub(super) struct Started {
    pub(super) stand: Stand,
    pub(super) programs: Vec<About>,
    pub(super) missing: Vec<String>,
    pub(super) image_bytes: u64,
}

impl Stand {
    /// Starts it, once it is known that all that is asked for can be measured here; what is missing is named.
    ///
    /// # Errors
    /// Something that every job needs is not there, with what would help.
    pub(super) fn start(options: &Options, helper: &Helper, directory: &Path) -> Result<Started, String> {
        let board = board();
        let data = options
            .data
            .canonicalize()
            .map_err(|error| format!("--data {}: {error}", options.data.display()))?;
        has_room(board, options, directory)?;
        let python = Python::find(&options.ml)?;
        let asked = gateway::Options {
            parts: Vec::new(),
            runtimes: runtimes(options),
            selvedge_program: options.selvedge_program.clone(),
            ..gateway::Options::default()
        };
        let (site, mut programs, missing) = Site::prepare(&asked, helper, directory)?;
        programs.push(About {
            name: "python".to_owned(),
            version: python.version.clone(),
            settings: "Keras on JAX, scikit-learn, as ml/uv.lock has them".to_owned(),
        });
        let edge = Edge::start(&site, "edge")?;
        let (cpu, memory) = (board.cpu_millis.to_string(), format!("{}MiB", board.memory_mib));
        let words = [
            "tenant",
            "set",
            "default",
            "--app-cpu-millis",
            &cpu,
            "--app-memory-bytes",
            &memory,
        ];
        edge.run(&words)?;
        let mut image_bytes = 0;
        let containers = [Runtime::Oci, Runtime::Docker];
        let wanted: Vec<Runtime> = containers
            .into_iter()
            .filter(|runtime| asked.runtimes.contains(runtime) && site.has(*runtime))
            .collect();
        if !wanted.is_empty() {
            let folder = site.make_directory("models")?;
            image_bytes = python.fill(&site, &folder)?;
            for runtime in wanted {
                site.give_image(&edge, runtime, (IMAGE, &folder))?;
            }
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let stand = Stand {
            edge,
            site,
            python,
            data,
            board,
            jobs: 0,
        };
        Ok(Started {
            stand,
            programs,
            missing,
            image_bytes,
        })
    }

    /// Whether it can be done in a place here.
    pub(super) fn has(&self, place: Place) -> bool {
        runtime(place).is_none_or(|runtime| self.site.has(runtime))
    }

    /// Does a job for a while.
    ///
    /// # Errors
    /// It does not start, or does not work, in words; or the run was told to end.
    pub(super) fn perform(&mut self, job: Job, options: &Options) -> Result<Seen, String> {
        self.jobs += 1;
        // No other process has it among its arguments.
        let number = std::process::id() % 100_000 * 10_000 + self.jobs;
        let directory = self.site.make_directory("job")?;
        let prepared = fs::set_permissions(&directory, Permissions::from_mode(0o777))
            .and_then(|()| fs::copy(&self.data, directory.join("data.txt")));
        prepared.map_err(|error| format!("{}: {error}", directory.display()))?;
        let began = Instant::now();
        let inside = match runtime(job.place) {
            Some(Runtime::Oci | Runtime::Docker) => Path::new(VOLUME),
            _ => &*directory,
        };
        let words = self.words(job, options, (inside, number));
        let native = match runtime(job.place) {
            Some(runtime) => {
                self.edge.apply(&self.manifest(runtime, &words, &directory))?;
                None
            }
            None => Some(self.native(job.place, &words, (&directory, number))?),
        };
        let seen = self.work((&directory, number), began, options.measure());
        match native {
            Some(native) => native.end()?,
            None => self.edge.delete(NAME)?,
        }
        fs::remove_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        seen
    }

    fn work(&self, (directory, number): (&Path, u32), began: Instant, measure: Duration) -> Result<Seen, String> {
        let files = Files(directory);
        let failed = files.failed(number);
        self.wait((began, READY_PATIENCE), &failed, || files.ready(number).exists())?;
        let cold_start_s = began.elapsed().as_secs_f64();
        let mark = format!("--number\0{number}");
        let looking = Looking::at(proc::naming(&mark).into_iter().map(|(pid, _)| pid).collect());
        let go = files.go();
        fs::write(&go, "").map_err(|error| format!("{}: {error}", go.display()))?;
        let worked = pause(measure).map_err(String::from).and_then(|()| {
            let has_turn = || fs::metadata(files.turns(number)).is_ok_and(|file| file.len() > 0);
            self.wait((Instant::now(), TURN_PATIENCE), &failed, has_turn)
        });
        let stop_ns = now_ns();
        let (looks, looking_share) = looking.end();
        worked?;
        Ok(Seen {
            cold_start_s,
            turns: turns(&files, number, stop_ns)?,
            looks,
            looking_share,
        })
    }

    fn wait(
        &self,
        (began, patience): (Instant, Duration),
        failed: &Path,
        is_so: impl Fn() -> bool,
    ) -> Result<(), String> {
        while !is_so() {
            if failed.exists() {
                return Err(fs::read_to_string(failed).unwrap_or_default());
            }
            if began.elapsed() > patience {
                let logged = self.edge.run(&["logs", NAME]).unwrap_or_default();
                let last = logged.trim().lines().last().unwrap_or_default().to_owned();
                return Err(format!("it is not so far after {patience:?}; it said last: {last}"));
            }
            pause(STEP)?;
        }
        Ok(())
    }

    /// The command that works in a directory.
    fn words(&self, job: Job, options: &Options, (directory, number): (&Path, u32)) -> Vec<String> {
        let words = [
            self.python.program.display().to_string(),
            "-m".to_owned(),
            "selvedge_ml".to_owned(),
            "work".to_owned(),
            format!("--kind={}", job.model.name()),
            format!("--task={}", job.task.name()),
            format!("--data={}", directory.join("data.txt").display()),
            format!("--directory={}", directory.display()),
            format!("--epochs={}", options.epochs),
            format!("--predictions={}", options.predictions),
            "--number".to_owned(),
            number.to_string(),
        ];
        words.into()
    }

    fn native(&self, place: Place, words: &[String], (directory, number): (&Path, u32)) -> Result<Native, String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        // As containers have it, which have no home.
        let script = format!("export HOME='{}'\nexec {}\n", directory.display(), quoted.join(" "));
        let limits = (place != Place::Cloud).then_some((self.board.cpu_millis, self.board.memory_mib));
        Native::start(&self.site, &script, limits, (directory, &format!("work-{number}")))
    }

    fn manifest(&self, runtime: Runtime, words: &[String], directory: &Path) -> String {
        let (program, arguments) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let home = if runtime == Runtime::Process {
            directory
        } else {
            Path::new(VOLUME)
        };
        let mut container = json!({
            "name": "main",
            "args": arguments,
            "env": [{"name": "HOME", "value": home}],
        });
        let mut pod = json!({"terminationGracePeriodSeconds": 0});
        if runtime == Runtime::Process {
            container["image"] = program.into();
            pod["runtimeClassName"] = "process".into();
        } else {
            container["image"] = IMAGE.into();
            container["command"] = json!([program]);
            container["volumeMounts"] = json!([{"name": "work", "mountPath": VOLUME}]);
            pod["volumes"] = json!([{"name": "work", "hostPath": {"path": directory}}]);
        }
        if runtime == Runtime::Docker {
            pod["runtimeClassName"] = "docker".into();
        }
        pod["containers"] = json!([container]);
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME},
            "spec": {
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": {"app": NAME}},
                "template": {"metadata": {"labels": {"app": NAME}}, "spec": pod},
            },
        });
        format!("{deployment}\n")
    }
}

fn runtime(place: Place) -> Option<Runtime> {
    match place {
        Place::Process => Some(Runtime::Process),
        Place::Oci => Some(Runtime::Oci),
        Place::Docker => Some(Runtime::Docker),
        Place::Host | Place::HostAgain | Place::Cloud => None,
    }
}

fn runtimes(options: &Options) -> Vec<Runtime> {
    options.places.iter().filter_map(|place| runtime(*place)).collect()
}

/// Asked before anything is measured: an hour later is too late to say that a disk is full.
fn has_room(board: Limits, options: &Options, directory: &Path) -> Result<(), String> {
    let needed_mib = u64::from(board.memory_mib) + MEMORY_ASIDE_MIB;
    let free_mib = proc::available_memory_bytes().unwrap_or(u64::MAX) / MIB;
    if free_mib < needed_mib {
        return Err(format!(
            "a board of {} MiB needs {needed_mib} MiB of free memory, and there are {free_mib}: end something",
            board.memory_mib
        ));
    }
    let has_image = runtimes(options).iter().any(|runtime| *runtime != Runtime::Process);
    let disk = rustix::fs::statvfs(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let free_mib = disk.f_bavail * disk.f_frsize / MIB;
    if has_image && free_mib < DISK_MIB {
        return Err(format!(
            "an image with Python and the models needs {DISK_MIB} MiB of disk, and there are {free_mib} where temporary files are: \
             name another place by TMPDIR, or leave out --places oci and docker"
        ));
    }
    Ok(())
}
