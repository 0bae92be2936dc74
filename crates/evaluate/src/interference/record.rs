//! What was seen, and nothing that was concluded.

use serde::{Deserialize, Serialize};

use super::board::{Board, Profile};
use super::options::Options;
use crate::environment::Environment;
use crate::gateway::{About, Runtime};

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

/// One run with all its blocks; while it goes on, those jobs that are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterferenceRun {
    /// Version of the layout.
    pub format: u32,
    /// Which experiment: `interference`.
    pub experiment: String,
    /// What was asked for, `--quick` worked in.
    pub options: Options,
    /// Seed of the order.
    pub seed: u64,
    /// The programs.
    pub programs: Vec<About>,
    /// The boards, as they are scaled to this machine.
    pub boards: Vec<Board>,
    /// What was done, in the order of time.
    pub done: Vec<Done>,
    /// What could not be measured, with the reason.
    pub skipped: Vec<String>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// A job of one block, with what it gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Number of the block; jobs of one block belong together.
    pub block: u32,
    /// What was done.
    pub job: Job,
    /// When it began, in seconds since the run's start; of a run that was resumed, since it was.
    pub started_s: f64,
    /// What came of it.
    pub seen: Seen,
}

/// What came of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Of each service, in the order of the group, its turns while all others were at work.
    pub services: Vec<Vec<Turn>>,
    /// Where the hub was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<RoundTrips>,
}

/// Once through a service's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// By the machine's monotonic clock.
    pub began_ns: u64,
    /// By the same.
    pub ended_ns: u64,
    /// In the order of [`Kind::figures`]; none: it was over before it could be timed.
    pub values: Vec<Option<f64>>,
}

/// What devices saw of the hub beside services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// From when a message was due to its answer, in microseconds (rule 2); none = lost.
    pub responses_us: Vec<Option<f64>>,
    /// How much later than it was due a message left, at the 99th percentile, in microseconds.
    pub send_lag_p99_us: Option<f64>,
}

/// A case for one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// The board that stands round all of it.
    pub profile: Profile,
    /// What runs the containers.
    pub runtime: Runtime,
    /// How they are deployed.
    pub case: Case,
    /// What runs in them.
    pub group: Group,
}

/// How services are deployed: the paper's four cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum)]
pub enum Case {
    /// Case 1: one, in a container with limits
    #[value(name = "1")]
    Alone,
    /// The same once more: the noise of the machine.
    #[value(skip)]
    AloneAgain,
    /// Case 2: several in one container, without limits
    #[value(name = "2")]
    OneContainer,
    /// Case 3: each in a container of its own, without limits
    #[value(name = "3")]
    Unlimited,
    /// Case 4: each in a container of its own, with limits
    #[value(name = "4")]
    Limited,
}

/// What runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// A service.
    One(Kind),
    /// Two.
    Pair(Kind, Kind),
    /// The hub, beside nobody.
    Hub,
    /// The hub, beside a service.
    HubBeside(Kind),
}

/// What a service asks of the board most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The processor.
    Linpack,
    /// Memory.
    Stream,
    /// The disk.
    Bonnie,
}

/// A figure of a service. All of them are the more the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations a second of Linpack.
    Flops,
    /// Bytes a second of STREAM's kernels.
    Copy,
    /// The second.
    Scale,
    /// The third.
    Add,
    /// The fourth.
    Triad,
    /// Bytes a second that Bonnie++ writes in blocks: the paper's output.
    Output,
    /// That it reads and writes over.
    Rewrite,
    /// That it reads in blocks: the paper's input.
    Input,
    /// Places a second that it goes to.
    Seeks,
}

impl Case {
    /// The paper's, in its order.
    pub const ALL: [Case; 4] = [Case::Alone, Case::OneContainer, Case::Unlimited, Case::Limited];

    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Case::Alone => "case 1",
            Case::AloneAgain => "case 1, again",
            Case::OneContainer => "case 2",
            Case::Unlimited => "case 3",
            Case::Limited => "case 4",
        }
    }

    /// Whether containers have limits.
    pub(super) fn is_limited(self) -> bool {
        matches!(self, Case::Alone | Case::AloneAgain | Case::Limited)
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Linpack, Kind::Stream, Kind::Bonnie];

    /// As an option has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Linpack => "linpack",
            Kind::Stream => "stream",
            Kind::Bonnie => "bonnie",
        }
    }

    /// The paper's abbreviation.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Kind::Linpack => "L",
            Kind::Stream => "S",
            Kind::Bonnie => "B",
        }
    }

    /// As it calls itself.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Linpack => "Linpack",
            Kind::Stream => "STREAM",
            Kind::Bonnie => "Bonnie++",
        }
    }

    /// What a turn gives, in the order of its values.
    #[must_use]
    pub fn figures(self) -> &'static [Figure] {
        match self {
            Kind::Linpack => &[Figure::Flops],
            Kind::Stream => &[Figure::Copy, Figure::Scale, Figure::Add, Figure::Triad],
            Kind::Bonnie => &[Figure::Output, Figure::Rewrite, Figure::Input, Figure::Seeks],
        }
    }

    /// Those of them that the paper shows.
    #[must_use]
    pub fn shown(self) -> &'static [Figure] {
        match self {
            Kind::Linpack => &[Figure::Flops],
            Kind::Stream => &[Figure::Copy],
            Kind::Bonnie => &[Figure::Output, Figure::Input],
        }
    }
}

impl Figure {
    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Figure::Flops => "solving",
            Figure::Copy => "copy",
            Figure::Scale => "scale",
            Figure::Add => "add",
            Figure::Triad => "triad",
            Figure::Output => "output",
            Figure::Rewrite => "rewrite",
            Figure::Input => "input",
            Figure::Seeks => "seeks",
        }
    }
}

impl Group {
    /// All pairs of the paper.
    pub const PAIRS: [(Kind, Kind); 6] = [
        (Kind::Linpack, Kind::Linpack),
        (Kind::Linpack, Kind::Stream),
        (Kind::Linpack, Kind::Bonnie),
        (Kind::Stream, Kind::Stream),
        (Kind::Stream, Kind::Bonnie),
        (Kind::Bonnie, Kind::Bonnie),
    ];

    /// Its services.
    #[must_use]
    pub fn kinds(self) -> Vec<Kind> {
        match self {
            Group::One(kind) | Group::HubBeside(kind) => vec![kind],
            Group::Pair(one, other) => vec![one, other],
            Group::Hub => Vec::new(),
        }
    }

    /// Whether the hub is asked meanwhile.
    #[must_use]
    pub fn has_hub(self) -> bool {
        matches!(self, Group::Hub | Group::HubBeside(_))
    }

    /// As the paper abbreviates it: `L+S`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Group::One(kind) => kind.letter().to_owned(),
            Group::Pair(one, other) => format!("{}+{}", one.letter(), other.letter()),
            Group::Hub => "hub".to_owned(),
            Group::HubBeside(kind) => format!("hub+{}", kind.letter()),
        }
    }
}

impl InterferenceRun {
    /// What of a job was seen, block by block.
    pub(super) fn seen(&self, job: Job) -> impl Iterator<Item = (u32, &Seen)> {
        let of_job = self.done.iter().filter(move |done| done.job == job);
        of_job.map(|done| (done.block, &done.seen))
    }
}
