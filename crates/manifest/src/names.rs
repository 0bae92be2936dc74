//! Names: which are fine, and which one was probably meant.

/// The known name that `found` was probably meant to be: at most a third of its letters differ.
#[must_use]
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found_lower = found.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&found_lower, &name.to_lowercase());
    let (distance, name) = known
        .into_iter()
        .map(|name| (distance(name), name))
        .min_by_key(|(d, _)| *d)?;
    (distance <= found.chars().count().max(3) / 3).then_some(name)
}

/// Longest name in bytes, of a resource, a tenant, a label.
const MAX_NAME_BYTES: usize = 128;
/// Longest label value in bytes.
const MAX_VALUE_BYTES: usize = 256;

/// A name that can stand in a topic and on a command line; `None` if this is one, else what is wrong.
pub(crate) fn wrong_with_name(name: &str) -> Option<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if name.is_empty() {
        return Some("is empty; a name has at least one character".to_owned());
    }
    if name.len() > MAX_NAME_BYTES {
        return Some(format!("has {} bytes; a name has at most {MAX_NAME_BYTES}", name.len()));
    }
    if let Some(c) = name.chars().find(|c| !fine(*c)) {
        return Some(format!(
            "{name:?} has {c:?} in it; letters, digits, '-', '_', '.' and ':' are fine"
        ));
    }
    let first = name.chars().next().filter(|c| !c.is_ascii_alphanumeric())?;
    Some(format!(
        "{name:?} starts with {first:?}; a name starts with a letter or a digit"
    ))
}

/// A label's name may also have one `/` between a domain and the name proper, as in Kubernetes.
pub(crate) fn wrong_with_label(name: &str) -> Option<String> {
    name.splitn(2, '/').find_map(wrong_with_name)
}

/// A label's value is any short text.
pub(crate) fn wrong_with_value(value: &str) -> Option<String> {
    (value.len() > MAX_VALUE_BYTES).then(|| {
        format!(
            "has {} bytes; a label's value has at most {MAX_VALUE_BYTES}",
            value.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_offered_only_where_it_is_near() {
        let known = ["from", "when", "to", "device.labels", "payload"];
        let cases = [
            ("form", Some("from")),
            ("whne", Some("when")),
            ("too", Some("to")),
            ("device.lables", Some("device.labels")),
            ("PAYLOAD", Some("payload")),
            ("paylod", Some("payload")),
            ("temperature", None),
            ("x", None),
        ];
        for (found, expected) in cases {
            assert_eq!(nearest(found, known), expected, "{found}");
        }
    }
}
