//! Passes frames on: device → relay → responder → relay → device, the hops of a message through a broker.

use super::peers::Peers;
use crate::generator::frame::{self, Frame, RESPONDER};

/// Bound of the table of devices; more are not welcomed.
const MOST_DEVICES: usize = 1 << 20;

/// Who is behind which connection.
#[derive(Default)]
pub(super) struct Relay {
    responder: Option<usize>,
    /// Connection of each device, by its number.
    devices: Vec<Option<usize>>,
}

impl Relay {
    /// Passes on what the peer `key` sent.
    pub(super) fn handle(&mut self, peers: &mut Peers, key: usize) -> Result<(), String> {
        let bytes = peers.take_inbox(key);
        let taken = frame::receive(&bytes, |frame| self.pass(peers, key, &frame))?;
        peers.keep(key, &bytes[taken..]);
        Ok(())
    }

    fn pass(&mut self, peers: &mut Peers, from: usize, frame: &Frame<'_>) {
        let to = match frame.payload {
            [] => self.introduce(from, frame.device),
            _ if self.responder == Some(from) => self.devices.get(frame.device as usize).copied().flatten(),
            _ => self.responder,
        };
        if let Some(to) = to {
            peers.send_with(to, |out| frame.encode(out));
        }
    }

    /// Notes who a connection is; the frame goes back as a welcome.
    fn introduce(&mut self, key: usize, device: u32) -> Option<usize> {
        if device == RESPONDER {
            self.responder = Some(key);
            return Some(key);
        }
        let index = device as usize;
        if index >= MOST_DEVICES {
            return None;
        }
        if self.devices.len() <= index {
            self.devices.resize(index + 1, None);
        }
        self.devices[index] = Some(key);
        Some(key)
    }
}
