//! Where resampling takes its randomness from.

use rand::SeedableRng;
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
}
