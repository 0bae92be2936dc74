//! What a measurement says, with its uncertainty: plain functions over plain slices.
//!
//! A sample is a duration in any one unit; a message that was lost is `f64::INFINITY`, larger than any answer. Nothing
//! here knows how a message was sent, which arm it belongs to or how a result is shown.
//!
//! Repetition has levels: runs, blocks of a run, segments of consecutive messages of a block. An interval comes from
//! the two highest levels that were repeated ([`Units`]): messages that followed each other are correlated and say less
//! than their number.

mod bootstrap;
mod compare;
mod determinism;
mod estimate;
mod knee;
mod paired;
mod pool;
mod quantile;
mod requirement;
mod sanity;
#[cfg(test)]
pub(crate) mod test_numbers;
mod trend;
mod units;

pub use bootstrap::Bootstrap;
pub use compare::{Comparison, Conditions, Undecided, Verdict, adds_at_most, compare, equivalent, keeps};
pub use determinism::{Determinism, Thresholds, determinism};
pub use estimate::{Estimate, Interval, Method, log_median, median};
pub use knee::{Knee, LoadPoint, bounded_latency, optimum_load};
pub use paired::{difference, ratio, ratio_of_costs};
pub use pool::Pool;
pub use quantile::{quantile, rank, samples_needed, sorted};
pub use requirement::{Outcome, at_most};
pub use sanity::{
    Check, Exchange, LittlesLaw, accounting, generator_cpu, line_on_time, littles_law, monotonic, send_lag,
};
pub use trend::{Trend, trend};
pub use units::Units;
