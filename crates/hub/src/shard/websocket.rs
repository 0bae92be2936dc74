//! WebSocket framing of an established connection, RFC 6455 section 5: MQTT bytes travel as binary frames whose
//! borders mean nothing (MQTT-6.0.0-2). Frames are taken apart as their bytes arrive, so that one costs no memory.

use std::io::Cursor;

use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// Longest payload of a control frame, RFC 6455 section 5.5.
const CONTROL_MAX_BYTES: usize = 125;

/// What a client's frames have asked for beside delivering MQTT bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing.
    None,
    /// Frames to send back, ready as bytes: pongs.
    Send(Vec<u8>),
    /// The closing handshake, ready as bytes; the connection ends after it.
    Close(Vec<u8>),
}

/// A client broke the framing; the text says how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FramingError(pub(crate) &'static str);

/// The frame that is being read.
#[derive(Debug, Default)]
pub(crate) struct WebSocket {
    /// Bytes of a frame header that has not arrived whole: at most 14.
    header: Vec<u8>,
    /// Bytes of the frame's payload still to come.
    remaining: u64,
    mask: [u8; 4],
    mask_offset: usize,
    /// Payload of a control frame so far, or `None` within a data frame.
    control: Option<(Control, Vec<u8>)>,
}

impl WebSocket {
    /// Takes frames apart in place: `bytes` becomes the MQTT bytes in them.
    pub(crate) fn unframe(&mut self, bytes: &mut Vec<u8>, from: usize) -> Result<Answer, FramingError> {
        let mut answer = Answer::None;
        let mut read = from;
        let mut write = from;
        while read < bytes.len() {
            if self.remaining == 0 && self.control.is_none() {
                let Some(used) = self.read_header(&bytes[read..])? else {
                    break;
                };
                read += used;
                if self.remaining > 0 {
                    continue;
                }
            }
            let take = usize::try_from(self.remaining)
                .unwrap_or(usize::MAX)
                .min(bytes.len() - read);
            for byte in &mut bytes[read..read + take] {
                *byte ^= self.mask[self.mask_offset & 3];
                self.mask_offset += 1;
            }
            self.remaining -= take as u64;
            match &mut self.control {
                Some((_, payload)) => payload.extend_from_slice(&bytes[read..read + take]),
                None => {
                    bytes.copy_within(read..read + take, write);
                    write += take;
                }
            }
            read += take;
            if self.remaining == 0
                && let Some((kind, payload)) = self.control.take()
            {
                answer = combine(answer, kind, &payload);
                if matches!(answer, Answer::Close(_)) {
                    break;
                }
            }
        }
        bytes.truncate(write);
        Ok(answer)
    }

    /// Reads a frame header; `None` when it has not all arrived (its bytes are kept).
    fn read_header(&mut self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        let kept = self.header.len();
        self.header.extend_from_slice(&bytes[..bytes.len().min(14 - kept)]);
        let mut cursor = Cursor::new(&self.header[..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| FramingError("frame header"))?;
        let used = usize::try_from(cursor.position()).unwrap_or(0);
        let Some((header, length)) = parsed else {
            return Ok(None);
        };
        self.header = Vec::new();
        self.mask = header.mask.ok_or(FramingError("frame of a client without mask"))?;
        self.mask_offset = 0;
        self.remaining = length;
        self.control = match header.opcode {
            OpCode::Data(Data::Binary | Data::Continue) => None,
            OpCode::Control(kind) if length as usize <= CONTROL_MAX_BYTES && header.is_final => {
                Some((kind, Vec::new()))
            }
            OpCode::Control(_) => return Err(FramingError("control frame that is long or in pieces")),
            OpCode::Data(_) => return Err(FramingError("text frame where MQTT wants binary (MQTT-6.0.0-1)")),
        };
        Ok(Some(used - kept))
    }
}

fn combine(answer: Answer, kind: Control, payload: &[u8]) -> Answer {
    match kind {
        Control::Close => Answer::Close(control_frame(Control::Close, payload)),
        Control::Ping => {
            let mut bytes = if let Answer::Send(bytes) = answer {
                bytes
            } else {
                Vec::new()
            };
            bytes.extend(control_frame(Control::Pong, payload));
            Answer::Send(bytes)
        }
        Control::Pong | Control::Reserved(_) => answer,
    }
}

fn control_frame(kind: Control, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + payload.len());
    append_header(OpCode::Control(kind), payload.len(), &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// Appends the header of a binary frame that carries `length` bytes of MQTT.
pub(crate) fn append_binary_header(length: usize, out: &mut Vec<u8>) {
    append_header(OpCode::Data(Data::Binary), length, out);
}

fn append_header(opcode: OpCode, length: usize, out: &mut Vec<u8>) {
    let header = FrameHeader {
        opcode,
        ..FrameHeader::default()
    };
    header
        .format(length as u64, out)
        .expect("writing to a vector cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_frame(opcode: OpCode, payload: &[u8]) -> Vec<u8> {
        let mask = [7, 77, 177, 13];
        let mut bytes = Vec::new();
        FrameHeader {
            opcode,
            mask: Some(mask),
            ..FrameHeader::default()
        }
        .format(payload.len() as u64, &mut bytes)
        .unwrap();
        bytes.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ mask[i & 3]));
        bytes
    }

    #[test]
    fn frames_cut_anywhere_give_the_same_mqtt_bytes() {
        let payload: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        let mut stream = client_frame(OpCode::Data(Data::Binary), &payload[..3]);
        stream.extend(client_frame(OpCode::Control(Control::Ping), b"are you there"));
        stream.extend(client_frame(OpCode::Control(Control::Ping), b""));
        stream.extend(client_frame(OpCode::Data(Data::Binary), &payload[3..]));
        for step in [1, 2, 3, 7, 13, 1000, stream.len()] {
            let (mut socket, mut got, mut pongs) = (WebSocket::default(), Vec::new(), Vec::new());
            for piece in stream.chunks(step) {
                let mut bytes = piece.to_vec();
                if let Answer::Send(frames) = socket.unframe(&mut bytes, 0).unwrap() {
                    pongs.extend(frames);
                }
                got.extend(bytes);
            }
            assert_eq!(got, payload, "in pieces of {step}");
            assert_eq!(
                pongs,
                [&[0x8A, 13][..], b"are you there", &[0x8A, 0]].concat(),
                "in pieces of {step}"
            );
        }
    }

    #[test]
    fn a_close_is_answered_and_nothing_after_it_is_read() {
        let mut bytes = client_frame(OpCode::Control(Control::Close), &[3, 232]);
        bytes.extend(client_frame(OpCode::Data(Data::Binary), b"late"));
        let answer = WebSocket::default().unframe(&mut bytes, 0).unwrap();
        assert_eq!((answer, bytes), (Answer::Close(vec![0x88, 2, 3, 232]), vec![]));
    }

    #[test]
    fn text_unmasked_and_long_control_frames_are_refused() {
        let mut unmasked = Vec::new();
        append_binary_header(1, &mut unmasked);
        unmasked.push(0);
        for mut bytes in [
            client_frame(OpCode::Data(Data::Text), b"x"),
            client_frame(OpCode::Control(Control::Ping), &[0; 126]),
            unmasked,
        ] {
            assert!(WebSocket::default().unframe(&mut bytes, 0).is_err());
        }
    }
}
