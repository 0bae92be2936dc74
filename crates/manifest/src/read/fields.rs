//! The fields of a mapping: known ones only, each once, of the right type.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Errors};
use crate::hints::list;
use crate::names::nearest;
use crate::node::{Content, Entry, Kind, Node};
use crate::tree::join;

/// Reads on after a mistake, so that all of them are found at once.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) errors: Errors,
}

/// A mapping whose names are known, without duplicates.
pub(super) struct Fields<'n> {
    pub(super) line: usize,
    pub(super) path: String,
    pub(super) entries: Vec<&'n Entry>,
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .map(|entry| &entry.node)
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, line: usize, path: &str, message: impl Into<String>) {
        let error = Error {
            file: self.file.to_owned(),
            line,
            path: path.to_owned(),
            message: message.into(),
        };
        self.errors.push(error);
    }

    /// The members of a mapping, each name at most once.
    pub(super) fn entries<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n [Entry]> {
        let Content::Map(entries) = &node.content else {
            self.wrong(
                node.line,
                path,
                format!("expected a mapping, found {}", node.describe()),
            );
            return None;
        };
        let mut first_lines = BTreeMap::new();
        for entry in entries {
            if let Some(first) = first_lines.insert(&entry.name, entry.line) {
                self.wrong(
                    entry.line,
                    &join(path, &entry.name),
                    format!("given twice, first in line {first}"),
                );
            }
        }
        Some(entries)
    }

    /// The members of a mapping of known names; `what` it is, in words.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, path: &str, what: &str, known: &[&str]) -> Option<Fields<'n>> {
        let entries = self.entries(node, path)?;
        for entry in entries.iter().filter(|entry| !known.contains(&entry.name.as_str())) {
            self.wrong(
                entry.line,
                &join(path, &entry.name),
                unknown_field(path, &entry.name, what, known),
            );
        }
        let entries = entries
            .iter()
            .filter(|entry| known.contains(&entry.name.as_str()))
            .collect();
        Some(Fields {
            line: node.line,
            path: path.to_owned(),
            entries,
        })
    }

    pub(super) fn required<'n>(&mut self, fields: &Fields<'n>, name: &str, help: &str) -> Option<&'n Node> {
        let found = fields.get(name);
        if found.is_none() {
            self.wrong(fields.line, &fields.path_of(name), format!("missing; {help}"));
        }
        found
    }

    pub(super) fn required_text(&mut self, fields: &Fields<'_>, name: &str, help: &str) -> Option<String> {
        let node = self.required(fields, name, help)?;
        self.text(node, &fields.path_of(name))
    }

    pub(super) fn text(&mut self, node: &Node, path: &str) -> Option<String> {
        if let Content::Scalar(scalar) = &node.content {
            if let Kind::Str(text) = scalar.kind() {
                return Some(text.to_owned());
            }
            if !scalar.text.is_empty() {
                let quoted = Value::from(scalar.text.as_str());
                self.wrong(
                    node.line,
                    path,
                    format!("expected a string, found {}; write {quoted}", node.describe()),
                );
                return None;
            }
        }
        let braces = if matches!(node.content, Content::Map(_)) {
            "; a text with braces stands in quotes"
        } else {
            ""
        };
        self.wrong(
            node.line,
            path,
            format!("expected a string, found {}{braces}", node.describe()),
        );
        None
    }
}

/// What to do about a field that there is not; some are often looked for in the wrong place.
fn unknown_field(path: &str, name: &str, what: &str, known: &[&str]) -> String {
    match (path, name) {
        ("metadata", "tenant") => return "unknown field; a tenant is written as metadata.namespace".to_owned(),
        ("metadata", "labels") => return "unknown field; the labels of a device are spec.labels".to_owned(),
        ("spec", "password" | "token" | "credentials" | "certificate") => {
            return "credentials are not kept in manifests; see selvedge device add".to_owned();
        }
        _ => {}
    }
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("unknown field; did you mean {meant:?}?"),
        None => format!("unknown field; {what} has {}", list(known, "and")),
    }
}
