//! Bandwidth as people write it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a line may be set to, in bits a second. Below, a full packet would take more than 12 s.
const LEAST_BIT_PER_S: u64 = 1_000;
const MOST_BIT_PER_S: u64 = 10_000_000_000;
const UNITS: [(&str, u64); 4] = [
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

/// Bits a second that a line carries in each direction, IP headers counted; none = as fast as the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bandwidth {
    /// Bits a second.
    pub bit_per_s: Option<u64>,
}

impl Bandwidth {
    /// No limit but the machine's.
    pub const UNSHAPED: Bandwidth = Bandwidth { bit_per_s: None };

    /// So many bits a second.
    pub const fn of(bit_per_s: u64) -> Bandwidth {
        Bandwidth {
            bit_per_s: Some(bit_per_s),
        }
    }

    /// Whether a line can have it: none, or 1 kbit/s to 10 Gbit/s.
    pub(super) fn is_possible(self) -> bool {
        self.bit_per_s
            .is_none_or(|rate| (LEAST_BIT_PER_S..=MOST_BIT_PER_S).contains(&rate))
    }

    /// Nanoseconds that so many bytes take to be sent; 0 where unshaped.
    pub(super) fn sending_ns(self, bytes: usize) -> u64 {
        let bits_ns = bytes as u64 * 8 * 1_000_000_000;
        self.bit_per_s.map_or(0, |rate| bits_ns.div_ceil(rate.max(1)))
    }
}

impl FromStr for Bandwidth {
    type Err = String;

    /// Of `8kbit`, `1.5mbit`, `1gbit` or `unshaped`.
    fn from_str(text: &str) -> Result<Bandwidth, String> {
        if text == "unshaped" {
            return Ok(Bandwidth::UNSHAPED);
        }
        let wrong = || format!("`{text}` is no bandwidth: write 8kbit, 10mbit or unshaped");
        let split = |(unit, scale): (&str, u64)| text.strip_suffix(unit).map(|number| (number, scale));
        let (number, scale) = UNITS.into_iter().find_map(split).ok_or_else(wrong)?;
        let value: f64 = number.trim().parse().map_err(|_| wrong())?;
        let bandwidth = Bandwidth::of((value * scale as f64).round() as u64);
        if bandwidth.is_possible() {
            Ok(bandwidth)
        } else {
            Err(format!("`{text}` is not within 1kbit … 10gbit"))
        }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(rate) = self.bit_per_s else {
            return out.pad("unshaped");
        };
        let (unit, scale) = UNITS
            .into_iter()
            .find(|(_, scale)| rate >= *scale)
            .unwrap_or(("bit", 1));
        out.pad(&format!("{}{unit}", rate as f64 / scale as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_is_read_as_it_is_written() {
        for text in ["8kbit", "1.5mbit", "10mbit", "1gbit", "1500bit", "unshaped"] {
            let bandwidth: Bandwidth = text.parse().unwrap();
            assert_eq!(bandwidth.to_string().parse(), Ok(bandwidth), "{text}");
        }
        assert_eq!("8kbit".parse(), Ok(Bandwidth::of(8_000)));
    }

    #[test]
    fn what_no_line_can_have_is_refused() {
        for text in [
            "", "8", "kbit", "-8kbit", "0bit", "999bit", "11gbit", "nanbit", "infkbit",
        ] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text}");
        }
    }

    #[test]
    fn sending_takes_the_time_of_its_bits() {
        assert_eq!(Bandwidth::of(8_000).sending_ns(1_500), 1_500_000_000);
        assert_eq!(Bandwidth::UNSHAPED.sending_ns(1_500), 0);
    }
}
