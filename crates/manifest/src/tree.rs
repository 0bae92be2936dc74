//! A resource as ordered fields: what is written as YAML and compared field by field.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::load::load_json;
use crate::node::{Content, Kind, Node, plain_kind};

/// A value with its fields in the order in which a person would write them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Text(String),
    /// A number, a boolean or null, in JSON's form, which is YAML's too.
    Plain(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// Of a type whose fields stand in the order in which a person would write them.
    pub(crate) fn of<T: Serialize>(value: &T) -> Tree {
        let json = serde_json::to_string(value).expect("types of manifests are JSON");
        Tree::from_node(&load_json(&json))
    }

    fn from_node(node: &Node) -> Tree {
        match &node.content {
            Content::List(items) => Tree::List(items.iter().map(Tree::from_node).collect()),
            Content::Map(entries) => {
                let field = entries
                    .iter()
                    .map(|entry| (entry.name.clone(), Tree::from_node(&entry.node)));
                Tree::Map(field.collect())
            }
            Content::Scalar(scalar) => match scalar.kind() {
                Kind::Str(text) => Tree::Text(text.to_owned()),
                _ => Tree::Plain(scalar.text.clone()),
            },
        }
    }

    pub(crate) fn from_members(members: &Map<String, Value>) -> Tree {
        Tree::Map(
            members
                .iter()
                .map(|(name, value)| (name.clone(), Tree::from_json(value)))
                .collect(),
        )
    }

    fn from_json(value: &Value) -> Tree {
        match value {
            Value::String(text) => Tree::Text(text.clone()),
            Value::Array(items) => Tree::List(items.iter().map(Tree::from_json).collect()),
            Value::Object(members) => Tree::from_members(members),
            plain => Tree::Plain(plain.to_string()),
        }
    }

    pub(crate) fn to_yaml(&self) -> String {
        let mut out = String::new();
        self.write_block(&mut out, 0);
        out
    }

    /// The leaves by their paths; a scalar in the form in which a change of it is shown.
    pub(crate) fn leaves(&self) -> BTreeMap<String, String> {
        let mut leaves = BTreeMap::new();
        self.collect(String::new(), &mut leaves);
        leaves
    }

    fn collect(&self, path: String, leaves: &mut BTreeMap<String, String>) {
        match self {
            Tree::List(items) if !items.is_empty() => {
                for (i, item) in items.iter().enumerate() {
                    item.collect(format!("{path}[{i}]"), leaves);
                }
            }
            Tree::Map(fields) if !fields.is_empty() => {
                for (name, field) in fields {
                    field.collect(join(&path, name), leaves);
                }
            }
            _ => drop(leaves.insert(path, self.inline())),
        }
    }

    /// Fields and items that are neither scalar nor empty, each in lines of their own.
    fn write_block(&self, out: &mut String, indent: usize) {
        match self {
            Tree::Map(fields) => {
                for (name, field) in fields {
                    pad(out, indent);
                    out.push_str(&scalar(name));
                    out.push(':');
                    field.write_value(out, indent);
                }
            }
            Tree::List(items) => {
                for item in items {
                    pad(out, indent);
                    out.push('-');
                    item.write_value(out, indent);
                }
            }
            Tree::Text(_) | Tree::Plain(_) => {}
        }
    }

    fn write_value(&self, out: &mut String, indent: usize) {
        match self {
            Tree::Map(fields) if !fields.is_empty() => {
                out.push('\n');
                self.write_block(out, indent + 2);
            }
            Tree::List(items) if !items.is_empty() => {
                out.push('\n');
                self.write_block(out, indent + 2);
            }
            Tree::Text(text) => out.push_str(&format!(" {}\n", scalar(text))),
            _ => out.push_str(&format!(" {}\n", self.inline())),
        }
    }

    fn inline(&self) -> String {
        match self {
            Tree::Text(text) => quoted(text),
            Tree::Plain(plain) => plain.clone(),
            Tree::List(_) => "[]".to_owned(),
            Tree::Map(_) => "{}".to_owned(),
        }
    }
}

/// The path of a field below another; names that are not words stand in brackets.
pub(crate) fn join(path: &str, name: &str) -> String {
    let word = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (path.is_empty(), word) {
        (_, false) => format!("{path}[{}]", quoted(name)),
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Without quotes where no reader of YAML, old or new, could take it for anything but this string.
fn scalar(text: &str) -> String {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let inside = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./+{} <>()".contains(c));
    let yaml_1_1_boolean = matches!(
        text.to_ascii_lowercase().as_str(),
        "yes" | "no" | "on" | "off" | "y" | "n"
    );
    let word = matches!(plain_kind(text), Kind::Str(_)) && !yaml_1_1_boolean;
    if first && inside && word && !text.ends_with(' ') {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// JSON's string is YAML's double-quoted one.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
