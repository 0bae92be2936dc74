//! Bringing the two sides of a document together after they were apart.
//!
//! Each side sends its whole document and both compute the same function of the two, so they end up equal whatever was
//! edited in between. Of two concurrent edits of one leaf the edge's stays and the other is reported.
//!
//! An edge on its own has no second side. Documents are kept so that there can be one: each leaf with its stamp, and
//! those that were removed as well.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::document::{Document, Leaf};
use crate::seen::{Author, Side, Stamp};
use crate::twin::Twin;

/// Two edits of one leaf of which neither side knew the other's.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// JSON pointer of the leaf (RFC 6901).
    pub pointer: String,
    /// The edit that was given up.
    pub edit: Stamp,
    /// The value that stays; `None`: it stays removed, or something above or below it stays.
    pub kept: Option<Value>,
    /// The value that was given up; `None`: its removal was.
    pub lost: Option<Value>,
}

/// What comes of a merge.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The state with the edits of both sides.
    pub document: Document,
    /// Where they contradicted each other.
    pub conflicts: Vec<Conflict>,
}

/// A twin with the edits of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedTwin {
    /// What both sides have from now on.
    pub twin: Twin,
    /// Edits of the desired state that were given up for others.
    pub conflicts: Vec<Conflict>,
}

impl Twin {
    /// Merges this twin, which is the author's, with that of the other side.
    #[must_use]
    pub fn merged(&self, author: Author, theirs: &Twin) -> MergedTwin {
        let desired = self.desired.merged(author, &theirs.desired);
        MergedTwin {
            twin: Twin {
                desired: desired.document,
                reported: self.reported.merged(author, &theirs.reported).document,
            },
            conflicts: desired.conflicts,
        }
    }
}

impl Document {
    /// Merges this document, which is the author's, with that of the other side.
    #[must_use]
    pub fn merged(&self, author: Author, theirs: &Document) -> Merged {
        let ours = self.set_apart(author, theirs.seen());
        match author.side {
            Side::Edge => merge(&ours, theirs),
            Side::Cloud => merge(theirs, &ours),
        }
    }
}

/// Merges the document as the edge has it with the document as the cloud has it.
///
/// The result may pass [`crate::Limits`] by what each side alone was allowed to add; the next patch has to shrink it.
#[must_use]
pub fn merge(edge: &Document, cloud: &Document) -> Merged {
    let mut merge = Merge {
        edge,
        cloud,
        leaves: BTreeMap::new(),
        conflicts: Vec::new(),
    };
    let pointers: BTreeSet<&String> = edge.leaves.keys().chain(cloud.leaves.keys()).collect();
    for pointer in pointers {
        merge.leaf(pointer);
    }
    merge.settle_ancestors();
    let mut document = Document {
        leaves: merge.leaves,
        seen: edge.seen.both(&cloud.seen),
    };
    document.bound_removed();
    Merged {
        document,
        conflicts: merge.conflicts,
    }
}

struct Merge<'a> {
    edge: &'a Document,
    cloud: &'a Document,
    leaves: BTreeMap<String, Leaf>,
    conflicts: Vec<Conflict>,
}

impl Merge<'_> {
    fn leaf(&mut self, pointer: &str) {
        let kept = match (self.edge.leaves.get(pointer), self.cloud.leaves.get(pointer)) {
            (Some(edge), Some(cloud)) => Some(self.newer(pointer, edge, cloud)),
            // A leaf that the other side has seen and has no more was removed there.
            (Some(leaf), None) if !self.cloud.seen.covers(leaf.stamp) => Some(leaf.clone()),
            (None, Some(leaf)) if !self.edge.seen.covers(leaf.stamp) => Some(leaf.clone()),
            _ => None,
        };
        if let Some(leaf) = kept {
            self.leaves.insert(pointer.to_owned(), leaf);
        }
    }

    fn newer(&mut self, pointer: &str, edge: &Leaf, cloud: &Leaf) -> Leaf {
        let replaced_by_edge = self.edge.seen.covers(cloud.stamp);
        let replaced_by_cloud = self.cloud.seen.covers(edge.stamp);
        if replaced_by_cloud && !replaced_by_edge {
            return cloud.clone();
        }
        if replaced_by_edge {
            return edge.clone();
        }
        let (kept, lost) = if edge_stays(edge) { (edge, cloud) } else { (cloud, edge) };
        self.report(pointer, kept.value.as_ref(), lost);
        kept.clone()
    }

    fn report(&mut self, pointer: &str, kept: Option<&Value>, lost: &Leaf) {
        if kept != lost.value.as_ref() {
            let conflict = Conflict {
                pointer: pointer.to_owned(),
                edit: lost.stamp,
                kept: kept.cloned(),
                lost: lost.value.clone(),
            };
            self.conflicts.push(conflict);
        }
    }

    /// One side made a value where the other made an object: only one of them can be.
    fn settle_ancestors(&mut self) {
        let live: Vec<String> = self.live().map(str::to_owned).collect();
        for pointer in &live {
            for ancestor in ancestors(pointer) {
                self.settle(ancestor, pointer);
            }
        }
    }

    fn live(&self) -> impl Iterator<Item = &str> {
        self.leaves
            .iter()
            .filter(|(_, leaf)| leaf.value.is_some())
            .map(|(pointer, _)| pointer.as_str())
    }

    fn settle(&mut self, above: &str, below: &str) {
        let (Some(upper), Some(_)) = (self.live_leaf(above), self.live_leaf(below)) else {
            return;
        };
        let marks_empty_object = upper
            .value
            .as_ref()
            .is_some_and(|v| v.as_object().is_some_and(|o| o.is_empty()));
        let (upper_is_edges, lower) = (self.edge.leaves.get(above) == Some(upper), self.live_leaf(below));
        let of_edge = if upper_is_edges { Some(upper) } else { lower };
        let upper_wins = !marks_empty_object && of_edge.is_some_and(edge_stays) == upper_is_edges;
        let lost = if upper_wins { below } else { above };
        let lost = self.leaves.remove_entry(lost).expect("both are there");
        if !marks_empty_object {
            self.report(&lost.0, None, &lost.1);
        }
    }

    fn live_leaf(&self, pointer: &str) -> Option<&Leaf> {
        self.leaves.get(pointer).filter(|leaf| leaf.value.is_some())
    }
}

/// Whether of two edits of which neither side knew the other's that stays which the edge has: the one that was made at
/// the edge. Both are of one side where that came back from a backup; then that stays which the side itself has, for
/// the other is of a past that it has lost.
fn edge_stays(at_edge: &Leaf) -> bool {
    at_edge.stamp.side == Side::Edge
}

/// The pointers above this one, without the root.
fn ancestors(pointer: &str) -> impl Iterator<Item = &str> {
    pointer.match_indices('/').skip(1).map(|(at, _)| &pointer[..at])
}
