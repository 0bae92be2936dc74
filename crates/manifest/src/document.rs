//! One resource of a file, and where its fields stand.

use std::collections::BTreeMap;

use crate::error::{Error, Errors};
use crate::load::MAX_FILE_BYTES;
use crate::node::{Content, Node, Style};
use crate::read::parse;
use crate::resource::Resource;
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

impl Document {
    pub(crate) fn new(resource: Resource, file: &str, node: &Node) -> Self {
        let mut places = BTreeMap::new();
        collect_places(node, String::new(), &mut places);
        Document {
            resource,
            file: file.to_owned(),
            line: node.line,
            places,
        }
    }

    /// The line that it begins in.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

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

/// A document of a file by itself: what is needed to read it elsewhere, with errors that name its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The file, as whoever read it named it.
    pub file: String,
    /// The line that it begins in, from 1 on.
    pub line: usize,
    /// Its lines.
    pub text: String,
}

impl Excerpt {
    /// Each document of a file that was read, as it stands there; one that does not end where a line does, as its
    /// resource is written.
    #[must_use]
    pub fn of(documents: &[Document], text: &str) -> Vec<Self> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let ends = documents
            .iter()
            .skip(1)
            .map(|next| next.line.saturating_sub(1))
            .chain([lines.len()]);
        let excerpts = documents.iter().zip(ends).map(|(document, end)| {
            let begin = document.line.saturating_sub(1);
            let written = Excerpt {
                file: document.file.clone(),
                line: document.line,
                text: lines.get(begin..end).unwrap_or_default().concat(),
            };
            match written.read() {
                Ok(read) if read.resource == document.resource => written,
                _ => Excerpt {
                    text: document.resource.to_yaml(),
                    line: 1,
                    ..written
                },
            }
        });
        excerpts.collect()
    }

    /// The document, its lines counted as in its file.
    ///
    /// # Errors
    /// All mistakes in it; that it is not exactly one document is one.
    pub fn read(&self) -> Result<Document, Errors> {
        // Lines beyond any file are those of no file.
        let before = self.line.saturating_sub(1).min(MAX_FILE_BYTES);
        let documents = parse(&self.file, &("\n".repeat(before) + &self.text))?;
        let [document] = <[Document; 1]>::try_from(documents).map_err(|documents| {
            Errors(vec![Error {
                file: self.file.clone(),
                line: self.line,
                path: String::new(),
                message: format!("{} manifests where one was expected", documents.len()),
            }])
        })?;
        Ok(document)
    }
}

impl Place {
    fn line_at(&self, offset: usize) -> usize {
        let Some(block) = &self.block else { return self.line };
        let before = &block.as_bytes()[..offset.min(block.len())];
        self.line + before.iter().filter(|b| **b == b'\n').count()
    }
}

fn collect_places(node: &Node, path: String, places: &mut BTreeMap<String, Place>) {
    let mut block = None;
    match &node.content {
        Content::Map(entries) => {
            for entry in entries {
                let inner = join(&path, &entry.name);
                // Who names a field without looking at the file writes names such as selvedge.dev/x plainly.
                let plain = format!("{path}.{}", entry.name);
                if plain != inner {
                    let (line, block) = (entry.node.line, None);
                    places.entry(plain).or_insert(Place { line, block });
                }
                collect_places(&entry.node, inner, places);
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
