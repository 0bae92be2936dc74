//! When snapshots of an application are taken, and how, as annotations of its Deployment have it.

use std::time::Duration;

use manifest::workload::Deployment;

/// The time from one snapshot to the next.
pub const EVERY: &str = "selvedge.dev/snapshot-every";
/// So many of those are kept.
pub const KEEP: &str = "selvedge.dev/snapshot-keep";
/// What is run in the first container before one is taken.
pub const HOOK: &str = "selvedge.dev/snapshot-hook";

/// Between two snapshots of an application, at least.
const EVERY_LEAST: Duration = Duration::from_secs(10);
/// Of scheduled snapshots where it is not said.
const KEEP_DEFAULT: usize = 7;
/// Of scheduled snapshots of an application.
const KEEP_MAX: usize = 1_000;

/// The time from one snapshot of it to the next; `None`: none is scheduled.
#[must_use]
pub fn every(deployment: &Deployment) -> Option<Duration> {
    deployment
        .metadata
        .annotations
        .get(EVERY)
        .and_then(|text| duration(text))
}

/// So many scheduled ones of it are kept.
#[must_use]
pub fn keep(deployment: &Deployment) -> usize {
    let said = deployment.metadata.annotations.get(KEEP);
    said.and_then(|text| count(text)).unwrap_or(KEEP_DEFAULT)
}

/// The command that is run before, if there is one.
#[must_use]
pub fn hook(deployment: &Deployment) -> Option<Vec<String>> {
    deployment.metadata.annotations.get(HOOK).and_then(|text| command(text))
}

/// What of the annotations cannot be, as annotation and words.
#[must_use]
pub fn unsupported(deployment: &Deployment) -> Vec<(&'static str, String)> {
    let said = |name| {
        deployment
            .metadata
            .annotations
            .get(name)
            .map(|text: &String| text.as_str())
    };
    let mut found = Vec::new();
    if let Some(text) = said(EVERY).filter(|text| duration(text).is_none()) {
        let least = EVERY_LEAST.as_secs();
        found.push((
            EVERY,
            format!("{text:?} is no time of {least}s or more; one is 90s, 30m, 24h or 7d"),
        ));
    }
    match said(KEEP) {
        Some(text) if count(text).is_none() => {
            found.push((KEEP, format!("{text:?} is no number from 1 to {KEEP_MAX}")));
        }
        Some(_) if said(EVERY).is_none() => {
            found.push((KEEP, format!("is of those that are scheduled: write {EVERY}, too")));
        }
        _ => {}
    }
    if let Some(text) = said(HOOK).filter(|text| command(text).is_none()) {
        let message = format!("{text:?} is no command; one is a program and its arguments, or a JSON list of them");
        found.push((HOOK, message));
    }
    found
}

fn duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let number: u64 = text[..text.len() - unit.len()].parse().ok()?;
    let every = Duration::from_secs(number.checked_mul(unit_s)?);
    (every >= EVERY_LEAST).then_some(every)
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| (1..=KEEP_MAX).contains(count))
}

/// A JSON list, or words.
fn command(text: &str) -> Option<Vec<String>> {
    let words: Vec<String> = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).ok()?,
        false => text.split_whitespace().map(str::to_owned).collect(),
    };
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_commands_are_read_as_they_are_written() {
        assert_eq!(duration("90s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("7d"), Some(Duration::from_secs(7 * 86_400)));
        for wrong in [
            "",
            "9",
            "9s",
            "s",
            "-1h",
            "1w",
            "99999999999999999999h",
            "300000000000000000d",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        assert_eq!((count("1"), count("0"), count("1001")), (Some(1), None, None));
        let words = |text| command(text).map(|words| words.join("|"));
        assert_eq!(words("sqlite3 /data/db").as_deref(), Some("sqlite3|/data/db"));
        assert_eq!(
            words(r#"["sh", "-c", "sync; sync"]"#).as_deref(),
            Some("sh|-c|sync; sync")
        );
        assert_eq!((words(" "), words("[1]"), words("[]")), (None, None, None));
    }
}
