//! Topic names and filters, sections 4.7 and 4.8.2.
//!
//! Those that break the rules of their syntax are malformed: the reason codes Topic Name invalid and Topic Filter
//! invalid are for "correctly formed" ones that a server does not accept (section 3.14.2.1).

use crate::DecodeError;

/// Longest topic name or filter in bytes (MQTT-4.7.3-3).
pub const MAXIMUM_LEN: usize = 65_535;

const SHARE: &str = "$share/";

/// Checks a topic name, as in a PUBLISH, a will or a Response Topic.
///
/// # Errors
/// Empty (MQTT-4.7.3-1), with U+0000 (MQTT-4.7.3-2), too long (MQTT-4.7.3-3), with a wildcard (MQTT-4.7.0-1).
pub fn check_name(name: &str) -> Result<(), DecodeError> {
    check_name_by("MQTT-4.7.0-1", name)
}

/// As [`check_name`], for a place that has its own statement against wildcards.
#[inline]
pub(crate) fn check_name_by(wildcard_clause: &'static str, name: &str) -> Result<(), DecodeError> {
    check_len(name, "topic name")?;
    if !has_any(name, [0, b'#', b'+']) {
        return Ok(());
    }
    check_nul(name, "topic name")?;
    Err(wildcard_in_name(wildcard_clause, name))
}

/// Checks a topic filter that is no shared subscription.
///
/// # Errors
/// Empty (MQTT-4.7.3-1), with U+0000 (MQTT-4.7.3-2), too long (MQTT-4.7.3-3), `#` not alone in the last level
/// (MQTT-4.7.1-1), `+` not alone in its level (MQTT-4.7.1-2).
pub fn check_filter(filter: &str) -> Result<(), DecodeError> {
    check_len(filter, "topic filter")?;
    if !has_any(filter, [0, b'#', b'+']) {
        return Ok(());
    }
    check_nul(filter, "topic filter")?;
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let last = levels.peek().is_none();
        if level.contains('#') && !(level == "#" && last) {
            return Err(misplaced(
                "MQTT-4.7.1-1",
                filter,
                "'#' that is not alone in the last level",
            ));
        }
        if level.contains('+') && level != "+" {
            return Err(misplaced("MQTT-4.7.1-2", filter, "'+' that is not alone in its level"));
        }
    }
    Ok(())
}

/// Checks the filter of a SUBSCRIBE or UNSUBSCRIBE of version 5: of a shared subscription or of another.
///
/// # Errors
/// As [`check_filter`] and [`split_shared`].
pub fn check_subscription(filter: &str) -> Result<(), DecodeError> {
    match split_shared(filter)? {
        Some((_, inner)) => check_filter(inner).and_then(|()| check_len(filter, "topic filter")),
        None => check_filter(filter),
    }
}

/// Group and filter of a shared subscription `$share/{group}/{filter}`; `None` for any other. The filter within is
/// not checked.
///
/// # Errors
/// An empty group (MQTT-4.8.2-1); a group with a wildcard or without a filter behind it (MQTT-4.8.2-2).
pub fn split_shared(filter: &str) -> Result<Option<(&str, &str)>, DecodeError> {
    let Some(rest) = filter.strip_prefix(SHARE) else {
        return Ok(None);
    };
    let Some((group, inner)) = rest.split_once('/') else {
        return Err(misplaced(
            "MQTT-4.8.2-2",
            filter,
            "no topic filter behind the share name",
        ));
    };
    if group.is_empty() {
        return Err(misplaced("MQTT-4.8.2-1", filter, "an empty share name"));
    }
    if has_any(group, [b'#', b'+']) {
        return Err(misplaced("MQTT-4.8.2-2", filter, "a wildcard in its share name"));
    }
    if inner.is_empty() {
        return Err(misplaced(
            "MQTT-4.8.2-2",
            filter,
            "no topic filter behind the share name",
        ));
    }
    Ok(Some((group, inner)))
}

