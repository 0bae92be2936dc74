//! From trees to resources, every mistake at its place.

mod device;
mod fields;
mod route;
mod workload;

use crate::document::Document;
use crate::error::Errors;
use crate::hints::list;
use crate::load::load;
use crate::names::{nearest, wrong_with_name};
use crate::node::{Content, Entry, Node};
use crate::resource::{API_VERSION, DEFAULT_TENANT, KINDS, Resource};

use fields::{Fields, Reader};

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
    errors.0.dedup();
    if errors.0.is_empty() {
        Ok(documents)
    } else {
        Err(errors)
    }
}

impl Reader<'_> {
    fn document(&mut self, node: &Node) -> Option<Document> {
        let resource = self.resource(node)?;
        Some(Document::new(resource, self.file, node))
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
        if !matches!(kind, "Device" | "Route") {
            return self.workload(kind, node);
        }
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
                format!("missing; a document begins with both, such as apiVersion: {API_VERSION} and kind: Route"),
            );
            return None;
        };
        match KINDS.into_iter().find(|(_, known)| *known == kind) {
            Some((right, known)) if right == version => Some(known),
            Some((right, known)) => {
                let message = format!("a {known} is of {right:?}, not of {version:?}");
                self.wrong(version_line, "apiVersion", message);
                None
            }
            None => {
                self.wrong(kind_line, "kind", unknown_kind(kind));
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

    fn duplicates(&mut self, documents: &[Document]) {
        for (i, document) in documents.iter().enumerate() {
            let same = documents[..i]
                .iter()
                .find(|earlier| earlier.resource.same_as(&document.resource));
            if let Some(earlier) = same {
                let message = format!(
                    "{} stands in line {} already",
                    document.resource.title(),
                    earlier.line()
                );
                let error = document.error("metadata.name", 0, message);
                self.errors.push(error);
            }
        }
    }
}

const SPEC_HELP: [&str; 2] = [
    "what the device is like, such as spec: {labels: {kind: pump}}",
    "what the route does: from, to and perhaps when",
];

fn unknown_kind(kind: &str) -> String {
    let kinds = KINDS.map(|(_, kind)| kind);
    match nearest(kind, kinds) {
        Some(meant) => format!("unknown kind {kind:?}; did you mean {meant:?}?"),
        None => format!("unknown kind {kind:?}; there are {}", list(&kinds, "and")),
    }
}
