//! Ready-made experiments: what is measured where a person says nothing else.

use super::arm_kind::{ArmKind, MODELS};
use super::options::Preset;
use crate::network::Bandwidth;
use crate::run::LoadModel;

const MS: u64 = 1_000;
const S: u64 = 1_000_000;
/// Of a block, so that five blocks hold a 95th percentile (rule 5).
pub(crate) const LEAST_MESSAGES: u64 = 15;

/// Cells that differ in any of the lists: their cross product.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    pub(crate) load: LoadModel,
    pub(crate) interval_us: Vec<u64>,
    pub(crate) payload_bytes: Vec<u32>,
    pub(crate) devices: Vec<u32>,
    pub(crate) qos: Vec<u8>,
    pub(crate) concurrency: Vec<u32>,
    /// Of the line between edge and cloud; for the models alone.
    pub(crate) bandwidth_bit_per_s: Vec<Bandwidth>,
    pub(crate) wan_round_trip_us: Vec<u64>,
}

/// What a preset stands for.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) arms: Vec<ArmKind>,
    pub(crate) baseline: ArmKind,
    pub(crate) sweeps: Vec<Sweep>,
    pub(crate) runs: u32,
    pub(crate) blocks: u32,
    pub(crate) duration_us: u64,
    /// Messages that a block is made longer for, up to `messages_within_us`. It holds 15 in any case.
    pub(crate) messages: u64,
    pub(crate) messages_within_us: u64,
    /// Rounds that are measured again at most where the generator was late, as a share of those that were planned.
    pub(crate) repeats: f64,
    pub(crate) timeout_us: u64,
    /// Think time of a closed loop by its QoS.
    pub(crate) think_us: fn(u8) -> u64,
}

pub(crate) fn defaults(preset: Preset) -> Defaults {
    let with_broker = |floor: ArmKind| vec![floor, ArmKind::Mosquitto, ArmKind::Selvedge];
    let one = Sweep {
        load: LoadModel::Periodic,
        interval_us: vec![10 * MS],
        payload_bytes: vec![64],
        devices: vec![1],
        qos: vec![1],
        concurrency: vec![1],
        bandwidth_bit_per_s: vec![Bandwidth::UNSHAPED],
        wan_round_trip_us: vec![30 * MS],
    };
    let of_models = one_of_models(&one);
    let every_qos = |one: Sweep| Sweep {
        load: LoadModel::Closed,
        qos: vec![0, 1, 2],
        ..one
    };
    let usual = Defaults {
        arms: with_broker(ArmKind::TcpEcho),
        baseline: ArmKind::Mosquitto,
        sweeps: Vec::new(),
        runs: 1,
        blocks: 5,
        duration_us: 2 * S,
        messages: LEAST_MESSAGES,
        messages_within_us: 0,
        repeats: 1.0,
        timeout_us: 5 * S,
        think_us: |_| 0,
    };
    let models = Defaults {
        arms: MODELS.to_vec(),
        baseline: ArmKind::DeviceCloud,
        ..usual.clone()
    };
    match preset {
        Preset::Demo => Defaults {
            sweeps: vec![Sweep {
                devices: vec![20],
                ..one
            }],
            duration_us: 4 * S,
            ..usual
        },
        // The noise of a machine comes and goes within seconds: the shorter the blocks, the more of it is common to
        // those that are compared. A block still holds the messages that its p99 needs.
        Preset::Closed => Defaults {
            arms: [with_broker(ArmKind::Relay), vec![ArmKind::SelvedgeLowLatency]].concat(),
            sweeps: vec![every_qos(one)],
            think_us,
            runs: 8,
            blocks: 10,
            duration_us: 150 * MS,
            ..usual
        },
        Preset::ClosedTls => Defaults {
            arms: vec![ArmKind::MosquittoTls, ArmKind::SelvedgeTls],
            baseline: ArmKind::MosquittoTls,
            sweeps: vec![every_qos(one)],
            think_us,
            runs: 8,
            blocks: 10,
            duration_us: 150 * MS,
            ..usual
        },
        Preset::Fleet => Defaults {
            arms: vec![ArmKind::Mosquitto, ArmKind::Selvedge],
            sweeps: vec![Sweep {
                interval_us: vec![100 * MS],
                devices: vec![200],
                ..one
            }],
            runs: 8,
            blocks: 8,
            duration_us: S,
            ..usual
        },
        Preset::Crowd => Defaults {
            arms: vec![ArmKind::Mosquitto, ArmKind::Selvedge],
            sweeps: vec![Sweep {
                interval_us: vec![S],
                devices: vec![10_000],
                ..one
            }],
            runs: 6,
            blocks: 5,
            duration_us: S,
            ..usual
        },
        Preset::Knee => Defaults {
            arms: with_broker(ArmKind::Relay),
            sweeps: vec![Sweep {
                devices: vec![100],
                ..one
            }],
            blocks: 3,
            duration_us: S,
            timeout_us: S,
            ..usual
        },
        Preset::Quick => Defaults {
            arms: with_broker(ArmKind::Relay),
            sweeps: vec![Sweep {
                devices: vec![5],
                ..one
            }],
            blocks: 3,
            duration_us: S,
            ..usual
        },
        Preset::Paper => Defaults {
            sweeps: paper_sweeps(&one).into(),
            ..usual
        },
        // Five blocks of 75 messages hold the 368 that p99 needs; above 200 ms that would take days.
        Preset::PaperModels => Defaults {
            arms: [MODELS.to_vec(), vec![ArmKind::Mosquitto, ArmKind::TcpEcho]].concat(),
            sweeps: sweeps_of_models(&one, &of_models),
            duration_us: 5 * S,
            messages: 75,
            messages_within_us: 15 * S,
            ..models
        },
        Preset::QuickModels => Defaults {
            sweeps: quick_sweeps(&of_models),
            duration_us: 1_500 * MS,
            repeats: 0.2,
            ..models
        },
        Preset::Link => Defaults {
            arms: vec![
                ArmKind::DeviceCloud,
                ArmKind::DeviceEdgeCloud,
                ArmKind::DeviceEdgeCloudDisk,
            ],
            sweeps: link_sweeps(&of_models),
            runs: 5,
            blocks: 4,
            duration_us: 1_500 * MS,
            ..models
        },
        // Often enough for p99 within two minutes.
        Preset::DemoModels => Defaults {
            arms: [MODELS.to_vec(), vec![ArmKind::Mosquitto]].concat(),
            sweeps: vec![Sweep {
                interval_us: vec![50 * MS],
                ..of_models
            }],
            duration_us: 4 * S,
            ..models
        },
    }
}

