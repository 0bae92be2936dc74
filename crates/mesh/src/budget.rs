//! How many requests that somebody may have seen are asked once more: those of a node that dies are few, and where all
//! fail it is no use to ask twice as often.

/// Of each request that is asked for the first time; so that one in five may be repeated.
const EARNED: f32 = 0.2;
/// That may be repeated at once.
const MAX_SAVED: f32 = 64.0;

/// What is left of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(f32);

impl Default for Budget {
    fn default() -> Self {
        Budget(MAX_SAVED)
    }
}

impl Budget {
    /// A request is asked for the first time.
    pub(crate) fn earn(&mut self) {
        self.0 = MAX_SAVED.min(self.0 + EARNED);
    }

    /// Whether one may be repeated, which it is then.
    pub(crate) fn spend(&mut self) -> bool {
        let is_left = self.0 >= 1.0;
        if is_left {
            self.0 -= 1.0;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_all_fail_one_in_five_is_repeated() {
        let mut budget = Budget::default();
        let repeated = (0..10_000).filter(|_| {
            budget.earn();
            budget.spend()
        });
        let repeated = repeated.count();
        assert!(
            (2_000..2_000 + 2 * MAX_SAVED as usize).contains(&repeated),
            "{repeated}"
        );
    }

    #[test]
    fn those_that_fail_at_once_are_repeated_while_something_is_saved() {
        let mut budget = Budget::default();
        assert_eq!((0..200).filter(|_| budget.spend()).count(), MAX_SAVED as usize);
    }
}
