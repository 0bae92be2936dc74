//! What it says of itself, on a topic and in its log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::model::Model;
use crate::reading::{Mismatch, Reason};

/// Between two messages of it, where counts alone have changed, and where something else has.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_OF_NEWS: Duration = Duration::from_millis(100);

/// What is so, and how often what has happened.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Status {
    /// In a word.
    state: State,
    /// What runs.
    model: Option<Running>,
    /// What is being loaded.
    loading: Option<String>,
    /// The last model that does not run, and why.
    refused_model: Option<RefusedModel>,
    /// Readings that came, and what became of them.
    pub counts: Counts,
    /// Readings that do not fit, by reason.
    mismatches: BTreeMap<Reason, u64>,
    /// The last of them.
    last_mismatch: Option<LastMismatch>,
    #[serde(skip)]
    told: Option<Instant>,
    /// How long after that it is told again, if there is something to tell.
    #[serde(skip)]
    pause: Option<Duration>,
}

/// What it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// There is no model; readings wait.
    #[default]
    NoModel,
    /// Readings are judged.
    Running,
}

#[derive(Debug, Serialize)]
struct Running {
    reference: String,
    label: String,
    digest: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct RefusedModel {
    reference: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct LastMismatch {
    device: String,
    #[serde(flatten)]
    mismatch: Mismatch,
}

/// Of readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Counts {
    /// All that came.
    pub readings: u64,
    /// Those that a verdict was published of.
    pub verdicts: u64,
    /// Those whose device had fewer than a window.
    pub filling: u64,
    /// Those that do not fit.
    pub refused: u64,
    /// Those of QoS 0 that there was no room for.
    pub dropped: u64,
    /// Devices with a window.
    pub devices: usize,
    /// Devices whose windows had to go for others.
    pub devices_forgotten: u64,
    /// Windows that began anew after a gap.
    pub gaps: u64,
    /// Times that the process of a model was started again.
    pub restarts: u64,
}

impl Status {
    /// A model runs.
    pub(crate) fn runs(&mut self, model: &Model) {
        log(&format!(
            "model {} runs ({})",
            model.description.label(),
            model.reference
        ));
        self.refused_model
            .take_if(|refused| refused.reference == model.reference);
        self.state = State::Running;
        self.model = Some(Running {
            reference: model.reference.clone(),
            label: model.description.label(),
            digest: model.digest.clone(),
        });
        self.pause = Some(PAUSE_OF_NEWS);
    }

    /// None does.
    pub(crate) fn stands(&mut self) {
        self.state = State::NoModel;
        self.model = None;
        self.pause = Some(PAUSE_OF_NEWS);
    }

    /// A model is being loaded, or no longer.
    pub(crate) fn loads(&mut self, reference: Option<&str>) {
        self.loading = reference.map(str::to_owned);
        self.pause = Some(PAUSE_OF_NEWS);
    }

    /// A model does not run, and why.
    pub(crate) fn refuses_model(&mut self, reference: &str, reason: &str) {
        let refused = RefusedModel {
            reference: reference.to_owned(),
            reason: reason.to_owned(),
        };
        if self.refused_model.as_ref() != Some(&refused) {
            log(&format!("model {reference} does not run: {reason}"));
        }
        self.refused_model = Some(refused);
        self.pause = Some(PAUSE_OF_NEWS);
    }

    /// A reading does not fit, and why.
    pub(crate) fn refuses_reading(&mut self, device: &str, mismatch: Mismatch) {
        let before = self.last_mismatch.as_ref();
        let is_new = before.is_none_or(|last| {
            (&*last.device, last.mismatch.reason, &last.mismatch.feature)
                != (device, mismatch.reason, &mismatch.feature)
        });
        // As often as the status is told.
        if is_new && self.pause != Some(PAUSE_OF_NEWS) {
            let feature = mismatch.feature.as_deref().unwrap_or("the reading");
            log(&format!(
                "{device}: {feature} is {}; it is to be {}",
                mismatch.value, mismatch.expected
            ));
        }
        self.counts.refused += 1;
        *self.mismatches.entry(mismatch.reason).or_default() += 1;
        self.last_mismatch = Some(LastMismatch {
            device: device.to_owned(),
            mismatch,
        });
        if is_new {
            self.pause = Some(PAUSE_OF_NEWS);
        }
    }

    /// Something has been counted.
    pub(crate) fn counted(&mut self) {
        self.pause.get_or_insert(PAUSE);
    }

    /// When it is to be told, if it is.
    #[must_use]
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let pause = self.pause?;
        Some(self.told.map_or(now, |told| told + pause))
    }

    /// As JSON, if it is to be told now.
    pub(crate) fn tell(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.due(now).filter(|due| *due <= now)?;
        self.pause = None;
        self.told = Some(now);
        serde_json::to_vec(self).ok()
    }
}

/// A line of the log, whatever is in it.
pub(crate) fn log(line: &str) {
    eprintln!("anomaly: {}", line.replace(char::is_control, " "));
}