/// Think time of the closed loops of one message at `qos`. The generator writes and reads six packets of a round trip
/// at QoS 2, and without a pause has less to spare than its sanity law asks (rule 10); a longer one would let the
/// server sleep.
pub(crate) fn think_us(qos: u8) -> u64 {
    if qos == 2 { 15 } else { 0 }
}

/// The defaults of Table II of the first paper: number and device in some 64 bytes, every 200 ms, one device, QoS 1.
fn one_of_models(one: &Sweep) -> Sweep {
    Sweep {
        interval_us: vec![200 * MS],
        ..one.clone()
    }
}

/// Table II of the first paper with its scenario on bandwidth, more devices than it had, and the delay of the line.
fn sweeps_of_models(one: &Sweep, of_models: &Sweep) -> Vec<Sweep> {
    let [intervals, qos, payloads, devices] = paper_sweeps(one);
    let more_devices = Sweep {
        devices: vec![100, 1_000, 10_000],
        ..of_models.clone()
    };
    let bandwidths = Sweep {
        bandwidth_bit_per_s: [10_000_000, 1_000_000, 128_000, 32_000, 8_000]
            .map(Bandwidth::of)
            .to_vec(),
        ..of_models.clone()
    };
    let delays = Sweep {
        wan_round_trip_us: [0, 5, 100, 300].map(|ms| ms * MS).to_vec(),
        ..of_models.clone()
    };
    vec![
        of_models.clone(),
        intervals,
        payloads,
        bandwidths,
        devices,
        more_devices,
        delays,
        qos,
    ]
}

/// Where it is promised what an edge and its link add, and what they keep up with.
fn link_sweeps(of_models: &Sweep) -> Vec<Sweep> {
    vec![
        Sweep {
            interval_us: vec![10 * MS],
            wan_round_trip_us: vec![30 * MS, 0],
            ..of_models.clone()
        },
        Sweep {
            interval_us: vec![MS],
            ..of_models.clone()
        },
        Sweep {
            devices: vec![1_000],
            ..of_models.clone()
        },
    ]
}

/// Some points of each sweep.
fn quick_sweeps(of_models: &Sweep) -> Vec<Sweep> {
    vec![
        Sweep {
            interval_us: [200, 1, 10, 100].map(|ms| ms * MS).to_vec(),
            ..of_models.clone()
        },
        Sweep {
            payload_bytes: vec![100, 10_000, 250_000],
            ..of_models.clone()
        },
        Sweep {
            bandwidth_bit_per_s: [10_000_000, 128_000, 32_000].map(Bandwidth::of).to_vec(),
            ..of_models.clone()
        },
        Sweep {
            devices: vec![20, 1_000],
            ..of_models.clone()
        },
    ]
}

/// Table II of the first paper, without the scenario on bandwidth; Figs. 4 to 6: intervals, these at other QoS,
/// payloads, devices.
fn paper_sweeps(one: &Sweep) -> [Sweep; 4] {
    let intervals = || {
        [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000]
            .map(|ms| ms * MS)
            .to_vec()
    };
    let payloads = || vec![100, 1_000, 10_000, 100_000, 250_000];
    let at_200_ms = || one_of_models(one);
    [
        Sweep {
            interval_us: intervals(),
            ..one.clone()
        },
        Sweep {
            interval_us: [1, 2, 5, 10, 50, 100].map(|ms| ms * MS).to_vec(),
            qos: vec![0, 2],
            ..one.clone()
        },
        Sweep {
            payload_bytes: payloads(),
            qos: vec![0, 1, 2],
            ..at_200_ms()
        },
        Sweep {
            devices: vec![1, 5, 10, 15, 20],
            ..at_200_ms()
        },
    ]
}
