//! The two highest levels of repetition that a measurement has.

/// Segments of a block that stand for its messages: long enough for what correlates them to fade within one.
const SEGMENTS_PER_BLOCK: usize = 20;
/// Messages that a segment has at least.
const MESSAGES_PER_SEGMENT: usize = 10;

/// Samples by unit and by part of the unit: runs and their blocks where there are several runs, else the blocks of the
/// one run and their segments. A bootstrap draws units, then parts within each unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Units<'a> {
    units: Vec<Vec<&'a [f64]>>,
}

impl<'a> Units<'a> {
    /// From the blocks of each run, messages in the order of sending. Empty blocks and runs say nothing and are left
    /// out.
    pub fn new(runs: &[Vec<&'a [f64]>]) -> Units<'a> {
        let blocks_of = |run: &Vec<&'a [f64]>| run.iter().copied().filter(|block| !block.is_empty()).collect();
        let mut runs: Vec<Vec<&[f64]>> = runs
            .iter()
            .map(blocks_of)
            .filter(|run: &Vec<_>| !run.is_empty())
            .collect();
        let units = match runs.len() {
            1 => runs.remove(0).into_iter().map(segments).collect(),
            _ => runs,
        };
        Units { units }
    }

    /// One block alone, as its segments.
    pub fn of_block(block: &'a [f64]) -> Units<'a> {
        Units::new(&[vec![block]])
    }

    /// How many units there are.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The parts of each unit.
    pub fn parts(&self) -> &[Vec<&'a [f64]>] {
        &self.units
    }
}

fn segments(block: &[f64]) -> Vec<&[f64]> {
    let count = (block.len() / MESSAGES_PER_SEGMENT).clamp(1, SEGMENTS_PER_BLOCK);
    (0..count)
        .map(|i| &block[i * block.len() / count..(i + 1) * block.len() / count])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_run_is_drawn_by_block_and_segment() {
        let (first, second) = (vec![1.0; 400], vec![2.0; 35]);
        let units = Units::new(&[vec![&first, &second, &[]]]);
        let parts: Vec<usize> = units.parts().iter().map(Vec::len).collect();
        assert_eq!(parts, [20, 3]);
        let messages: usize = units.parts()[1].iter().map(|segment| segment.len()).sum();
        assert_eq!(messages, 35, "no message is left between segments");
    }

    #[test]
    fn several_runs_are_drawn_by_run_and_block() {
        let block = [1.0; 100];
        let units = Units::new(&[vec![&block, &block], vec![&block], vec![]]);
        assert_eq!(units.len(), 2);
        assert_eq!(units.parts()[0].len(), 2);
    }
}
