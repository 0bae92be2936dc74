//! A message as the log and the outbox have it.

use mqtt::{Packet, Publish, Version};

/// Where a message had its place in the outbox of another hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin<'a> {
    /// The edge.
    pub edge: &'a str,
    /// See [`Ticket::epoch`](super::Ticket::epoch).
    pub epoch: u64,
    /// See [`Ticket::sequence`](super::Ticket::sequence).
    pub sequence: u64,
    /// See [`Outgoing::after`](super::Outgoing::after).
    pub after: u64,
}

/// A message with what has to be known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel<'a> {
    /// When the first hub took it, in milliseconds of Unix time by the clock there.
    pub received_ms: u64,
    /// Where it comes from; `None`: from a client of this hub.
    pub origin: Option<Origin<'a>>,
    /// The message; its packet identifier means nothing.
    pub publish: Publish<'a>,
}

/// Bytes that are no parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no message of an outbox")]
pub struct NoParcel;

impl<'a> Parcel<'a> {
    /// Appends the parcel's bytes: the time, the origin behind the length of its name, the flags and the body of the
    /// PUBLISH as MQTT 5 has it (section 3.3).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.received_ms.to_le_bytes());
        let name = self.origin.map_or("", |origin| origin.edge);
        out.push(u8::try_from(name.len()).expect("names are short"));
        if let Some(origin) = self.origin {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&origin.epoch.to_le_bytes());
            out.extend_from_slice(&origin.sequence.to_le_bytes());
            out.extend_from_slice(&origin.after.to_le_bytes());
        }
        self.publish.encode(Version::V5, out);
    }

    /// Takes a parcel apart.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, NoParcel> {
        let (received_ms, rest) = take_u64(bytes)?;
        let (len, rest) = rest.split_first().ok_or(NoParcel)?;
        let (origin, rest) = match usize::from(*len) {
            0 => (None, rest),
            len => {
                let (origin, rest) = take_origin(len, rest)?;
                (Some(origin), rest)
            }
        };
        match Packet::read(rest, Version::V5, rest.len()) {
            Ok(Some((Packet::Publish(publish), len))) if len == rest.len() => Ok(Self {
                received_ms,
                origin,
                publish,
            }),
            _ => Err(NoParcel),
        }
    }
}

fn take_u64(bytes: &[u8]) -> Result<(u64, &[u8]), NoParcel> {
    let (first, rest) = bytes.split_first_chunk().ok_or(NoParcel)?;
    Ok((u64::from_le_bytes(*first), rest))
}

fn take_origin(len: usize, bytes: &[u8]) -> Result<(Origin<'_>, &[u8]), NoParcel> {
    let (name, rest) = bytes.split_at_checked(len).ok_or(NoParcel)?;
    let edge = std::str::from_utf8(name).map_err(|_| NoParcel)?;
    let (epoch, rest) = take_u64(rest)?;
    let (sequence, rest) = take_u64(rest)?;
    let (after, rest) = take_u64(rest)?;
    let origin = Origin {
        edge,
        epoch,
        sequence,
        after,
    };
    Ok((origin, rest))
}

#[cfg(test)]
mod tests {
    use mqtt::QoS;

    use super::*;

    fn parcel(origin: Option<Origin<'_>>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let publish = Publish::new("devices/p7/telemetry", QoS::AtMostOnce, None, b"21.5");
        let received_ms = 1_700_000_000_123;
        Parcel {
            received_ms,
            origin,
            publish,
        }
        .encode(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read_back() {
        let origin = Origin {
            edge: "hall-1",
            epoch: 1 << 40,
            sequence: 9,
            after: 7,
        };
        for origin in [None, Some(origin)] {
            let bytes = parcel(origin);
            let read = Parcel::decode(&bytes).unwrap();
            assert_eq!((read.origin, read.received_ms), (origin, 1_700_000_000_123));
            assert_eq!(
                (read.publish.topic, read.publish.payload),
                ("devices/p7/telemetry", b"21.5".as_slice())
            );
        }
    }

    #[test]
    fn what_is_cut_off_or_has_more_behind_is_refused() {
        let mut bytes = parcel(Some(Origin {
            edge: "hall-1",
            epoch: 1,
            sequence: 2,
            after: 2,
        }));
        for len in 0..bytes.len() {
            assert_eq!(Parcel::decode(&bytes[..len]), Err(NoParcel), "{len}");
        }
        bytes.push(0);
        assert_eq!(Parcel::decode(&bytes), Err(NoParcel));
    }
}
