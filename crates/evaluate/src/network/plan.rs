//! What a network should be like.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::NetworkError;
use super::bandwidth::Bandwidth;

/// Bytes of the largest IP packet on every line.
pub(super) const MTU_BYTES: usize = 1_500;
/// The queue before a shaped line: so much of its time …
const QUEUE_MS: u64 = 100;
/// … but never less than so many full packets, without which TCP cannot fill the line.
const QUEUE_LEAST_PACKETS: usize = 4;
const MOST_ROUND_TRIP_US: u64 = 60_000_000;

/// Three hosts and the lines between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Between device and edge.
    pub device_edge: LinePlan,
    /// Between edge and cloud.
    pub edge_cloud: LinePlan,
    /// What emulates; none = `netem` where the kernel has it and the line has no bandwidth, else our relay. A line that
    /// will be given a bandwidth later, or be compared with one that has, takes the relay.
    pub means: Option<Means>,
    /// Seed of jitter and loss; `netem` takes none.
    pub seed: u64,
}

/// One line of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinePlan {
    /// A bare pair of virtual Ethernet devices, as fast as the machine. It cannot be changed or cut.
    Plain,
    /// With these settings, which can be changed while it is in use; it can be cut and mended.
    Emulated(Settings),
}

/// What emulates a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// The kernel's own emulator, a queueing discipline on each end of a pair of virtual Ethernet devices.
    Netem,
    /// A thread of ours that carries packets between a TUN device in one namespace and one in the other.
    Relay,
}

/// How a line behaves, the same in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Of each direction.
    pub bandwidth_bit_per_s: Bandwidth,
    /// Delay that the line adds to a round trip in microseconds, half of it in each direction (rule 11).
    pub round_trip_us: u64,
    /// The most by which the delay of a round trip is more or less than that, in microseconds: half of it in each
    /// direction, drawn evenly for each packet. Packets keep their order, so that one may wait for the one before.
    pub jitter_us: u64,
    /// Share of the packets that is lost in each direction, each by itself.
    pub loss: f64,
}

impl Plan {
    /// A plain line between device and edge, and these settings between edge and cloud.
    pub fn wan(settings: Settings, seed: u64) -> Plan {
        Plan {
            device_edge: LinePlan::Plain,
            edge_cloud: LinePlan::Emulated(settings),
            means: None,
            seed,
        }
    }

    pub(super) fn check(&self) -> Result<(), NetworkError> {
        self.lines()
            .into_iter()
            .filter_map(LinePlan::settings)
            .try_for_each(Settings::check)
    }

    pub(super) fn lines(&self) -> [&LinePlan; 2] {
        [&self.device_edge, &self.edge_cloud]
    }
}

impl LinePlan {
    pub(super) fn settings(&self) -> Option<&Settings> {
        match self {
            LinePlan::Plain => None,
            LinePlan::Emulated(settings) => Some(settings),
        }
    }
}

impl Settings {
    /// The queue before each direction in bytes, the packet that is being sent among them: 100 ms of the line, at least
    /// four full packets. What finds it full is dropped. None where unshaped: nothing waits there.
    pub fn queue_bytes(&self) -> Option<u64> {
        let least = (QUEUE_LEAST_PACKETS * MTU_BYTES) as u64;
        let of_rate = |rate: u64| rate * QUEUE_MS / 8_000;
        self.bandwidth_bit_per_s.bit_per_s.map(|rate| of_rate(rate).max(least))
    }

    /// Refuses what no line can have.
    pub(crate) fn check(&self) -> Result<(), NetworkError> {
        let refuse = |words: String| Err(NetworkError::Setting(words));
        if !self.bandwidth_bit_per_s.is_possible() {
            return refuse(format!(
                "bandwidth {} is not within 1kbit … 10gbit",
                self.bandwidth_bit_per_s
            ));
        }
        if self.round_trip_us > MOST_ROUND_TRIP_US {
            return refuse(format!("round trip {} µs is over 60 s", self.round_trip_us));
        }
        if self.jitter_us > self.round_trip_us {
            let (jitter_us, round_trip_us) = (self.jitter_us, self.round_trip_us);
            return refuse(format!(
                "jitter {jitter_us} µs is more than the round trip's {round_trip_us} µs"
            ));
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return refuse(format!("loss {} is no share from 0 to 1", self.loss));
        }
        Ok(())
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (round_trip_ms, jitter_ms) = (self.round_trip_us as f64 / 1e3, self.jitter_us as f64 / 1e3);
        write!(out, "{}, round trip {round_trip_ms}", self.bandwidth_bit_per_s)?;
        if self.jitter_us > 0 {
            write!(out, " ± {jitter_ms}")?;
        }
        write!(out, " ms, loss {} %", self.loss * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(bit_per_s: u64) -> Settings {
        Settings {
            bandwidth_bit_per_s: Bandwidth::of(bit_per_s),
            ..Settings::default()
        }
    }

    #[test]
    fn the_queue_is_100_ms_of_the_line_and_at_least_four_full_packets() {
        assert_eq!(shaped(8_000).queue_bytes(), Some(6_000));
        assert_eq!(shaped(10_000_000).queue_bytes(), Some(125_000));
        assert_eq!(Settings::default().queue_bytes(), None);
    }

    #[test]
    fn settings_that_no_line_can_have_are_refused_with_their_value() {
        let refused = |settings: Settings| settings.check().unwrap_err().to_string();
        assert!(refused(shaped(10)).contains("bandwidth 10bit"));
        let jittery = Settings {
            round_trip_us: 5,
            jitter_us: 6,
            ..Settings::default()
        };
        assert!(refused(jittery).contains("jitter 6 µs"));
        for loss in [-0.1, 1.1, f64::NAN] {
            let settings = Settings {
                loss,
                ..Settings::default()
            };
            assert!(refused(settings).contains("loss"));
        }
    }
}
