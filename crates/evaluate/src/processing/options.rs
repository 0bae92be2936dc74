//! What a person may ask of `evaluate processing`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{Model, Place, Task};

/// Blocks where `--quick` is given: a network that starts and trains on a board takes half a minute.
const QUICK_BLOCKS: u32 = 1;
const QUICK_EPOCHS: u32 = 1;
const QUICK_MEASURE_S: u32 = 3;

const BLOCKS: u32 = 5;
const MEASURE_S: u32 = 20;
const EPOCHS: u32 = 5;
const PREDICTIONS: u32 = 100;

/// What is measured, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Options {
    /// Models
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Model::ALL, value_name = "MODEL")]
    pub models: Vec<Model>,
    /// What is done with them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Task::ALL, value_name = "TASK")]
    pub tasks: Vec<Task>,
    /// Where it is done; what each is compared with is the host
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Place::ASKED, value_name = "PLACE")]
    pub places: Vec<Place>,
    /// Blocks: every cell once, in random order; five or more give an interval
    #[arg(long, default_value_t = BLOCKS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub blocks: u32,
    /// Seconds that each is at work at least; one turn, however long that takes
    #[arg(long, default_value_t = MEASURE_S, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=7_200))]
    pub measure_s: u32,
    /// Epochs of a training
    #[arg(long, default_value_t = EPOCHS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub epochs: u32,
    /// Predictions of a turn, a window each
    #[arg(long, default_value_t = PREDICTIONS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub predictions: u32,
    /// Readings that are learnt from: a file as those of the Occupancy Detection data set
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Where `tools/install.sh ml` has put Python with the models
    #[arg(long, default_value = "target/ml", value_name = "DIR")]
    pub ml: PathBuf,
    /// Host, oci and the cloud side, one block of short trainings: to see that everything works, within ten minutes
    #[arg(long)]
    pub quick: bool,
    /// Seed of the order; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Selvedge's program, if not the one beside this
    #[arg(long = "selvedge", value_name = "FILE")]
    pub selvedge_program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            models: Model::ALL.to_vec(),
            tasks: Task::ALL.to_vec(),
            places: Place::ASKED.to_vec(),
            blocks: BLOCKS,
            measure_s: MEASURE_S,
            epochs: EPOCHS,
            predictions: PREDICTIONS,
            data: PathBuf::new(),
            ml: PathBuf::from("target/ml"),
            quick: false,
            seed: None,
            selvedge_program: None,
        }
    }
}

impl Options {
    /// With `--quick` worked in.
    #[must_use]
    pub fn effective(mut self) -> Options {
        if std::mem::take(&mut self.quick) {
            if self.places == Place::ASKED {
                self.places = vec![Place::Host, Place::Oci, Place::Cloud];
            }
            self.blocks = self.blocks.min(QUICK_BLOCKS);
            self.measure_s = self.measure_s.min(QUICK_MEASURE_S);
            self.epochs = self.epochs.min(QUICK_EPOCHS);
        }
        self
    }

    pub(super) fn measure(&self) -> Duration {
        Duration::from_secs(self.measure_s.into())
    }
}
