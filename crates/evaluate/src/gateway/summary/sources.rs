//! The rows of the table, in its order: where each one's values come from, what they stand beside, and what is aimed
//! at.

use super::{Aim, Of};
use crate::capacity::Unit;
use crate::gateway::footprint::{ENDPOINTS, RUNNING, SLEEPING};
use crate::gateway::options::SERVICES;
use crate::gateway::options::{Part, Runtime};
use crate::gateway::record::{Arm, Benchmark, Figure, GatewayRun, Job, Mode, Task};
use crate::report::words;

/// Where a row's values come from.
pub(super) struct Source {
    pub(super) section: &'static str,
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) job: Job,
    pub(super) figure: Figure,
    pub(super) of: Of,
    /// Its name, its job and its figure.
    pub(super) against: Option<(&'static str, Job, Figure)>,
    pub(super) aim: Option<Aim>,
}

const BY_EDGE: [Arm; 3] = [Arm::Process, Arm::Oci, Arm::Docker];

pub(super) fn sources(run: &GatewayRun) -> Vec<Source> {
    let parts = run.options.parts.iter();
    parts
        .flat_map(|part| match part {
            Part::Activation => {
                let mut rows = answers();
                rows.extend(throughput());
                rows.extend(burst(run.options.burst));
                rows
            }
            Part::Footprint => {
                let mut rows = at_rest(run.options.services);
                rows.extend(applied());
                rows
            }
            Part::Cost => costs(&run.options.instances),
            Part::Work => at_work(),
            Part::Day => over_a_day(),
        })
        .collect()
}

/// The first request, arm by arm, each beside what does the same without an edge.
fn answers() -> Vec<Source> {
    const BARE: [Arm; 5] = [
        Arm::RuncRun,
        Arm::RuncRunAgain,
        Arm::DockerEngine,
        Arm::DockerStart,
        Arm::DockerStartAgain,
    ];
    const PAUSED: [Arm; 3] = [Arm::DockerUnpauseEngine, Arm::DockerUnpause, Arm::DockerUnpauseAgain];
    let of_edge = Mode::ALL.into_iter().flat_map(|mode| BY_EDGE.map(|arm| (mode, arm)));
    let bare = BARE.map(|arm| (Mode::Cold, arm)).into_iter();
    let all = of_edge.chain(bare).chain(PAUSED.map(|arm| (Mode::Paused, arm)));
    all.flat_map(|(mode, arm)| QUANTILES.map(|q| answer(mode, arm, q)))
        .collect()
}

const QUANTILES: [(f64, &str); 2] = [(0.5, "p50"), (0.99, "p99")];

fn answer(mode: Mode, arm: Arm, (q, quantile): (f64, &str)) -> Source {
    let job = |mode, arm| Job {
        task: Task::Activation(mode),
        arm,
    };
    let baseline = match (mode, arm.runtime()) {
        _ if matches!(arm, Arm::RuncRun | Arm::DockerStart | Arm::DockerUnpause) => None,
        (Mode::Paused, Runtime::Docker) => Some((Mode::Paused, Arm::DockerUnpause)),
        (_, Runtime::Docker) => Some((Mode::Cold, Arm::DockerStart)),
        (_, Runtime::Oci) => Some((Mode::Cold, Arm::RuncRun)),
        (_, Runtime::Process) => None,
    };
    let is_by_edge = BY_EDGE.contains(&arm);
    let label = if is_by_edge {
        format!("{}, {}, {quantile}", arm.name(), mode.name())
    } else {
        format!("{}, {quantile}", arm.name())
    };
    Source {
        section: "Answer to the first request",
        label,
        unit: Unit::Ms,
        job: job(mode, arm),
        figure: Figure::AnswerMs,
        of: Of::Quantile(q),
        against: baseline.map(|(mode, arm)| (arm.name(), job(mode, arm), Figure::AnswerMs)),
        aim: match (mode, arm, quantile) {
            (Mode::Cold, Arm::Oci, "p50") => Some(Aim::AtMost(40.0)),
            (Mode::Cold, Arm::Oci, _) => Some(Aim::AtMost(80.0)),
            (Mode::Cold, Arm::Docker, "p50") => Some(Aim::TimesAtMost(1.1)),
            (Mode::Paused, _, "p50") if is_by_edge => Some(Aim::AtMost(5.0)),
            _ => None,
        },
    }
}

