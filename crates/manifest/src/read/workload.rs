//! Kinds that Kubernetes knows, too.

use serde::de::DeserializeOwned;

use super::fields::Reader;
use crate::document::Document;
use crate::node::{Content, Node};
use crate::resource::Resource;
use crate::typed;
use crate::workload::checks::{self, Mistakes};

impl Reader<'_> {
    /// A document of one of these kinds.
    pub(super) fn workload(&mut self, kind: &str, node: &Node) -> Option<Resource> {
        self.entries(node, "")?;
        let node = &without_kind(node);
        match kind {
            "Deployment" => self.checked(node, Resource::Deployment, |deployment| checks::deployment(deployment)),
            "Service" => self.checked(node, Resource::Service, checks::service),
            "ConfigMap" => self.checked(node, Resource::ConfigMap, checks::config_map),
            _ => self.checked(node, Resource::Secret, checks::secret),
        }
    }

    fn checked<T: DeserializeOwned>(
        &mut self,
        node: &Node,
        resource: impl FnOnce(T) -> Resource,
        check: impl FnOnce(&T) -> Mistakes,
    ) -> Option<Resource> {
        let read = match typed::read::<T>(self.file, node) {
            Ok(read) => read,
            Err(errors) => {
                errors.into_iter().for_each(|error| self.errors.push(error));
                return None;
            }
        };
        let mistakes = check(&read);
        let document = Document::new(resource(read), self.file, node);
        for (path, message) in &mistakes {
            self.errors.push(document.error(path, 0, message.clone()));
        }
        mistakes.is_empty().then_some(document.resource)
    }
}

/// What has been looked at already is no field of the type.
fn without_kind(node: &Node) -> Node {
    let Content::Map(entries) = &node.content else {
        return node.clone();
    };
    let is_other = |name: &str| !matches!(name, "apiVersion" | "kind");
    Node {
        line: node.line,
        content: Content::Map(entries.iter().filter(|entry| is_other(&entry.name)).cloned().collect()),
    }
}
