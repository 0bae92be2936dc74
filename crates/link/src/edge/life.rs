//! Signs of life of the other end, and ours to it.

use std::time::Duration;

use tokio::time::Instant;

/// Seconds within which each end hears of the other; a line that is silent for twice as long is broken.
pub(super) const KEEP_ALIVE_S: u16 = 10;
/// How often it is looked for signs. A cloud that hears nothing for two beats still waits for another.
pub(super) const BEAT: Duration = Duration::from_secs(KEEP_ALIVE_S as u64 / 2);

/// When there were any.
pub(super) struct Life {
    heard: Instant,
    wrote: Instant,
    is_pinged: bool,
}

/// What a beat comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// Both ends are alive, or the other one is asked already.
    Calm,
    /// It is to be asked.
    Ping,
    /// It has been silent for so long.
    Broken(Duration),
}

impl Life {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            heard: now,
            wrote: now,
            is_pinged: false,
        }
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.is_pinged = false;
    }

    pub(super) fn wrote(&mut self, now: Instant) {
        self.wrote = now;
    }

    /// Messages and what acknowledges them are signs of both ends: on a line of 8 kbit/s a ping beside them would take
    /// a twenty-fifth of it.
    pub(super) fn beat(&mut self, now: Instant) -> Beat {
        let silent = now.duration_since(self.heard);
        if silent > 2 * Duration::from_secs(KEEP_ALIVE_S.into()) {
            return Beat::Broken(silent);
        }
        let is_quiet = silent.max(now.duration_since(self.wrote)) >= BEAT;
        if !is_quiet || self.is_pinged {
            return Beat::Calm;
        }
        self.is_pinged = true;
        Beat::Ping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(1_300);

    #[test]
    fn no_ping_is_sent_beside_messages_that_are_acknowledged() {
        let start = Instant::now();
        let mut life = Life::new(start);
        for step in 0..100 {
            let now = start + STEP * step;
            life.wrote(now);
            assert_eq!(life.beat(now + STEP / 2), Beat::Calm);
            life.heard(now + STEP);
        }
    }

    #[test]
    fn a_line_on_which_one_end_is_quiet_for_a_beat_is_pinged_once() {
        let start = Instant::now();
        for is_heard in [true, false] {
            let mut life = Life::new(start);
            match is_heard {
                true => life.heard(start + BEAT),
                false => life.wrote(start + BEAT),
            }
            assert_eq!(life.beat(start + BEAT), Beat::Ping);
            assert_eq!(life.beat(start + 2 * BEAT), Beat::Calm);
            life.heard(start + 2 * BEAT);
            assert_eq!(life.beat(start + 3 * BEAT), Beat::Ping);
        }
    }

    #[test]
    fn a_line_that_is_silent_for_twenty_seconds_is_broken_however_much_is_written_to_it() {
        let start = Instant::now();
        let mut life = Life::new(start);
        for beat in 1..=4 {
            life.wrote(start + BEAT * beat);
            assert!(!matches!(life.beat(start + BEAT * beat), Beat::Broken(_)));
        }
        assert_eq!(life.beat(start + 5 * BEAT), Beat::Broken(5 * BEAT));
    }
}
