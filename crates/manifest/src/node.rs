//! YAML as a tree whose nodes know their lines.

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A member of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) node: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// How a scalar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes: its text decides whether it is a string.
    Plain,
    Quoted,
    /// `|` or `>`: in lines of its own.
    Block,
}

/// What a scalar is by the core schema of YAML 1.2, section 10.3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(&'a str),
}

impl Scalar {
    pub(crate) fn kind(&self) -> Kind<'_> {
        match self.style {
            Style::Plain => plain_kind(&self.text),
            Style::Quoted | Style::Block => Kind::Str(&self.text),
        }
    }
}

/// What an unquoted text is.
pub(crate) fn plain_kind(text: &str) -> Kind<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ => integer(text)
            .map(Kind::Int)
            .or_else(|| float(text).map(Kind::Float))
            .unwrap_or(Kind::Str(text)),
    }
}

fn integer(text: &str) -> Option<i64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok().filter(|n| *n >= 0);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return i64::from_str_radix(octal, 8).ok().filter(|n| *n >= 0);
    }
    // As YAML 1.1 has it, and so kubectl: rights of files are written like that.
    if let Some(octal) = text
        .strip_prefix('0')
        .filter(|octal| octal.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return i64::from_str_radix(octal, 8).ok().or_else(|| text.parse().ok());
    }
    text.parse().ok()
}

/// Rust also reads `inf`, `nan` and `infinity`, which are strings in YAML.
fn float(text: &str) -> Option<f64> {
    let numeric = text.bytes().any(|b| b.is_ascii_digit());
    let allowed = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    if numeric && allowed {
        text.parse().ok().filter(|f: &f64| f.is_finite())
    } else {
        None
    }
}

impl Node {
    /// What it is, for an error message.
    pub(crate) fn describe(&self) -> String {
        match &self.content {
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
            Content::Scalar(scalar) => match scalar.kind() {
                Kind::Null => "nothing".to_owned(),
                Kind::Bool(b) => format!("the boolean {b}"),
                Kind::Int(_) | Kind::Float(_) => format!("the number {}", scalar.text),
                Kind::Str(text) => format!("the string {text:?}"),
            },
        }
    }
}
