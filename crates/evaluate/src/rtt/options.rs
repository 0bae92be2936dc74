//! What a person may ask of `evaluate rtt`, as it was asked: not yet checked, not yet complete.

use std::path::PathBuf;

use mqtt::Version;
use serde::{Deserialize, Serialize};

use super::arm_kind::ArmKind;
use super::presets::defaults;
use super::units;
use crate::network::Bandwidth;
use crate::run::LoadModel;

/// Raw options; what is absent comes from the preset. [`crate::rtt::Plan`] is what they become.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Options {
    /// A ready-made experiment; the other options change it (default quick, with --model paper-models)
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// Models of the first paper, on an emulated network of device, edge and cloud: d-c, d-e-c, d-e; and d-e-c-disk,
    /// whose logs are on disk before an acknowledgement leaves
    #[arg(long, value_delimiter = ',', value_name = "MODEL", value_parser = ArmKind::model)]
    pub model: Vec<ArmKind>,
    /// The reduced run of the three models, in 15 min
    #[arg(long, conflicts_with = "preset")]
    pub quick: bool,
    /// Bandwidths of the line between edge and cloud, with --model, such as 10mbit,128kbit,8kbit or unshaped
    #[arg(long = "bandwidth", value_delimiter = ',', value_name = "RATE")]
    pub bandwidth_bit_per_s: Vec<Bandwidth>,
    /// Delays that this line adds to a round trip, with --model (default 30ms)
    #[arg(long = "wan-rtt", value_delimiter = ',', value_parser = units::duration_us, value_name = "DURATION")]
    pub wan_round_trip_us: Vec<u64>,
    /// Devices connect under TLS, with --model; the link does always
    #[arg(long)]
    pub tls: bool,
    /// Systems to measure, the baseline's second instance excepted
    #[arg(long, value_delimiter = ',', value_name = "ARM")]
    pub arms: Vec<ArmKind>,
    /// Any broker that runs already, by publish and subscribe: `mqtt[s]://[user[:password]@]host[:port]`. Without a
    /// password, that of the environment's SELVEDGE_TARGET_PASSWORD is taken
    #[arg(long, value_name = "URL")]
    pub target: Vec<ArmKind>,
    /// The authority, in PEM, that the certificates of targets with `mqtts` come from
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Version of MQTT that is spoken
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Protocol,
    /// The arm that the others are compared with
    #[arg(long, value_name = "ARM")]
    pub baseline: Option<ArmKind>,
    /// How the times of sending come about
    #[arg(long, value_enum)]
    pub load: Option<LoadModel>,
    /// Time between two messages of one device, such as 1ms,10ms,5s
    #[arg(long = "interval", value_delimiter = ',', value_parser = units::duration_us, value_name = "DURATION")]
    pub interval_us: Vec<u64>,
    /// Size of a message's payload, such as 64,10k,250k
    #[arg(long = "payload", value_delimiter = ',', value_parser = units::bytes, value_name = "BYTES")]
    pub payload_bytes: Vec<u32>,
    /// Number of devices, each with its own connection
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub devices: Vec<u32>,
    /// MQTT quality of service: 0, 1, 2
    #[arg(long, value_delimiter = ',', value_name = "QOS")]
    pub qos: Vec<u8>,
    /// Messages out at once, in a closed loop
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub concurrency: Vec<u32>,
    /// Time from an answer to the next message, in a closed loop
    #[arg(long = "think", value_parser = units::duration_us, value_name = "DURATION")]
    pub think_us: Option<u64>,
    /// Whole runs, each with its servers started anew and the next seed; five or more give an interval over runs
    #[arg(long, value_name = "N")]
    pub runs: Option<u32>,
    /// Blocks of every arm and cell in a run
    #[arg(long, value_name = "N")]
    pub blocks: Option<u32>,
    /// Length of a block's sending
    #[arg(long = "duration", value_parser = units::duration_us, value_name = "DURATION")]
    pub duration_us: Option<u64>,
    /// Longest p99 at the knee, with `--preset knee` (default 10ms)
    #[arg(long = "knee-p99", value_parser = units::duration_us, value_name = "DURATION")]
    pub knee_p99_us: Option<u64>,
    /// Greatest share of messages lost at the knee, such as 0.001
    #[arg(long, value_parser = units::share, value_name = "SHARE")]
    pub knee_lost: Option<f64>,
    /// A message not answered after this time is lost
    #[arg(long = "timeout", value_parser = units::duration_us, value_name = "DURATION")]
    pub timeout_us: Option<u64>,
    /// Seed of schedules and of the order of arms; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Send the rows of this data set (CSV) as readings, or with `machine` readings of this machine
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Replay this many times faster than the data set was recorded
    #[arg(long, value_parser = units::factor, value_name = "FACTOR", requires = "replay")]
    pub replay_speed: Option<f64>,
    /// Path of the `selvedge` program, if it is not this one
    #[arg(long = "selvedge", value_name = "PATH")]
    pub selvedge_program: Option<PathBuf>,
    /// Path of the `mosquitto` program, if it is not found
    #[arg(long = "mosquitto", value_name = "PATH")]
    pub mosquitto_program: Option<PathBuf>,
}

