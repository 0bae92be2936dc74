//! JSON merge patches (RFC 7396) as they come, bounded on their own, and why one is refused.

use serde_json::{Map, Value};

use crate::document::VERSION;
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
    pub(crate) members: Map<String, Value>,
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
