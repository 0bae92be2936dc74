//! From text to trees: YAML 1.2 without anchors, aliases and tags, within bounds.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::error::Error;
use crate::node::{Content, Entry, Node, Scalar, Style};

/// Largest file in bytes.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Most values in a file.
pub const MAX_NODES: usize = 50_000;
/// Deepest nesting.
pub const MAX_DEPTH: usize = 32;

/// The documents of a file; empty ones are left out.
pub(crate) fn load(file: &str, text: &str) -> Result<Vec<Node>, Error> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!("has {} bytes; a manifest has at most {MAX_FILE_BYTES}", text.len());
        return Err(Error {
            file: file.to_owned(),
            line: 0,
            path: String::new(),
            message,
        });
    }
    documents(text, MAX_NODES).map_err(|(line, message)| Error {
        file: file.to_owned(),
        line,
        path: String::new(),
        message,
    })
}

/// A value from its JSON, which is YAML too, with its fields in their order.
pub(crate) fn load_json(json: &str) -> Node {
    let values = documents(json, usize::MAX).expect("JSON is YAML");
    values.into_iter().next().expect("a value of JSON is not empty")
}

fn documents(text: &str, nodes_max: usize) -> Result<Vec<Node>, Mistake> {
    // A mistake at the end is found after the last line break.
    let last_line = text.lines().count().max(1);
    let mut loader = Loader {
        open: Vec::new(),
        documents: Vec::new(),
        nodes: 0,
        nodes_max,
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| (e.marker().line().min(last_line), format!("not YAML: {}", e.info())))?;
        loader.take(event, span)?;
    }
    Ok(loader.documents)
}

/// A line, and what is wrong there.
type Mistake = (usize, String);
type Step = Result<(), Mistake>;

struct Loader {
    open: Vec<Open>,
    documents: Vec<Node>,
    nodes: usize,
    nodes_max: usize,
}

/// A list or mapping whose end has not come.
struct Open {
    line: usize,
    content: Content,
    /// In a mapping, the name whose value comes next.
    name: Option<(String, usize)>,
}

impl Loader {
    fn take(&mut self, event: Event<'_>, span: Span) -> Step {
        let line = span.start.line();
        match event {
            Event::Alias(_) => Err((line, NO_ANCHORS.to_owned())),
            Event::Scalar(_, _, anchor, tag) if anchor > 0 || tag.is_some() => Err((line, no(anchor))),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) if anchor > 0 || tag.is_some() => {
                Err((line, no(anchor)))
            }
            Event::Scalar(text, style, ..) => {
                let scalar = Scalar {
                    text: text.into_owned(),
                    style: style_of(style),
                };
                self.scalar(line, scalar)
            }
            Event::SequenceStart(..) => self.open(line, Content::List(Vec::new())),
            Event::MappingStart(..) => self.open(line, Content::Map(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop().expect("the parser balances its events");
                self.put(Node {
                    line: open.line,
                    content: open.content,
                })
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, line: usize, content: Content) -> Step {
        if self.open.len() == MAX_DEPTH {
            return Err((line, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        if self.awaits_name() {
            return Err((
                line,
                "a field's name is a list or mapping; it has to be a word".to_owned(),
            ));
        }
        self.open.push(Open {
            line,
            content,
            name: None,
        });
        Ok(())
    }

    fn scalar(&mut self, line: usize, scalar: Scalar) -> Step {
        if self.awaits_name() {
            let open = self.open.last_mut().expect("a name stands in a mapping");
            open.name = Some((scalar.text, line));
            return Ok(());
        }
        self.put(Node {
            line,
            content: Content::Scalar(scalar),
        })
    }

    fn awaits_name(&self) -> bool {
        self.open
            .last()
            .is_some_and(|open| matches!(open.content, Content::Map(_)) && open.name.is_none())
    }

    fn put(&mut self, node: Node) -> Step {
        self.nodes += 1;
        if self.nodes > self.nodes_max {
            return Err((node.line, format!("more than {MAX_NODES} values in one file")));
        }
        match self.open.last_mut() {
            None => self.documents.extend(Some(node).filter(|node| !is_empty(node))),
            Some(open) => open.put(node),
        }
        Ok(())
    }
}

impl Open {
    fn put(&mut self, node: Node) {
        match &mut self.content {
            Content::List(items) => items.push(node),
            Content::Map(entries) => {
                let (name, line) = self.name.take().expect("a value follows its name");
                entries.push(Entry { name, line, node });
            }
            Content::Scalar(_) => unreachable!("scalars are not opened"),
        }
    }
}

const NO_ANCHORS: &str = "anchors (&) and aliases (*) are not read here; write the value out";

fn no(anchor: usize) -> String {
    if anchor > 0 {
        NO_ANCHORS.to_owned()
    } else {
        "tags (!) are not read here; leave the tag out".to_owned()
    }
}

fn is_empty(document: &Node) -> bool {
    matches!(&document.content, Content::Scalar(Scalar { text, style: Style::Plain }) if text.is_empty())
}

fn style_of(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}
