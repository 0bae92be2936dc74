//! The paper's claims, tested for shape on a run's results (rule 13).

use serde::Serialize;

use super::model_claims::{adds, narrows, order_of_growth};
use super::{Claim, Paper, ShapeCheck};
use crate::report::{ArmResult, CellSummary, Summary, Swept, bytes as size, duration};
use crate::stats::{Estimate, Outcome};

/// Medians within this factor of each other are "no clear difference": the paper itself calls its D-E model flat
/// from 200 ms on, where its mean grows by 1.46.
pub(super) const ALIKE: f64 = 1.5;

/// Arms without a broker: what the paper claims of message hubs is not tested on them.
const NO_BROKER: [&str; 2] = ["tcp-echo", "relay"];

/// Whether a run has the shape that a claim states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// It has.
    Agrees,
    /// It has another.
    Differs,
    /// The intervals leave it open.
    Undecided,
    /// The run has nothing to test it with.
    NotMeasured,
}

/// A claim and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimVerdict {
    /// Key of the claim.
    pub id: String,
    /// What the paper states.
    pub statement: String,
    /// Section, table or figure.
    pub place: String,
    /// By arm, or once where arms are compared.
    pub findings: Vec<Finding>,
}

/// What one arm, or all of them, say to a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The arm; absent where the claim compares arms.
    pub arm: Option<String>,
    /// Whether the shape is the claim's.
    pub shape: Shape,
    /// The figures that say so.
    pub words: String,
}

/// All claims of a paper, tested on `summary`.
pub fn claims(paper: &Paper, summary: &Summary) -> Vec<ClaimVerdict> {
    each_tested(&paper.claims, |check| findings(check, summary))
}

/// Claims with what a test of each has found.
pub(super) fn each_tested<Check>(
    claims: &[Claim<Check>],
    findings: impl Fn(&Check) -> Vec<Finding>,
) -> Vec<ClaimVerdict> {
    let tested = |claim: &Claim<Check>| ClaimVerdict {
        id: claim.id.clone(),
        statement: claim.statement.clone(),
        place: claim.place.clone(),
        findings: findings(&claim.check),
    };
    claims.iter().map(tested).collect()
}

fn findings(check: &ShapeCheck, summary: &Summary) -> Vec<Finding> {
    let found = match check {
        ShapeCheck::FlatAbove { interval_ms } => {
            each_arm(summary, Swept::Interval, |points| flat_above(points, *interval_ms))
        }
        ShapeCheck::TrendPositive { below_interval_ms } => each_arm(summary, Swept::Interval, |points| {
            buffers_below(points, *below_interval_ms)
        }),
        ShapeCheck::FlatBelow { payload_bytes } => each_arm(summary, Swept::Payload, |points| {
            flat_below(points, f64::from(*payload_bytes))
        }),
        ShapeCheck::GrowsWithDevices { from, to, order, needs } => {
            let range = (f64::from(*from), f64::from(*to));
            let mut grows = each_arm(summary, Swept::Devices, |points| grows(points, range.0, range.1));
            grows.push(order_of_growth(summary, order, range).unwrap_or_else(|| not_measured(needs)));
            grows
        }
        ShapeCheck::Adds { arm, needs } => {
            vec![adds(summary, arm).unwrap_or_else(|| not_measured(&format!("needs {needs}")))]
        }
        ShapeCheck::Narrows {
            flat_from_bit_per_s,
            loss_at_bit_per_s,
        } => each_arm(summary, Swept::Bandwidth, |points| {
            narrows(points, *flat_from_bit_per_s as f64, *loss_at_bit_per_s as f64)
        }),
        ShapeCheck::LeastAtQos { qos } => each_arm(summary, Swept::Qos, |points| least_at(points, f64::from(*qos))),
        ShapeCheck::Order { ascending, needs } => with_rest(order(summary, ascending), needs),
        ShapeCheck::NotMeasured { needs } => vec![not_measured(&format!("needs {needs}"))],
    };
    if found.is_empty() {
        vec![not_measured("this run has no such sweep")]
    } else {
        found
    }
}

pub(super) fn not_measured(words: &str) -> Finding {
    Finding {
        arm: None,
        shape: Shape::NotMeasured,
        words: format!("not measured in this run: {words}"),
    }
}

