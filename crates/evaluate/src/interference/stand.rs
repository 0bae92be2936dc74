//! What a job takes: an edge that runs the services in containers, and devices that ask its hub.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use mqtt::{QoS, Version};
use serde_json::json;

use super::board::Board;
use super::options::{Options, Part};
use super::record::{Case, Job, Kind, RoundTrips, Seen};
use super::service::{self, Files, now_ns, turns};
use crate::arms::{Helper, RESPONDER_FILTER, ROUTE};
use crate::gateway::{self, About, Edge, Runtime, Site, found};
use crate::generator::block;
use crate::generator::fleet::{Access, Fleet, Protocol};
use crate::generator::login::Login;
use crate::generator::payload::Payloads;
use crate::generator::socket::Endpoint;
use crate::interrupt::pause;
use crate::priority::First;
use crate::rtt::{Due, Pacer, Recorder};
use crate::stats::{Pool, Units};

const IMAGE: &str = "services:1";
/// Where a container has what it shares with us: no path that a program is at.
const VOLUME: &str = "/shared-with-the-run";
/// Until all services of a job are ready.
const READY_PATIENCE: Duration = Duration::from_secs(120);
/// Until each has ended a turn, beside what was to be measured: an edge's Bonnie++ may take minutes.
const TURN_PATIENCE: Duration = Duration::from_secs(1_200);
const STEP: Duration = Duration::from_millis(20);
/// Free memory and disk beside what services take.
const MEMORY_ASIDE_MIB: u64 = 256;
const DISK_ASIDE_MIB: u64 = 1_024;
const MIB: u64 = 1 << 20;
/// Of what the hub is asked: every 10 ms, 64 bytes; an answer later than that is lost.
const INTERVAL_NS: u64 = 10_000_000;
const PAYLOAD_BYTES: u32 = 64;
const TIMEOUT_NS: u64 = 2_000_000_000;

/// All that jobs share. The edge's applications end with it, before the engine does that runs some of them.
pub(super) struct Stand {
    edge: Edge,
    site: Site,
    helper: Helper,
    /// Blocks of messages so far, by which answers to another one's are known.
    tag: u32,
    /// The board that stands round all now.
    board: Option<Board>,
}

impl Stand {
    /// Starts it, once it is known that all that is asked for can be measured here; what is missing is named.
    ///
    /// # Errors
    /// Something that every job needs is not there, with what would help.
    pub(super) fn start(
        options: &Options,
        helper: &Helper,
        boards: &[Board],
        directory: &Path,
    ) -> Result<(Stand, Vec<About>, Vec<String>), String> {
        has_room(boards, options, directory)?;
        let bonnie = asks_for(options, Kind::Bonnie)
            .then(|| found("bonnie++", "bonnie++"))
            .transpose()?;
        let asked = gateway::Options {
            parts: Vec::new(),
            runtimes: options.runtimes.clone(),
            selvedge_program: options.selvedge_program.clone(),
            ..gateway::Options::default()
        };
        let (site, programs, missing) = Site::prepare(&asked, helper, directory)?;
        if !options.runtimes.iter().any(|runtime| site.has(*runtime)) {
            return Err(missing.join("; "));
        }
        let edge = Edge::start(&site, "edge")?;
        let folder = site.make_directory("services")?;
        site.fill(&folder, &helper.program)?;
        if let Some(bonnie) = bonnie {
            gateway::add_file(&folder, &bonnie)?;
        }
        for runtime in options.runtimes.iter().filter(|runtime| site.has(**runtime)) {
            site.give_image(&edge, *runtime, (IMAGE, &folder))?;
        }
        edge.apply(ROUTE)?;
        let stand = Stand {
            edge,
            site,
            helper: helper.clone(),
            tag: 0,
            board: None,
        };
        Ok((stand, programs, missing))
    }

    /// Whether a runtime can be used here.
    pub(super) fn has(&self, runtime: Runtime) -> bool {
        self.site.has(runtime)
    }

    /// Has a board stand round all that is run from here on.
    fn put_round(&mut self, board: Board) -> Result<(), String> {
        if self.board == Some(board) {
            return Ok(());
        }
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
        self.edge.run(&words)?;
        self.board = Some(board);
        Ok(())
    }

    /// Runs a job's services together for a while, within a board.
    ///
    /// # Errors
    /// One does not start, or does not work, in its words; or the run was told to end.
    pub(super) fn perform(&mut self, job: Job, board: Board, measure: Duration) -> Result<Seen, String> {
        self.put_round(board)?;
        let directory = self.site.make_directory("job")?;
        // In a container its root may be another user.
        fs::set_permissions(&directory, Permissions::from_mode(0o777))
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let kinds = job.group.kinds();
        let applied = applications(job.case, &kinds);
        let result = self.together((job, &board), (&applied, &kinds), &directory, measure);
        for application in &applied {
            self.edge.delete(&application.name)?;
        }
        fs::remove_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        result
    }

