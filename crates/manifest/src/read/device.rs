//! `kind: Device`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::Reader;
use crate::names::{wrong_with_label, wrong_with_value};
use crate::node::{Content, Entry, Kind, Node, Scalar};
use crate::resource::Device;
use crate::tree::join;

impl Reader<'_> {
    pub(super) fn device(&mut self, spec: &Node, identity: Option<(String, String)>) -> Option<Device> {
        let fields = self.fields(spec, "spec", "the spec of a Device", &["labels", "desired"])?;
        let labels = match fields.get("labels") {
            Some(node) => self.labels(node),
            None => Some(BTreeMap::new()),
        };
        let desired = match fields.get("desired") {
            Some(node) => self.object(node, "spec.desired").map(Some),
            None => Some(None),
        };
        let (tenant, name) = identity?;
        Some(Device {
            tenant,
            name,
            labels: labels?,
            desired: desired?,
        })
    }

    fn labels(&mut self, node: &Node) -> Option<BTreeMap<String, String>> {
        let entries = self.entries(node, "spec.labels")?;
        let labels: Vec<_> = entries.iter().map(|entry| self.label(entry)).collect();
        labels.into_iter().collect()
    }

    fn label(&mut self, entry: &Entry) -> Option<(String, String)> {
        let path = join("spec.labels", &entry.name);
        let value = self.text(&entry.node, &path)?;
        let wrong = wrong_with_label(&entry.name).or_else(|| wrong_with_value(&value));
        match wrong {
            None => Some((entry.name.clone(), value)),
            Some(wrong) => {
                self.wrong(entry.line, &path, wrong);
                None
            }
        }
    }

    fn object(&mut self, node: &Node, path: &str) -> Option<Map<String, Value>> {
        let entries = self.entries(node, path)?;
        let members = entries.iter().map(|entry| {
            let value = self.json(&entry.node, &join(path, &entry.name))?;
            Some((entry.name.clone(), value))
        });
        members.collect()
    }

    fn json(&mut self, node: &Node, path: &str) -> Option<Value> {
        match &node.content {
            Content::Map(_) => self.object(node, path).map(Value::Object),
            Content::List(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| self.json(item, &format!("{path}[{i}]")));
                items.collect::<Option<Vec<_>>>().map(Value::Array)
            }
            Content::Scalar(scalar) => Some(json_scalar(scalar)),
        }
    }
}

fn json_scalar(scalar: &Scalar) -> Value {
    match scalar.kind() {
        Kind::Null => Value::Null,
        Kind::Bool(b) => b.into(),
        Kind::Int(i) => i.into(),
        Kind::Float(f) => f.into(),
        Kind::Str(text) => text.into(),
    }
}
