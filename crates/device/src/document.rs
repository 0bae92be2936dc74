//! One JSON document of a twin as its leaves, each stamped with the edit that gave it its value.

use std::collections::BTreeMap;

use serde_json::Value;

/// Removed leaves that a document remembers for the next merge; beyond it the oldest are forgotten, and a concurrent
/// edit of such a leaf on the other side brings it back.
const MAX_REMOVED: usize = 256;

/// Where an edit was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// At the edge, which has the last word.
    Edge,
    /// In the cloud.
    Cloud,
}

/// How many edits of each side a document has in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Edits made at the edge.
    pub edge: u64,
    /// Edits made in the cloud.
    pub cloud: u64,
}

/// The edit that gave a leaf its value: the counter-th of that side. No clock is involved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Who made it.
    pub side: Side,
    /// 1 is the side's first edit of the document.
    pub counter: u64,
}

/// The value of a leaf, or that it was removed, and since which edit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) value: Option<Value>,
    pub(crate) stamp: Stamp,
}

/// A JSON object as its leaves: scalars, arrays and empty objects, by JSON pointer (RFC 6901).
///
/// Between edits and after merges no live leaf stands above another, so that the leaves are exactly one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub(crate) leaves: BTreeMap<String, Leaf>,
    pub(crate) seen: Seen,
}

impl Seen {
    /// Whether the edit of this stamp is among those seen.
    #[must_use]
    pub fn covers(self, stamp: Stamp) -> bool {
        self.of(stamp.side) >= stamp.counter
    }

    fn of(self, side: Side) -> u64 {
        match side {
            Side::Edge => self.edge,
            Side::Cloud => self.cloud,
        }
    }

    pub(crate) fn both(self, other: Seen) -> Seen {
        Seen {
            edge: self.edge.max(other.edge),
            cloud: self.cloud.max(other.cloud),
        }
    }

    pub(crate) fn next(self, side: Side) -> Stamp {
        Stamp {
            side,
            // The other side may say any number.
            counter: self.of(side).saturating_add(1),
        }
    }

    pub(crate) fn add(&mut self, stamp: Stamp) {
        match stamp.side {
            Side::Edge => self.edge = stamp.counter,
            Side::Cloud => self.cloud = stamp.counter,
        }
    }
}

impl Document {
    /// `$version`: the number of edits in this state. It never decreases, and is the same at both sides once each has
    /// all edits of the other.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.seen.edge.saturating_add(self.seen.cloud)
    }

    /// The edits that this state has in it.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Forgets leaves that were removed by edits that the other side has too: no merge asks for them any more. Where
    /// there is no other side, that is all of them: `document.forget_removed(document.seen())`.
    pub fn forget_removed(&mut self, seen_by_both: Seen) {
        self.leaves
            .retain(|_, leaf| leaf.value.is_some() || !seen_by_both.covers(leaf.stamp));
    }

    /// The same edits, after which nothing is left: what the other side has of them is known to be removed.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self {
            leaves: BTreeMap::new(),
            seen: self.seen,
        }
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.leaves
            .iter()
            .filter_map(|(pointer, leaf)| Some((pointer.as_str(), leaf.value.as_ref()?)))
    }

    pub(crate) fn live_below(&self, pointer: &str) -> bool {
        let below = format!("{pointer}/");
        let mut leaves = self
            .leaves
            .range(below.clone()..)
            .take_while(|(p, _)| p.starts_with(&below));
        leaves.any(|(_, leaf)| leaf.value.is_some())
    }

    /// Forgets the oldest removed leaves where it remembers too many, and returns them.
    pub(crate) fn bound_removed(&mut self) -> Vec<(String, Leaf)> {
        let removed = self.leaves.iter().filter(|(_, leaf)| leaf.value.is_none());
        let excess = removed.clone().count().saturating_sub(MAX_REMOVED);
        if excess == 0 {
            return Vec::new();
        }
        let mut oldest: Vec<_> = removed
            .map(|(pointer, leaf)| (leaf.stamp.counter, pointer.as_str()))
            .collect();
        oldest.sort_unstable();
        let oldest: Vec<String> = oldest[..excess].iter().map(|(_, pointer)| (*pointer).into()).collect();
        oldest
            .iter()
            .filter_map(|pointer| self.leaves.remove_entry(pointer))
            .collect()
    }
}

/// The member that carries the version of a published state; names of the top level that start with `$` are ours.
pub(crate) const VERSION: &str = "$version";

/// Appends a member's name to a JSON pointer (RFC 6901, section 3).
pub(crate) fn push_name(pointer: &mut String, name: &str) {
    pointer.push('/');
    for c in name.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            _ => pointer.push(c),
        }
    }
}
