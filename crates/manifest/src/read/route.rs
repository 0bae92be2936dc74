//! `kind: Route`.

use super::fields::{Fields, Reader};
use crate::node::{Content, Node};
use crate::quantity;
use crate::resource::{Priority, Route, Target, Upstream, WhenFull};
use crate::tree::join;

impl Reader<'_> {
    pub(super) fn route(&mut self, spec: &Node, identity: Option<(String, String)>) -> Option<Route> {
        let fields = self.fields(spec, "spec", "the spec of a Route", &["from", "when", "to"])?;
        let from = self.required_text(&fields, "from", "a topic filter such as devices/+/telemetry");
        let when = match fields.get("when") {
            Some(node) => self.text(node, "spec.when").map(Some),
            None => Some(None),
        };
        let to = self.required(
            &fields,
            "to",
            "a list of targets, such as - topic: apps/dashboard/{device}",
        );
        let to = to.and_then(|node| self.targets(node));
        let (tenant, name) = identity?;
        Some(Route {
            tenant,
            name,
            from: from?,
            when: when?,
            to: to?,
        })
    }

    fn targets(&mut self, node: &Node) -> Option<Vec<Target>> {
        let Content::List(items) = &node.content else {
            let message = format!(
                "expected a list of targets, found {}; put \"- \" before each",
                node.describe()
            );
            self.wrong(node.line, "spec.to", message);
            return None;
        };
        if items.is_empty() {
            self.wrong(node.line, "spec.to", "is empty; a route has at least one target");
            return None;
        }
        let targets: Vec<_> = items
            .iter()
            .enumerate()
            .map(|(i, item)| self.target(item, &format!("spec.to[{i}]")))
            .collect();
        targets.into_iter().collect()
    }

    fn target(&mut self, node: &Node, path: &str) -> Option<Target> {
        let fields = self.fields(node, path, "a target", &["topic", "method", "upstream"])?;
        let [entry] = fields.entries.as_slice() else {
            let message = "has to be exactly one of topic, method and upstream; put \"- \" before each target";
            self.wrong(node.line, path, message);
            return None;
        };
        let inner = join(path, &entry.name);
        match entry.name.as_str() {
            "topic" => self.text(&entry.node, &inner).map(Target::Topic),
            "method" => self.method(&entry.node, &inner),
            _ => self.upstream(&entry.node, &inner),
        }
    }

    fn method(&mut self, node: &Node, path: &str) -> Option<Target> {
        let fields = self.fields(node, path, "a method target", &["device", "name", "payload"])?;
        let device = self.required_text(
            &fields,
            "device",
            "the device to call; \"{device}\" is the one of the message",
        );
        let name = self.required_text(&fields, "name", "the method to call");
        let payload = match fields.get("payload") {
            Some(node) => self.text(node, &fields.path_of("payload")).map(Some),
            None => Some(None),
        };
        Some(Target::Method {
            device: device?,
            name: name?,
            payload: payload?,
        })
    }

    fn upstream(&mut self, node: &Node, path: &str) -> Option<Target> {
        let known = ["priority", "limit", "full", "expiry"];
        let fields = self.fields(node, path, "an upstream target", &known)?;
        let priority = self.optional(&fields, "priority", |text| {
            let found = Priority::ALL.into_iter().find(|priority| priority.as_str() == text);
            found.ok_or_else(|| format!("unknown priority {text:?}; it is high or normal"))
        });
        let limit_bytes = self.optional(&fields, "limit", quantity::bytes);
        let full = self.optional(&fields, "full", |text| {
            let names = [text, &format!("drop-{text}")];
            let found = WhenFull::ALL.into_iter().find(|full| names.contains(&full.as_str()));
            found.ok_or_else(|| format!("unknown policy {text:?}; it is drop-oldest, drop-newest or refuse"))
        });
        let expiry_s = self.optional(&fields, "expiry", quantity::seconds);
        Some(Target::Upstream(Upstream {
            priority: priority?.unwrap_or_default(),
            limit_bytes: limit_bytes?,
            full: full?.unwrap_or_default(),
            expiry_s: expiry_s?,
        }))
    }

    /// A field that may be left out, as `parse` understands its text; the outer `None`: it was wrong.
    fn optional<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        let Some(node) = fields.get(name) else {
            return Some(None);
        };
        let path = fields.path_of(name);
        let text = self.text(node, &path)?;
        match parse(&text) {
            Ok(value) => Some(Some(value)),
            Err(message) => {
                self.wrong(node.line, &path, message);
                None
            }
        }
    }
}
