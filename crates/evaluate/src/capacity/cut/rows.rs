//! The rows of the cloud's database, as its API has them, against what their sender knows.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde::Deserialize;

use super::publisher::{DEVICE, Fate, STREAM};
use crate::capacity::linked::{Linked, Side};

/// Rows of a page, the most that an answer has.
const PAGE: u64 = 10_000;

/// One row.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Row {
    /// The number of the message.
    value: f64,
    edge: String,
    epoch: String,
    sequence: u64,
}

/// A page of them.
#[derive(Deserialize)]
struct Page {
    points: Vec<Row>,
    next: Option<String>,
}

/// What a login gives.
#[derive(Deserialize)]
struct Tokens {
    access_token: String,
}

/// All rows.
pub(super) struct Rows(Vec<Row>);

impl Rows {
    /// Reads them, as the cloud's first user.
    pub(super) fn read(linked: &Linked<'_>) -> Result<Rows, String> {
        let door = linked.door(Side::Cloud);
        let file = linked.data(Side::Cloud).join("admin.password");
        let password = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let login = serde_json::json!({"user": "admin", "password": password.trim()});
        let tokens: Tokens = parsed(&door.post("/v1/login", &login.to_string())?)?;
        let (mut rows, mut next) = (Vec::new(), None);
        loop {
            let mut path = format!("/v1/tenants/default/devices/{DEVICE}/telemetry/{STREAM}?limit={PAGE}");
            if let Some(next) = &next {
                // Writing to a string does not fail.
                let _ = write!(path, "&cursor={next}");
            }
            let page: Page = parsed(&door.get(&path, Some(&tokens.access_token))?)?;
            rows.extend(page.points);
            next = page.next;
            if next.is_none() {
                return Ok(Rows(rows));
            }
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// What the answer holds must not be repeated by an error: it may be a token.
fn parsed<'a, T: Deserialize<'a>>(answer: &'a str) -> Result<T, String> {
    serde_json::from_str(answer).map_err(|error| format!("the cloud's answer is not of the form expected: {error}"))
}

/// What rows tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Acknowledged messages without a row.
    pub(super) missing: u64,
    /// Messages in doubt with one.
    pub(super) further: u64,
    /// Rows beyond the first of a message, or of a place in the edge's log.
    pub(super) duplicates: u64,
    /// Rows of messages that were never sent.
    pub(super) unknown: u64,
}

impl Told {
    /// `fates`: by number of the message.
    pub(super) fn of(fates: &[Fate], rows: &Rows) -> Told {
        let (mut told, mut has_row, mut places) = (Told::default(), vec![false; fates.len()], HashSet::new());
        for row in &rows.0 {
            let is_new_place = places.insert((row.edge.as_str(), row.epoch.as_str(), row.sequence));
            let number = row.value as usize;
            match (fates.get(number), has_row.get_mut(number)) {
                (Some(fate), Some(has_row)) if !*has_row && is_new_place => {
                    *has_row = true;
                    told.further += u64::from(*fate == Fate::InDoubt);
                }
                (Some(_), _) => told.duplicates += 1,
                (None, _) => told.unknown += 1,
            }
        }
        let lacking = fates.iter().zip(&has_row);
        told.missing = lacking
            .filter(|(fate, has_row)| **fate == Fate::Acknowledged && !**has_row)
            .count() as u64;
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(u64, u64)]) -> Rows {
        let row = |(number, sequence): &(u64, u64)| Row {
            value: *number as f64,
            edge: "edge-1".to_owned(),
            epoch: "1".to_owned(),
            sequence: *sequence,
        };
        Rows(rows.iter().map(row).collect())
    }

    #[test]
    fn what_is_missing_doubled_in_doubt_or_unknown_is_told_apart() {
        let fates = [Fate::Acknowledged, Fate::Acknowledged, Fate::InDoubt, Fate::InDoubt];
        let good = Told {
            further: 1,
            ..Told::default()
        };
        assert_eq!(Told::of(&fates, &rows(&[(0, 0), (1, 2), (2, 4)])), good);
        let bad = Told {
            missing: 1,
            further: 1,
            duplicates: 2,
            unknown: 1,
        };
        let found = rows(&[(0, 0), (0, 2), (2, 4), (2, 4), (9, 6)]);
        assert_eq!(Told::of(&fates, &found), bad);
    }

    #[test]
    fn a_place_of_the_log_that_two_messages_have_is_one_too_many() {
        let told = Told::of(&[Fate::Acknowledged; 2], &rows(&[(0, 8), (1, 8)]));
        assert_eq!((told.duplicates, told.missing), (1, 1));
    }

    #[test]
    fn a_page_is_read_as_the_api_writes_it() {
        let text = r#"{"points":[{"time_ms":1,"received_at_ms":1,"value":7.0,"edge":"edge-1","epoch":"3","sequence":4}],
            "next":"1.3.4.1.0"}"#;
        let page: Page = parsed(text).unwrap();
        assert_eq!((page.points[0].value, page.next.as_deref()), (7.0, Some("1.3.4.1.0")));
    }
}
