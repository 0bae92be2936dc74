//! Edits of a desired state that were given up for others, kept with the twin: whose edit was lost can be asked later.

use std::collections::VecDeque;

use device::{Conflict, Side, Stamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Lost edits that are kept of a device; beyond them the oldest are forgotten.
const EDITS_MAX: usize = 32;
/// Bytes of a value's JSON; of a longer one its beginning is kept, so many characters of it.
const VALUE_BYTES_MAX: usize = 512;
const BEGINNING_CHARS: usize = 100;
/// Bytes of a pointer: more than ten names of 256 bytes.
const POINTER_BYTES_MAX: usize = 4_096;

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
    /// Of which start of the hub there ([`Stamp::start`]): one that came back from a backup counts from there once
    /// more.
    #[serde(default)]
    pub start: u64,
    /// JSON pointer of the leaf (RFC 6901).
    pub pointer: String,
    /// The value that stays; `null`: it stays removed, or something above or below it stays. Of one with more than 512
    /// bytes of JSON, a string with its beginning.
    pub kept: Value,
    /// The value that was given up, likewise; `null`: its removal was.
    pub lost: Value,
}

impl LostEdit {
    /// As it is kept; `None`: no hub of ours made this.
    fn bounded(self) -> Option<Self> {
        let is_ours = matches!(&*self.side, "edge" | "cloud") && self.pointer.len() <= POINTER_BYTES_MAX;
        is_ours.then(|| Self {
            kept: beginning(self.kept),
            lost: beginning(self.lost),
            ..self
        })
    }

    /// Two with the same key are one; the greater was made later, as far as that can be told of two sides.
    fn key(&self) -> (u64, u64, &str, &str) {
        (self.start, self.number, &self.side, &self.pointer)
    }
}

impl From<Conflict> for LostEdit {
    fn from(conflict: Conflict) -> Self {
        let Stamp { side, start, counter } = conflict.edit;
        let side = match side {
            Side::Edge => "edge",
            Side::Cloud => "cloud",
        };
        Self {
            at_ms: 0,
            side: side.to_owned(),
            number: counter,
            start,
            pointer: conflict.pointer,
            kept: conflict.kept.unwrap_or_default(),
            lost: conflict.lost.unwrap_or_default(),
        }
    }
}

fn beginning(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= VALUE_BYTES_MAX {
        return value;
    }
    let beginning: String = text.chars().take(BEGINNING_CHARS).collect();
    format!("{beginning}… ({} bytes)", text.len()).into()
}

/// What is kept of a device, in the order of its keys. Which ones they are depends on those that were noted alone, not
/// on the order in which they were: two sides that tell each other all have the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostEdits(VecDeque<LostEdit>);

impl LostEdits {
    /// Keeps an edit; it, if it is new and not so old that it is forgotten already.
    pub(crate) fn note(&mut self, edit: LostEdit) -> Option<LostEdit> {
        let edit = edit.bounded()?;
        let place = self.0.binary_search_by(|known| known.key().cmp(&edit.key())).err()?;
        self.0.insert(place, edit.clone());
        if self.0.len() > EDITS_MAX {
            self.0.pop_front();
            return (place > 0).then_some(edit);
        }
        Some(edit)
    }

    /// Keeps an edit that was found to be lost here: it is told of, unless it is known, though others are kept.
    pub(crate) fn find(&mut self, edit: LostEdit) -> Option<LostEdit> {
        let edit = edit.bounded()?;
        let is_known = self.0.binary_search_by(|known| known.key().cmp(&edit.key())).is_ok();
        self.note(edit.clone());
        (!is_known).then_some(edit)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LostEdit> {
        self.0.iter()
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
        let bytes =
            |edit: &LostEdit| edit.pointer.len() + 4 * (edit.kept.to_string().len() + edit.lost.to_string().len());
        let edits = self.iter().map(|edit| (size_of::<LostEdit>() + bytes(edit)) as u64);
        edits.sum()
    }

    /// A line of JSON; empty: there are none.
    pub(crate) fn encode(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        json(&self.0)
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

/// The edits in a line of JSON, as many as are kept; none if it is no such line.
pub(crate) fn listed(line: &[u8]) -> Vec<LostEdit> {
    let mut edits: Vec<LostEdit> = serde_json::from_slice(line).unwrap_or_default();
    edits.truncate(EDITS_MAX);
    edits
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
            start: 0,
            pointer: "/speed".to_owned(),
            kept: Value::Null,
            lost: value.into(),
        }
    }

    #[test]
    fn an_edit_is_kept_once_and_survives_being_bytes() {
        let mut edits = LostEdits::default();
        assert!(edits.note(lost(1, "a")).is_some() && edits.note(lost(2, "b")).is_some());
        assert_eq!(edits.note(lost(1, "a")), None);
        assert!(LostEdits::decode(&edits.encode()).iter().eq(edits.iter()));
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_forgotten_in_whatever_order_they_come() {
        let all: Vec<LostEdit> = (0..EDITS_MAX as u64 + 20).map(|number| lost(number, "")).collect();
        let (mut forwards, mut backwards) = (LostEdits::default(), LostEdits::default());
        for edit in &all {
            assert!(forwards.note(edit.clone()).is_some());
        }
        for (place, edit) in all.iter().rev().enumerate() {
            assert_eq!(backwards.note(edit.clone()).is_some(), place < EDITS_MAX);
        }
        assert!(backwards.find(all[0].clone()).is_some() && backwards.find(all[40].clone()).is_none());
        assert!(forwards.iter().eq(backwards.iter()) && forwards.iter().eq(&all[20..]));
        assert!(forwards.are_among(&all) && !forwards.are_among(&all[..30]));
    }

    #[test]
    fn of_a_long_value_its_beginning_is_kept_and_what_no_hub_made_is_not() {
        let mut edits = LostEdits::default();
        let kept = edits.note(lost(1, &"é".repeat(30_000))).unwrap();
        let text = kept.lost.as_str().unwrap();
        assert!(text.starts_with("\"éé") && text.ends_with("… (60002 bytes)"), "{text}");
        assert_eq!(LostEdits::decode(&edits.encode()).iter().next(), Some(&kept));
        let long = LostEdit {
            pointer: "/".repeat(POINTER_BYTES_MAX + 1),
            ..lost(2, "")
        };
        let strange = LostEdit {
            side: "moon".to_owned(),
            ..lost(3, "")
        };
        assert!(edits.note(long).is_none() && edits.note(strange).is_none());
    }

    #[test]
    fn bytes_that_are_none_are_none() {
        for bytes in [&b""[..], b"x", b"[1]", b"{}", b"[{\"pointer\": 1}]"] {
            assert_eq!(LostEdits::decode(bytes).iter().count(), 0);
        }
    }
}
