//! Where resampling takes its randomness from.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seeded stream of random draws and how often to resample with it; equal ones give equal intervals, on any machine.
pub struct Bootstrap {
    pub(super) rng: ChaCha8Rng,
    pub(super) resamples: usize,
}

impl Bootstrap {
    /// Resamples by default: the 2.5 % tails then hold 25 values each.
    pub const RESAMPLES: usize = 1000;

    /// Streams of one seed are independent of each other.
    ///
    /// # Panics
    /// With no resample at all.
    pub fn new(seed: u64, stream: u64, resamples: usize) -> Bootstrap {
        assert!(resamples > 0, "a bootstrap needs resamples");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Bootstrap { rng, resamples }
    }

    /// `statistic` of each resample of `units`, drawn with replacement; where it is defined.
    pub(crate) fn of(&mut self, units: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Vec<f64> {
        let resample = |rng: &mut ChaCha8Rng| -> Vec<f64> {
            units.iter().map(|_| units[rng.random_range(0..units.len())]).collect()
        };
        (0..self.resamples)
            .filter_map(|_| statistic(&resample(&mut self.rng)))
            .collect()
    }
}
