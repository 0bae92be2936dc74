//! One JSON document of a twin as its leaves, each stamped with the edit that gave it its value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::seen::{Author, Seen, Stamp};

/// Removed leaves that a document remembers for the next merge; beyond it the oldest are forgotten, and a concurrent
/// edit of such a leaf on the other side brings it back.
const MAX_REMOVED: usize = 256;

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

impl Document {
    /// `$version`: the number of edits in this state. It never decreases, and is the same at both sides once each has
    /// all edits of the other.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.seen.count()
    }

    /// The edits that this state has in it.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The document, with other stamps for those edits of the author's that the other side would take for earlier ones:
    /// it tells only the last starts of a hub apart, and a hub that came back from a backup with a clock that is
    /// behind does not know what numbers those have. For its author, before each merge.
    #[must_use]
    pub fn set_apart(&self, author: Author, theirs: &Seen) -> Cow<'_, Self> {
        let theirs = theirs.of(author.side);
        let run = self.seen.of(author.side).of_run(author.start);
        let Some(number) = run.map(|run| run.number).filter(|number| *number < theirs.below) else {
            return Cow::Borrowed(self);
        };
        let later = theirs.later(author.start);
        let mut apart = self.clone();
        let leaves = apart.leaves.values_mut().map(|leaf| &mut leaf.stamp);
        for stamp in leaves.filter(|stamp| (stamp.side, stamp.start) == (author.side, number)) {
            stamp.start = later;
        }
        if let Some(run) = apart.seen.of_mut(author.side).starts.last_mut() {
            run.number = later;
        }
        Cow::Owned(apart)
    }

    /// Forgets leaves that were removed by edits that the other side has too: no merge asks for them any more. Where
    /// there is no other side, that is all of them, by what [`Document::seen`] says.
    pub fn forget_removed(&mut self, seen_by_both: &Seen) {
        self.leaves
            .retain(|_, leaf| leaf.value.is_some() || !seen_by_both.covers(leaf.stamp));
    }

    /// The same edits, after which nothing is left: what the other side has of them is known to be removed.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self {
            leaves: BTreeMap::new(),
            seen: self.seen.clone(),
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
        let mut oldest: Vec<_> = removed.map(|(pointer, leaf)| (leaf.stamp, pointer.as_str())).collect();
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
