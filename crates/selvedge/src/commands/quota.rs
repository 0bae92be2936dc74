//! A quota on the command line.

use std::fmt;
use std::str::FromStr;

/// A number, perhaps with a unit of bytes, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota(pub(crate) Option<u64>);

const UNITS: [(&str, u64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// What is no quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoQuota;

impl fmt::Display for NoQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 1, perhaps with KiB, MiB, GiB, kB, MB or GB, or none")
    }
}

impl std::error::Error for NoQuota {}

impl FromStr for Quota {
    type Err = NoQuota;

    fn from_str(text: &str) -> Result<Self, NoQuota> {
        if text == "none" {
            return Ok(Quota(None));
        }
        let with_unit = UNITS
            .iter()
            .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
        let (number, size) = with_unit.unwrap_or((text, 1));
        let number: u64 = number.trim_end().parse().map_err(|_| NoQuota)?;
        match number.checked_mul(size) {
            Some(quota @ 1..) => Ok(Quota(Some(quota))),
            _ => Err(NoQuota),
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(quota) => quota.fmt(f),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_units_and_none_are_understood() {
        let check = |text: &str, quota| assert_eq!(text.parse(), Ok(Quota(quota)), "{text}");
        check("20", Some(20));
        check("64MiB", Some(64 << 20));
        check("64 MiB", Some(64 << 20));
        check("5kB", Some(5_000));
        check("none", None);
    }

    #[test]
    fn what_is_no_quota_is_refused() {
        for text in ["", "0", "-1", "many", "1.5MiB", "MiB", "99999999999GiB"] {
            assert_eq!(text.parse::<Quota>(), Err(NoQuota), "{text}");
        }
    }
}
