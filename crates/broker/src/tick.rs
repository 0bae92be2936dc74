//! What happens because time has passed: keep-alive, delayed wills, the end of sessions and retained messages.

use mqtt::ReasonCode;

use crate::ids::Slot;
use crate::{Broker, Now, Sink};

impl Broker {
    /// Does what is due: keep-alive (1.5 times, MQTT-3.1.2-22), wills, session and retained expiry, and the searches
    /// for retained messages that were too long for the turn before.
    pub fn tick(&mut self, now: Now, out: &mut dyn Sink) {
        while let Some(slot) = self.timers.first_due(now.monotonic_ms) {
            self.due(now, slot, out);
        }
        self.expire_retained(now, out);
        self.go_on_searching(now, out);
    }

    /// When [`Broker::tick`] has something to do, on the monotonic clock in milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        let searching = (!self.searching.is_empty()).then_some(0);
        [searching, self.timers.next(), self.retained.next_expiry()]
            .into_iter()
            .flatten()
            .min()
    }

    fn due(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) {
        let session = self.sessions.get(slot);
        let is_over = |at: Option<u64>| at.is_some_and(|at| at <= now.monotonic_ms);
        if session.live.is_some() {
            if is_over(session.next_deadline()) {
                return self.abort(now, slot, ReasonCode::KeepAliveTimeout, out);
            }
        } else if is_over(session.ends_at_ms()) {
            self.end(now, slot, out);
            return;
        } else if self.fire_due_will(now, slot, out) {
            // Refused, it costs at most that the will comes again after a crash.
            let _ = self.log_session(now, slot, out);
        }
        self.arm(slot);
    }
}
