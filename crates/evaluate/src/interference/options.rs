//! What a person may ask of `evaluate interference`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::board::Profile;
use super::record::{Case, Group, Kind};
use crate::gateway::Runtime;

/// Blocks where `--quick` is given: enough for a range, not for an interval.
const QUICK_BLOCKS: u32 = 2;
const QUICK_MEASURE_S: u32 = 5;
/// Of Bonnie++'s file and the board that it is twice of.
const QUICK_DIVISOR: u32 = 2;
/// A pair of each kind of rival: for the processor, for memory and for the disk.
const QUICK_PAIRS: [Pair; 3] = [
    Pair(Kind::Linpack, Kind::Linpack),
    Pair(Kind::Linpack, Kind::Stream),
    Pair(Kind::Stream, Kind::Bonnie),
];
const QUICK_CASES: [Case; 3] = [Case::Alone, Case::Unlimited, Case::Limited];

const BLOCKS: u32 = 5;
const MEASURE_S: u32 = 30;

/// What is measured, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Options {
    /// Parts to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Boards, scaled to this machine
    #[arg(long = "profile", value_enum, value_delimiter = ',', default_values_t = Profile::ALL, value_name = "PROFILE")]
    pub profiles: Vec<Profile>,
    /// What runs the containers
    #[arg(long = "runtime", value_parser = runtime, value_delimiter = ',', default_values = RUNTIMES, value_name = "RUNTIME")]
    pub runtimes: Vec<Runtime>,
    /// How services are deployed: the paper's cases; what each is compared with is case 1
    #[arg(long = "case", value_enum, value_delimiter = ',', default_values_t = Case::ALL, value_name = "CASE")]
    pub cases: Vec<Case>,
    /// Pairs of services: L is Linpack, S STREAM, B Bonnie++
    #[arg(long, value_delimiter = ',', default_values_t = Pair::all(), value_name = "PAIR")]
    pub pairs: Vec<Pair>,
    /// Blocks: every case of each group once, in random order; five or more give an interval
    #[arg(long, default_value_t = BLOCKS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub blocks: u32,
    /// Seconds that services are at work at least; each ends one turn in them, however long that takes
    #[arg(long, default_value_t = MEASURE_S, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=7_200))]
    pub measure_s: u32,
    /// Work of this part of its size: above 1 it may fit into what the rule of sizes has it not fit into
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub divisor: u32,
    /// One board, oci, three pairs, cases 1, 3 and 4, two short blocks: to see that everything works, within ten minutes
    #[arg(long)]
    pub quick: bool,
    /// Seed of the order; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Selvedge's program, if not the one beside this
    #[arg(long = "selvedge", value_name = "FILE")]
    pub selvedge_program: Option<PathBuf>,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Services beside each other: the paper's
    Pairs,
    /// The hub beside services: round trips of a device, every 10 ms
    Hub,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 2] = [Part::Pairs, Part::Hub];
}

/// What the paper has.
const RUNTIMES: [&str; 2] = ["oci", "docker"];

/// Containers alone: `process` is none.
fn runtime(text: &str) -> Result<Runtime, String> {
    match Runtime::from_str(text, false)? {
        Runtime::Process => Err("services are in containers: oci, docker".to_owned()),
        runtime => Ok(runtime),
    }
}

/// Two services, as `L+S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair(pub Kind, pub Kind);

impl Pair {
    fn all() -> Vec<Pair> {
        Group::PAIRS.map(|(one, other)| Pair(one, other)).to_vec()
    }
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Group::Pair(self.0, self.1).name())
    }
}

impl std::str::FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Pair, String> {
        let known = Pair::all().into_iter().find(|Pair(one, other)| {
            let either = [Pair(*one, *other), Pair(*other, *one)];
            either.iter().any(|pair| pair.to_string().eq_ignore_ascii_case(text))
        });
        known.ok_or_else(|| "a pair is two of L, S and B, such as L+S".to_owned())
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parts: Part::ALL.to_vec(),
            profiles: Profile::ALL.to_vec(),
            runtimes: vec![Runtime::Oci, Runtime::Docker],
            cases: Case::ALL.to_vec(),
            pairs: Pair::all(),
            blocks: BLOCKS,
            measure_s: MEASURE_S,
            divisor: 1,
            quick: false,
            seed: None,
            selvedge_program: None,
        }
    }
}

impl Options {
    /// With `--quick` worked in: what was asked for by itself is not taken away, but shortened.
    #[must_use]
    pub fn effective(mut self) -> Options {
        if std::mem::take(&mut self.quick) {
            let whole = Options::default();
            if self.pairs == whole.pairs {
                self.pairs = QUICK_PAIRS.to_vec();
            }
            if self.cases == whole.cases {
                self.cases = QUICK_CASES.to_vec();
            }
            if self.profiles == whole.profiles {
                self.profiles = vec![Profile::Fog];
            }
            if self.runtimes == whole.runtimes {
                self.runtimes = vec![Runtime::Oci];
            }
            self.blocks = self.blocks.min(QUICK_BLOCKS);
            self.measure_s = self.measure_s.min(QUICK_MEASURE_S);
            self.divisor = self.divisor.max(QUICK_DIVISOR);
        }
        self
    }

    pub(super) fn measure(&self) -> Duration {
        Duration::from_secs(self.measure_s.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_read_in_either_order_and_what_is_none_is_refused_with_what_is() {
        assert_eq!("b+L".parse(), Ok(Pair(Kind::Linpack, Kind::Bonnie)));
        assert_eq!("S+S".parse(), Ok(Pair(Kind::Stream, Kind::Stream)));
        assert!("L+X".parse::<Pair>().unwrap_err().contains("such as L+S"));
        assert!(runtime("process").unwrap_err().contains("oci, docker"));
    }

    #[test]
    fn the_short_run_keeps_what_was_asked_for_by_itself() {
        let quick = Options {
            quick: true,
            profiles: vec![Profile::Edge],
            ..Options::default()
        };
        let effective = quick.effective();
        assert_eq!(effective.profiles, [Profile::Edge]);
        assert_eq!(effective.cases, QUICK_CASES);
        assert_eq!(effective.pairs, QUICK_PAIRS);
    }
}
