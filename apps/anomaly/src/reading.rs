//! A message of telemetry: a reading that fits the model, or why it does not.

use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::description::Description;

/// A longer one is none.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Of a value that is shown to people.
const SHOWN_CHARS: usize = 60;

/// A reading that fits.
#[derive(Debug)]
pub(crate) struct Reading {
    /// When it was taken, where it says so, as it says it.
    pub time: Option<Value>,
    /// The same in seconds since 1970.
    pub at_s: Option<f64>,
    /// One for each feature.
    pub values: Vec<f32>,
}

/// Kinds of what does not fit, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    /// No JSON object.
    NoObject,
    /// A feature is not there.
    Missing,
    /// A feature is no number.
    NoNumber,
    /// NaN, infinite, or too large for a float.
    NotFinite,
    /// Outside the ranges of the model.
    OutOfRange,
    /// A time that cannot be read.
    NoTime,
    /// A time that is not after that of the reading before.
    OutOfOrder,
    /// Readings come at another interval than the model's.
    Interval,
    /// A topic whose device cannot be told.
    NoDevice,
}

/// Why a reading does not fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mismatch {
    /// Its kind.
    pub reason: Reason,
    /// Which feature, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// What was found.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl Mismatch {
    /// One of this kind.
    pub(crate) fn new(reason: Reason, feature: Option<&str>, value: &str, expected: impl Into<String>) -> Self {
        Mismatch {
            reason,
            feature: feature.map(str::to_owned),
            value: value.chars().take(SHOWN_CHARS).collect(),
            expected: expected.into(),
        }
    }
}

/// Takes a payload apart.
///
/// # Errors
/// It does not fit this model.
pub(crate) fn parse(payload: &[u8], description: &Description) -> Result<Reading, Mismatch> {
    let object = object(payload, description)?;
    let mut values = Vec::with_capacity(description.features.len());
    for (feature, range) in description.features.iter().zip(&description.ranges) {
        values.push(value(&object, feature, *range)?);
    }
    let time = object.get("time").cloned();
    let at_s = time.as_ref().map(seconds).transpose()?;
    Ok(Reading { time, at_s, values })
}

fn object(payload: &[u8], description: &Description) -> Result<Map<String, Value>, Mismatch> {
    let expected = || format!("an object of JSON with {}", description.features.join(", "));
    if payload.len() > PAYLOAD_BYTES_MAX {
        let value = format!("{} bytes", payload.len());
        return Err(Mismatch::new(
            Reason::NoObject,
            None,
            &value,
            format!("{PAYLOAD_BYTES_MAX} bytes at most"),
        ));
    }
    match serde_json::from_slice(payload) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(Mismatch::new(
            Reason::NoObject,
            None,
            &String::from_utf8_lossy(payload),
            expected(),
        )),
    }
}

fn value(object: &Map<String, Value>, feature: &str, [low, high]: [f64; 2]) -> Result<f32, Mismatch> {
    let expected = || format!("a number from {low} to {high}");
    let Some(found) = object.get(feature) else {
        let has = object.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(Mismatch::new(
            Reason::Missing,
            Some(feature),
            &format!("nothing; there is {has}"),
            expected(),
        ));
    };
    let refused = |reason, value: &str| Mismatch::new(reason, Some(feature), value, expected());
    let number = match found {
        Value::Number(number) => number.as_f64().unwrap_or(f64::INFINITY),
        // Writers that have no number for it say it so.
        Value::Null => return Err(refused(Reason::NotFinite, "null")),
        Value::String(text) if text.parse::<f64>().is_ok_and(|number| !number.is_finite()) => {
            return Err(refused(Reason::NotFinite, text));
        }
        other => return Err(refused(Reason::NoNumber, &other.to_string())),
    };
    #[expect(clippy::cast_possible_truncation, reason = "models take single precision")]
    let single = number as f32;
    if !single.is_finite() {
        return Err(refused(Reason::NotFinite, &found.to_string()));
    }
    if number < low || number > high {
        return Err(refused(Reason::OutOfRange, &found.to_string()));
    }
    Ok(single)
}

/// Seconds since 1970 of RFC 3339, or of a number that is that already.
fn seconds(time: &Value) -> Result<f64, Mismatch> {
    let said = match time {
        Value::Number(number) => number.as_f64().filter(|seconds| seconds.is_finite()),
        Value::String(text) => OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            .map(|time| time.unix_timestamp() as f64 + f64::from(time.nanosecond()) / 1e9),
        _ => None,
    };
    said.ok_or_else(|| {
        let expected = "2026-11-28T12:00:00Z, or seconds since 1970";
        Mismatch::new(Reason::NoTime, Some("time"), &time.to_string(), expected)
    })
}
