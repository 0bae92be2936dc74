//! Documents and twins as the log and the link keep them: compact JSON, so that a person can read what was stored.
//!
//! `{"leaves":{pointer:["e"|"c",counter,value?]},"seen":[edge,cloud]}`; a leaf without a value was removed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::Value;

use crate::document::{Document, Leaf, Seen, Side, Stamp};
use crate::twin::Twin;

/// Stored bytes that are no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a stored twin document: {reason}")]
pub struct DecodeError {
    reason: String,
}

impl Document {
    /// The whole document, removed leaves included.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes);
        bytes
    }

    fn encode_into(&self, out: &mut Vec<u8>) {
        self.write(out).expect("memory takes all that is written");
    }

    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        write!(out, r#"{{"leaves":{{"#)?;
        for (number, (pointer, leaf)) in self.leaves.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, pointer)?;
            out.push(b':');
            leaf.write(out)?;
        }
        let Seen { edge, cloud } = self.seen;
        write!(out, r#"}},"seen":[{edge},{cloud}]}}"#)
    }

    /// What [`Document::encode`] made.
    ///
    /// # Errors
    /// The bytes are not such.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|e| error(e.to_string()))?;
        let seen = decode_seen(&value["seen"]).ok_or_else(|| error("\"seen\" is not two counters".to_owned()))?;
        let leaves = value["leaves"]
            .as_object()
            .ok_or_else(|| error("\"leaves\" is not an object".to_owned()))?;
        let leaves = leaves.iter().map(|(pointer, leaf)| {
            let leaf = decode_leaf(leaf).ok_or_else(|| error(format!("leaf {pointer:?} is {leaf}")))?;
            Ok((pointer.clone(), leaf))
        });
        let document = Document {
            leaves: leaves.collect::<Result<BTreeMap<_, _>, _>>()?,
            seen,
        };
        document.check_shape()?;
        Ok(document)
    }

    /// What every other function relies on: pointers that are some, and no live leaf above another.
    fn check_shape(&self) -> Result<(), DecodeError> {
        for (pointer, _) in self.live() {
            if !pointer.starts_with('/') || self.live_below(pointer) {
                return Err(error(format!("leaf {pointer:?} cannot stand where it does")));
            }
        }
        Ok(())
    }
}

impl Twin {
    /// Both documents, a line each.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.desired.encode_into(&mut bytes);
        bytes.push(b'\n');
        self.reported.encode_into(&mut bytes);
        bytes
    }

    /// What [`Twin::encode`] made.
    ///
    /// # Errors
    /// The bytes are not such.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (desired, reported) = bytes.split_at(end.ok_or_else(|| error("only one line".to_owned()))?);
        Ok(Twin {
            desired: Document::decode(desired)?,
            reported: Document::decode(&reported[1..])?,
        })
    }
}

impl Leaf {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(match self.stamp.side {
            Side::Edge => br#"["e","#,
            Side::Cloud => br#"["c","#,
        });
        serde_json::to_writer(&mut *out, &self.stamp.counter)?;
        if let Some(value) = &self.value {
            out.push(b',');
            serde_json::to_writer(&mut *out, value)?;
        }
        out.push(b']');
        Ok(())
    }
}

fn decode_leaf(leaf: &Value) -> Option<Leaf> {
    let (side, counter, value) = match leaf.as_array()?.as_slice() {
        [side, counter] => (side, counter, None),
        [side, counter, value] => (side, counter, Some(value.clone())),
        _ => return None,
    };
    let side = match side.as_str()? {
        "e" => Side::Edge,
        "c" => Side::Cloud,
        _ => return None,
    };
    Some(Leaf {
        value,
        stamp: Stamp {
            side,
            counter: counter.as_u64()?,
        },
    })
}

fn decode_seen(seen: &Value) -> Option<Seen> {
    match seen.as_array()?.as_slice() {
        [edge, cloud] => Some(Seen {
            edge: edge.as_u64()?,
            cloud: cloud.as_u64()?,
        }),
        _ => None,
    }
}

fn error(reason: String) -> DecodeError {
    DecodeError { reason }
}
