//! What applying a set of resources changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use crate::resource::Resource;

/// One change to what is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `+ Route/water-alarm`.
    Add {
        /// [`Resource::title`].
        title: String,
    },
    /// `~ Device/pump-7 spec.labels.kind: "fan" → "pump"`, a line a field.
    Modify {
        /// [`Resource::title`].
        title: String,
        /// Path, value before, value after; `None` where there is none.
        fields: Vec<(String, Option<String>, Option<String>)>,
    },
    /// `- Route/water-alarm`.
    Remove {
        /// [`Resource::title`].
        title: String,
    },
}

/// What turns `before` into `after`; empty if they are equal. An `apply` that leaves other resources alone passes only
/// those of `before` that are in `after` too.
#[must_use]
pub fn diff(before: &[Resource], after: &[Resource]) -> Vec<Change> {
    let before: BTreeMap<_, _> = before.iter().map(|resource| (resource.key(), resource)).collect();
    let after: BTreeMap<_, _> = after.iter().map(|resource| (resource.key(), resource)).collect();
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .filter_map(|key| change(before.get(key).copied(), after.get(key).copied()))
        .collect()
}

fn change(before: Option<&Resource>, after: Option<&Resource>) -> Option<Change> {
    match (before, after) {
        (Some(before), Some(after)) if before == after => None,
        (Some(before), Some(after)) => Some(Change::Modify {
            title: after.title(),
            fields: fields(before, after),
        }),
        (None, Some(after)) => Some(Change::Add { title: after.title() }),
        (Some(before), None) => Some(Change::Remove { title: before.title() }),
        (None, None) => None,
    }
}

fn fields(before: &Resource, after: &Resource) -> Vec<(String, Option<String>, Option<String>)> {
    let is_secret = matches!(after, Resource::Secret(_));
    let (before, after) = (before.tree().leaves(), after.tree().leaves());
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    let is_secret = |path: &str| is_secret && (path.starts_with("data") || path.starts_with("stringData"));
    changed
        .map(|path| {
            let shown = |value: Option<&String>| match value {
                Some(_) if is_secret(path) => Some("(hidden)".to_owned()),
                value => value.cloned(),
            };
            (path.clone(), shown(before.get(path)), shown(after.get(path)))
        })
        .collect()
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Add { title } => write!(f, "+ {title}"),
            Change::Remove { title } => write!(f, "- {title}"),
            Change::Modify { title, fields } => {
                for (i, (path, before, after)) in fields.iter().enumerate() {
                    let (before, after) = (shown(before.as_deref()), shown(after.as_deref()));
                    let end = if i + 1 < fields.len() { "\n" } else { "" };
                    write!(f, "~ {title} {path}: {before} → {after}{end}")?;
                }
                Ok(())
            }
        }
    }
}

fn shown(value: Option<&str>) -> &str {
    value.unwrap_or("(none)")
}
