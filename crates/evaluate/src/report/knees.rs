//! Knees that were searched, as text.

use std::fmt::Write as _;

use super::words::{self, count};
use super::{FoundKnee, Summary};

/// One arm a row, within 100 columns (rule 15).
pub(super) fn table(summary: &Summary) -> String {
    let mut out = String::new();
    let Some(first) = summary.cells.first() else { return out };
    let bounds = format!(
        "p99 ≤ {} and at most {} % lost",
        p99_bound(summary),
        lost_bound(summary)
    );
    let load = words::others(super::Swept::Interval, &first.cell);
    let _ = writeln!(out, "  highest rate with {bounds}, {load}");
    row(&mut out, ["", "messages/s", "p99 µs (interval)", "lost", "rates tried"]);
    for found in &summary.knees {
        let name = &summary.arms[found.arm].name;
        let (lost, steps) = (count(found.lost as u64), found.steps.to_string());
        row(&mut out, [name, &rate(found), &p99(found), &lost, &steps]);
    }
    out
}

fn row(out: &mut String, [arm, rate, p99, lost, steps]: [&str; 5]) {
    let text = format!("  {arm:<24}{rate:<22}{p99:<28}{lost:>6}  {steps}");
    let _ = writeln!(out, "{}", text.trim_end());
}

/// The rate and how sure it is.
pub(super) fn rate(found: &FoundKnee) -> String {
    use crate::stats::Knee::{At, BelowSweep, NotReached};
    match found.knee {
        Some(At { offered_per_s }) => words::number(offered_per_s),
        Some(NotReached { highest_per_s }) => format!("not reached: {}", words::number(highest_per_s)),
        Some(BelowSweep { lowest_per_s }) => format!("below {}", words::number(lowest_per_s)),
        None => "not measured".to_owned(),
    }
}

/// p99 of the confirmation.
pub(super) fn p99(found: &FoundKnee) -> String {
    found.p99.as_ref().map_or_else(
        || "too few".to_owned(),
        |p99| {
            let (low, high) = (p99.interval.low, p99.interval.high);
            format!(
                "{} ({}…{})",
                words::micros_of(p99.value),
                words::micros_of(low),
                words::micros_of(high)
            )
        },
    )
}

pub(super) fn p99_bound(summary: &Summary) -> String {
    words::duration(summary.judging.knee_p99_us)
}

pub(super) fn lost_bound(summary: &Summary) -> String {
    words::round(summary.judging.knee_lost * 100.0)
}
