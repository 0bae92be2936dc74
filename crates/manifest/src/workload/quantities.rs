//! Amounts of resources, as Kubernetes writes them.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity;

/// A share of processor time: `500m` is half a core, `2` are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu {
    /// Thousandths of a core.
    pub millis: u32,
}

/// An amount of memory or disk, such as `64Mi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const CPU_HELP: &str = "is no share of processor time; write one such as 500m, 0.5 or 2";

impl Cpu {
    fn parse(text: &str) -> Option<Self> {
        let millis = match text.strip_suffix('m') {
            Some(millis) if millis.bytes().all(|byte| byte.is_ascii_digit()) => millis.parse().ok()?,
            _ => thousandths(text)?,
        };
        (millis > 0).then_some(Cpu { millis })
    }
}

/// Of a decimal number with at most three places.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(places) || whole.len() + places.len() == 0 || places.len() > 3 {
        return None;
    }
    format!("{whole}{places:0<3}").parse().ok()
}

impl<'de> Deserialize<'de> for Cpu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Cpu;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share of processor time such as 500m")
            }

            fn visit_i64<E: de::Error>(self, cores: i64) -> Result<Cpu, E> {
                self.visit_str(&cores.to_string())
            }

            fn visit_f64<E: de::Error>(self, cores: f64) -> Result<Cpu, E> {
                self.visit_str(&cores.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cpu, E> {
                Cpu::parse(text).ok_or_else(|| E::custom(format!("{text:?} {CPU_HELP}")))
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

impl Serialize for Cpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}m", self.millis))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount such as 64Mi")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Bytes, E> {
                self.visit_str(&bytes.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                quantity::bytes(text).map(Bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&quantity::bytes_to_text(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Cpu;

    #[test]
    fn processor_time_is_read_as_kubernetes_writes_it() {
        for (text, millis) in [
            ("500m", 500),
            ("2", 2_000),
            ("0.5", 500),
            (".25", 250),
            ("1.125", 1_125),
        ] {
            assert_eq!(Cpu::parse(text), Some(Cpu { millis }), "{text}");
        }
        for wrong in ["", "0", "0m", "-1", "+1", "1.5m", "half", "1.0001", "5 m", "."] {
            assert_eq!(Cpu::parse(wrong), None, "{wrong}");
        }
    }
}
