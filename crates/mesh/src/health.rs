//! Who fails again and again is not asked for a while: an endpoint of this node, or another node.

use std::time::Duration;

/// In a row, until it is not asked.
const FAILURES: u32 = 5;
/// Not asked for so long the first time, and twice as long each further time that it fails as soon as it is asked again.
const FIRST_OUT: Duration = Duration::from_secs(1);
const LONGEST_OUT: Duration = Duration::from_secs(60);

/// How one has answered lately. Times are of any clock that does not go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    failures: u32,
    /// How often in a row it was not asked for a while, and failed again then.
    outs: u32,
    out_until: Duration,
}

impl Health {
    /// Whether it is not to be asked, unless nobody else is there.
    pub(crate) fn is_out(&self, now: Duration) -> bool {
        now < self.out_until
    }

    pub(crate) fn out_until(&self) -> Duration {
        self.out_until
    }

    /// It has answered, whatever it said.
    pub(crate) fn answered(&mut self) {
        *self = Health::default();
    }

    /// It could not be reached, or did not answer as it should.
    pub(crate) fn failed(&mut self, now: Duration) {
        self.failures += 1;
        if self.is_out(now) || self.failures < FAILURES && self.outs == 0 {
            return;
        }
        self.failures = 0;
        self.out_until = now + LONGEST_OUT.min(FIRST_OUT * 2_u32.saturating_pow(self.outs));
        self.outs += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_fails_five_times_in_a_row_is_out_for_a_second_and_then_for_longer_each_time() {
        let mut health = Health::default();
        let mut now = MS;
        for _ in 0..4 {
            health.failed(now);
            assert!(!health.is_out(now));
        }
        for out_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            health.failed(now);
            assert!(health.is_out(now + Duration::from_secs(out_s) - MS));
            now += Duration::from_secs(out_s);
            assert!(!health.is_out(now), "{out_s}");
        }
    }

    #[test]
    fn an_answer_in_between_makes_up_for_all() {
        let mut health = Health::default();
        for _ in 0..100 {
            (0..4).for_each(|_| health.failed(MS));
            health.answered();
        }
        assert!(!health.is_out(MS));
    }

    #[test]
    fn those_that_were_under_way_when_it_went_out_do_not_count_twice() {
        let mut health = Health::default();
        (0..100).for_each(|_| health.failed(MS));
        assert!(!health.is_out(MS + FIRST_OUT));
    }
}