    fn together(
        &mut self,
        (job, board): (Job, &Board),
        (applied, kinds): (&[Application], &[Kind]),
        directory: &Path,
        measure: Duration,
    ) -> Result<Seen, String> {
        let files = Files(directory);
        let manifests: Vec<String> = applied
            .iter()
            .map(|one| self.manifest(one, (job, board), directory))
            .collect();
        if !manifests.is_empty() {
            self.edge.apply(&manifests.join("---\n"))?;
        }
        let numbers = 0..kinds.len() as u32;
        self.wait(&files, numbers.clone(), READY_PATIENCE, "does not start", |number| {
            files.ready(number).exists()
        })?;
        let mut fleet = match job.group.has_hub() {
            true => Some(self.connect()?),
            false => None,
        };
        let go = files.go();
        fs::write(&go, "").map_err(|error| format!("{}: {error}", go.display()))?;
        let hub = match &mut fleet {
            Some(fleet) => Some(self.ask(fleet, measure)?),
            None => {
                pause(measure)?;
                None
            }
        };
        let has_turn = |number| fs::metadata(files.turns(number)).is_ok_and(|file| file.len() > 0);
        if !job.group.has_hub() {
            self.wait(&files, numbers.clone(), TURN_PATIENCE, "ends no turn", has_turn)?;
        }
        let stop_ns = now_ns();
        let services = numbers.map(|number| turns(&files, number, stop_ns));
        Ok(Seen {
            services: services.collect::<Result<_, _>>()?,
            hub,
        })
    }

    /// Waits until something is so of each service.
    fn wait(
        &self,
        files: &Files,
        numbers: std::ops::Range<u32>,
        patience: Duration,
        what: &str,
        is_so: impl Fn(u32) -> bool,
    ) -> Result<(), String> {
        let began = Instant::now();
        while !numbers.clone().all(&is_so) {
            if let Some(number) = numbers.clone().find(|number| files.failed(*number).exists()) {
                return Err(fs::read_to_string(files.failed(number)).unwrap_or_default());
            }
            if began.elapsed() > patience {
                let said = self.edge.run(&["get", "deployments"]).unwrap_or_default();
                let happened = self.edge.run(&["events"]).unwrap_or_default();
                return Err(format!(
                    "a service {what} within {patience:?}: {} {}",
                    said.trim().replace('\n', " | "),
                    happened.trim().lines().last().unwrap_or_default()
                ));
            }
            pause(STEP)?;
        }
        Ok(())
    }

    fn manifest(&self, application: &Application, (job, board): (Job, &Board), directory: &Path) -> String {
        let Application { name, first, kinds } = application;
        let threads = board.threads as usize;
        let mut words = self.helper.arguments(&["service"]);
        words.extend(service::words(kinds, *first, Path::new(VOLUME), (threads, board.sizes)));
        let limits = match job.case.is_limited() {
            true => {
                let (cpu_millis, memory_mib) = board.limits();
                json!({"limits": {"cpu": format!("{cpu_millis}m"), "memory": format!("{memory_mib}Mi")}})
            }
            false => json!({}),
        };
        let mut pod = json!({
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main",
                "image": IMAGE,
                "command": [self.helper.program],
                "args": words,
                "resources": limits,
                "volumeMounts": [{"name": "work", "mountPath": VOLUME}],
            }],
            "volumes": [{"name": "work", "hostPath": {"path": directory}}],
        });
        if job.runtime == Runtime::Docker {
            pod["runtimeClassName"] = "docker".into();
        }
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            },
        });
        format!("{deployment}\n")
    }

    /// A device and who answers it.
    fn connect(&self) -> Result<Fleet, String> {
        let endpoint = Endpoint {
            address: self.edge.address(),
            tls: None,
            from: Some(self.site.host().clone()),
        };
        let access = Access {
            endpoint: endpoint.clone(),
            responder: Some(endpoint),
            protocol: Protocol::Mqtt {
                version: Version::V311,
                responder_filter: RESPONDER_FILTER.to_owned(),
                login: Login::Anonymous,
            },
        };
        Fleet::connect(&access, 1, QoS::AtLeastOnce, false)
    }

    /// Asks the hub in an open loop. The device and who answers run first, as they would elsewhere.
    fn ask(&mut self, fleet: &mut Fleet, measure: Duration) -> Result<RoundTrips, String> {
        let dues = (0..).map(|number| Due {
            at_ns: number * INTERVAL_NS,
            device: 0,
        });
        let dues: Vec<Due> = dues.take_while(|due| due.at_ns < measure.as_nanos() as u64).collect();
        let mut recorder = Recorder::new(1, TIMEOUT_NS, dues.len());
        let mut payloads = Payloads::padded(PAYLOAD_BYTES);
        self.tag += 1;
        let first = First::claim();
        block::run_block(fleet, &mut Pacer::open(dues), &mut recorder, &mut payloads, self.tag)
            .map_err(|error| error.to_string())?;
        drop(first);
        if let Some(failure) = fleet.failure.take() {
            return Err(failure);
        }
        let (samples, _) = recorder.finish();
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        let all = || 0..samples.len();
        let lags: Vec<f64> = all()
            .map(|message| us(samples.send_lag_ns(message)).unwrap_or(f64::INFINITY))
            .collect();
        Ok(RoundTrips {
            responses_us: all().map(|message| us(samples.response_ns(message))).collect(),
            send_lag_p99_us: Pool::new(&Units::of_block(&lags))
                .value(0.99)
                .filter(|us| us.is_finite()),
        })
    }
}

