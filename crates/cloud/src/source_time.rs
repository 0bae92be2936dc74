//! The member `ts` of a reading: when the device says it measured.

use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Numbers nearer to zero are seconds (to the year 5138), others milliseconds (from 1973).
const FIRST_MS: f64 = 1e11;
/// Numbers from here on are no time.
const FIRST_NONSENSE: f64 = 1e14;

/// Reads a `ts` into ms since 1970 UTC, rounded to the nearest: a JSON number of Unix seconds or milliseconds (which of
/// them, its magnitude says), or a string of RFC 3339. `None`: this is no time.
pub(crate) fn parse(ts: &RawValue) -> Option<i64> {
    let literal = ts.get();
    if literal.starts_with('"') {
        let text: String = serde_json::from_str(literal).ok()?;
        let time = OffsetDateTime::parse(&text, &Rfc3339).ok()?;
        return i64::try_from((time.unix_timestamp_nanos() + 500_000).div_euclid(1_000_000)).ok();
    }
    let number: f64 = literal.parse().ok()?;
    match number.abs() {
        seconds if seconds < FIRST_MS => Some((number * 1_000.0).round() as i64),
        ms if ms < FIRST_NONSENSE => Some(number.round() as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ts: &str, expected: Option<i64>) {
        let raw: Box<RawValue> = serde_json::from_str(ts).unwrap();
        assert_eq!(parse(&raw), expected, "{ts}");
    }

    #[test]
    fn a_ts_is_unix_seconds_unix_milliseconds_or_rfc_3339() {
        check("1700000000", Some(1_700_000_000_000));
        check("1700000000.123", Some(1_700_000_000_123));
        check("1700000000123", Some(1_700_000_000_123));
        check("1.7e9", Some(1_700_000_000_000));
        check("0", Some(0));
        check("-1", Some(-1_000));
        check("\"2023-11-14T22:13:20Z\"", Some(1_700_000_000_000));
        check("\"2023-11-14T23:13:20.1234+01:00\"", Some(1_700_000_000_123));
        check("\"1969-12-31T23:59:59.999Z\"", Some(-1));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for ts in [
            "1e14",
            "-1e14",
            "1e400",
            "null",
            "true",
            "{}",
            "[]",
            "\"\"",
            "\"yesterday\"",
            "\"99999-01-01T00:00:00Z\"",
        ] {
            check(ts, None);
        }
    }
}
