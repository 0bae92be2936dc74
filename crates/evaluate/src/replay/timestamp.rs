//! Times as data sets write them.

use time::{Date, Month, PrimitiveDateTime, Time, UtcOffset};

/// Nanoseconds since 1970 of `2015-02-02 14:19:00`, `2015-02-02T14:19:00.5+01:00`, `2015/02/02 14:19`, `2015-02-02`, or
/// of a number of seconds or milliseconds since 1970. Without an offset: UTC. `None` where it is none of them.
pub(super) fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    since_epoch(text).or_else(|| calendar(text))
}

/// Seconds of 9 or 10 digits (1973 to 2286) with or without a fraction, milliseconds of 12 or 13.
fn since_epoch(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let number: i64 = whole.parse().ok()?;
    match whole.len() {
        9 | 10 => Some(number * 1_000_000_000 + nanoseconds(fraction)),
        12 | 13 if fraction.is_empty() => Some(number * 1_000_000),
        _ => None,
    }
}

fn nanoseconds(fraction: &str) -> i64 {
    format!("{fraction:0<9.9}").parse().unwrap_or(0)
}

fn calendar(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let date = parse_date(date)?;
    let rest = rest.strip_prefix(['T', 't', ' ']).unwrap_or(rest).trim();
    let (clock, offset) = split_offset(rest)?;
    let instant = PrimitiveDateTime::new(date, parse_clock(clock)?).assume_offset(offset);
    i64::try_from(instant.unix_timestamp_nanos()).ok()
}

/// `2015-02-02` or `2015/02/02`: the year first, since day and month in another order cannot be told apart.
fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split(['-', '/']);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let month = Month::try_from(month.parse::<u8>().ok()?).ok()?;
    if year.len() != 4 || parts.next().is_some() {
        return None;
    }
    Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()
}

/// Clock and offset of `14:19:00`, `14:19:00Z`, `14:19:00+01:00`.
fn split_offset(text: &str) -> Option<(&str, UtcOffset)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, UtcOffset::UTC));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, UtcOffset::UTC));
    };
    let (clock, offset) = text.split_at(at);
    let (sign, digits) = offset.split_at(1);
    let digits = digits.replace(':', "");
    let (hours, minutes) = (
        digits.get(..2)?.parse::<i8>().ok()?,
        digits.get(2..4).unwrap_or("00").parse::<i8>().ok()?,
    );
    let sign = if sign == "-" { -1 } else { 1 };
    Some((clock, UtcOffset::from_hms(sign * hours, sign * minutes, 0).ok()?))
}

/// `14:19:00.5`, `14:19:00`, `14:19`, or nothing for midnight.
fn parse_clock(text: &str) -> Option<Time> {
    if text.is_empty() {
        return Some(Time::MIDNIGHT);
    }
    let mut parts = text.split(':');
    let (hour, minute) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (second, fraction) = parts
        .next()
        .map_or(("0", ""), |part| part.split_once('.').unwrap_or((part, "")));
    if parts.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Time::from_hms_nano(hour, minute, second.parse().ok()?, nanoseconds(fraction) as u32).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_the_same_instant_is_the_same_instant() {
        let expected = 1_422_886_740_000_000_000;
        for text in [
            "2015-02-02 14:19:00",
            "2015-02-02T14:19:00Z",
            "2015-02-02T15:19:00+01:00",
            "2015-02-02T13:19:00.000-0100",
            "2015/02/02 14:19",
            " 2015-02-02 14:19:00.0 ",
            "1422886740",
            "1422886740.000",
            "1422886740000",
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn fractions_of_a_second_are_kept() {
        assert_eq!(parse("1970-01-01 00:00:00.25"), Some(250_000_000));
        assert_eq!(parse("100000000.000000001"), Some(100_000_000_000_000_001));
    }

    #[test]
    fn a_date_alone_is_its_midnight() {
        assert_eq!(parse("1970-01-02"), Some(86_400_000_000_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "140",
            "23.7",
            "02/03/2015 14:19",
            "2015-02-30",
            "2015-02-02 25:00",
            "2015-02-02 14:19:00+99:00",
            "yesterday",
            "2015-02-02 14:19:00.x",
            "ｱｱｱｱ",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
