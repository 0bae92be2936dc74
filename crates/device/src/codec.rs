//! Documents and twins as the log and the link keep them: compact JSON, so that a person can read what was stored.
//!
//! `{"leaves":{pointer:["e1"|"c1",counter,value?]},"seen":[edge,cloud],"starts":[number]}`; a leaf without a value was
//! removed. Behind the side stands which of `starts` its edit is of, from 1; nothing: of a version that did not tell
//! starts apart. What is seen of a side is `[below,earlier,[start,before,last],…]`, or, of such a version, its count.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::Value;

use crate::document::{Document, Leaf};
use crate::seen::{Edits, Seen, Side, Stamp, Start};
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
        let starts = self.starts();
        write!(out, r#"{{"leaves":{{"#)?;
        for (number, (pointer, leaf)) in self.leaves.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, pointer)?;
            out.push(b':');
            leaf.write(&starts, out)?;
        }
        write!(out, r#"}},"seen":["#)?;
        self.seen.edge.write(&starts, out)?;
        out.push(b',');
        self.seen.cloud.write(&starts, out)?;
        out.push(b']');
        if !starts.0.is_empty() {
            write!(out, r#","starts":"#)?;
            serde_json::to_writer(&mut *out, &starts.0)?;
        }
        out.push(b'}');
        Ok(())
    }

    fn starts(&self) -> Starts {
        let of_leaves = self.leaves.values().map(|leaf| leaf.stamp.start);
        let edits = [&self.seen.edge, &self.seen.cloud].into_iter();
        let seen = edits.flat_map(|edits| edits.starts.iter().map(|start| start.number));
        let starts: BTreeSet<u64> = of_leaves.chain(seen).filter(|number| *number > 0).collect();
        Starts(starts.into_iter().collect())
    }

    /// What [`Document::encode`] made.
    ///
    /// # Errors
    /// The bytes are not such.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|e| error(e.to_string()))?;
        let starts =
            Starts::decode(value.get("starts")).ok_or_else(|| error("\"starts\" are no numbers".to_owned()))?;
        let seen = decode_seen(&value["seen"], &starts)
            .ok_or_else(|| error("\"seen\" is not what is seen of two sides".to_owned()))?;
        let leaves = value["leaves"]
            .as_object()
            .ok_or_else(|| error("\"leaves\" is not an object".to_owned()))?;
        let leaves = leaves.iter().map(|(pointer, leaf)| {
            let leaf = decode_leaf(leaf, &starts).ok_or_else(|| error(format!("leaf {pointer:?} is {leaf}")))?;
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

/// The starts that a document speaks of, in order; they are written once, and referred to by their places.
struct Starts(Vec<u64>);

impl Starts {
    /// The place of a start, from 1; 0: it is the one without a number.
    fn place(&self, number: u64) -> usize {
        self.0.binary_search(&number).map_or(0, |at| at + 1)
    }

    fn at(&self, place: usize) -> Option<u64> {
        match place.checked_sub(1) {
            None => Some(0),
            Some(at) => self.0.get(at).copied(),
        }
    }

    fn decode(value: Option<&Value>) -> Option<Self> {
        let Some(value) = value else {
            return Some(Self(Vec::new()));
        };
        value
            .as_array()?
            .iter()
            .map(Value::as_u64)
            .collect::<Option<_>>()
            .map(Self)
    }
}

impl Leaf {
    fn write(&self, starts: &Starts, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(match self.stamp.side {
            Side::Edge => br#"["e"#,
            Side::Cloud => br#"["c"#,
        });
        if self.stamp.start > 0 {
            write!(out, "{}", starts.place(self.stamp.start))?;
        }
        write!(out, r#"",{}"#, self.stamp.counter)?;
        if let Some(value) = &self.value {
            out.push(b',');
            serde_json::to_writer(&mut *out, value)?;
        }
        out.push(b']');
        Ok(())
    }
}

impl Edits {
    fn write(&self, starts: &Starts, out: &mut Vec<u8>) -> io::Result<()> {
        match (self.below, &*self.starts) {
            (0, []) => return write!(out, "0"),
            (
                0,
                [
                    Start {
                        number: 0,
                        before: 0,
                        last,
                    },
                ],
            ) => return write!(out, "{last}"),
            _ => write!(out, "[{},{}", self.below, self.earlier)?,
        }
        for Start { number, before, last } in &self.starts {
            write!(out, ",[{},{before},{last}]", starts.place(*number))?;
        }
        write!(out, "]")
    }
}

fn decode_leaf(leaf: &Value, starts: &Starts) -> Option<Leaf> {
    let (author, counter, value) = match leaf.as_array()?.as_slice() {
        [author, counter] => (author, counter, None),
        [author, counter, value] => (author, counter, Some(value.clone())),
        _ => return None,
    };
    let (side, place) = author.as_str()?.split_at_checked(1)?;
    let side = match side {
        "e" => Side::Edge,
        "c" => Side::Cloud,
        _ => return None,
    };
    let place = match place {
        "" => 0,
        place => place.parse().ok()?,
    };
    Some(Leaf {
        value,
        stamp: Stamp {
            side,
            start: starts.at(place)?,
            counter: counter.as_u64()?,
        },
    })
}

fn decode_seen(seen: &Value, starts: &Starts) -> Option<Seen> {
    match seen.as_array()?.as_slice() {
        [edge, cloud] => Some(Seen {
            edge: decode_edits(edge, starts)?,
            cloud: decode_edits(cloud, starts)?,
        }),
        _ => None,
    }
}

fn decode_edits(edits: &Value, starts: &Starts) -> Option<Edits> {
    let mut decoded = Edits::default();
    let numbered = match edits.as_array().map(Vec::as_slice) {
        None => {
            let last = edits.as_u64()?;
            let all = Start {
                number: 0,
                before: 0,
                last,
            };
            decoded.starts.extend((last > 0).then_some(all));
            return Some(decoded);
        }
        Some([below, earlier, numbered @ ..]) => {
            (decoded.below, decoded.earlier) = (below.as_u64()?, earlier.as_u64()?);
            numbered
        }
        Some(_) => return None,
    };
    for start in numbered {
        let [place, before, last] = start.as_array()?.as_slice() else {
            return None;
        };
        decoded.starts.push(Start {
            number: starts.at(usize::try_from(place.as_u64()?).ok()?)?,
            before: before.as_u64()?,
            last: last.as_u64()?,
        });
    }
    let is_in_order = decoded.starts.is_sorted_by(|one, next| one.number < next.number);
    let are_above = decoded
        .starts
        .iter()
        .all(|start| start.number >= decoded.below && start.last > start.before);
    decoded.bound();
    (is_in_order && are_above).then_some(decoded)
}

fn error(reason: String) -> DecodeError {
    DecodeError { reason }
}
