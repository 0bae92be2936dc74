//! STREAM: the bandwidth of memory by its four kernels over three arrays (McCalpin), as many threads as it is told, checked
//! by what the arrays have to hold in the end.

use std::time::Instant;

const SCALAR: f64 = 3.0;
/// Bytes that copy, scale, add and triad move for an element, as STREAM counts them.
const BYTES_OF_ELEMENT: [f64; 4] = [16.0, 16.0, 24.0, 24.0];

/// Three arrays.
pub(super) struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    /// What every element has to be by now.
    expected: [f64; 3],
}

impl Arrays {
    pub(super) fn new(elements: usize) -> Arrays {
        Arrays {
            a: vec![1.0; elements],
            b: vec![2.0; elements],
            c: vec![0.0; elements],
            expected: [1.0, 2.0, 0.0],
        }
    }

    /// All four once: bytes a second of each.
    pub(super) fn turn(&mut self, threads: usize) -> [f64; 4] {
        let elements = self.a.len() as f64;
        let Arrays { a, b, c, .. } = self;
        let took_s = [
            in_threads(threads, c, [a, a], |[a, _]| a),
            in_threads(threads, b, [c, c], |[c, _]| SCALAR * c),
            in_threads(threads, c, [a, b], |[a, b]| a + b),
            in_threads(threads, a, [b, c], |[b, c]| b + SCALAR * c),
        ];
        let [a, b, c] = &mut self.expected;
        *c = *a;
        *b = SCALAR * *c;
        *c = *a + *b;
        *a = *b + SCALAR * *c;
        // Else it would be past all numbers after some hundred turns.
        if *a > 1e100 {
            self.begin_anew();
        }
        std::array::from_fn(|kernel| BYTES_OF_ELEMENT[kernel] * elements / took_s[kernel])
    }

    fn begin_anew(&mut self) {
        self.a.fill(1.0);
        self.b.fill(2.0);
        self.c.fill(0.0);
        self.expected = [1.0, 2.0, 0.0];
    }

    /// Whether the arrays hold what they have to, but for rounding.
    pub(super) fn are_right(&self) -> bool {
        let is_right = |(array, expected): (&Vec<f64>, f64)| {
            let off: f64 = array.iter().map(|value| (value - expected).abs()).sum();
            off / array.len() as f64 <= 1e-13 * expected.abs().max(1.0)
        };
        [&self.a, &self.b, &self.c].into_iter().zip(self.expected).all(is_right)
    }
}

/// Has `to` hold what a kernel makes of the two others, element by element; seconds that it took.
fn in_threads(
    threads: usize,
    to: &mut [f64],
    from: [&[f64]; 2],
    kernel: impl Fn([f64; 2]) -> f64 + Copy + Send,
) -> f64 {
    let each = to.len().div_ceil(threads).max(1);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let parts = to.chunks_mut(each).zip(from[0].chunks(each).zip(from[1].chunks(each)));
        for (to, (one, other)) in parts {
            scope.spawn(move || {
                for (to, (one, other)) in to.iter_mut().zip(one.iter().zip(other)) {
                    *to = kernel([*one, *other]);
                }
            });
        }
    });
    began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_hold_what_the_kernels_make_of_them_and_an_element_that_does_not_is_seen() {
        let mut arrays = Arrays::new(1_001);
        for _ in 0..300 {
            assert!(arrays.turn(2).iter().all(|bytes_per_s| *bytes_per_s > 0.0));
            assert!(arrays.are_right());
        }
        arrays.b[500] *= 1.001;
        assert!(!arrays.are_right());
    }
}