/// Through the edge's port beside past it.
fn throughput() -> Vec<Source> {
    let kinds = [
        ("answers a second", Unit::PerS, Figure::ThroughPerS, Figure::DirectPerS),
        (
            "a large file, a second",
            Unit::Megabytes,
            Figure::ThroughBytesPerS,
            Figure::DirectBytesPerS,
        ),
    ];
    let row = |(what, unit, figure, direct), arm: Arm| {
        let job = Job {
            task: Task::Throughput,
            arm,
        };
        Source {
            section: "Through the edge's port, once awake",
            label: format!("{}, {what}", arm.name()),
            unit,
            job,
            figure,
            of: Of::Blocks,
            against: Some(("direct", job, direct)),
            aim: Some(Aim::TimesAtLeast(0.95)),
        }
    };
    kinds
        .into_iter()
        .flat_map(|kind| BY_EDGE.map(|arm| row(kind, arm)))
        .collect()
}

/// Many at once.
fn burst(requests: u32) -> Vec<Source> {
    let row = |arm: Arm, what: &str, unit, figure, (of, aim)| Source {
        section: "Many first requests at once",
        label: format!("{}, {} {what}", arm.name(), words::count(u64::from(requests))),
        unit,
        job: Job { task: Task::Burst, arm },
        figure,
        of,
        against: None,
        aim,
    };
    let of_arm = |arm| {
        [
            row(
                arm,
                "at once: lost",
                Unit::Messages,
                Figure::BurstLostRequests,
                (Of::Sum, Some(Aim::AtMost(0.0))),
            ),
            row(
                arm,
                "at once: starts",
                Unit::Messages,
                Figure::BurstStarts,
                (Of::Most, Some(Aim::AtMost(1.0))),
            ),
            row(
                arm,
                "at once: answered in",
                Unit::Ms,
                Figure::BurstMs,
                (Of::Blocks, None),
            ),
        ]
    };
    BY_EDGE.into_iter().flat_map(of_arm).collect()
}

/// Memory and processor of an edge that has nothing to do.
fn at_rest(services: u32) -> Vec<Source> {
    let row = |task, arm: Arm, (what, unit, figure): (String, Unit, Figure), aim| Source {
        section: "An edge at rest",
        label: what,
        unit,
        job: Job { task, arm },
        figure,
        of: Of::Blocks,
        against: None,
        aim,
    };
    let mut rows = Vec::new();
    {
        let (arm, name) = (Arm::Oci, format!("{RUNNING} running"));
        let promised = |aim| Some(Aim::AtMost(aim));
        let figures = [
            (
                "added memory (PSS)",
                Unit::Megabytes,
                Figure::AddedPssBytes,
                promised(25e6),
            ),
            ("added memory (RSS)", Unit::Megabytes, Figure::AddedRssBytes, None),
            ("edge with all (PSS)", Unit::Megabytes, Figure::WithPssBytes, None),
            ("of a core", Unit::Share, Figure::WithCpuShare, promised(0.005)),
        ];
        rows.extend(
            figures.map(|(what, unit, figure, aim)| {
                row(Task::Running, arm, (format!("{name}: {what}"), unit, figure), aim)
            }),
        );
    }
    let sleeping = [
        (
            "added memory (PSS)",
            Unit::Megabytes,
            Figure::AddedPssBytes,
            Some(Aim::AtMost(2e6)),
        ),
        ("of a core", Unit::Share, Figure::WithCpuShare, None),
    ];
    rows.extend(sleeping.map(|(what, unit, figure, aim)| {
        row(
            Task::Sleeping,
            Arm::Oci,
            (format!("{SLEEPING} asleep: {what}"), unit, figure),
            aim,
        )
    }));
    rows.push(row(
        Task::Services,
        Arm::Oci,
        (
            format!("{services} services × {ENDPOINTS}: memory (PSS)"),
            Unit::Megabytes,
            Figure::AddedPssBytes,
        ),
        (services == SERVICES).then_some(Aim::AtMost(15e6)),
    ));
    let alone = [
        ("edge alone: memory (PSS)", Unit::Megabytes, Figure::EdgePssBytes),
        ("edge alone: of a core", Unit::Share, Figure::EdgeCpuShare),
    ];
    rows.extend(alone.map(|(what, unit, figure)| row(Task::Running, Arm::Oci, (what.to_owned(), unit, figure), None)));
    rows
}

