//! Frames of the arms without MQTT: length and device in front of a payload, nothing else.
//!
//! `[u32 bytes after this field][u32 device][payload]`, big endian. A frame without payload says who the connection is;
//! the server sends it back.

/// The device number by which the responder names itself.
pub(crate) const RESPONDER: u32 = u32::MAX;
const LENGTH_BYTES: usize = 4;
const DEVICE_BYTES: usize = 4;
/// Longest frame that is taken.
pub(crate) const MAXIMUM_FRAME_BYTES: usize = 16 << 20;

/// One frame, borrowed from the bytes that it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) device: u32,
    pub(crate) payload: &'a [u8],
}

impl Frame<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&((DEVICE_BYTES + self.payload.len()) as u32).to_be_bytes());
        out.extend_from_slice(&self.device.to_be_bytes());
        out.extend_from_slice(self.payload);
    }
}

/// The frame at the start of `bytes` and its length on the wire; none if more bytes are needed.
///
/// # Errors
/// A length that no frame has.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, String> {
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if !(DEVICE_BYTES..=MAXIMUM_FRAME_BYTES).contains(&length) {
        return Err(format!(
            "a frame of {length} bytes, where {DEVICE_BYTES} to {MAXIMUM_FRAME_BYTES} can be"
        ));
    }
    let end = LENGTH_BYTES + length;
    let Some(body) = bytes.get(LENGTH_BYTES..end) else {
        return Ok(None);
    };
    let Some((device, payload)) = body.split_first_chunk::<DEVICE_BYTES>() else {
        return Ok(None);
    };
    Ok(Some((
        Frame {
            device: u32::from_be_bytes(*device),
            payload,
        },
        end,
    )))
}

/// Hands every whole frame at the start of `inbox` to `on_frame`; returns the bytes taken.
///
/// # Errors
/// As [`decode`].
pub(crate) fn receive(inbox: &[u8], mut on_frame: impl FnMut(Frame<'_>)) -> Result<usize, String> {
    let mut taken = 0;
    while let Some((frame, length)) = decode(&inbox[taken..])? {
        on_frame(frame);
        taken += length;
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_back_and_half_of_one_is_waited_for() {
        let mut bytes = Vec::new();
        let frame = Frame {
            device: 7,
            payload: b"reading",
        };
        frame.encode(&mut bytes);
        assert_eq!(decode(&bytes), Ok(Some((frame, bytes.len()))));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Ok(None));
        }
    }

    #[test]
    fn an_impossible_length_is_refused_before_it_is_waited_for() {
        assert!(decode(&[0, 0, 0, 3]).is_err());
        assert!(decode(&[0xFF, 0, 0, 0]).is_err());
    }
}
