//! Sends back what comes: device → server → device.

use super::peers::Peers;

/// Answers what the peer `key` sent.
pub(super) fn handle(peers: &mut Peers, key: usize) -> Result<(), String> {
    let bytes = peers.take_inbox(key);
    peers.send(key, &bytes);
    Ok(())
}
