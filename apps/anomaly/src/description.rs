//! `model.json`: what a model says of itself, and what of that can be wrong.

use serde::{Deserialize, Serialize};

/// Of a window: readings times features. A model that takes more is none for a board.
pub(crate) const WINDOW_VALUES_MAX: usize = 1 << 16;
/// Names are parts of topics and messages.
const NAME_BYTES_MAX: usize = 128;

/// What a model is for; its outputs mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Forecasts the last reading of a window from those before it.
    #[serde(rename = "regression")]
    Regression,
    /// Rebuilds a window.
    #[serde(rename = "autoencoder")]
    Autoencoder,
    /// Rebuilds a window, reading by reading.
    #[serde(rename = "lstm-ed")]
    LstmEncoderDecoder,
}

/// What a model says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// Such as `office-climate`.
    pub name: String,
    /// Such as `1`.
    pub version: String,
    /// What it is for.
    pub kind: Kind,
    /// Keys of the telemetry's object, in the order of the input's last dimension.
    pub features: Vec<String>,
    /// Readings of a window.
    pub window_readings: usize,
    /// Seconds from one to the next.
    pub interval_s: f64,
    /// A score above it is anomalous.
    pub threshold: f32,
    /// Operator set of the ONNX.
    pub opset: i64,
    /// SHA-256 of the ONNX, hexadecimal.
    pub onnx_sha256: String,
    /// Lowest and highest value of each feature that it can make something of.
    pub ranges: Vec<[f64; 2]>,
    /// Where it comes from.
    pub trained: Trained,
}

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trained {
    /// Of all that was left to chance.
    pub seed: u64,
    /// What it was trained on.
    pub data: Vec<Data>,
    /// `name:version` of the model that was trained on, if it was.
    pub continued_from: Option<String>,
}

/// A file that a model was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    /// Of the file.
    pub name: String,
    /// Of its content, hexadecimal.
    pub sha256: String,
    /// How many.
    pub readings: u64,
    /// Time of the first.
    pub from: String,
    /// Time of the last.
    pub to: String,
}

impl Description {
    /// Takes it apart.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let description: Description =
            serde_json::from_slice(json).map_err(|error| format!("the description cannot be understood: {error}"))?;
        description.check()?;
        Ok(description)
    }

    /// `name:version`.
    #[must_use]
    pub(crate) fn label(&self) -> String {
        format!("{}:{}", self.name, self.version)
    }

    /// Values of a window.
    #[must_use]
    pub(crate) fn window_values(&self) -> usize {
        self.window_readings * self.features.len()
    }

    fn check(&self) -> Result<(), String> {
        for (field, text) in [("name", &self.name), ("version", &self.version)] {
            if text.is_empty() || text.len() > NAME_BYTES_MAX || text.chars().any(char::is_control) {
                return Err(format!(
                    "{field} of the description is {text:?}; it has 1 to {NAME_BYTES_MAX} bytes"
                ));
            }
        }
        self.check_features()?;
        let values = self.window_readings.checked_mul(self.features.len());
        if values.is_none_or(|values| values == 0 || values > WINDOW_VALUES_MAX) {
            return Err(format!(
                "a window of {} readings of {} features; it has 1 to {WINDOW_VALUES_MAX} values",
                self.window_readings,
                self.features.len()
            ));
        }
        if !(self.interval_s.is_finite() && self.interval_s > 0.0) {
            return Err(format!("interval_s is {}; it is above 0", self.interval_s));
        }
        if !self.threshold.is_finite() {
            return Err(format!("threshold is {}; it is a number", self.threshold));
        }
        Ok(())
    }

    fn check_features(&self) -> Result<(), String> {
        for (at, feature) in self.features.iter().enumerate() {
            if feature.is_empty() || feature.len() > NAME_BYTES_MAX || self.features[..at].contains(feature) {
                return Err(format!(
                    "feature {} is {feature:?}; each has a name of its own of 1 to {NAME_BYTES_MAX} bytes",
                    at + 1
                ));
            }
        }
        if self.ranges.len() != self.features.len() {
            return Err(format!(
                "there are {} ranges for {} features",
                self.ranges.len(),
                self.features.len()
            ));
        }
        for (feature, [low, high]) in self.features.iter().zip(&self.ranges) {
            if !(low.is_finite() && high.is_finite() && low < high) {
                return Err(format!(
                    "the range of {feature} is {low} to {high}; it is from a lower number to a higher one"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const JSON: &str = r#"{"name": "pumps", "version": "1", "kind": "lstm-ed", "features": ["level"],
        "window_readings": 3, "interval_s": 60.0, "threshold": 1.0, "opset": 18, "onnx_sha256": "",
        "ranges": [[0, 10]], "trained": {"seed": 1, "data": [], "continued_from": null}}"#;

    /// One of a feature and three readings, a minute apart.
    pub(crate) fn described() -> Description {
        Description::parse(JSON.as_bytes()).expect("it is right")
    }

    #[test]
    fn what_is_wrong_with_a_description_is_said() {
        for (right, wrong, said) in [
            ("\"level\"", "\"level\", \"level\"", "feature 2 is \"level\""),
            ("[[0, 10]]", "[[10, 0]]", "the range of level is 10 to 0"),
            ("[[0, 10]]", "[]", "0 ranges for 1 features"),
            ("\"interval_s\": 60.0", "\"interval_s\": 0", "interval_s is 0"),
            (
                "\"window_readings\": 3",
                "\"window_readings\": 0",
                "a window of 0 readings",
            ),
            (
                "\"window_readings\": 3",
                "\"window_readings\": 70000",
                "a window of 70000 readings",
            ),
            ("lstm-ed", "forest", "unknown variant `forest`"),
            ("\"seed\": 1", "\"seed\": 1, \"luck\": 7", "unknown field `luck`"),
            (
                "\"name\": \"pumps\"",
                "\"name\": \"\"",
                "name of the description is \"\"",
            ),
        ] {
            let json = JSON.replacen(right, wrong, 1);
            let message = Description::parse(json.as_bytes()).expect_err(wrong);
            assert!(message.contains(said), "{message}");
        }
    }
}
