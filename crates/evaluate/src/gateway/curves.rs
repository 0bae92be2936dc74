//! What plots draw: the answers to first requests of each arm, and what was taken over time.

use super::record::{Arm, Figure, GatewayRun, Job, Mode, Task};
use super::work::NAMES;

/// What was taken over time by one of several.
pub(crate) struct Curve {
    /// Which application, or arm.
    pub(crate) name: &'static str,
    /// Time and value: of a day its hour, of the gateway at work the paper's minute.
    pub(crate) points: Vec<(f64, f64)>,
}

/// First requests of one kind.
pub(crate) struct FirstRequests {
    /// In which state the application was, or that there was no edge.
    pub(crate) state: &'static str,
    /// Arms with the milliseconds of all their answers, lost ones infinite.
    pub(crate) arms: Vec<(Arm, Vec<f64>)>,
}

const BY_EDGE: [Arm; 3] = [Arm::Process, Arm::Oci, Arm::Docker];
const BARE: [Arm; 3] = [Arm::RuncRun, Arm::DockerEngine, Arm::DockerStart];
const PAUSED: [Arm; 2] = [Arm::DockerUnpauseEngine, Arm::DockerUnpause];
/// Arms whose answers are drawn.
pub(crate) const ANSWERING: [Arm; 8] = [
    Arm::Process,
    Arm::Oci,
    Arm::Docker,
    Arm::RuncRun,
    Arm::DockerEngine,
    Arm::DockerStart,
    Arm::DockerUnpauseEngine,
    Arm::DockerUnpause,
];

/// By state and arm; empty where none was measured.
pub(crate) fn first_requests(run: &GatewayRun) -> Vec<FirstRequests> {
    let of = |state, mode, arms: &[Arm]| {
        let answers = |arm: &Arm| {
            let job = Job {
                task: Task::Activation(mode),
                arm: *arm,
            };
            let blocks = run.blocks_of(job, Figure::AnswerMs);
            let all: Vec<f64> = blocks.into_iter().flat_map(|(_, values)| values).collect();
            (!all.is_empty()).then_some((*arm, all))
        };
        let arms: Vec<_> = arms.iter().filter_map(answers).collect();
        (!arms.is_empty()).then_some(FirstRequests { state, arms })
    };
    let by_edge = Mode::ALL.map(|mode| of(mode.name(), mode, &BY_EDGE));
    let bare = [
        of("without an edge", Mode::Cold, &BARE),
        of("paused, without an edge", Mode::Paused, &PAUSED),
    ];
    let all = by_edge.into_iter().chain(bare);
    all.flatten().collect()
}

/// Processor time of the gateway's containers at work, as a share of a core, in the first block.
pub(crate) fn work_cpu(run: &GatewayRun) -> Vec<Curve> {
    const FIGURES: [Figure; 3] = [
        Figure::WebCpuShare,
        Figure::DatabaseCpuShare,
        Figure::OrchestratorCpuShare,
    ];
    at_work(run, FIGURES)
}

/// Their memory in bytes.
pub(crate) fn work_memory(run: &GatewayRun) -> Vec<Curve> {
    const FIGURES: [Figure; 3] = [
        Figure::WebMemoryBytes,
        Figure::DatabaseMemoryBytes,
        Figure::OrchestratorMemoryBytes,
    ];
    at_work(run, FIGURES)
}

fn at_work(run: &GatewayRun, figures: [Figure; 3]) -> Vec<Curve> {
    let job = Job {
        task: Task::Work,
        arm: Arm::Oci,
    };
    let minutes_a_s = f64::from(run.options.speed) / 60.0;
    let curves = NAMES.into_iter().zip(figures).filter_map(|(name, figure)| {
        let points = over_time(run, job, figure, minutes_a_s)?;
        Some(Curve { name, points })
    });
    curves.collect()
}

/// Memory of the edge with all that it runs over the day, in bytes, in the first block.
pub(crate) fn day_memory(run: &GatewayRun) -> Vec<Curve> {
    let hours_a_s = f64::from(run.options.day_speed) / 3_600.0;
    let curves = [Arm::AlwaysOn, Arm::OnDemand].into_iter().filter_map(|arm| {
        let job = Job { task: Task::Day, arm };
        let points = over_time(run, job, Figure::DayMemoryBytes, hours_a_s)?;
        Some(Curve {
            name: arm.name(),
            points,
        })
    });
    curves.collect()
}

/// Of the first block that has it; `scale` times the seconds since the beginning.
fn over_time(run: &GatewayRun, job: Job, figure: Figure, scale: f64) -> Option<Vec<(f64, f64)>> {
    let first = |figure| run.blocks_of(job, figure).into_iter().min_by_key(|(block, _)| *block);
    let (at_s, values) = (first(Figure::LookS)?.1, first(figure)?.1);
    Some(at_s.iter().map(|at_s| at_s * scale).zip(values).collect())
}
