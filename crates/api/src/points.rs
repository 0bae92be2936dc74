//! Readings as answers show them.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding};
use cloud::{Point, StoredPoint, Value};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// What a device said at one time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PointInfo {
    /// When it was measured by the device's word, else received; ms since 1970 UTC.
    pub(crate) time_ms: i64,
    /// When the edge received it, by the edge's clock; ms since 1970 UTC.
    pub(crate) received_at_ms: i64,
    /// Any JSON, as the device wrote it; `null` where it was none.
    #[schema(value_type = serde_json::Value)]
    pub(crate) value: Box<RawValue>,
    /// What the device said where that is no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_base64: Option<String>,
    /// The member `q` of its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quality: Option<String>,
    /// The edge that received it.
    pub(crate) edge: String,
    /// Epoch of that edge: a number of 63 bits as a string, since readers of JSON have 53.
    pub(crate) epoch: String,
    /// Its number in the epoch.
    pub(crate) sequence: u64,
}

/// A point as it comes in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LivePoint {
    /// The device that said it.
    pub(crate) device: String,
    /// The stream.
    pub(crate) stream: String,
    /// What it said.
    #[serde(flatten)]
    pub(crate) point: PointInfo,
}

/// The latest point of each stream of a device.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Latest {
    /// By the names of the streams.
    pub(crate) streams: BTreeMap<String, PointInfo>,
    /// To go on from, as `after`; `None`: there is no more.
    pub(crate) next: Option<String>,
}

/// The numbers of a stream in one span of time; spans without numbers are left out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BucketInfo {
    /// Its beginning, ms since 1970 UTC.
    pub(crate) start_ms: i64,
    /// How many numbers.
    pub(crate) count: u64,
    /// The least.
    pub(crate) min: f64,
    /// The greatest.
    pub(crate) max: f64,
    /// Their arithmetic mean.
    pub(crate) mean: f64,
    /// The first.
    pub(crate) first: f64,
    /// The last.
    pub(crate) last: f64,
}

/// A part of a stream.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", untagged)]
pub(crate) enum Series {
    /// Its points.
    Points {
        /// In the order of their times.
        points: Vec<PointInfo>,
        /// To go on from, as `cursor`; `None`: there is no more.
        next: Option<String>,
    },
    /// What its numbers come to.
    Buckets {
        /// In the order of their times.
        buckets: Vec<BucketInfo>,
    },
}

pub(crate) fn bucket(bucket: &cloud::Bucket) -> BucketInfo {
    BucketInfo {
        start_ms: bucket.start_ms,
        count: bucket.count,
        min: bucket.min,
        max: bucket.max,
        mean: bucket.mean,
        first: bucket.first,
        last: bucket.last,
    }
}

/// A point with the names of where it is from.
pub(crate) fn live_point(stored: &StoredPoint) -> LivePoint {
    LivePoint {
        device: stored.device.clone(),
        stream: stored.stream.clone(),
        point: shown(stored.point.clone()),
    }
}

pub(crate) fn shown(point: Point) -> PointInfo {
    let bytes = match &point.value {
        Value::Bytes(bytes) => Some(Base64::encode_string(bytes)),
        _ => None,
    };
    PointInfo {
        time_ms: point.source_time_ms,
        received_at_ms: point.received_at_ms,
        value: json(point.value),
        bytes_base64: bytes,
        quality: point.quality,
        edge: point.origin.edge().to_string(),
        epoch: point.origin.epoch().to_string(),
        sequence: point.origin.sequence(),
    }
}

/// As it was written: no digit is lost.
fn json(value: Value<'static>) -> Box<RawValue> {
    let text = match value {
        Value::Number(number) => serde_json::to_string(&number),
        Value::Decimal(literal) | Value::Json(literal) => Ok(literal.into_owned()),
        Value::Boolean(is_true) => serde_json::to_string(&is_true),
        Value::Text(text) => serde_json::to_string(&text),
        Value::Bytes(_) => Ok("null".to_owned()),
    };
    let raw = text.and_then(RawValue::from_string);
    raw.unwrap_or_else(|_| RawValue::NULL.to_owned())
}
