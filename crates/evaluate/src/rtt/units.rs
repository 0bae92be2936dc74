//! Durations and sizes as people write them on a command line.

/// Microseconds of `5s`, `10ms` or `250us`.
pub(crate) fn duration_us(text: &str) -> Result<u64, String> {
    let (number, scale) = ["us", "ms", "s"]
        .into_iter()
        .zip([1.0, 1e3, 1e6])
        .find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, scale)))
        .ok_or_else(|| format!("`{text}` has no unit: write 250us, 10ms or 5s"))?;
    let value = number
        .trim()
        .parse::<f64>()
        .map_err(|_| format!("`{text}` is no duration: write 250us, 10ms or 5s"))?;
    let us = value * scale;
    if (0.0..=86_400e6).contains(&us) {
        Ok(us.round() as u64)
    } else {
        Err(format!("`{text}` is not within 0 s … 24 h"))
    }
}

/// Bytes of `64`, `10k` (10,000) or `10Ki` (10,240).
pub(crate) fn bytes(text: &str) -> Result<u32, String> {
    let (number, scale) = match text.strip_suffix("Ki") {
        Some(number) => (number, 1024),
        None => text.strip_suffix('k').map_or((text, 1), |number| (number, 1000)),
    };
    let value = number
        .trim()
        .parse::<u32>()
        .map_err(|_| format!("`{text}` is no size: write 64, 10k or 10Ki"))?;
    value
        .checked_mul(scale)
        .ok_or_else(|| format!("`{text}` is over 4 GiB"))
}

/// A factor above 0, such as `60` or `0.5`.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    let value = text
        .parse::<f64>()
        .map_err(|_| format!("`{text}` is no number: write 60 or 0.5"))?;
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(format!("`{text}` is not above 0"))
    }
}

/// A share of a whole, such as `0.001`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| format!("`{text}` is no share: write a number from 0 to 1, such as 0.001"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_their_unit() {
        let cases = [
            ("250us", Ok(250)),
            ("1.5ms", Ok(1_500)),
            ("5s", Ok(5_000_000)),
            ("5", Err(())),
            ("-1s", Err(())),
            ("xms", Err(())),
        ];
        for (text, expected) in cases {
            assert_eq!(duration_us(text).map_err(drop), expected, "{text}");
        }
    }

    #[test]
    fn sizes_count_in_thousands_or_in_kibibytes() {
        let cases = [
            ("64", Ok(64)),
            ("250k", Ok(250_000)),
            ("1Ki", Ok(1024)),
            ("9999999k", Err(())),
            ("big", Err(())),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text).map_err(drop), expected, "{text}");
        }
    }

    #[test]
    fn a_factor_is_above_zero() {
        let cases = [
            ("60", Ok(60.0)),
            ("0.5", Ok(0.5)),
            ("0", Err(())),
            ("-1", Err(())),
            ("inf", Err(())),
            ("fast", Err(())),
        ];
        for (text, expected) in cases {
            assert_eq!(factor(text).map_err(drop), expected, "{text}");
        }
    }

    #[test]
    fn a_share_is_from_zero_to_one() {
        let cases = [
            ("0.001", Ok(0.001)),
            ("1", Ok(1.0)),
            ("1.1", Err(())),
            ("-0", Ok(0.0)),
            ("x", Err(())),
        ];
        for (text, expected) in cases {
            assert_eq!(share(text).map_err(drop), expected, "{text}");
        }
    }
}
