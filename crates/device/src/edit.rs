//! A merge patch on a document, in place: all of it or nothing, and to be taken back where it cannot be kept.

use serde_json::{Map, Value};

use crate::document::{Document, Leaf, push_name};
use crate::limits::Limits;
use crate::patch::{Patch, PatchError};
use crate::seen::{Author, Seen, Stamp};

/// What takes an edit of a document back. It costs what the edit touched, whatever the size of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Undo {
    seen: Seen,
    /// Each leaf that was touched as it was just before, in that order; `None`: there was none.
    leaves: Vec<(String, Option<Leaf>)>,
}

impl Document {
    /// Applies a patch as one edit of its author, and says how to take it back. A patch that changes nothing is no
    /// edit: it leaves the version as it is, and there is nothing to take back.
    ///
    /// # Errors
    /// `TooLarge` or `TooManyLeaves`: the state would be; it stays as it was.
    pub fn apply(
        &mut self,
        patch: Patch,
        author: impl Into<Author>,
        limits: &Limits,
    ) -> Result<Option<Undo>, PatchError> {
        let mut edit = Edit {
            stamp: self.seen.next(author.into()),
            undo: Undo {
                seen: self.seen.clone(),
                leaves: Vec::new(),
            },
            document: self,
        };
        edit.merge_members(&mut String::new(), patch.members);
        let (stamp, mut undo) = (edit.stamp, edit.undo);
        if undo.leaves.is_empty() {
            return Ok(None);
        }
        self.seen.add(stamp);
        if let Err(error) = self.check_size(limits) {
            self.undo(undo);
            return Err(error);
        }
        let forgotten = self.bound_removed();
        undo.leaves
            .extend(forgotten.into_iter().map(|(at, leaf)| (at, Some(leaf))));
        Ok(Some(undo))
    }

    /// Takes the last edit back: the document is what it was before.
    pub fn undo(&mut self, undo: Undo) {
        self.seen = undo.seen;
        for (at, leaf) in undo.leaves.into_iter().rev() {
            match leaf {
                Some(leaf) => drop(self.leaves.insert(at, leaf)),
                None => drop(self.leaves.remove(&at)),
            }
        }
    }

    fn check_size(&self, limits: &Limits) -> Result<(), PatchError> {
        let leaves = self.live().count();
        if leaves > limits.leaves {
            return Err(PatchError::TooManyLeaves {
                leaves,
                limit: limits.leaves,
            });
        }
        let bytes = self.json_bytes();
        if bytes > limits.bytes {
            return Err(PatchError::TooLarge {
                what: "the state would have",
                bytes,
                limit: limits.bytes,
            });
        }
        Ok(())
    }
}

/// One edit in the making.
struct Edit<'a> {
    document: &'a mut Document,
    stamp: Stamp,
    undo: Undo,
}

impl Edit<'_> {
    /// The function MergePatch of RFC 7396, section 2, where both sides are objects. `at` is as before once it returns.
    fn merge_members(&mut self, at: &mut String, members: Map<String, Value>) {
        let above = at.len();
        for (name, value) in members {
            push_name(at, &name);
            match value {
                Value::Null => self.remove(at),
                Value::Object(inner) => self.merge_object(at, inner),
                scalar => self.set(at, scalar),
            }
            at.truncate(above);
        }
    }

    fn merge_object(&mut self, at: &mut String, members: Map<String, Value>) {
        let was_object = self.document.live_below(at) || self.is(at, &empty_object());
        if !was_object {
            self.set(at, empty_object());
        }
        self.merge_members(at, members);
        self.settle_empty(at);
    }

    /// An object is a leaf exactly while it has no members. That leaf needs no trace once it has: members outweigh it
    /// in every merge.
    fn settle_empty(&mut self, at: &str) {
        let filled = self.document.live_below(at);
        let marked = self.is(at, &empty_object());
        match (filled, marked) {
            (true, true) => {
                let marker = self.document.leaves.remove(at);
                self.undo.leaves.push((at.to_owned(), marker));
            }
            (false, false) => self.put(at, Some(empty_object())),
            _ => {}
        }
    }

    fn set(&mut self, at: &str, value: Value) {
        if self.is(at, &value) {
            return;
        }
        self.remove_below(at);
        self.put(at, Some(value));
    }

    fn remove(&mut self, at: &str) {
        if self.document.leaves.get(at).is_some_and(|leaf| leaf.value.is_some()) {
            self.put(at, None);
        }
        self.remove_below(at);
    }

    fn remove_below(&mut self, at: &str) {
        let below = format!("{at}/");
        let leaves = self
            .document
            .leaves
            .range_mut(below.clone()..)
            .take_while(|(p, _)| p.starts_with(&below));
        for (at, leaf) in leaves.filter(|(_, leaf)| leaf.value.is_some()) {
            let removed = Leaf {
                value: None,
                stamp: self.stamp,
            };
            let before = std::mem::replace(leaf, removed);
            self.undo.leaves.push((at.clone(), Some(before)));
        }
    }

    fn put(&mut self, at: &str, value: Option<Value>) {
        let leaf = Leaf {
            value,
            stamp: self.stamp,
        };
        let before = self.document.leaves.insert(at.to_owned(), leaf);
        self.undo.leaves.push((at.to_owned(), before));
    }

    fn is(&self, at: &str, value: &Value) -> bool {
        self.document
            .leaves
            .get(at)
            .is_some_and(|leaf| leaf.value.as_ref() == Some(value))
    }
}

fn empty_object() -> Value {
    Value::Object(Map::new())
}
