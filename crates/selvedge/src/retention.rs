//! How long rows are kept, as people write it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use identity::RETENTION_S;
use serde::{Deserialize, Serialize};

const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 24 * HOUR_S;

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
        let seconds = number.checked_mul(unit_s).filter(|s| RETENTION_S.contains(s));
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

/// Seconds for which the rows of one tenant are kept; `None`, written `default`: as long as those of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnRetention(pub(crate) Option<u64>);

impl FromStr for OwnRetention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "default" {
            return Ok(Self(None));
        }
        match text.parse::<Retention>().map(|retention| retention.age) {
            Ok(Some(age)) => Ok(Self(Some(age.as_secs()))),
            Ok(None) => Err("say how long, such as \"90d\", or \"default\"".to_owned()),
            Err(wrong) => Err(format!("{wrong}, or \"default\"")),
        }
    }
}

impl fmt::Display for OwnRetention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("default"),
            Some(seconds) if seconds.is_multiple_of(DAY_S) => write!(f, "{}d", seconds / DAY_S),
            Some(seconds) if seconds.is_multiple_of(HOUR_S) => write!(f, "{}h", seconds / HOUR_S),
            Some(seconds) => write!(f, "{seconds} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_own_is_a_time_or_the_default_and_is_shown_as_it_was_given() {
        for (text, seconds) in [("30d", Some(2_592_000)), ("12h", Some(43_200)), ("default", None)] {
            let own: OwnRetention = text.parse().unwrap();
            assert_eq!(own, OwnRetention(seconds));
            assert_eq!(own.to_string(), text);
        }
        assert_eq!(OwnRetention(Some(3_601)).to_string(), "3601 s");
        for wrong in ["", "none", "30", "0d"] {
            assert!(
                wrong
                    .parse::<OwnRetention>()
                    .is_err_and(|told| told.contains("default")),
                "{wrong}"
            );
        }
    }

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
