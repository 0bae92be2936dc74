//! Texts with placeholders: `{device}`, `{topic}` and the levels of the topic, `{1}` being the first.

use serde_json::Value;

/// What a text becomes for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(Box<str>),
    Placeholder(Placeholder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    Device,
    Topic,
    /// From 1 on.
    Level(usize),
}

/// Where a placeholder is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateError {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// A placeholder that the message has nothing for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfilled {
    Device,
    Level(usize),
}

/// What placeholders stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) topic: &'a str,
    pub(crate) device: Option<&'a str>,
}

impl<'a> Values<'a> {
    fn get(self, placeholder: Placeholder) -> Result<&'a str, Unfilled> {
        match placeholder {
            Placeholder::Device => self.device.ok_or(Unfilled::Device),
            Placeholder::Topic => Ok(self.topic),
            Placeholder::Level(n) => self.topic.split('/').nth(n - 1).ok_or(Unfilled::Level(n)),
        }
    }
}

impl Template {
    /// A topic, an id or a name: every `{` begins a placeholder.
    pub(crate) fn parse_strict(text: &str) -> Result<Self, TemplateError> {
        Self::parse(text, |inner, offset| {
            Err(TemplateError {
                offset,
                message: unknown(inner),
            })
        })
    }

    /// A payload, which may well be JSON: braces that hold no known placeholder stand for themselves.
    pub(crate) fn parse_payload(text: &str) -> Self {
        Self::parse(text, |_, _| Ok(())).expect("unknown placeholders are taken as they are")
    }

    fn parse(text: &str, unknown: impl Fn(&str, usize) -> Result<(), TemplateError>) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal_from = 0;
        for (open, _) in text.match_indices('{') {
            let inner = &text[open + 1..];
            let close = inner.find('}');
            let name = close.map_or(inner, |close| &inner[..close]);
            match placeholder(name).filter(|_| close.is_some()) {
                Some(found) => {
                    push_literal(&mut pieces, &text[literal_from..open]);
                    pieces.push(Piece::Placeholder(found));
                    literal_from = open + name.len() + 2;
                }
                None => unknown(name, open)?,
            }
        }
        push_literal(&mut pieces, &text[literal_from..]);
        Ok(Template { pieces })
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn uses(&self, placeholder: Placeholder) -> bool {
        self.pieces.contains(&Piece::Placeholder(placeholder))
    }

    /// Writes the text for a message over what `out` holds.
    pub(crate) fn write(&self, values: Values<'_>, out: &mut String) -> Result<(), Unfilled> {
        out.clear();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Placeholder(placeholder) => out.push_str(values.get(*placeholder)?),
            }
        }
        Ok(())
    }

    /// The same for a payload: what is filled in is escaped as within a JSON string.
    pub(crate) fn write_payload(&self, values: Values<'_>, out: &mut String) -> Result<(), Unfilled> {
        out.clear();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Placeholder(placeholder) => push_escaped(values.get(*placeholder)?, out),
            }
        }
        Ok(())
    }
}

fn placeholder(name: &str) -> Option<Placeholder> {
    match name {
        "device" => Some(Placeholder::Device),
        "topic" => Some(Placeholder::Topic),
        _ => name
            .parse()
            .ok()
            .filter(|n| (1..=128).contains(n))
            .map(Placeholder::Level),
    }
}

fn unknown(name: &str) -> String {
    match manifest::nearest(name, ["device", "topic"]) {
        Some(meant) => format!("unknown placeholder \"{{{name}}}\"; did you mean \"{{{meant}}}\"?"),
        None => {
            format!("unknown placeholder \"{{{name}}}\"; there are {{device}}, {{topic}} and its levels {{1}}, {{2}} …")
        }
    }
}

fn push_literal(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Literal(text.into()));
    }
}

/// Topics seldom need it, so only then is anything allocated.
fn push_escaped(text: &str, out: &mut String) {
    if text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) {
        let quoted = Value::from(text).to_string();
        out.push_str(&quoted[1..quoted.len() - 1]);
    } else {
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::{Template, Unfilled, Values};

    const VALUES: Values<'_> = Values {
        topic: "devices/pump-7/telemetry",
        device: Some("pump-7"),
    };

    fn filled(text: &str, values: Values<'_>) -> Result<String, Unfilled> {
        let mut out = "before".to_owned();
        Template::parse_strict(text)
            .unwrap()
            .write(values, &mut out)
            .map(|()| out)
    }

    #[test]
    fn placeholders_are_filled_from_the_message() {
        let cases = [
            ("apps/alarms", "apps/alarms"),
            ("apps/{device}/x", "apps/pump-7/x"),
            ("mirror/{topic}", "mirror/devices/pump-7/telemetry"),
            ("{3}/{2}{1}", "telemetry/pump-7devices"),
        ];
        for (text, expected) in cases {
            assert_eq!(filled(text, VALUES).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_the_message_lacks_is_said() {
        assert_eq!(filled("{4}", VALUES), Err(Unfilled::Level(4)));
        assert_eq!(
            filled("{device}", Values { device: None, ..VALUES }),
            Err(Unfilled::Device)
        );
    }

    #[test]
    fn an_unknown_placeholder_is_refused_at_its_place() {
        let cases = [
            (
                "a/{devcie}",
                2,
                "unknown placeholder \"{devcie}\"; did you mean \"{device}\"?",
            ),
            (
                "{0}",
                0,
                "unknown placeholder \"{0}\"; there are {device}, {topic} and its levels {1}, {2} …",
            ),
            (
                "a{",
                1,
                "unknown placeholder \"{}\"; there are {device}, {topic} and its levels {1}, {2} …",
            ),
        ];
        for (text, offset, message) in cases {
            let error = Template::parse_strict(text).unwrap_err();
            assert_eq!((error.offset, error.message.as_str()), (offset, message), "{text}");
        }
    }

    #[test]
    fn a_payload_keeps_its_braces_and_escapes_what_is_filled_in() {
        let template = Template::parse_payload(r#"{"from": "{topic}", "x": {}, "y": {"z": "{device}"}}"#);
        let mut out = String::new();
        let values = Values {
            topic: "a/\"b\\",
            device: Some("d"),
        };
        template.write_payload(values, &mut out).unwrap();
        assert_eq!(out, r#"{"from": "a/\"b\\", "x": {}, "y": {"z": "d"}}"#);
    }
}
