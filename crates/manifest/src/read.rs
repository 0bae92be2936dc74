//! From trees to resources, every mistake at its place.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Error, Errors};
use crate::load::load;
use crate::names::{nearest, wrong_with_label, wrong_with_name, wrong_with_value};
use crate::node::{Content, Entry, Kind, Node, Scalar, Style};
use crate::resource::{API_VERSION, DEFAULT_TENANT, Device, Priority, Resource, Route, Target};
use crate::tree::join;

/// One resource of a file, with what is needed to point into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What the document describes.
    pub resource: Resource,
    file: String,
    line: usize,
    places: BTreeMap<String, Place>,
}

/// Where a field's value stands.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    line: usize,
    /// The text of a block scalar (`|`), whose lines are the file's.
    block: Option<String>,
}

/// Reads a file of one or more documents, separated by `---`; `file` is its name in errors.
///
/// # Errors
/// All mistakes that were found, in the order of the file; nothing of the file should be applied then.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, Errors> {
    let nodes = load(file, text).map_err(|error| Errors(vec![error]))?;
    let mut reader = Reader {
        file,
        errors: Errors::default(),
    };
    let documents: Vec<Document> = nodes.iter().filter_map(|node| reader.document(node)).collect();
    reader.duplicates(&documents);
    let mut errors = reader.errors;
    errors.0.sort_by_key(|error| error.line);
    if errors.0.is_empty() {
        Ok(documents)
    } else {
        Err(errors)
    }
}

impl Document {
    /// A mistake in the field at `path`, such as `spec.when`, found by whoever compiles it; `offset` is where in the
    /// field's text, in bytes. In folded and quoted texts of several lines the line is that of their beginning.
    #[must_use]
    pub fn error(&self, path: &str, offset: usize, message: String) -> Error {
        let line = self
            .nearest_place(path)
            .map_or(self.line, |place| place.line_at(offset));
        Error {
            file: self.file.clone(),
            line,
            path: path.to_owned(),
            message,
        }
    }

    /// The place of the field, or of the innermost one around it that was written.
    fn nearest_place(&self, path: &str) -> Option<&Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return Some(place);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

impl Place {
    fn line_at(&self, offset: usize) -> usize {
        let Some(block) = &self.block else { return self.line };
        let before = &block.as_bytes()[..offset.min(block.len())];
        self.line + before.iter().filter(|b| **b == b'\n').count()
    }
}

struct Reader<'a> {
    file: &'a str,
    errors: Errors,
}

/// A mapping whose names are known, without duplicates.
struct Fields<'n> {
    line: usize,
    path: String,
    entries: Vec<&'n Entry>,
}

impl<'n> Fields<'n> {
    fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .map(|entry| &entry.node)
    }

    fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

