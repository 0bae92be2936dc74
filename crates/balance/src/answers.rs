//! How long a node takes for an answer, by how many requests each of its endpoints has.

use std::time::Duration;

/// Places for each doubling of the requests of an endpoint.
const PLACES_PER_DOUBLING: f32 = 8.0;
/// Up to 256 requests of each endpoint; more share the last place.
const PLACES: usize = 65;
/// Of a new answer's time in the mean.
const WEIGHT: f32 = 1.0 / 8.0;
/// What nobody has seen for so long is not known any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);
/// Longer than one alone by so much is waiting, shorter is noise.
pub(crate) const WAITS_FROM: f32 = 1.1;

/// Decaying means of the times of answers, by the load of a node: requests for each endpoint, at least 1.
///
/// Whether endpoints take one request at a time or many is not said anywhere, but seen: with those that take one, twice
/// the load is twice the time. A load that has not been seen is taken to be as fast as the next below it that has, and,
/// where requests waited at that, to be slower as it is more.
#[derive(Clone, Debug)]
pub struct Answers {
    by_load: [Known; PLACES],
    /// At no load below this place has anybody been seen lately.
    lowest: usize,
    /// The lowest place at which anybody was ever seen, and the mean there as it was then.
    calmest: Option<(usize, f32)>,
}

