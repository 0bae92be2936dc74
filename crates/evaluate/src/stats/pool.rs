//! The messages of several units in one order, and their quantiles under the hierarchical bootstrap.

use rand::Rng;

use super::{Bootstrap, Estimate, Units, rank, samples_needed};

/// Messages of all units in one order, each knowing the part that it came from: a resample then changes the weights of
/// parts and sorts nothing again.
pub struct Pool {
    /// Sample and its part, by sample.
    samples: Vec<(f64, u32)>,
    /// Messages of each part.
    part_len: Vec<usize>,
    /// Parts of each unit, as ranges of their numbers.
    units: Vec<std::ops::Range<usize>>,
}

impl Pool {
    /// Orders the samples of `units`.
    ///
    /// # Panics
    /// Where one is not a number.
    pub fn new(units: &Units<'_>) -> Pool {
        let mut pool = Pool {
            samples: Vec::new(),
            part_len: Vec::new(),
            units: Vec::new(),
        };
        for parts in units.parts() {
            let first = pool.part_len.len();
            for part in parts {
                let number = pool.part_len.len() as u32;
                pool.samples.extend(part.iter().map(|sample| (*sample, number)));
                pool.part_len.push(part.len());
            }
            pool.units.push(first..pool.part_len.len());
        }
        assert!(
            pool.samples.iter().all(|(s, _)| !s.is_nan()),
            "a sample is a duration or infinite, never NaN"
        );
        pool.samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        pool
    }

    /// Number of messages, the lost among them.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The samples in order, the lost last.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.samples.iter().map(|(sample, _)| *sample)
    }

    /// Quantile `q` of all messages, however few; `None` where there are none.
    pub fn value(&self, q: f64) -> Option<f64> {
        self.samples.get(rank(self.len(), q) - 1).map(|(sample, _)| *sample)
    }

    /// Quantile `q` with its interval over the units, of a single unit that of its order statistics; `None` means too
    /// few messages.
    pub fn quantile(&self, q: f64, bootstrap: &mut Bootstrap) -> Option<Estimate> {
        if self.len() < samples_needed(q) {
            return None;
        }
        if self.units.len() == 1 {
            return super::quantile(&self.sorted().collect::<Vec<_>>(), q);
        }
        let each: Vec<f64> = (0..self.units.len())
            .map(|unit| self.weighted(&self.only(unit), q))
            .collect();
        Some(Estimate::over_units(self.value(q)?, &each, || {
            self.resampled(q, bootstrap.resamples, &mut bootstrap.rng)
        }))
    }

    /// Quantile `q` of `count` resamples: units drawn with replacement, then parts within each.
    pub fn resampled(&self, q: f64, count: usize, rng: &mut impl Rng) -> Vec<f64> {
        (0..count).map(|_| self.weighted(&self.draw(rng), q)).collect()
    }

    fn draw(&self, rng: &mut impl Rng) -> Vec<u64> {
        let mut weights = vec![0; self.part_len.len()];
        for _ in 0..self.units.len() {
            let parts = self.units[rng.random_range(0..self.units.len())].clone();
            for _ in parts.clone() {
                weights[rng.random_range(parts.clone())] += 1;
            }
        }
        weights
    }

    fn only(&self, unit: usize) -> Vec<u64> {
        (0..self.part_len.len())
            .map(|part| u64::from(self.units[unit].contains(&part)))
            .collect()
    }

    /// Quantile `q` where each message counts as often as its part was drawn.
    fn weighted(&self, weights: &[u64], q: f64) -> f64 {
        let total: u64 = weights
            .iter()
            .zip(&self.part_len)
            .map(|(weight, len)| weight * *len as u64)
            .sum();
        let rank = rank(total as usize, q) as u64;
        if q > 0.5 {
            self.walking_down(weights, total - rank)
        } else {
            self.walking_up(weights, rank)
        }
    }

    fn walking_up(&self, weights: &[u64], rank: u64) -> f64 {
        let mut passed = 0;
        let reached = |(_, part): &&(f64, u32)| {
            passed += weights[*part as usize];
            passed >= rank
        };
        self.samples
            .iter()
            .find(reached)
            .expect("the rank is within the weights' sum")
            .0
    }

    fn walking_down(&self, weights: &[u64], above: u64) -> f64 {
        let mut passed = 0;
        let reached = |(_, part): &&(f64, u32)| {
            passed += weights[*part as usize];
            passed > above
        };
        self.samples
            .iter()
            .rev()
            .find(reached)
            .expect("the rank is within the weights' sum")
            .0
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
