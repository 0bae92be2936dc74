//! JSON merge patches (RFC 7396) on a document, bounded, all or nothing.

use serde_json::{Map, Value};

use crate::document::{Document, Leaf, Side, Stamp, VERSION, push_name};
use crate::limits::Limits;

/// Why a patch was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// Not JSON at all.
    #[error("the patch is not JSON: {reason}")]
    NotJson {
        /// What the parser says, with line and column.
        reason: String,
    },
    /// JSON, but not an object.
    #[error("the patch is {found}; a merge patch of a twin is a JSON object such as {{\"interval_s\": 10}}")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// `$version` is not a version.
    #[error("\"$version\" is {found}; it is the number of the version that the patch is based on")]
    BadVersion {
        /// What it is instead.
        found: String,
    },
    /// A name of the top level that is kept for the hub.
    #[error(
        "{name:?} cannot be set: names that start with \"$\" are the hub's, and only \"$version\" has a meaning here"
    )]
    ReservedName {
        /// The name.
        name: String,
    },
    /// [`Limits::name_bytes`].
    #[error("a name in {at} has {bytes} bytes; the limit is {limit}")]
    NameTooLong {
        /// The object that it stands in.
        at: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// [`Limits::depth`].
    #[error("{at} is nested deeper than {limit} levels")]
    TooDeep {
        /// The first value that is.
        at: String,
        /// The limit.
        limit: usize,
    },
    /// [`Limits::leaves`].
    #[error("the state would have {leaves} values; the limit is {limit}")]
    TooManyLeaves {
        /// How many it would have.
        leaves: usize,
        /// The limit.
        limit: usize,
    },
    /// [`Limits::bytes`], of the patch or of what would come of it.
    #[error("{what} {bytes} bytes of JSON; the limit is {limit}")]
    TooLarge {
        /// The patch or the state.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

impl PatchError {
    /// The status to answer with: 413 for what is too large, else 400.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            PatchError::TooLarge { .. } | PatchError::TooManyLeaves { .. } => 413,
            _ => 400,
        }
    }
}

/// A merge patch that was read and is within the limits on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    members: Map<String, Value>,
    based_on: Option<u64>,
}

impl Patch {
    /// Reads a patch: a JSON object, with an optional `$version` that says which version it is based on.
    ///
    /// # Errors
    /// See [`PatchError`].
    pub fn parse(json: &[u8], limits: &Limits) -> Result<Self, PatchError> {
        if json.len() > limits.bytes {
            return Err(PatchError::TooLarge {
                what: "the patch has",
                bytes: json.len(),
                limit: limits.bytes,
            });
        }
        let value = serde_json::from_slice(json).map_err(|e| PatchError::NotJson { reason: e.to_string() })?;
        let mut members = match value {
            Value::Object(members) => members,
            other => return Err(PatchError::NotAnObject { found: kind(&other) }),
        };
        let based_on = members.remove(VERSION).as_ref().map(version).transpose()?;
        if let Some(name) = members.keys().find(|name| name.starts_with('$')) {
            return Err(PatchError::ReservedName { name: name.clone() });
        }
        check_names_and_depth(&members, "the patch", 1, limits)?;
        Ok(Patch { members, based_on })
    }

    /// The version that the patch says it is based on.
    #[must_use]
    pub fn based_on(&self) -> Option<u64> {
        self.based_on
    }
}

impl Document {
    /// Applies a patch as one edit of `side`; true if that changed anything. A patch that changes nothing is no edit
    /// and leaves the version as it is.
    ///
    /// # Errors
    /// `TooLarge` or `TooManyLeaves`: the state would be; it stays as it was.
    pub fn apply(&mut self, patch: &Patch, side: Side, limits: &Limits) -> Result<bool, PatchError> {
        let stamp = self.seen.next(side);
        let mut edit = Edit {
            document: self.clone(),
            stamp,
            changed: false,
        };
        edit.merge_members("", &patch.members);
        if !edit.changed {
            return Ok(false);
        }
        let mut document = edit.document;
        document.seen.add(stamp);
        document.check_size(limits)?;
        document.bound_removed();
        *self = document;
        Ok(true)
    }

    fn check_size(&self, limits: &Limits) -> Result<(), PatchError> {
        let leaves = self.live().count();
        if leaves > limits.leaves {
            return Err(PatchError::TooManyLeaves {
                leaves,
                limit: limits.leaves,
            });
        }
        let bytes = Value::Object(self.to_json()).to_string().len();
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
struct Edit {
    document: Document,
    stamp: Stamp,
    changed: bool,
}

impl Edit {
    /// The function MergePatch of RFC 7396, section 2, where both sides are objects.
    fn merge_members(&mut self, at: &str, members: &Map<String, Value>) {
        for (name, value) in members {
            let mut pointer = at.to_owned();
            push_name(&mut pointer, name);
            match value {
                Value::Null => self.remove(&pointer),
                Value::Object(inner) => self.merge_object(&pointer, inner),
                scalar => self.set(&pointer, scalar.clone()),
            }
        }
    }

    fn merge_object(&mut self, at: &str, members: &Map<String, Value>) {
        let was_object = self.document.live_below(at) || self.is(at, &Value::Object(Map::new()));
        if !was_object {
            self.set(at, Value::Object(Map::new()));
        }
        self.merge_members(at, members);
        self.settle_empty(at);
    }

    /// An object is a leaf exactly while it has no members. That leaf needs no trace once it has: members outweigh it
    /// in every merge.
    fn settle_empty(&mut self, at: &str) {
        let filled = self.document.live_below(at);
        let marked = self.is(at, &Value::Object(Map::new()));
        match (filled, marked) {
            (true, true) => drop(self.document.leaves.remove(at)),
            (false, false) => self.put(at, Some(Value::Object(Map::new()))),
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
        for (_, leaf) in leaves.filter(|(_, leaf)| leaf.value.is_some()) {
            *leaf = Leaf {
                value: None,
                stamp: self.stamp,
            };
            self.changed = true;
        }
    }

    fn put(&mut self, at: &str, value: Option<Value>) {
        self.document.leaves.insert(
            at.to_owned(),
            Leaf {
                value,
                stamp: self.stamp,
            },
        );
        self.changed = true;
    }

    fn is(&self, at: &str, value: &Value) -> bool {
        self.document
            .leaves
            .get(at)
            .is_some_and(|leaf| leaf.value.as_ref() == Some(value))
    }
}

fn version(value: &Value) -> Result<u64, PatchError> {
    value.as_u64().ok_or_else(|| PatchError::BadVersion {
        found: value.to_string(),
    })
}

fn check_names_and_depth(
    members: &Map<String, Value>,
    at: &str,
    depth: usize,
    limits: &Limits,
) -> Result<(), PatchError> {
    for (name, value) in members {
        if name.len() > limits.name_bytes {
            let limit = limits.name_bytes;
            return Err(PatchError::NameTooLong {
                at: at.to_owned(),
                bytes: name.len(),
                limit,
            });
        }
        check_value(value, name, depth, limits)?;
    }
    Ok(())
}

fn check_value(value: &Value, name: &str, depth: usize, limits: &Limits) -> Result<(), PatchError> {
    let nested = matches!(value, Value::Object(_) | Value::Array(_));
    if nested && depth >= limits.depth {
        return Err(PatchError::TooDeep {
            at: format!("{name:?}"),
            limit: limits.depth,
        });
    }
    match value {
        Value::Object(inner) => check_names_and_depth(inner, &format!("{name:?}"), depth + 1, limits),
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| check_value(item, name, depth + 1, limits)),
        _ => Ok(()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
