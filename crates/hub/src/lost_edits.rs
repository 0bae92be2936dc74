//! Edits of a desired state that were given up for others, kept with the twin: whose edit was lost can be asked later.

use std::collections::VecDeque;

use device::{Conflict, Side, Stamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Lost edits that are kept of a device, and bytes of their JSON; beyond either the oldest are forgotten, all but the
/// last.
const EDITS_MAX: usize = 32;
const BYTES_MAX: usize = 16 << 10;

/// An edit that was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostEdit {
    /// When this side learned of it, in milliseconds of Unix time by its clock.
    #[serde(default)]
    pub at_ms: u64,
    /// Where it was made: `edge` or `cloud`.
    pub side: String,
    /// Which edit of the desired state it was there.
    pub number: u64,
    /// JSON pointer of the leaf (RFC 6901).
    pub pointer: String,
    /// The value that stays; `null`: it stays removed, or something above or below it stays.
    pub kept: Value,
    /// The value that was given up; `null`: its removal was.
    pub lost: Value,
}

impl LostEdit {
    /// Two with the same key are one; the greater was made later, as far as that can be told of two sides.
    fn key(&self) -> (u64, &str, &str) {
        (self.number, &self.side, &self.pointer)
    }
}

impl From<Conflict> for LostEdit {
    fn from(conflict: Conflict) -> Self {
        let Stamp { side, counter } = conflict.edit;
        let side = match side {
            Side::Edge => "edge",
            Side::Cloud => "cloud",
        };
        Self {
            at_ms: 0,
            side: side.to_owned(),
            number: counter,
            pointer: conflict.pointer,
            kept: conflict.kept.unwrap_or_default(),
            lost: conflict.lost.unwrap_or_default(),
        }
    }
}

/// What is kept of a device, in the order of its keys. Which ones they are depends on those that were noted alone, not on
/// the order in which they were: two sides that tell each other all have the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostEdits {
    edits: VecDeque<(LostEdit, usize)>,
    bytes: usize,
}

impl LostEdits {
    /// Keeps an edit; whether it is new, and not so old that it is forgotten already.
    pub(crate) fn note(&mut self, edit: LostEdit) -> bool {
        let Err(place) = self.edits.binary_search_by(|(known, _)| known.key().cmp(&edit.key())) else {
            return false;
        };
        let bytes = json(&edit).len();
        self.edits.insert(place, (edit, bytes));
        self.bytes += bytes;
        let mut forgotten = 0;
        while self.edits.len() > 1 && (self.edits.len() > EDITS_MAX || self.bytes > BYTES_MAX) {
            let (_, bytes) = self.edits.pop_front().expect("more than one");
            self.bytes -= bytes;
            forgotten += 1;
        }
        place >= forgotten
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LostEdit> {
        self.edits.iter().map(|(edit, _)| edit)
    }

    /// Whether all of these are among `others`.
    pub(crate) fn are_among(&self, others: &[LostEdit]) -> bool {
        self.iter()
            .all(|edit| others.iter().any(|other| other.key() == edit.key()))
    }

    /// Appends what tells them from others, whenever a side learned of them.
    pub(crate) fn write_keys(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|edit| out.extend(json(&edit.key())));
    }

    /// Bytes of memory that they count as.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // Values in memory take up to some four times their JSON.
        4 * self.bytes as u64
    }

    /// A line of JSON; empty: there are none.
    pub(crate) fn encode(&self) -> Vec<u8> {
        if self.edits.is_empty() {
            return Vec::new();
        }
        json(&self.iter().collect::<Vec<_>>())
    }

    /// What [`LostEdits::encode`] made; what is none of it is left out.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut edits = Self::default();
        for edit in listed(bytes) {
            edits.note(edit);
        }
        edits
    }
}

/// The edits in a line of JSON; none if it is no such line.
pub(crate) fn listed(line: &[u8]) -> Vec<LostEdit> {
    serde_json::from_slice(line).unwrap_or_default()
}

pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("memory takes all that is written")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(number: u64, value: &str) -> LostEdit {
        LostEdit {
            at_ms: 7,
            side: "cloud".to_owned(),
            number,
            pointer: "/speed".to_owned(),
            kept: Value::Null,
            lost: value.into(),
        }
    }

    fn numbers(edits: &LostEdits) -> Vec<u64> {
        edits.iter().map(|edit| edit.number).collect()
    }

    #[test]
    fn an_edit_is_kept_once_and_survives_being_bytes() {
        let mut edits = LostEdits::default();
        assert!(edits.note(lost(1, "a")) && edits.note(lost(2, "b")));
        assert!(!edits.note(lost(1, "a")));
        let back = LostEdits::decode(&edits.encode());
        assert!(back.iter().eq(edits.iter()));
        assert_eq!(back.bytes, edits.bytes);
    }

    #[test]
    fn beyond_the_bounds_the_oldest_are_forgotten_but_the_last_stays() {
        let mut edits = LostEdits::default();
        (0..EDITS_MAX as u64 + 2).for_each(|number| assert!(edits.note(lost(number, ""))));
        assert_eq!((numbers(&edits).len(), numbers(&edits)[0]), (EDITS_MAX, 2));
        assert!(!edits.note(lost(1, "")), "it was forgotten before");
        edits.note(lost(100, &"x".repeat(BYTES_MAX)));
        assert_eq!(numbers(&edits), [100]);
        edits.note(lost(101, ""));
        assert_eq!(numbers(&edits), [101]);
    }

    #[test]
    fn in_whatever_order_they_are_noted_the_same_stay() {
        let (mut forwards, mut backwards) = (LostEdits::default(), LostEdits::default());
        let all: Vec<LostEdit> = (0..50).map(|n| lost(n, &"x".repeat((n as usize * 37) % 900))).collect();
        for edit in &all {
            forwards.note(edit.clone());
        }
        for edit in all.iter().rev() {
            backwards.note(edit.clone());
        }
        assert!(forwards.iter().eq(backwards.iter()));
        assert!(forwards.are_among(&all) && !forwards.are_among(&all[..30]));
    }

    #[test]
    fn bytes_that_are_none_are_none() {
        for bytes in [&b""[..], b"x", b"[1]", b"{}", b"[{\"pointer\": 1}]"] {
            assert_eq!(LostEdits::decode(bytes).iter().count(), 0);
        }
    }
}
