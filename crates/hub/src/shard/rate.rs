//! How fast a tenant may publish: no more than so many packets and bytes a second, with a burst of one second's worth.

use std::num::NonZeroU64;

use identity::Quotas;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// What may come at once after a quiet time, in time that the rate takes for it.
const BURST_NS: u64 = NS_PER_S;

/// One bound, as the instant until which what has passed uses it up: the generic cell rate algorithm.
#[derive(Clone, Copy, Debug)]
struct Bound {
    per_s: NonZeroU64,
    used_until_ns: u64,
}

/// Both bounds of a tenant. What passes may overdraw them once; then nothing does until that is made up for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    messages: Option<Bound>,
    bytes: Option<Bound>,
}

impl Rate {
    pub(crate) fn new(quotas: &Quotas) -> Self {
        let bound = |per_s: Option<u64>| {
            per_s.map(|per_s| Bound {
                per_s: NonZeroU64::new(per_s).unwrap_or(NonZeroU64::MIN),
                used_until_ns: 0,
            })
        };
        Self {
            messages: bound(quotas.messages_per_s),
            bytes: bound(quotas.bytes_per_s),
        }
    }

    /// Whether there is any bound.
    #[inline]
    pub(crate) fn is_bounded(&self) -> bool {
        self.messages.is_some() || self.bytes.is_some()
    }

    /// Whether a packet of `bytes` bytes may pass now; if so, it has.
    pub(crate) fn take(&mut self, now_ms: u64, bytes: usize) -> bool {
        let may_pass = self.opens_at_ms() <= now_ms;
        if may_pass {
            let now_ns = now_ms * NS_PER_MS;
            self.messages.iter_mut().for_each(|bound| bound.use_up(now_ns, 1));
            self.bytes
                .iter_mut()
                .for_each(|bound| bound.use_up(now_ns, bytes as u64));
        }
        may_pass
    }

    /// When the next packet may pass, on the monotonic clock in milliseconds.
    pub(crate) fn opens_at_ms(&self) -> u64 {
        let opens_at_ns = |bound: &Option<Bound>| bound.map_or(0, |bound| bound.used_until_ns.saturating_sub(BURST_NS));
        opens_at_ns(&self.messages)
            .max(opens_at_ns(&self.bytes))
            .div_ceil(NS_PER_MS)
    }
}

impl Bound {
    fn use_up(&mut self, now_ns: u64, amount: u64) {
        self.used_until_ns = self.used_until_ns.max(now_ns) + amount * NS_PER_S / self.per_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(messages_per_s: Option<u64>, bytes_per_s: Option<u64>) -> Rate {
        Rate::new(&Quotas {
            messages_per_s,
            bytes_per_s,
            ..Quotas::default()
        })
    }

    /// How many packets pass until `until_ms` when one tries at each millisecond as often as it can.
    fn passed(rate: &mut Rate, until_ms: u64, bytes: usize) -> u64 {
        (1_000..=until_ms)
            .map(|now_ms| {
                let mut passed = 0;
                while passed < 10_000 && rate.take(now_ms, bytes) {
                    passed += 1;
                }
                passed
            })
            .sum()
    }

    #[test]
    fn without_bounds_everything_passes() {
        assert_eq!(passed(&mut rate(None, None), 1_000, 1 << 28), 10_000);
    }

    #[test]
    fn what_passes_in_a_time_is_a_burst_of_a_second_and_the_rate() {
        let bounded = |until_ms| passed(&mut rate(Some(100), None), until_ms, 50);
        assert!((100..=101).contains(&bounded(1_000)), "{}", bounded(1_000));
        assert!((1_100..=1_102).contains(&bounded(11_000)), "{}", bounded(11_000));
        let by_bytes = passed(&mut rate(None, Some(5_000)), 11_000, 50);
        assert!((1_100..=1_102).contains(&by_bytes), "{by_bytes}");
    }

    #[test]
    fn the_tighter_bound_counts() {
        let both = passed(&mut rate(Some(100), Some(1_000)), 11_000, 50);
        assert!((220..=222).contains(&both), "{both}");
    }

    #[test]
    fn a_packet_larger_than_a_second_s_worth_passes_and_is_made_up_for() {
        let mut rate = rate(None, Some(1_000));
        assert!(rate.take(5_000, 10_000));
        assert!(!rate.take(5_001, 1));
        assert_eq!(rate.opens_at_ms(), 14_000);
        assert!(rate.take(14_000, 1));
    }

    #[test]
    fn a_quiet_time_saves_up_no_more_than_a_second_s_worth() {
        let mut rate = rate(Some(10), None);
        assert!(rate.take(1_000, 1));
        let burst = (0..100).filter(|_| rate.take(1_000_000, 1)).count();
        assert!((10..=11).contains(&burst), "{burst}");
    }
}
