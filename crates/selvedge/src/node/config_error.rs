//! What a person reads who made a mistake in a configuration file.

/// File, line, what is wrong, and what would be right.
pub(crate) fn explain(file: &str, text: &str, error: &toml::de::Error) -> String {
    let span = error.span().unwrap_or(0..0);
    let start = span.start.min(text.len());
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = error.message();
    let message = unknown_key(message)
        .or_else(|| no_address(message, text.get(span)?))
        .unwrap_or_else(|| message.replace('\n', " "));
    format!("{file}:{line}: {message}")
}

/// The same in other words if it is about a socket address; `value` is what stands there, quoted.
fn no_address(message: &str, value: &str) -> Option<String> {
    let is_address = message.starts_with("invalid socket address");
    is_address.then(|| {
        format!(
            "{value} is no address; one is an IP address and a port, such as \"127.0.0.1:1883\", or \"[::]:1883\" for \
             all"
        )
    })
}

/// The same in other words if it is about a key that nobody knows. The message quotes that and then the known ones.
fn unknown_key(message: &str) -> Option<String> {
    if !message.starts_with("unknown field") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let found = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    Some(match manifest::nearest(found, known.iter().copied()) {
        Some(near) => format!("unknown key \"{found}\"; did you mean \"{near}\"?"),
        None => format!("unknown key \"{found}\"; there are {}", known.join(", ")),
    })
}
