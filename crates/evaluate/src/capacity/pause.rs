//! Waiting for a time.

use std::sync::mpsc;
use std::time::Duration;

/// Nothing is ever sent here, so that it waits for the whole time; a thread that parks itself may be woken early.
pub(crate) fn pause(time: Duration) {
    let (_sender, silence) = mpsc::sync_channel::<()>(0);
    let _ = silence.recv_timeout(time);
}
