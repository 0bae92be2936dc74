//! The first paper's claims on its three models, tested for shape.

use super::claims::{ALIKE, Finding, Point, Shape, less, worst_of};
use crate::report::{Summary, Swept, duration, words};
use crate::stats::{Estimate, Interval};

/// Less than in proportion down to `flat_from`, clearly more at `loss_at`.
pub(super) fn narrows(points: &[Point<'_>], flat_from: f64, loss_at: f64) -> Option<(Shape, String)> {
    let shaped: Vec<&Point<'_>> = points.iter().filter(|point| point.value.is_finite()).collect();
    let at = |value: f64| shaped.iter().find(|point| point.value == value)?.p50();
    let widest = shaped.last()?;
    let (wide, flat, narrow) = (widest.p50()?, at(flat_from)?, at(loss_at)?);
    let in_proportion = wide.value * widest.value / flat_from;
    let shape = match (less(&wide, &flat), less(&flat, &narrow)) {
        (Shape::Undecided, _) | (_, Shape::Undecided) => Shape::Undecided,
        (Shape::Agrees, Shape::Agrees) if flat.value < in_proportion && narrow.value > ALIKE * wide.value => {
            Shape::Agrees
        }
        _ => Shape::Differs,
    };
    let kbit = |bit_per_s: f64| format!("{} kbit/s", bit_per_s / 1e3);
    let words = [(widest.value, wide), (flat_from, flat), (loss_at, narrow)]
        .map(|(bit_per_s, p50)| format!("{} at {}", duration(p50.value), kbit(bit_per_s)));
    Some((shape, format!("p50 {}", words.join(", "))))
}

/// The way through the edge against the direct one, under the first load that both have.
pub(super) fn adds(summary: &Summary, arm: &str) -> Option<Finding> {
    let arm = summary.arms.iter().position(|facts| facts.name == arm)?;
    let mut all = summary.cells.iter().flat_map(|cell| &cell.added);
    let p50_us = all.find(|added| added.arm == arm && added.p50_us.is_some())?.p50_us?;
    let shape = match p50_us.interval {
        interval if interval.low > 0.0 => Shape::Agrees,
        interval if interval.high < 0.0 => Shape::Differs,
        _ => Shape::Undecided,
    };
    Some(Finding {
        arm: Some(summary.arms[arm].name.clone()),
        shape,
        words: format!("p50 {}, where the paper's added 22 ms", words::difference(&p50_us)),
    })
}

/// Whether the models lose in this order from few devices to many; none where one of them was not measured at both.
pub(super) fn order_of_growth(summary: &Summary, order: &[String], (from, to): (f64, f64)) -> Option<Finding> {
    let sweep = summary.sweeps.iter().find(|sweep| sweep.swept == Swept::Devices)?;
    let p50_of = |name: &String, value: f64| {
        let arm = summary.arms.iter().position(|arm| arm.name == *name)?;
        let cells = sweep.cells.iter().map(|cell| &summary.cells[*cell]);
        let mut at = cells.filter(|cell| Swept::Devices.value(&cell.cell) == Some(value));
        at.next()?.arm(arm).filter(|result| result.is_valid())?.response.p50
    };
    let growth = |name: &String| {
        let (few, many) = (p50_of(name, from)?, p50_of(name, to)?);
        Some(Estimate {
            value: many.value / few.value,
            interval: Interval {
                low: many.interval.low / few.interval.high,
                high: many.interval.high / few.interval.low,
                ..many.interval
            },
        })
    };
    let growths = order.iter().map(growth).collect::<Option<Vec<Estimate>>>()?;
    let words = order
        .iter()
        .zip(&growths)
        .map(|(name, growth)| format!("{name} {}", words::ratio(growth)));
    Some(Finding {
        arm: None,
        shape: worst_of(growths.windows(2).map(|pair| less(&pair[0], &pair[1])))?,
        words: format!(
            "p50 with {to} as a multiple of that with {from}: {}",
            words.collect::<Vec<_>>().join(", ")
        ),
    })
}