impl Reader<'_> {
    fn wrong(&mut self, line: usize, path: &str, message: impl Into<String>) {
        let error = Error {
            file: self.file.to_owned(),
            line,
            path: path.to_owned(),
            message: message.into(),
        };
        self.errors.push(error);
    }

    fn document(&mut self, node: &Node) -> Option<Document> {
        let resource = self.resource(node)?;
        let mut places = BTreeMap::new();
        collect_places(node, String::new(), &mut places);
        Some(Document {
            resource,
            file: self.file.to_owned(),
            line: node.line,
            places,
        })
    }

    fn resource(&mut self, node: &Node) -> Option<Resource> {
        let Content::Map(entries) = &node.content else {
            let message = format!(
                "expected a resource with apiVersion, kind, metadata and spec, found {}",
                node.describe()
            );
            self.wrong(node.line, "", message);
            return None;
        };
        let kind = self.kind(node.line, entries)?;
        let fields = self.fields(
            node,
            "",
            &format!("a {kind}"),
            &["apiVersion", "kind", "metadata", "spec"],
        )?;
        let metadata = self.required(&fields, "metadata", "it has at least a name: metadata: {name: …}");
        let identity = metadata.and_then(|node| self.metadata(node));
        let spec = self.required(&fields, "spec", SPEC_HELP[usize::from(kind == "Route")])?;
        match kind {
            "Device" => self.device(spec, identity).map(Resource::Device),
            _ => self.route(spec, identity).map(Resource::Route),
        }
    }

    /// The kind, if it is one of ours; looked at first, because it says what all else has to be.
    fn kind(&mut self, line: usize, entries: &[Entry]) -> Option<&'static str> {
        let text = |name: &str| {
            let entry = entries.iter().find(|entry| entry.name == name)?;
            match &entry.node.content {
                Content::Scalar(scalar) => Some((entry.line, scalar.text.as_str())),
                _ => None,
            }
        };
        let (Some((version_line, version)), Some((kind_line, kind))) = (text("apiVersion"), text("kind")) else {
            let missing = if text("apiVersion").is_none() {
                "apiVersion"
            } else {
                "kind"
            };
            self.wrong(
                line,
                missing,
                format!("missing; a document begins with apiVersion: {API_VERSION} and kind: {KINDS}"),
            );
            return None;
        };
        if version != API_VERSION && nearest(version, [API_VERSION]).is_some() {
            self.wrong(
                version_line,
                "apiVersion",
                format!("unknown version {version:?}; did you mean {API_VERSION:?}?"),
            );
            return None;
        }
        match KNOWN_KINDS
            .into_iter()
            .find(|known| version == API_VERSION && *known == kind)
        {
            Some(known) => Some(known),
            None => {
                self.wrong(kind_line, "kind", unknown_kind(version, kind));
                None
            }
        }
    }

    fn metadata(&mut self, node: &Node) -> Option<(String, String)> {
        let fields = self.fields(node, "metadata", "metadata", &["name", "namespace"])?;
        let tenant = match fields.get("namespace") {
            Some(_) => self.name(&fields, "namespace", ""),
            None => Some(DEFAULT_TENANT.to_owned()),
        };
        let name = self.name(&fields, "name", "every resource has one");
        Some((tenant?, name?))
    }

    fn name(&mut self, fields: &Fields<'_>, field: &str, help: &str) -> Option<String> {
        let node = self.required(fields, field, help)?;
        let path = fields.path_of(field);
        let name = self.text(node, &path)?;
        match wrong_with_name(&name) {
            None => Some(name),
            Some(wrong) => {
                self.wrong(node.line, &path, wrong);
                None
            }
        }
    }

    fn device(&mut self, spec: &Node, identity: Option<(String, String)>) -> Option<Device> {
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

    fn route(&mut self, spec: &Node, identity: Option<(String, String)>) -> Option<Route> {
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
        let fields = self.fields(node, path, "an upstream target", &["priority"])?;
        let Some(node) = fields.get("priority") else {
            return Some(Target::Upstream {
                priority: Priority::default(),
            });
        };
        let text = self.text(node, &fields.path_of("priority"))?;
        let found = Priority::ALL.into_iter().find(|priority| priority.as_str() == text);
        if found.is_none() {
            self.wrong(
                node.line,
                &fields.path_of("priority"),
                format!("unknown priority {text:?}; it is high or normal"),
            );
        }
        found.map(|priority| Target::Upstream { priority })
    }

    /// The members of a mapping, each name at most once.
    fn entries<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n [Entry]> {
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
    fn fields<'n>(&mut self, node: &'n Node, path: &str, what: &str, known: &[&str]) -> Option<Fields<'n>> {
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

    fn required<'n>(&mut self, fields: &Fields<'n>, name: &str, help: &str) -> Option<&'n Node> {
        let found = fields.get(name);
        if found.is_none() {
            self.wrong(fields.line, &fields.path_of(name), format!("missing; {help}"));
        }
        found
    }

    fn required_text(&mut self, fields: &Fields<'_>, name: &str, help: &str) -> Option<String> {
        let node = self.required(fields, name, help)?;
        self.text(node, &fields.path_of(name))
    }

    fn text(&mut self, node: &Node, path: &str) -> Option<String> {
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

    fn duplicates(&mut self, documents: &[Document]) {
        for (i, document) in documents.iter().enumerate() {
            let same = documents[..i]
                .iter()
                .find(|earlier| earlier.resource.same_as(&document.resource));
            if let Some(earlier) = same {
                let message = format!("{} stands in line {} already", document.resource.title(), earlier.line);
                let error = document.error("metadata.name", 0, message);
                self.errors.push(error);
            }
        }
    }
}

const KINDS: &str = "Device or Route";
const KNOWN_KINDS: [&str; 2] = ["Device", "Route"];
const SPEC_HELP: [&str; 2] = [
    "what the device is like, such as spec: {labels: {kind: pump}}",
    "what the route does: from, to and perhaps when",
];

fn unknown_kind(version: &str, kind: &str) -> String {
    match nearest(kind, KNOWN_KINDS).filter(|_| version == API_VERSION) {
        Some(meant) => format!("unknown kind {kind:?}; did you mean {meant:?}?"),
        None => format!("this version knows Device and Route of {API_VERSION}, not {kind} of {version}"),
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
        None => format!("unknown field; {what} has {}", list(known)),
    }
}

fn list(names: &[&str]) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        names => names.concat(),
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

fn collect_places(node: &Node, path: String, places: &mut BTreeMap<String, Place>) {
    let mut block = None;
    match &node.content {
        Content::Map(entries) => {
            for entry in entries {
                collect_places(&entry.node, join(&path, &entry.name), places);
            }
        }
        Content::List(items) => {
            for (i, item) in items.iter().enumerate() {
                collect_places(item, format!("{path}[{i}]"), places);
            }
        }
        Content::Scalar(scalar) => block = (scalar.style == Style::Block).then(|| scalar.text.clone()),
    }
    places.insert(path, Place { line: node.line, block });
}
