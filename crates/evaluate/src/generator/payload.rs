//! What a message carries: its number, padded to size, or a reading with its number in front.

use std::fmt::Write;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::rtt::Trace;

/// Bytes of a message's number: the block in the upper half, the message within it in the lower.
pub(crate) const NUMBER_BYTES: usize = 8;
const JSON_HEAD: &[u8] = b"{\"seq\":\"";
const JSON_NUMBER_DIGITS: usize = 16;
/// Bytes that messages are padded from in turn, and how many messages at least: more than any batch of a link holds,
/// which may compress what repeats.
const POOL_BYTES: usize = 1 << 20;
const POOL_MESSAGES: usize = 16;

/// Payloads of one cell, made ready before the block.
pub(crate) enum Payloads {
    /// The number in big endian, then random bytes, other ones in each message: none is faster than another because it
    /// is compressed.
    Padded { pool: Vec<u8>, bytes: usize },
    /// Rows of a data set in turn, as JSON.
    Rows(Vec<Vec<u8>>),
}

impl Payloads {
    /// `bytes` long, at least [`NUMBER_BYTES`].
    pub(crate) fn padded(bytes: u32) -> Payloads {
        let bytes = (bytes as usize).max(NUMBER_BYTES);
        let mut pool = vec![0; POOL_BYTES.max(POOL_MESSAGES * bytes)];
        ChaCha8Rng::seed_from_u64(0).fill(&mut pool[..]);
        Payloads::Padded { pool, bytes }
    }

    pub(crate) fn rows(trace: &Trace) -> Payloads {
        Payloads::Rows(trace.readings.iter().map(|reading| row(&reading.json)).collect())
    }

    /// The payload of a message.
    pub(crate) fn of(&mut self, block: u32, message: u32) -> &[u8] {
        let number = u64::from(block) << 32 | u64::from(message);
        match self {
            Payloads::Padded { pool, bytes } => {
                let place = message as usize % (pool.len() / *bytes);
                let payload = &mut pool[place * *bytes..(place + 1) * *bytes];
                payload[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
                payload
            }
            Payloads::Rows(rows) => {
                let index = message as usize % rows.len();
                let bytes = &mut rows[index];
                let digits = &mut bytes[JSON_HEAD.len()..JSON_HEAD.len() + JSON_NUMBER_DIGITS];
                for (digit, shift) in digits.iter_mut().zip((0..64).step_by(4).rev()) {
                    *digit = b"0123456789abcdef"[(number >> shift & 0xF) as usize];
                }
                bytes
            }
        }
    }

    /// Bytes of the median payload.
    pub(crate) fn median_bytes(&self) -> u32 {
        match self {
            Payloads::Padded { bytes, .. } => *bytes as u32,
            Payloads::Rows(rows) => {
                let mut lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
                lengths.sort_unstable();
                lengths[lengths.len() / 2] as u32
            }
        }
    }
}

fn row(json: &str) -> Vec<u8> {
    let members = json.trim_start().strip_prefix('{').unwrap_or(json);
    let mut text = String::from_utf8_lossy(JSON_HEAD).into_owned();
    // Writing to a string does not fail.
    let _ = write!(text, "{:0width$}\",{members}", 0, width = JSON_NUMBER_DIGITS);
    text.into_bytes()
}

/// The number in a payload, whichever way it is written.
pub(crate) fn number_of(payload: &[u8]) -> Option<u64> {
    if let Some(rest) = payload.strip_prefix(JSON_HEAD) {
        let digits = std::str::from_utf8(rest.get(..JSON_NUMBER_DIGITS)?).ok()?;
        return u64::from_str_radix(digits, 16).ok();
    }
    big_endian(payload)
}

/// The first eight bytes as a number.
pub(crate) fn big_endian(bytes: &[u8]) -> Option<u64> {
    bytes
        .first_chunk::<NUMBER_BYTES>()
        .map(|chunk| u64::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::Reading;

    #[test]
    fn a_padded_payload_has_its_size_and_gives_back_its_number() {
        let mut payloads = Payloads::padded(64);
        let payload = payloads.of(3, 77);
        assert_eq!((payload.len(), number_of(payload)), (64, Some(3 << 32 | 77)));
    }

    #[test]
    fn the_bytes_behind_the_number_are_others_in_each_message_of_a_batch() {
        for bytes in [64, 250_000] {
            let mut payloads = Payloads::padded(bytes);
            let mut bodies: Vec<Vec<u8>> = (0..16).map(|i| payloads.of(1, i)[NUMBER_BYTES..].to_vec()).collect();
            assert!(bodies.iter().all(|body| body.iter().any(|byte| *byte != body[0])));
            bodies.sort();
            bodies.dedup();
            assert_eq!(bodies.len(), 16);
        }
    }

    #[test]
    fn a_reading_stays_json_and_gives_back_its_number() {
        let readings = vec![Reading {
            at_ns: 0,
            device: 0,
            json: "{\"t\": 21.5}".into(),
        }];
        let trace = Trace {
            source: String::new(),
            sha256: String::new(),
            readings,
        };
        let mut payloads = Payloads::rows(&trace);
        let payload = payloads.of(2, 11).to_vec();
        let json: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(
            (json["t"].as_f64(), json["seq"].as_str()),
            (Some(21.5), Some("000000020000000b"))
        );
        assert_eq!(number_of(&payload), Some(2 << 32 | 11));
        assert_eq!(payloads.median_bytes() as usize, payload.len());
    }
}