/// `apply` to answering, beside `docker run`.
fn applied() -> Vec<Source> {
    let arms = [Arm::Process, Arm::Oci, Arm::Docker, Arm::DockerRun, Arm::DockerRunAgain];
    let job = |arm| Job { task: Task::Apply, arm };
    let row = |arm: Arm, (q, quantile): (f64, &str)| Source {
        section: "From apply to the first answer",
        label: format!("{}, {quantile}", arm.name()),
        unit: Unit::Ms,
        job: job(arm),
        figure: Figure::AnswerMs,
        of: Of::Quantile(q),
        against: (arm != Arm::DockerRun).then(|| (Arm::DockerRun.name(), job(Arm::DockerRun), Figure::AnswerMs)),
        aim: (arm == Arm::Oci && quantile == "p50").then_some(Aim::AtMost(100.0)),
    };
    arms.into_iter()
        .flat_map(|arm| [(0.5, "p50")].map(|q| row(arm, q)))
        .collect()
}

/// Benchmark programs beside themselves without an edge.
fn costs(instances: &[u32]) -> Vec<Source> {
    let programs = [
        (
            Benchmark::Cpu,
            "sysbench, time",
            Unit::Seconds,
            Figure::CpuS,
            Some(0.02),
        ),
        (
            Benchmark::Memory,
            "mbw memcpy",
            Unit::MegabytesPerS,
            Figure::MemcpyBytesPerS,
            Some(0.02),
        ),
        (
            Benchmark::Memory,
            "mbw dumb",
            Unit::MegabytesPerS,
            Figure::DumbBytesPerS,
            Some(0.02),
        ),
        (
            Benchmark::Memory,
            "mbw mcblock",
            Unit::MegabytesPerS,
            Figure::McblockBytesPerS,
            Some(0.02),
        ),
        (
            Benchmark::Disk,
            "fio write",
            Unit::MegabytesPerS,
            Figure::WriteBytesPerS,
            Some(0.05),
        ),
        (
            Benchmark::Disk,
            "fio read",
            Unit::MegabytesPerS,
            Figure::ReadBytesPerS,
            None,
        ),
        (
            Benchmark::Udp,
            "UDP in, CPU",
            Unit::Share,
            Figure::UdpReceiveCpuShare,
            None,
        ),
        (
            Benchmark::Udp,
            "UDP in, lost",
            Unit::Share,
            Figure::UdpReceiveLostShare,
            None,
        ),
        (
            Benchmark::Udp,
            "UDP out, CPU",
            Unit::Share,
            Figure::UdpSendCpuShare,
            None,
        ),
        (
            Benchmark::Udp,
            "UDP out, lost",
            Unit::Share,
            Figure::UdpSendLostShare,
            None,
        ),
    ];
    let power = Benchmark::ALL.map(|benchmark| (benchmark, "power", Unit::Watts, Figure::PowerW, None));
    const ARMS: [Arm; 5] = [Arm::Native, Arm::NativeAgain, Arm::Process, Arm::Oci, Arm::Docker];
    const ROOTS: [Arm; 2] = [Arm::OciRoot, Arm::DockerRoot];
    let is_lost = |figure| matches!(figure, Figure::UdpReceiveLostShare | Figure::UdpSendLostShare);
    let mut rows = Vec::new();
    for (benchmark, what, unit, figure, margin) in programs.into_iter().chain(power) {
        for count in instances {
            let roots = ROOTS.into_iter().filter(|_| benchmark == Benchmark::Disk);
            rows.extend(ARMS.into_iter().chain(roots).map(|arm| {
                let job = |arm| Job {
                    task: Task::Cost(benchmark, *count),
                    arm,
                };
                let has_ratio = arm != Arm::Native && !is_lost(figure);
                Source {
                    section: "What a container costs a program",
                    label: format!("{what} × {count}, {}", arm.name()),
                    unit,
                    job: job(arm),
                    figure,
                    of: Of::Blocks,
                    against: has_ratio.then(|| (Arm::Native.name(), job(Arm::Native), figure)),
                    aim: margin
                        .filter(|_| matches!(arm, Arm::Process | Arm::Oci))
                        .map(Aim::Equivalent),
                }
            }));
        }
    }
    rows
}

