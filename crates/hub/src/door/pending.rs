//! Connections that have not finished their CONNECT.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::task::AbortHandle;

/// The handshakes under way, oldest first. At the bound the oldest is given up, so that a flood of connections that
/// never finish cannot keep out one that does.
#[derive(Default)]
pub(crate) struct Pending {
    handshakes: Mutex<VecDeque<AbortHandle>>,
}

impl Pending {
    /// Notes one more handshake where `limit` may be under way; whether an older one was given up for it.
    pub(crate) fn add(&self, handshake: AbortHandle, limit: usize) -> bool {
        let mut handshakes = self.handshakes.lock().expect("no holder of this lock panics");
        while handshakes.front().is_some_and(AbortHandle::is_finished) {
            handshakes.pop_front();
        }
        handshakes.push_back(handshake);
        if handshakes.len() <= limit {
            return false;
        }
        handshakes.retain(|handshake| !handshake.is_finished());
        if handshakes.len() <= limit {
            return false;
        }
        handshakes.pop_front().inspect(AbortHandle::abort).is_some()
    }
}
