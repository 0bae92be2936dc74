//! The metas of the log's records of an outbox.

use super::queue::{Kept, Place};

/// All about a message but itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageMeta {
    pub(crate) place: Place,
    /// When the hub took it, in milliseconds of Unix time.
    pub(crate) received_ms: u64,
    /// Seconds from then until it is dropped if it still waits; `None`: not for its age.
    pub(crate) expiry_s: Option<u32>,
}

/// Bytes of a message's meta behind the number of its queue.
const MESSAGE_BYTES: usize = 28;

impl MessageMeta {
    /// Appends the meta of a message of the queue of this number.
    pub(crate) fn encode(self, queue: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&queue.to_le_bytes());
        out.extend_from_slice(&self.place.epoch.to_le_bytes());
        out.extend_from_slice(&self.place.sequence.to_le_bytes());
        out.extend_from_slice(&self.received_ms.to_le_bytes());
        out.extend_from_slice(&self.expiry_s.unwrap_or(u32::MAX).to_le_bytes());
    }

    fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Self {
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let expiry_s = u32::from_le_bytes(bytes[24..].try_into().expect("four bytes"));
        Self {
            place: Place {
                epoch: u64_at(0),
                sequence: u64_at(8),
            },
            received_ms: u64_at(16),
            expiry_s: (expiry_s != u32::MAX).then_some(expiry_s),
        }
    }
}

/// Appends the meta of the state of the queue of this number.
pub(crate) fn encode_state(kept: &Kept, queue: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&queue.to_le_bytes());
    let state = postcard::to_allocvec(kept).expect("memory is all that it takes");
    out.extend_from_slice(&state);
    out.extend_from_slice(kept.edge.as_deref().unwrap_or_default().as_bytes());
}

/// The number of a queue, and its message.
pub(crate) fn decode_message(bytes: &[u8]) -> Option<(u32, MessageMeta)> {
    let (queue, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*queue), MessageMeta::decode(rest.try_into().ok()?)))
}

/// The number of a queue, and its state.
pub(crate) fn decode_state(bytes: &[u8]) -> Option<(u32, Kept)> {
    let (queue, rest) = bytes.split_first_chunk()?;
    let (mut kept, edge): (Kept, _) = postcard::take_from_bytes(rest).ok()?;
    kept.edge = (!edge.is_empty()).then(|| String::from_utf8_lossy(edge).into_owned());
    Some((u32::from_le_bytes(*queue), kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::queue::{KeptEpoch, KeptLane};

    #[test]
    fn what_is_written_is_read_back() {
        let meta = MessageMeta {
            place: Place {
                epoch: 3 << 40,
                sequence: 9,
            },
            received_ms: 1_700_000_000_123,
            expiry_s: Some(60),
        };
        let mut bytes = Vec::new();
        meta.encode(7, &mut bytes);
        assert_eq!(decode_message(&bytes), Some((7, meta)));
        let kept = Kept {
            route: "telemetry".to_owned(),
            epochs: vec![KeptEpoch {
                number: 2,
                end: 9,
                lanes: [
                    KeptLane {
                        floor: 2,
                        settled: vec![(3, 4)],
                    },
                    KeptLane::default(),
                ],
            }],
            ..Kept::default()
        };
        let of_edge = Kept {
            edge: Some("hall-1".to_owned()),
            route: "telemetry".to_owned(),
            ..Kept::default()
        };
        for kept in [kept, of_edge] {
            bytes.clear();
            encode_state(&kept, 8, &mut bytes);
            assert_eq!(decode_state(&bytes), Some((8, kept)));
        }
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let mut bytes = Vec::new();
        encode_state(
            &Kept {
                route: "telemetry".to_owned(),
                ..Kept::default()
            },
            8,
            &mut bytes,
        );
        for len in 0..bytes.len() {
            assert!(decode_state(&bytes[..len]).is_none(), "{len}");
            assert!(decode_message(&bytes[..len]).is_none(), "{len}");
        }
    }
}