/// Whether a well-formed filter, of no shared subscription, matches a well-formed topic name.
///
/// A filter that starts with a wildcard matches no name that starts with `$` (MQTT-4.7.2-1); `a/#` matches `a`;
/// otherwise level by level and byte by byte (MQTT-4.7.3-4).
pub fn matches(filter: &str, name: &str) -> bool {
    if name.starts_with('$') && filter.starts_with(['#', '+']) {
        return false;
    }
    let (mut filters, mut names) = (Some(filter), Some(name));
    while let Some(rest) = filters {
        let (level, below) = split_level(rest);
        if level == "#" {
            return true;
        }
        let Some((name_level, names_below)) = names.map(split_level) else {
            return false;
        };
        if level != "+" && level != name_level {
            return false;
        }
        (filters, names) = (below, names_below);
    }
    names.is_none()
}

/// The first level of a topic name or filter, and all below it if there is more (section 4.7.1.1).
///
/// Levels are short: `str::split` costs several times as much for them.
#[inline]
pub fn split_level(topic: &str) -> (&str, Option<&str>) {
    match position(topic, b'/') {
        Some(at) => (&topic[..at], Some(&topic[at + 1..])),
        None => (topic, None),
    }
}

#[inline]
fn check_len(text: &str, what: &'static str) -> Result<(), DecodeError> {
    match text.len() {
        0 => Err(empty(what)),
        1..=MAXIMUM_LEN => Ok(()),
        _ => Err(too_long(text, what)),
    }
}

fn check_nul(text: &str, what: &'static str) -> Result<(), DecodeError> {
    if text.contains('\0') { Err(nul(what)) } else { Ok(()) }
}

/// Whether one of these ASCII bytes is in `text`, eight bytes at a time: every name that is published goes through it.
#[inline]
fn has_any<const N: usize>(text: &str, wanted: [u8; N]) -> bool {
    let bytes = text.as_bytes();
    let Some(last) = bytes.last_chunk() else {
        return bytes.iter().any(|byte| wanted.contains(byte));
    };
    let words = bytes.as_chunks().0.iter().chain([last]);
    words
        .copied()
        .any(|word| wanted.iter().fold(0, |found, byte| found | places(word, *byte)) != 0)
}

/// Where an ASCII byte is first in `text`, eight bytes at a time.
#[inline]
fn position(text: &str, wanted: u8) -> Option<usize> {
    let (words, rest) = text.as_bytes().as_chunks();
    for (number, word) in words.iter().enumerate() {
        let places = places(*word, wanted);
        if places != 0 {
            return Some(number * 8 + places.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| *byte == wanted)?;
    Some(words.len() * 8 + at)
}

/// The highest bit of each byte that is `wanted`, and perhaps of some behind the first such.
///
/// A byte of `x` is zero, or one behind a zero, where `(x - 0x01…01) & !x & 0x80…80` has a bit.
#[inline]
fn places(word: [u8; 8], wanted: u8) -> u64 {
    let differs = u64::from_le_bytes(word) ^ u64::from_le_bytes([wanted; 8]);
    differs.wrapping_sub(u64::from_le_bytes([0x01; 8])) & !differs & u64::from_le_bytes([0x80; 8])
}

#[cold]
fn empty(what: &'static str) -> DecodeError {
    DecodeError::malformed("MQTT-4.7.3-1", format!("{what} is empty"))
}

#[cold]
fn nul(what: &'static str) -> DecodeError {
    DecodeError::malformed("MQTT-4.7.3-2", format!("{what} contains U+0000"))
}

#[cold]
fn too_long(text: &str, what: &'static str) -> DecodeError {
    DecodeError::malformed(
        "MQTT-4.7.3-3",
        format!("{what} has {} bytes; at most 65535 are possible", text.len()),
    )
}

#[cold]
fn wildcard_in_name(clause: &'static str, name: &str) -> DecodeError {
    DecodeError::malformed(clause, format!("topic name {name:?} has a wildcard"))
}

#[cold]
fn misplaced(clause: &'static str, filter: &str, what: &'static str) -> DecodeError {
    DecodeError::malformed(clause, format!("topic filter {filter:?} has {what}"))
}