impl Options {
    /// The experiment that is asked for.
    pub(crate) fn preset(&self) -> Preset {
        let usual = match (self.quick, self.model.is_empty()) {
            (true, _) => Preset::QuickModels,
            (false, false) => Preset::PaperModels,
            (false, true) => Preset::Quick,
        };
        self.preset.unwrap_or(usual)
    }

    /// Whether devices of the models connect under TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls || self.preset() == Preset::Link
    }

    /// Whether models are asked for under loads that are named one by one, instead of those of a whole experiment.
    pub(crate) fn names_loads_of_models(&self) -> bool {
        let lists = [
            self.interval_us.len(),
            self.payload_bytes.len(),
            self.devices.len(),
            self.qos.len(),
            self.concurrency.len(),
            self.bandwidth_bit_per_s.len(),
            self.wan_round_trip_us.len(),
        ];
        let whole = self.preset.is_some() || self.quick || self.model.is_empty();
        !whole && (lists.iter().any(|length| *length > 0) || self.load.is_some() || self.replay.is_some())
    }

    /// The most devices of any cell.
    pub(crate) fn most_devices(&self) -> u32 {
        let usual = defaults(self.preset())
            .sweeps
            .into_iter()
            .flat_map(|sweep| sweep.devices);
        let said = self.devices.iter().copied();
        if self.devices.is_empty() {
            usual.max()
        } else {
            said.max()
        }
        .unwrap_or(1)
    }
}

/// A version of MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Protocol {
    /// Version 3.1.1, as in the papers
    #[default]
    #[serde(rename = "3.1.1")]
    #[value(name = "3.1.1")]
    V311,
    /// Version 5.0
    #[serde(rename = "5")]
    #[value(name = "5")]
    V5,
}

impl From<Protocol> for Version {
    fn from(protocol: Protocol) -> Version {
        match protocol {
            Protocol::V311 => Version::V311,
            Protocol::V5 => Version::V5,
        }
    }
}

/// Experiments that need no further option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// 20 devices every 10 ms at QoS 1, about 90 s
    Demo,
    /// One device in a closed loop at QoS 0, 1 and 2, many short blocks: the floor of the round trip, about 5 min
    Closed,
    /// The same under TLS, about 3 min
    ClosedTls,
    /// 200 devices, each 10 messages a second at QoS 1, about 4 min
    Fleet,
    /// 10,000 devices, each a message a second at QoS 1, about 5 min
    Crowd,
    /// The highest rate of 100 devices with p99 and losses within bounds, of each arm: searched and confirmed, about 3
    /// min
    Knee,
    /// A look in some seconds; too little for a verdict
    #[default]
    Quick,
    /// The first paper's sweeps over interval, payload, devices and QoS, about 65 min
    Paper,
    /// Those over interval, payload, bandwidth, delay, devices and QoS of its three models, beside Mosquitto and a raw
    /// socket on the edge: hours; --resume goes on with it
    PaperModels,
    /// A reduced run of the three models, as --quick
    QuickModels,
    /// What the edge and its link add to the round trip, and keep up with: D-E-C against D-C, all under TLS, about 15
    /// min
    Link,
    /// The three models every 50 ms, beside Mosquitto on the edge, about 2 min
    DemoModels,
}
