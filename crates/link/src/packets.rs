//! Packets of MQTT 5 out of a stream of bytes.

use std::io;

use mqtt::{DecodeError, Packet, Version};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes read at once, at least.
const READ_BYTES: usize = 16 << 10;

/// Bytes that came and were not taken apart yet.
#[derive(Debug)]
pub(crate) struct Packets {
    bytes: Vec<u8>,
    taken: usize,
    /// Bytes of a packet, at most.
    limit: usize,
}

impl Packets {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            limit,
        }
    }

    /// The next packet, if it is here whole.
    pub(crate) fn next(&mut self) -> Result<Option<Packet<'_>>, DecodeError> {
        match Packet::read(&self.bytes[self.taken..], Version::V5, self.limit)? {
            Some((packet, len)) => {
                self.taken += len;
                Ok(Some(packet))
            }
            None => Ok(None),
        }
    }

    /// Where more bytes go.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        &mut self.bytes
    }

    /// Reads some bytes; the end of the stream is an error. May be given up at any await.
    pub(crate) async fn read_from(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        let buffer = self.buffer();
        buffer.reserve(READ_BYTES);
        match stream.read_buf(buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
