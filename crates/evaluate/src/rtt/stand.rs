//! The test stand: every arm running, and the machine prepared for measuring.

use std::io;

use mqtt::QoS;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use super::arm_kind::ArmKind;
use super::plan::Plan;
use super::progress::Progress;
use super::runner::RunError;
use super::uplink::Uplink;
use crate::arms::{self, Certificates, Cpus, Helper, RunningArm, Site};
use crate::generator::fleet::{Access, Fleet};
use crate::network::{Network, Place};
use crate::privacy::without_paths;
use crate::run::{Arm, Cell, Skipped};

/// MQTT's qualities of service by their number.
const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

const FILES_PER_ARM: u64 = 8;
const FILES_OF_OUR_OWN: u64 = 64;

/// Arms that run, and those that could not.
pub(crate) struct Stand {
    pub(crate) standing: Vec<Standing>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) generator_cpu: Option<usize>,
    /// Whether all arms' clients can be connected at once; else they are between one block and the next.
    pub(crate) keeps_clients: bool,
    affinity_before: CpuSet,
    /// Behind the servers, so that it outlives them.
    pub(crate) uplink: Uplink,
    /// Declared last, so that servers are gone before their files.
    _directory: TempDir,
}

/// One arm that runs.
pub(crate) struct Standing {
    pub(crate) about: Arm,
    pub(crate) running: RunningArm,
    pub(crate) clients: Clients,
    /// Set once it can be measured no more.
    pub(crate) out: bool,
}

impl Stand {
    /// Starts every arm that can be started, and the baseline a second time. `network`: what arms run on, made before
    /// this thread is pinned.
    ///
    /// # Errors
    /// The machine refuses, or no comparison is possible.
    pub(crate) fn set_up(
        plan: &Plan,
        helper: &Helper,
        network: Option<Network>,
        progress: &mut dyn Progress,
    ) -> Result<Stand, RunError> {
        let keeps_clients = allow_files(plan);
        let affinity_before = sched_getaffinity(None).map_err(io::Error::from)?;
        let cpus = Cpus::apart(&affinity_before);
        if let Some(cpu) = cpus.generator {
            arms::pin_to(cpu)?;
        }
        let directory = tempfile::tempdir()?;
        let site = site(plan, helper, (cpus, network.as_ref()), &directory)?;
        let mut stand = Stand {
            standing: Vec::new(),
            skipped: Vec::new(),
            generator_cpu: cpus.generator,
            keeps_clients,
            affinity_before,
            uplink: Uplink::of(network),
            _directory: directory,
        };
        for kind in plan.arms() {
            stand.start(kind, &site, kind.to_string(), progress);
        }
        let baseline = stand.choose_baseline(plan)?;
        let (kind, name) = (
            baseline_kind(plan, &stand.standing[baseline].about.name),
            &stand.standing[baseline].about.name,
        );
        let again = format!("{name}-again");
        if stand.start(&kind, &site, again, progress) {
            stand.standing.last_mut().expect("it was just added").about.again_of = Some(baseline);
        }
        Ok(stand)
    }

    /// Adds an arm to those that run or to those that could not; whether it runs.
    fn start(&mut self, kind: &ArmKind, site: &Site, name: String, progress: &mut dyn Progress) -> bool {
        match arms::start(kind, site, &name) {
            Ok(running) => {
                let about = about(name, &running, site.cpus.server);
                let ready = about
                    .ready_ms
                    .map_or("reached".to_owned(), |ms| format!("ready in {ms:.0} ms"));
                progress.say(&format!(
                    "{}: {} ({}) … {ready}",
                    about.name, about.version, about.settings
                ));
                self.standing.push(Standing {
                    about,
                    running,
                    clients: Clients::default(),
                    out: false,
                });
                true
            }
            Err(reason) => {
                progress.say(&format!("{name}: left out: {reason}"));
                self.skipped.push(Skipped {
                    arm: name,
                    reason: without_paths(&reason),
                });
                false
            }
        }
    }

