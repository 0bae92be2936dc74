//! Topic filters, section 4.7 of MQTT 5.0.

/// A valid topic filter that is not a shared one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    text: Box<str>,
    /// Bytes before the first wildcard: what every matching topic begins with.
    literal_bytes: usize,
}

impl Filter {
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > 65_535 {
            return Err(format!("has {} bytes; a topic filter has 1 to 65535", text.len()));
        }
        if text.contains('\0') {
            return Err("has a NUL character in it, which no topic has".to_owned());
        }
        if text.starts_with("$share/") {
            return Err(
                "is a shared subscription; a route sees every message, leave out $share and its group".to_owned(),
            );
        }
        let levels: Vec<&str> = text.split('/').collect();
        for (i, level) in levels.iter().enumerate() {
            check_level(level, i + 1 == levels.len())?;
        }
        let literal_bytes = text.find(['+', '#']).unwrap_or(text.len());
        Ok(Filter {
            text: text.into(),
            literal_bytes,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn levels(&self) -> impl Iterator<Item = &str> {
        self.text.split('/')
    }

    /// Never allocates.
    pub(crate) fn matches(&self, topic: &str) -> bool {
        let literal = &self.text.as_bytes()[..self.literal_bytes];
        if !topic.as_bytes().starts_with(literal) {
            // `a/#` matches `a` too (section 4.7.1.2).
            return self.text.len() == literal.len() + 1
                && self.text.ends_with("/#")
                && topic.as_bytes() == &literal[..literal.len() - 1];
        }
        mqtt::topic::matches(&self.text, topic)
    }
}

/// MQTT-4.7.1-1 and MQTT-4.7.1-2: a wildcard stands alone in its level, `#` in the last one.
fn check_level(level: &str, last: bool) -> Result<(), String> {
    match level {
        "#" if !last => Err("has \"#\" before its end; \"#\" is the last level of a topic filter".to_owned()),
        "#" | "+" => Ok(()),
        _ if level.contains(['+', '#']) => Err(format!(
            "has {level:?} as a level; a wildcard stands alone between slashes"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn filters_match_as_in_section_4_7() {
        let cases = [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
            ("sport/tennis/player1/#", "sport/tennis/player12", false),
            ("sport/#", "sport", true),
            ("sport/#", "spor", false),
            ("#", "a/b", true),
            ("#", "$SYS/a", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/a", true),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("sport/+", "sport/a/b", false),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("+/#", "a", true),
            ("devices/+/telemetry", "devices/a/telemetry", true),
            ("devices/+/telemetry", "devices/a/telemetry/x", false),
            ("a/b", "a/b", true),
            ("a/b", "a/bc", false),
            ("a", "", false),
        ];
        for (filter, topic, expected) in cases {
            assert_eq!(
                Filter::parse(filter).unwrap().matches(topic),
                expected,
                "{filter} {topic}"
            );
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_the_reason() {
        let cases = [
            ("", "has 0 bytes; a topic filter has 1 to 65535"),
            (
                "a/#/b",
                "has \"#\" before its end; \"#\" is the last level of a topic filter",
            ),
            ("a/b+", "has \"b+\" as a level; a wildcard stands alone between slashes"),
            ("a#", "has \"a#\" as a level; a wildcard stands alone between slashes"),
            ("a\0", "has a NUL character in it, which no topic has"),
            (
                "$share/g/a",
                "is a shared subscription; a route sees every message, leave out $share and its group",
            ),
        ];
        for (filter, expected) in cases {
            assert_eq!(Filter::parse(filter), Err(expected.to_owned()), "{filter}");
        }
    }
}
