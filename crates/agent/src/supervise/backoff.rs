//! Pauses before what keeps ending is started again.

use std::time::Duration;

/// Before the first start again.
const FIRST: Duration = Duration::from_secs(1);
/// However often it has ended.
const LONGEST: Duration = Duration::from_secs(300);
/// Who has run for so long begins anew.
const SOUND: Duration = Duration::from_secs(600);

/// How often something has ended without having run for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after an end, which came after `ran`. `random` is from 0 to 1: many that ended together, such
    /// as by a service that they all need, do not come back together.
    pub(super) fn after(&mut self, ran: Duration, random: f64) -> Duration {
        if ran >= SOUND {
            self.failures = 0;
        }
        let pause = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        pause.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_ceiling_and_begin_anew_after_a_long_run() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..11).map(|_| backoff.after(Duration::ZERO, 1.0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.after(SOUND, 1.0), FIRST);
        assert_eq!(backoff.after(Duration::ZERO, 1.0), FIRST * 2);
    }

    #[test]
    fn chance_takes_up_to_half_of_a_pause() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.after(Duration::ZERO, 0.0), FIRST / 2);
        assert_eq!(backoff.after(Duration::ZERO, 0.5), FIRST * 3 / 2);
    }
}