/// The gateway at work, as the paper shows it: each container's part of the processor and of memory.
fn at_work() -> Vec<Source> {
    let figures = [
        (
            "first packet, which starts all",
            Unit::Ms,
            Figure::FirstPacketMs,
            Of::Quantile(0.5),
            None,
        ),
        (
            "later packets, p50",
            Unit::Ms,
            Figure::PacketMs,
            Of::Quantile(0.5),
            None,
        ),
        (
            "later packets, p99",
            Unit::Ms,
            Figure::PacketMs,
            Of::Quantile(0.99),
            None,
        ),
        (
            "packets not in the database",
            Unit::Messages,
            Figure::PacketsLost,
            Of::Sum,
            Some(Aim::AtMost(0.0)),
        ),
        (
            "all three, of a core",
            Unit::Share,
            Figure::AllCpuShare,
            Of::Blocks,
            Some(Aim::AtMost(0.1)),
        ),
        (
            "web server, of a core",
            Unit::Share,
            Figure::WebCpuShare,
            Of::Blocks,
            None,
        ),
        (
            "database, of a core",
            Unit::Share,
            Figure::DatabaseCpuShare,
            Of::Blocks,
            None,
        ),
        (
            "orchestrator, of a core",
            Unit::Share,
            Figure::OrchestratorCpuShare,
            Of::Blocks,
            None,
        ),
        (
            "web server, memory",
            Unit::Megabytes,
            Figure::WebMemoryBytes,
            Of::Blocks,
            None,
        ),
        (
            "database, memory",
            Unit::Megabytes,
            Figure::DatabaseMemoryBytes,
            Of::Blocks,
            None,
        ),
        (
            "orchestrator, memory",
            Unit::Megabytes,
            Figure::OrchestratorMemoryBytes,
            Of::Blocks,
            None,
        ),
    ];
    let row = |(what, unit, figure, of, aim): (&str, Unit, Figure, Of, Option<Aim>)| Source {
        section: "The gateway at work",
        label: what.to_owned(),
        unit,
        job: Job {
            task: Task::Work,
            arm: Arm::Oci,
        },
        figure,
        of,
        against: None,
        aim,
    };
    figures.map(row).into()
}

/// Applications on demand beside the same that always run.
fn over_a_day() -> Vec<Source> {
    const ARMS: [Arm; 3] = [Arm::OnDemand, Arm::AlwaysOn, Arm::AlwaysOnAgain];
    let job = |arm| Job { task: Task::Day, arm };
    let figures = [
        (
            "memory of a day",
            Unit::MegabyteHours,
            Figure::DayMemoryBytes,
            Of::WholeDay,
            true,
        ),
        (
            "beyond the edge's",
            Unit::MegabyteHours,
            Figure::DayAddedMemoryBytes,
            Of::WholeDay,
            true,
        ),
        ("CPU of a day", Unit::Seconds, Figure::DayCpuS, Of::WholeDay, true),
        ("CPU of the replay", Unit::Seconds, Figure::DayCpuS, Of::Blocks, true),
        (
            "energy of a day",
            Unit::Kilojoules,
            Figure::DayEnergyJ,
            Of::WholeDay,
            true,
        ),
        ("answers, p50", Unit::Ms, Figure::DayAnswerMs, Of::Quantile(0.5), true),
        ("answers, p99", Unit::Ms, Figure::DayAnswerMs, Of::Quantile(0.99), true),
        ("starts", Unit::Messages, Figure::DayStarts, Of::Blocks, false),
        ("requests lost", Unit::Messages, Figure::DayLostRequests, Of::Sum, false),
        ("sent late, p99", Unit::Ms, Figure::DayLateMs, Of::Quantile(0.99), false),
    ];
    let row = |(what, unit, figure, of, is_compared): (&str, Unit, Figure, Of, bool), arm: Arm| Source {
        section: "A day, on demand and always on",
        label: format!("{what}, {}", arm.name()),
        unit,
        job: job(arm),
        figure,
        of,
        against: (is_compared && arm != Arm::AlwaysOn).then(|| (Arm::AlwaysOn.name(), job(Arm::AlwaysOn), figure)),
        aim: (figure == Figure::DayLostRequests).then_some(Aim::AtMost(0.0)),
    };
    figures
        .into_iter()
        .flat_map(|figure| ARMS.map(|arm| row(figure, arm)))
        .collect()
}