impl Default for Answers {
    fn default() -> Self {
        Answers {
            by_load: [Known::default(); PLACES],
            lowest: PLACES,
            calmest: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    mean_us: f32,
    /// Since the start of the clock; zero: never.
    seen_at: Duration,
}

impl Answers {
    /// An answer took so long that was asked for when the node, with it, had that load.
    pub fn observe(&mut self, load: f32, took: Duration, now: Duration) {
        let place = place(load);
        let from = self.lowest.min(place)..place;
        self.lowest = from
            .clone()
            .find(|place| self.by_load[*place].is_fresh(now))
            .unwrap_or(place);
        let known = &mut self.by_load[place];
        let took_us = took.as_secs_f32() * 1e6;
        known.mean_us = match known.is_fresh(now) {
            true => known.mean_us + WEIGHT * (took_us - known.mean_us),
            false => took_us,
        };
        known.seen_at = now.max(Duration::from_nanos(1));
        if self.calmest.is_none_or(|(calmest, _)| place <= calmest) {
            self.calmest = Some((place, known.mean_us));
        }
    }

    /// How long one takes that waits for nobody; `None` where nothing is known.
    #[must_use]
    pub fn alone(&self, now: Duration) -> Option<Duration> {
        self.alone_us(now).map(from_us)
    }

    /// How long one takes that waits for nobody, where the way is none: as it was seen when there were the fewest, however
    /// long ago, if nothing is known that is faster. Where many have been there all the time, one alone is taken to be as
    /// much faster as they were more: who believes that too much sends some of them away, and sees.
    #[must_use]
    pub fn calm(&self, now: Duration) -> Option<Duration> {
        let (place, mean_us) = self.calmest?;
        let calm_us = mean_us / load_at(place);
        Some(from_us(
            self.alone_us(now).map_or(calm_us, |alone_us| alone_us.min(calm_us)),
        ))
    }

    /// How long one takes at that load; `None` where nothing is known.
    #[must_use]
    pub fn expect(&self, load: f32, now: Duration) -> Option<Duration> {
        let alone_us = self.alone_us(now)?;
        let below = (self.lowest..=place(load))
            .rev()
            .find(|place| self.by_load[*place].is_fresh(now));
        let Some(below) = below else {
            return Some(from_us(alone_us));
        };
        let mean_us = self.by_load[below].mean_us;
        let more = match mean_us > WAITS_FROM * alone_us {
            true => (load.max(1.0) / load_at(below)).max(1.0),
            false => 1.0,
        };
        Some(from_us(mean_us * more))
    }

    fn alone_us(&self, now: Duration) -> Option<f32> {
        let known = self.by_load[self.lowest..].iter().find(|known| known.is_fresh(now));
        known.map(|known| known.mean_us)
    }
}

impl Known {
    fn is_fresh(&self, now: Duration) -> bool {
        !self.seen_at.is_zero() && now.saturating_sub(self.seen_at) < FORGOTTEN_AFTER
    }
}

fn from_us(us: f32) -> Duration {
    Duration::from_micros(us.round() as u64)
}

fn place(load: f32) -> usize {
    let doublings = load.max(1.0).log2();
    // Just below the next one is that.
    ((doublings * PLACES_PER_DOUBLING + 0.01) as usize).min(PLACES - 1)
}

fn load_at(place: usize) -> f32 {
    (place as f32 / PLACES_PER_DOUBLING).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Whether one that comes at that load waits for others.
    fn waits(answers: &Answers, load: f32, now: Duration) -> bool {
        let alone = answers.alone(now).expect("it is known");
        answers.expect(load, now).expect("it is known") > alone.mul_f32(WAITS_FROM)
    }

    #[test]
    fn a_load_that_nobody_has_seen_is_as_fast_as_the_next_below_it_where_nobody_waited() {
        let mut answers = Answers::default();
        assert_eq!(answers.expect(1.0, MS), None);
        answers.observe(1.0, 8 * MS, MS);
        assert_eq!(answers.expect(0.25, MS), Some(8 * MS));
        assert_eq!(answers.expect(1_000.0, MS), Some(8 * MS));
        assert!(!waits(&answers, 1_000.0, MS));
    }

    #[test]
    fn where_requests_waited_twice_the_load_is_twice_the_time() {
        let mut answers = Answers::default();
        answers.observe(1.0, 8 * MS, MS);
        answers.observe(2.0, 16 * MS, MS);
        assert_eq!(answers.expect(1.5, MS), Some(8 * MS));
        assert_eq!(answers.expect(4.0, MS), Some(32 * MS));
        assert!(waits(&answers, 2.0, MS) && !waits(&answers, 1.5, MS));
    }

    #[test]
    fn what_was_slow_is_forgotten_after_two_seconds() {
        let mut answers = Answers::default();
        answers.observe(2.0, 500 * MS, MS);
        answers.observe(1.0, 8 * MS, 1_000 * MS);
        assert_eq!(answers.expect(2.0, 1_900 * MS), Some(500 * MS));
        assert_eq!(answers.expect(2.0, 2_100 * MS), Some(8 * MS));
    }

    #[test]
    fn how_long_one_alone_takes_is_not_forgotten_where_many_have_been_there_since() {
        let mut answers = Answers::default();
        answers.observe(4.0, 32 * MS, MS);
        // As if they took turns: nobody has seen one alone.
        assert_eq!(answers.calm(MS), Some(8 * MS));
        answers.observe(1.0, 10 * MS, MS);
        assert_eq!(answers.calm(MS), Some(10 * MS));
        for now_s in 1..100 {
            answers.observe(4.0, 40 * MS, now_s * 1_000 * MS);
        }
        let now = 100_000 * MS;
        assert_eq!((answers.alone(now), answers.calm(now)), (Some(40 * MS), Some(10 * MS)));
        // It has become slower, or faster, as is seen then.
        answers.observe(1.0, 100 * MS, now);
        assert_eq!(answers.calm(now), Some(100 * MS));
        answers.observe(4.0, 3 * MS, now + 3_000 * MS);
        assert_eq!(answers.calm(now + 3_000 * MS), Some(3 * MS));
    }

    #[test]
    fn every_load_has_a_place_and_greater_ones_are_never_before_it() {
        let places: Vec<usize> = (0..10_000).map(|load| place(load as f32 / 16.0)).collect();
        assert!(places.is_sorted());
        for at in 0..PLACES {
            assert_eq!(place(load_at(at)), at);
        }
        assert_eq!((place(0.0), place(f32::MAX)), (0, PLACES - 1));
    }
}
