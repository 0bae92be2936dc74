//! Amounts as they are written in a manifest: bytes as Kubernetes writes them, times with their unit.

/// Suffixes of bytes, the longer ones first.
const BYTES: [(&str, u64); 8] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("", 1),
];
const SECONDS: [(&str, u32); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Bytes such as `64Mi`, `500k` or `65536`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (suffix, factor) = unit(&BYTES, text);
    amount(text, suffix)
        .and_then(|amount: u64| amount.checked_mul(factor))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("{text:?} is no number of bytes; write one such as 64Mi, 2Gi or 500k"))
}

/// Seconds of a time such as `24h`.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    let (suffix, factor) = unit(&SECONDS, text);
    let is_whole = !suffix.is_empty();
    amount(text, suffix)
        .filter(|_| is_whole)
        .and_then(|amount: u32| amount.checked_mul(factor))
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| format!("{text:?} is no time; write one such as 90s, 15m, 24h or 7d"))
}

pub(crate) fn bytes_to_text(bytes: u64) -> String {
    let fits = |(suffix, factor): &&(&str, u64)| suffix.ends_with('i') && bytes.is_multiple_of(*factor);
    let (suffix, factor) = BYTES.iter().rfind(fits).unwrap_or(&("", 1));
    format!("{}{suffix}", bytes / factor)
}

pub(crate) fn seconds_to_text(seconds: u32) -> String {
    let fits = |(_, factor): &&(&str, u32)| seconds.is_multiple_of(*factor);
    let (suffix, factor) = SECONDS.iter().find(fits).expect("1 s fits every whole number");
    format!("{}{suffix}", seconds / factor)
}

/// The unit that the text ends with.
fn unit<N: Copy + From<u8>>(units: &[(&'static str, N)], text: &str) -> (&'static str, N) {
    let found = units.iter().find(|(suffix, _)| text.ends_with(suffix));
    *found.unwrap_or(&("", N::from(1)))
}

fn amount<N: std::str::FromStr>(text: &str, suffix: &str) -> Option<N> {
    let digits = text.strip_suffix(suffix)?;
    // A sign is no part of an amount, though Rust would read one.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_kubernetes_writes_them() {
        let read = [
            ("1", 1),
            ("64Mi", 64 << 20),
            ("2Gi", 2 << 30),
            ("500k", 500_000),
            ("1G", 1_000_000_000),
        ];
        for (text, expected) in read {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in ["", "0", "-1", "+1", "1.5Gi", "Mi", "64 Mi", "64MB", "99999999999Ti"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, expected) in [("90s", 90), ("15m", 900), ("24h", 86_400), ("7d", 604_800)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in ["", "90", "0s", "-1s", "1.5h", "s", "1w", "99999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for amount in [1, 1_000, 1 << 10, 3 << 20, 64 << 30, 1 << 40, 12_345] {
            assert_eq!(bytes(&bytes_to_text(amount)), Ok(amount));
        }
        for amount in [1, 59, 60, 3_600, 86_400, 90_061] {
            assert_eq!(seconds(&seconds_to_text(amount)), Ok(amount));
        }
    }
}