/// What is applied together, with the number of its first service.
struct Application {
    name: String,
    first: u32,
    kinds: Vec<Kind>,
}

fn applications(case: Case, kinds: &[Kind]) -> Vec<Application> {
    let of = |first: usize, kinds: &[Kind]| Application {
        name: format!("service-{first}"),
        first: first as u32,
        kinds: kinds.to_vec(),
    };
    match case {
        Case::OneContainer => vec![of(0, kinds)],
        _ => kinds
            .chunks(1)
            .enumerate()
            .map(|(first, kinds)| of(first, kinds))
            .collect(),
    }
}

fn asks_for(options: &Options, kind: Kind) -> bool {
    let in_pairs = options.pairs.iter().any(|pair| pair.0 == kind || pair.1 == kind);
    options.parts.contains(&Part::Pairs) && in_pairs || options.parts.contains(&Part::Hub)
}

/// Asked before anything is measured: an hour later is too late to say that a disk is full.
fn has_room(boards: &[Board], options: &Options, directory: &Path) -> Result<(), String> {
    let memory_mib = boards
        .iter()
        .map(|board| u64::from(board.memory_mib))
        .max()
        .unwrap_or(0);
    let needed_mib = memory_mib + MEMORY_ASIDE_MIB;
    let free_mib = crate::proc::available_memory_bytes().unwrap_or(u64::MAX) / MIB;
    if free_mib < needed_mib {
        return Err(format!(
            "a board of {memory_mib} MiB needs {needed_mib} MiB of free memory, and there are {free_mib}: end something, or ask for a \
             larger --divisor than {}",
            options.divisor
        ));
    }
    if !asks_for(options, Kind::Bonnie) {
        return Ok(());
    }
    let file_mib = boards
        .iter()
        .map(|board| u64::from(board.sizes.file_mib))
        .max()
        .unwrap_or(0);
    let needed_mib = 2 * file_mib + DISK_ASIDE_MIB;
    let disk = rustix::fs::statvfs(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let free_mib = disk.f_bavail * disk.f_frsize / MIB;
    if free_mib < needed_mib {
        return Err(format!(
            "two files of {file_mib} MiB need {needed_mib} MiB of disk, and there are {free_mib} where temporary files are: name \
             another place by TMPDIR, leave out pairs with B, or ask for a larger --divisor than {}",
            options.divisor
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_services_are_one_application_in_case_2_and_else_two() {
        let of = |case| applications(case, &[Kind::Linpack, Kind::Bonnie]);
        let names = |case| {
            of(case)
                .iter()
                .map(|one| (one.name.clone(), one.first))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Case::OneContainer), [("service-0".to_owned(), 0)]);
        assert_eq!(of(Case::OneContainer)[0].kinds.len(), 2);
        let apart = [("service-0".to_owned(), 0), ("service-1".to_owned(), 1)];
        assert_eq!(names(Case::Unlimited), apart);
    }

    #[test]
    fn a_board_or_files_that_do_not_fit_are_refused_with_what_would_help() {
        let directory = tempfile::tempdir().unwrap();
        let mut board = Board::here(super::super::Profile::Fog, 1);
        board.memory_mib = u32::MAX;
        let refused = has_room(&[board], &Options::default(), directory.path()).unwrap_err();
        assert!(
            refused.contains("free memory") && refused.contains("--divisor"),
            "{refused}"
        );
        board.memory_mib = 1;
        board.sizes.file_mib = u32::MAX;
        let refused = has_room(&[board], &Options::default(), directory.path()).unwrap_err();
        assert!(refused.contains("TMPDIR"), "{refused}");
        let without = Options {
            parts: vec![Part::Pairs],
            pairs: vec![super::super::options::Pair(Kind::Linpack, Kind::Stream)],
            ..Options::default()
        };
        assert_eq!(has_room(&[board], &without, directory.path()), Ok(()));
    }
}
