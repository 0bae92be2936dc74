//! A message taken apart into streams. Nothing is lost for being odd: what cannot be taken apart is kept whole.
//!
//! A JSON object's members are streams, named after the rest of the topic and the member, joined by `/`: `{"x": 1}` on
//! `telemetry/vib` is stream `vib/x`. Objects within are taken apart in the same way, [`MAX_DEPTH`] deep; deeper ones,
//! arrays and `null` are kept as JSON. Members that occur twice are two rows. At the top, `ts` is the source time and
//! `q` the quality; a `ts` that is no time, or a `q` that is no short text, number or boolean, is a stream like any
//! other, and the source time is then when the edge received the message.
//!
//! A number, boolean or string is one stream, named after the rest of the topic, or `value`. So is what is kept whole:
//! as JSON, if it is that (an array, an object without a stream, with more than [`MAX_STREAMS`] or with a name that
//! cannot be stored), else as bytes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::de::{Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::reading::{MAX_NAME_BYTES, Reading, is_storable_name};
use crate::source_time;
use crate::value::Value;

/// Objects within objects that are taken apart.
pub const MAX_DEPTH: usize = 4;

/// Most streams of one message.
pub const MAX_STREAMS: usize = 1_024;

/// Longest quality, in bytes.
pub const MAX_QUALITY_BYTES: usize = 64;

/// Times farther from 1970, either way, are none. 285,000 years.
pub(crate) const MAX_TIME_MS: i64 = 1 << 53;

/// The stream of a message that names none.
const UNNAMED: &str = "value";

/// What a message says.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded<'a> {
    pub(crate) source_time_ms: i64,
    pub(crate) quality: Option<Cow<'a, str>>,
    /// Stream and value, in the order of the message.
    pub(crate) streams: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// Takes a message apart.
///
/// # Errors
/// Why it cannot be stored as telemetry at all.
pub(crate) fn decode(reading: &Reading) -> Result<Decoded<'_>, String> {
    check_name("tenant", &reading.tenant)?;
    check_name("device", &reading.device)?;
    check_name("topic", &reading.subtopic)?;
    check_time(reading.received_at_ms)?;
    let prefix = reading.subtopic.as_str();
    let whole = |value| Decoded {
        source_time_ms: reading.received_at_ms,
        quality: None,
        streams: vec![(Cow::from(if prefix.is_empty() { UNNAMED } else { prefix }), value)],
    };
    let Some(json) = as_json(&reading.payload) else {
        return Ok(whole(Value::Bytes(Cow::from(&reading.payload[..]))));
    };
    Ok(match leaf(json) {
        Some(value) => whole(value),
        None => take_apart(reading, json).unwrap_or_else(|| {
            let text = std::str::from_utf8(&reading.payload).unwrap_or_default();
            whole(Value::Json(text.into()))
        }),
    })
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if is_storable_name(name) {
        return Ok(());
    }
    Err(format!(
        "a {what} has at most {MAX_NAME_BYTES} bytes and no NUL; this one has {} bytes",
        name.len()
    ))
}

/// Times are subtracted from each other in SQL, where an overflow is an error.
fn check_time(received_at_ms: i64) -> Result<(), String> {
    if received_at_ms.unsigned_abs() <= MAX_TIME_MS as u64 {
        return Ok(());
    }
    Err(format!("received at {received_at_ms} ms since 1970, which is no time"))
}

fn as_json(payload: &[u8]) -> Option<&RawValue> {
    serde_json::from_str(std::str::from_utf8(payload).ok()?).ok()
}

/// A number, boolean or string; none for anything else, and for a string that is no Unicode (a lone surrogate).
fn leaf(json: &RawValue) -> Option<Value<'_>> {
    let text = json.get();
    match text.as_bytes()[0] {
        b't' => Some(Value::Boolean(true)),
        b'f' => Some(Value::Boolean(false)),
        b'"' => string(text).map(Value::Text),
        b'-' | b'0'..=b'9' => Some(Value::number(text)),
        _ => None,
    }
}

fn string(literal: &str) -> Option<Cow<'_, str>> {
    if literal.contains('\\') {
        return serde_json::from_str(literal).ok().map(Cow::Owned);
    }
    Some(Cow::from(&literal[1..literal.len() - 1]))
}

/// None: the message is to be kept whole.
fn take_apart<'a>(reading: &'a Reading, json: &'a RawValue) -> Option<Decoded<'a>> {
    let mut decoded = Decoded {
        source_time_ms: reading.received_at_ms,
        quality: None,
        streams: Vec::new(),
    };
    let mut has_time = false;
    for (name, member) in members(json)? {
        if name == "ts"
            && !has_time
            && let Some(time) = source_time::parse(member)
        {
            (decoded.source_time_ms, has_time) = (time, true);
        } else if name == "q"
            && decoded.quality.is_none()
            && let Some(quality) = quality(member)
        {
            decoded.quality = Some(quality);
        } else {
            add(&mut decoded.streams, join(&reading.subtopic, name)?, member, 1)?;
        }
    }
    (!decoded.streams.is_empty()).then_some(decoded)
}

/// Adds a member, or the members of a member. None: there are too many, or a name cannot be stored.
fn add<'a>(
    streams: &mut Vec<(Cow<'a, str>, Value<'a>)>,
    stream: Cow<'a, str>,
    json: &'a RawValue,
    depth: usize,
) -> Option<()> {
    let inner = if depth < MAX_DEPTH { members(json) } else { None };
    if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
        for (name, member) in inner {
            add(streams, join(&stream, name)?, member, depth + 1)?;
        }
        return Some(());
    }
    let value = leaf(json).unwrap_or_else(|| Value::Json(json.get().into()));
    streams.push((stream, value));
    (streams.len() <= MAX_STREAMS).then_some(())
}

fn join<'a>(prefix: &str, name: Cow<'a, str>) -> Option<Cow<'a, str>> {
    let joined = if prefix.is_empty() {
        name
    } else {
        Cow::from(format!("{prefix}/{name}"))
    };
    is_storable_name(&joined).then_some(joined)
}

fn quality(json: &RawValue) -> Option<Cow<'_, str>> {
    let text = match leaf(json)? {
        Value::Text(text) => text,
        _ => json.get().into(),
    };
    (text.len() <= MAX_QUALITY_BYTES && !text.contains('\0')).then_some(text)
}

/// The members of an object. None: it is no object, has more than [`MAX_STREAMS`] and some, or a name is no Unicode.
fn members(json: &RawValue) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
    use serde::Deserializer;
    if !json.get().starts_with('{') {
        return None;
    }
    serde_json::Deserializer::from_str(json.get())
        .deserialize_map(Members)
        .ok()
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        // One more than the streams each for `ts` and `q`.
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            if members.len() > MAX_STREAMS + 2 {
                return Err(A::Error::custom("too many members"));
            }
            let name = string(name.get()).ok_or_else(|| A::Error::custom("a name is no Unicode"))?;
            members.push((name, value));
        }
        Ok(members)
    }
}
