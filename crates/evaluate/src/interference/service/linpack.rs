//! Linpack: solves a dense system of equations by LU decomposition with partial pivoting, and says how far off the
//! solution is. Of our own (HPL wants MPI): blocked, right-looking, in columns, as many threads as it is told.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Columns that are decomposed at a time.
const BLOCK: usize = 64;
/// Rows that are brought up to date at a time: with the columns of a block they fit the cache of a core.
const TILE_ROWS: usize = 256;
/// What HPL takes for right: the scaled residual of a solution is below it.
pub(super) const RESIDUAL_MOST: f64 = 16.0;

/// What came of one solution.
pub(super) struct Solved {
    /// Operations that count, as Linpack counts them: 2/3 n³ + 2 n².
    pub(super) operations: f64,
    /// ‖Ax − b‖ / (ε (‖A‖ ‖x‖ + ‖b‖) n), norms of the largest, as HPL has it.
    pub(super) residual: f64,
}

/// A system of `n` equations, made of `seed`, that is solved again and again.
pub(super) struct System {
    n: usize,
    seed: u64,
    /// By columns.
    a: Vec<f64>,
    b: Vec<f64>,
}

impl System {
    pub(super) fn new(n: usize, seed: u64) -> System {
        System {
            n,
            seed,
            a: vec![0.0; n * n],
            b: vec![0.0; n],
        }
    }

    /// Makes the equations anew, which takes no part of the time that is measured.
    pub(super) fn make(&mut self) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        self.a.fill_with(|| random.random_range(-0.5..0.5));
        self.b.fill_with(|| random.random_range(-0.5..0.5));
    }

    /// Solves what was made; the solution takes the place of the right side.
    pub(super) fn solve(&mut self, threads: usize) {
        let n = self.n;
        for first in (0..n).step_by(BLOCK) {
            let width = BLOCK.min(n - first);
            let pivots = self.decompose(first, width);
            let (left, right) = self.a.split_at_mut((first + width) * n);
            let block = &left[first * n..];
            let columns_left = n - first - width;
            let each = columns_left.div_ceil(threads).max(1);
            std::thread::scope(|scope| {
                for columns in right.chunks_mut(each * n) {
                    let pivots = &pivots;
                    scope.spawn(move || {
                        columns
                            .chunks_mut(n)
                            .for_each(|column| follow(column, block, first, pivots));
                    });
                }
            });
            follow(&mut self.b, block, first, &pivots);
            let done = &mut left[..first * n];
            for column in done.chunks_mut(n) {
                swap(column, first, &pivots);
            }
        }
        self.substitute_back();
    }

    /// Decomposes columns by themselves; the row that each one's pivot was in.
    fn decompose(&mut self, first: usize, width: usize) -> Vec<usize> {
        let n = self.n;
        let block = &mut self.a[first * n..(first + width) * n];
        let mut pivots = Vec::with_capacity(width);
        for k in 0..width {
            let row = first + k;
            let column = &block[k * n..(k + 1) * n];
            let largest = (row..n).max_by(|one, other| column[*one].abs().total_cmp(&column[*other].abs()));
            let pivot = largest.unwrap_or(row);
            pivots.push(pivot);
            block.chunks_mut(n).for_each(|column| column.swap(row, pivot));
            let (before, after) = block.split_at_mut((k + 1) * n);
            let column = &mut before[k * n..];
            let scale = column[row].recip();
            column[row + 1..].iter_mut().for_each(|value| *value *= scale);
            for other in after.chunks_mut(n) {
                let factor = other[row];
                for (value, lower) in other[row + 1..].iter_mut().zip(&column[row + 1..]) {
                    *value -= factor * lower;
                }
            }
        }
        pivots
    }

    fn substitute_back(&mut self) {
        let n = self.n;
        for k in (0..n).rev() {
            let column = &self.a[k * n..k * n + k + 1];
            let x = self.b[k] / column[k];
            self.b[k] = x;
            for (value, upper) in self.b[..k].iter_mut().zip(column) {
                *value -= x * upper;
            }
        }
    }

    /// Judges the solution by the equations, which are made once more for that.
    pub(super) fn judge(&mut self) -> Solved {
        let n = self.n;
        let x = std::mem::take(&mut self.b);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let (mut products, mut sums) = (vec![0.0; n], vec![0.0_f64; n]);
        for x in &x {
            for (product, sum) in products.iter_mut().zip(&mut sums) {
                let value: f64 = random.random_range(-0.5..0.5);
                *product += value * x;
                *sum += value.abs();
            }
        }
        self.b = vec![0.0; n];
        self.b.fill_with(|| random.random_range(-0.5..0.5));
        let largest = |values: &[f64]| values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        let apart: Vec<f64> = products.iter().zip(&self.b).map(|(ax, b)| ax - b).collect();
        let scale = f64::EPSILON * (largest(&sums) * largest(&x) + largest(&self.b)) * n as f64;
        let count = n as f64;
        Solved {
            operations: 2.0 / 3.0 * count.powi(3) + 2.0 * count.powi(2),
            residual: largest(&apart) / scale,
        }
    }
}

fn swap(column: &mut [f64], first: usize, pivots: &[usize]) {
    for (k, pivot) in pivots.iter().enumerate() {
        column.swap(first + k, *pivot);
    }
}

/// Brings a column up to date that stands right of a block: swapped as it was, solved for its upper part, and the lower
/// part less what that takes.
fn follow(column: &mut [f64], block: &[f64], first: usize, pivots: &[usize]) {
    let (n, width) = (column.len(), pivots.len());
    swap(column, first, pivots);
    for k in 0..width {
        let factor = column[first + k];
        let lower = &block[k * n..];
        for row in first + k + 1..first + width {
            column[row] -= factor * lower[row];
        }
    }
    let (upper, rest) = column.split_at_mut(first + width);
    let factors = &upper[first..];
    for (tile, values) in rest.chunks_mut(TILE_ROWS).enumerate() {
        let start = first + width + tile * TILE_ROWS;
        let rows = values.len();
        let lower = |k: usize| &block[k * n + start..][..rows];
        let mut k = 0;
        while k + 4 <= width {
            let (f, l) = ([0, 1, 2, 3].map(|i| factors[k + i]), [0, 1, 2, 3].map(|i| lower(k + i)));
            for (row, value) in values.iter_mut().enumerate() {
                *value -= f[0] * l[0][row] + f[1] * l[1][row] + f[2] * l[2][row] + f[3] * l[3][row];
            }
            k += 4;
        }
        for (k, factor) in factors.iter().enumerate().skip(k) {
            for (value, lower) in values.iter_mut().zip(lower(k)) {
                *value -= factor * lower;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solution_is_right_for_any_size_and_threads_and_one_that_is_not_is_seen() {
        for (n, threads) in [(1, 1), (7, 2), (64, 1), (65, 3), (200, 2), (331, 2)] {
            let mut system = System::new(n, 7);
            system.make();
            system.solve(threads);
            let solved = system.judge();
            assert!(solved.residual < RESIDUAL_MOST, "{n}: {}", solved.residual);
            system.make();
            system.solve(threads);
            system.b[n / 2] += 1e-6;
            assert!(system.judge().residual > RESIDUAL_MOST, "{n}");
        }
    }
}
