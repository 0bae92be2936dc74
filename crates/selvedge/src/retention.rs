//! How long rows are kept, as people write it.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 24 * HOUR_S;
/// A hundred years.
const MAX_S: u64 = 36_500 * DAY_S;

/// Such as `90d` or `12h`; empty: for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Retention {
    text: String,
    age: Option<Duration>,
}

impl Retention {
    /// How old rows may become; `None`: as old as they will.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.age
    }
}

impl FromStr for Retention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no time to keep rows for; one is \"90d\" or \"12h\", at most 36500d");
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        let unit_s = match text.chars().last() {
            Some('h') => HOUR_S,
            Some('d') => DAY_S,
            _ => return Err(wrong()),
        };
        let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        let seconds = number.checked_mul(unit_s).filter(|s| (HOUR_S..=MAX_S).contains(s));
        Ok(Self {
            text: text.to_owned(),
            age: Some(Duration::from_secs(seconds.ok_or_else(wrong)?)),
        })
    }
}

impl TryFrom<String> for Retention {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Retention> for String {
    fn from(retention: Retention) -> Self {
        retention.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_days_are_understood_and_nothing_else() {
        let age = |text: &str| text.parse::<Retention>().map(|retention| retention.age());
        assert_eq!(age(""), Ok(None));
        assert_eq!(age("12h"), Ok(Some(Duration::from_secs(12 * 3_600))));
        assert_eq!(age("90d"), Ok(Some(Duration::from_secs(90 * 86_400))));
        for wrong in [
            "90",
            "d",
            "0d",
            "-1d",
            "1.5d",
            "1w",
            "36501d",
            "99999999999999999999d",
            "1é",
        ] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