    fn choose_baseline(&mut self, plan: &Plan) -> Result<usize, RunError> {
        let wanted = plan.arms()[plan.baseline()].to_string();
        let place = self.standing.iter().position(|arm| arm.about.name == wanted);
        let any = (plan.baseline_may_change() && !self.standing.is_empty()).then_some(0);
        let Some(baseline) = place.or(any) else {
            let reasons: Vec<String> = self
                .skipped
                .iter()
                .map(|skip| format!("{}: {}", skip.arm, skip.reason))
                .collect();
            return Err(RunError::NoArms(reasons.join("; ")));
        };
        self.standing[baseline].about.baseline = true;
        Ok(baseline)
    }

    /// Stops the servers and gives this thread its CPUs back.
    pub(crate) fn take_down(self) -> (Vec<Arm>, Vec<Skipped>) {
        // The set was ours before, so that it can be again.
        let _ = sched_setaffinity(None, &self.affinity_before);
        (
            self.standing.into_iter().map(|standing| standing.about).collect(),
            self.skipped,
        )
    }
}

/// The connected clients of one arm, and for which devices and QoS they are.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Option<(u32, u8, Fleet)>,
}

impl Clients {
    /// The clients for a cell; those of the cell before serve again where they are the same.
    ///
    /// # Errors
    /// They cannot be connected.
    pub(crate) fn fleet(&mut self, access: &Access, cell: &Cell, spins: bool) -> Result<&mut Fleet, String> {
        let before = self
            .connected
            .take()
            .filter(|(devices, qos, _)| (*devices, *qos) == (cell.devices, cell.qos));
        let usable = before.and_then(|(_, _, mut fleet)| fleet.is_alive().then_some(fleet));
        let fleet = match usable {
            Some(fleet) => fleet,
            None => Fleet::connect(access, cell.devices, QOS[usize::from(cell.qos)], spins)?,
        };
        let (_, _, fleet) = self.connected.insert((cell.devices, cell.qos, fleet));
        Ok(fleet)
    }
}

fn about(name: String, running: &RunningArm, server_cpu: Option<usize>) -> Arm {
    Arm {
        name,
        baseline: false,
        again_of: None,
        version: running.version.clone(),
        settings: running.settings.clone(),
        ready_ms: running.ready_ms,
        idle_rss_bytes: running.rss_bytes(),
        server_cpu: server_cpu.filter(|_| !running.servers.is_empty() || !running.carried.is_empty()),
    }
}

fn baseline_kind(plan: &Plan, name: &str) -> ArmKind {
    let kind = plan.arms().iter().find(|kind| kind.to_string() == name);
    kind.unwrap_or(&plan.arms()[plan.baseline()]).clone()
}

fn site(
    plan: &Plan,
    helper: &Helper,
    (cpus, network): (Cpus, Option<&Network>),
    directory: &TempDir,
) -> Result<Site, RunError> {
    let (selvedge_program, mosquitto_program) = plan.programs();
    Ok(Site {
        directory: directory.path().to_owned(),
        helper: helper.clone(),
        cpus,
        hosts: network
            .map(|network| [Place::Device, Place::Edge, Place::Cloud].map(|place| network.host(place).clone())),
        tls: plan.options().has_tls(),
        devices: plan.cells().iter().map(|cell| cell.devices).max().unwrap_or(1),
        selvedge_program,
        mosquitto_program,
        certificates: Certificates::create(directory.path()).map_err(RunError::Certificates)?,
        protocol: plan.options().protocol.into(),
        authority: plan.options().ca.clone(),
        carriers: Default::default(),
    })
}

/// A connection is a file, and ten thousand devices need more than the usual 1,024: raises the limit to what all arms'
/// clients need together, or as near as may be. Servers inherit it. Returns whether that is enough.
fn allow_files(plan: &Plan) -> bool {
    let devices = plan
        .cells()
        .iter()
        .map(|cell| u64::from(cell.devices))
        .max()
        .unwrap_or(1);
    let needed = (devices + FILES_PER_ARM) * (plan.arms().len() as u64 + 1) + FILES_OF_OUR_OWN;
    arms::raise_file_limit(needed)
}