fn with_rest(mut findings: Vec<Finding>, needs: &str) -> Vec<Finding> {
    findings.push(not_measured(needs));
    findings
}

/// One value of a swept parameter and an arm's result there.
pub(super) struct Point<'a> {
    pub(super) value: f64,
    result: &'a ArmResult,
}

impl Point<'_> {
    pub(super) fn p50(&self) -> Option<Estimate> {
        self.result.response.p50
    }
}

type Test<'a> = &'a dyn Fn(&[Point<'_>]) -> Option<(Shape, String)>;

fn each_arm(summary: &Summary, swept: Swept, test: impl Fn(&[Point<'_>]) -> Option<(Shape, String)>) -> Vec<Finding> {
    let sweeps = summary.sweeps.iter().filter(|sweep| sweep.swept == swept);
    sweeps
        .flat_map(|sweep| each_arm_of(summary, swept, &sweep.cells, &test))
        .collect()
}

fn each_arm_of(summary: &Summary, swept: Swept, cells: &[usize], test: Test<'_>) -> Vec<Finding> {
    let point = |cell: &CellSummary, arm: usize| -> Option<f64> { cell.arm(arm).and(swept.value(&cell.cell)) };
    let of_arm = |arm: usize| {
        let cells = cells.iter().map(|cell| &summary.cells[*cell]);
        let points: Vec<Point<'_>> = cells
            .filter_map(|cell| {
                Some(Point {
                    value: point(cell, arm)?,
                    result: cell.arm(arm)?,
                })
            })
            .filter(|point| point.result.is_valid())
            .collect();
        let (shape, words) = test(&points)?;
        Some(Finding {
            arm: Some(summary.arms[arm].name.clone()),
            shape,
            words,
        })
    };
    let tested = |arm: &usize| {
        let facts = &summary.arms[*arm];
        facts.again_of.is_none() && !NO_BROKER.contains(&facts.name.as_str())
    };
    (0..summary.arms.len()).filter(tested).filter_map(of_arm).collect()
}

/// Least and greatest median of points; `None` where one has too few messages.
fn medians(points: &[&Point<'_>]) -> Option<(f64, f64)> {
    let medians: Vec<f64> = points
        .iter()
        .map(|point| point.p50().map(|p50| p50.value))
        .collect::<Option<_>>()?;
    let least = medians.iter().copied().min_by(f64::total_cmp)?;
    Some((least, medians.iter().copied().max_by(f64::total_cmp)?))
}

fn flat_above(points: &[Point<'_>], interval_ms: f64) -> Option<(Shape, String)> {
    let above: Vec<&Point<'_>> = points.iter().filter(|point| point.value >= interval_ms * 1e3).collect();
    if above.len() < 2 {
        return None;
    }
    let (least, most) = medians(&above)?;
    let outcome = above
        .iter()
        .fold(Outcome::Pass, |all, point| all.and(point.result.determinism.outcome()));
    let shape = match outcome {
        Outcome::Pass if most <= ALIKE * least => Shape::Agrees,
        Outcome::Undecided => Shape::Undecided,
        _ => Shape::Differs,
    };
    let deterministic = match outcome {
        Outcome::Pass => "deterministic at all of them",
        Outcome::Fail => "not deterministic at all of them",
        Outcome::Undecided => "too few messages to say whether deterministic",
    };
    Some((
        shape,
        format!(
            "p50 {} … {} from {interval_ms} ms on, {deterministic}",
            duration(least),
            duration(most)
        ),
    ))
}

fn buffers_below(points: &[Point<'_>], interval_ms: f64) -> Option<(Shape, String)> {
    let below: Vec<&Point<'_>> = points.iter().filter(|point| point.value < interval_ms * 1e3).collect();
    let shortest = below.first()?;
    let buffers = |point: &&&Point<'_>| point.result.determinism.no_buffering == Outcome::Fail;
    match below.iter().rev().find(buffers) {
        Some(point) => {
            let slope_ms = point.result.trend.as_ref()?.slope_per_message.value / 1e3;
            Some((
                Shape::Agrees,
                format!("rises by {slope_ms:.2e} ms a message every {}", duration(point.value)),
            ))
        }
        None => Some((
            Shape::Differs,
            format!("no rise down to one message every {}", duration(shortest.value)),
        )),
    }
}

fn flat_below(points: &[Point<'_>], bytes: f64) -> Option<(Shape, String)> {
    let upto: Vec<&Point<'_>> = points.iter().filter(|point| point.value <= bytes).collect();
    let beyond: Vec<&Point<'_>> = points.iter().filter(|point| point.value >= 10.0 * bytes).collect();
    if upto.len() < 2 || beyond.is_empty() {
        return None;
    }
    let ((least, most), (least_beyond, _)) = (medians(&upto)?, medians(&beyond)?);
    let shape = if most <= ALIKE * least && least_beyond > most {
        Shape::Agrees
    } else {
        Shape::Differs
    };
    let words = format!(
        "p50 {} … {} up to {}, {} or more from {} on",
        duration(least),
        duration(most),
        size(bytes),
        duration(least_beyond),
        size(10.0 * bytes)
    );
    Some((shape, words))
}

fn grows(points: &[Point<'_>], from: f64, to: f64) -> Option<(Shape, String)> {
    let at = |value: f64| points.iter().find(|point| point.value == value)?.p50();
    let (few, many) = (at(from)?, at(to)?);
    let words = format!(
        "p50 {} with {from}, {} with {to} devices",
        duration(few.value),
        duration(many.value)
    );
    Some((less(&few, &many), words))
}

fn least_at(points: &[Point<'_>], qos: f64) -> Option<(Shape, String)> {
    let at = points.iter().find(|point| point.value == qos)?.p50()?;
    let others: Vec<Estimate> = points
        .iter()
        .filter(|point| point.value != qos)
        .filter_map(Point::p50)
        .collect();
    let shapes = others.iter().map(|other| less(&at, other));
    let words = points.iter().map(|point| {
        format!(
            "QoS {} {}",
            point.value,
            point.p50().map_or("too few".into(), |p| duration(p.value))
        )
    });
    Some((
        worst_of(shapes)?,
        format!("p50 {}", words.collect::<Vec<_>>().join(", ")),
    ))
}

fn order(summary: &Summary, ascending: &[String]) -> Vec<Finding> {
    let arm = |name: &String| summary.arms.iter().position(|arm| arm.name == *name);
    let Some(arms) = ascending.iter().map(arm).collect::<Option<Vec<usize>>>() else {
        return Vec::new();
    };
    let medians = |cell: &CellSummary| {
        let p50 = |arm: &usize| cell.arm(*arm).filter(|result| result.is_valid())?.response.p50;
        arms.iter().map(p50).collect::<Option<Vec<Estimate>>>()
    };
    let cells: Vec<Vec<Estimate>> = summary.cells.iter().filter_map(medians).collect();
    let shapes = cells
        .iter()
        .filter_map(|cell| worst_of(cell.windows(2).map(|pair| less(&pair[0], &pair[1]))));
    let Some((shape, first)) = worst_of(shapes).zip(cells.first()) else {
        return Vec::new();
    };
    let named = ascending
        .iter()
        .zip(first)
        .map(|(name, p50)| format!("{name} {}", duration(p50.value)));
    let words = format!(
        "p50 {}; {} load(s) compared",
        named.collect::<Vec<_>>().join(" < "),
        cells.len()
    );
    vec![Finding {
        arm: None,
        shape,
        words: if shape == Shape::Agrees {
            words
        } else {
            words.replace(" < ", ", ")
        },
    }]
}

/// Whether `a` lies below `b` by their intervals.
pub(super) fn less(a: &Estimate, b: &Estimate) -> Shape {
    match (a.interval, b.interval) {
        (a, b) if a.high < b.low => Shape::Agrees,
        (a, b) if a.low > b.high => Shape::Differs,
        _ => Shape::Undecided,
    }
}

/// One that differs makes all differ, else one undecided leaves them undecided.
pub(super) fn worst_of(shapes: impl Iterator<Item = Shape>) -> Option<Shape> {
    shapes.max_by_key(|shape| match shape {
        Shape::Differs => 2,
        Shape::Undecided => 1,
        Shape::Agrees | Shape::NotMeasured => 0,
    })
}
