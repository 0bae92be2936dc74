//! What was seen, and nothing that was concluded.

use serde::{Deserialize, Serialize};

use super::options::Options;
use crate::environment::Environment;
use crate::gateway::About;
use crate::interference::Turn;

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

/// One run with all its blocks; while it goes on, those jobs that are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessingRun {
    /// Version of the layout.
    pub format: u32,
    /// Which experiment: `processing`.
    pub experiment: String,
    /// What was asked for, `--quick` worked in.
    pub options: Options,
    /// Seed of the order.
    pub seed: u64,
    /// The programs.
    pub programs: Vec<About>,
    /// What stands round all but the cloud side.
    pub board: Limits,
    /// Bytes of the files of the image.
    pub image_bytes: u64,
    /// What was done, in the order of time.
    pub done: Vec<Done>,
    /// What could not be measured, with the reason.
    pub skipped: Vec<String>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// What all of a board may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// In thousandths of a core.
    pub cpu_millis: u32,
    /// Of memory.
    pub memory_mib: u32,
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
    /// From the command that starts it until it is ready to work: interpreter, libraries, data, and for predictions a model.
    pub cold_start_s: f64,
    /// Trainings, or groups of predictions with the microseconds of each.
    pub turns: Vec<Turn>,
    /// What it took meanwhile, look by look.
    pub looks: Vec<Look>,
    /// Processor time of looking, as a share of a core.
    pub looking_share: f64,
}

/// What is taken at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// By the machine's monotonic clock.
    pub at_ns: u64,
    /// Processor of the work since the look before, as a share of a core.
    pub cpu_share: f64,
    /// Its resident memory.
    pub memory_bytes: u64,
    /// Processor of the whole machine since the look before, as a share of all its cores.
    pub system_cpu_share: f64,
    /// Memory of the whole machine that is in use.
    pub system_memory_bytes: u64,
}

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// Which model.
    pub model: Model,
    /// What is done with it.
    pub task: Task,
    /// Where.
    pub place: Place,
}

/// One of the first paper's three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Ridge regression
    Regression,
    /// Autoencoder
    Autoencoder,
    /// LSTM encoder-decoder
    LstmEd,
}

/// What is done with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// It is trained
    Training,
    /// It predicts
    Prediction,
}

/// Where it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A program of the host, without an edge, in a control group of the board's
    Host,
    /// The same once more: the noise of the machine.
    #[value(skip)]
    HostAgain,
    /// A program of the host, by the edge
    Process,
    /// A container, by the edge
    Oci,
    /// A container of a Docker Engine, by the edge
    Docker,
    /// A program with all of this machine
    Cloud,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 3] = [Model::Regression, Model::Autoencoder, Model::LstmEd];

    /// As the models' own program has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Model::Regression => "regression",
            Model::Autoencoder => "autoencoder",
            Model::LstmEd => "lstm-ed",
        }
    }
}

impl Task {
    /// All of them.
    pub const ALL: [Task; 2] = [Task::Training, Task::Prediction];

    /// As the models' own program has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Task::Training => "training",
            Task::Prediction => "prediction",
        }
    }
}

impl Place {
    /// Those that can be asked for.
    pub const ASKED: [Place; 5] = [Place::Host, Place::Process, Place::Oci, Place::Docker, Place::Cloud];

    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Place::Host => "host",
            Place::HostAgain => "host, again",
            Place::Process => "process",
            Place::Oci => "oci",
            Place::Docker => "docker",
            Place::Cloud => "cloud side",
        }
    }
}

impl ProcessingRun {
    /// What of a job was seen, block by block.
    pub(super) fn seen(&self, job: Job) -> impl Iterator<Item = (u32, &Seen)> {
        let of_job = self.done.iter().filter(move |done| done.job == job);
        of_job.map(|done| (done.block, &done.seen))
    }
}
