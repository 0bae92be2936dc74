//! The gateway paper's claims, tested for shape on the rows of a gateway's table (rule 13).

use super::claims::{ClaimVerdict, Finding, Shape, each_tested, less, not_measured, worst_of};
use super::{GatewayCheck, Paper};
use crate::capacity::{Promise, outcome};
use crate::gateway::{Row, with_interval};
use crate::report::words;
use crate::stats::{Estimate, Method, Outcome, equivalent};

/// What a row without a container is called.
const NATIVE: &str = "native";

/// All claims of a paper on a gateway, tested on a run's rows.
pub fn claims_of_gateway(paper: &Paper, rows: &[Row]) -> Vec<ClaimVerdict> {
    each_tested(&paper.gateway_claims, |check| {
        let found = findings(check, &Rows(rows));
        if found.is_empty() {
            vec![not_measured("no rows that it takes")]
        } else {
            found
        }
    })
}

fn findings(check: &GatewayCheck, rows: &Rows<'_>) -> Vec<Finding> {
    match check {
        GatewayCheck::Unchanged {
            rows: names,
            arms,
            within,
            instances_from,
        } => each_arm(arms, |arm| {
            let all = names.iter().flat_map(|name| rows.of(name, arm));
            let all = all.filter(|(instances, _)| instances >= instances_from);
            tested(all.filter_map(|(_, row)| ratio(row, |ratio| of(equivalent(ratio, *within).ok()))))
        }),
        GatewayCheck::Loses { row, arms, more_than } => each_arm(arms, |arm| {
            tested(
                rows.of(row, arm)
                    .filter_map(|(_, row)| ratio(row, |ratio| beyond(ratio, 1.0 - more_than))),
            )
        }),
        GatewayCheck::AddsAtMost { row, arms, bound } => each_arm(arms, |arm| {
            let natives: Vec<(u32, &Row)> = rows.of(row, NATIVE).collect();
            let native = |count| natives.iter().find(|(other, _)| *other == count).map(|(_, row)| *row);
            tested(
                rows.of(row, arm)
                    .filter_map(|(count, row)| adds(row, native(count)?, *bound)),
            )
        }),
        GatewayCheck::AtMost { row, bound } => one(rows.named(row).and_then(|row| at_most(row, *bound))),
        GatewayCheck::Most { row, others } => one(order(rows, row, others, |one, other| less(other, one))),
        GatewayCheck::Least { row, others } => one(order(rows, row, others, less)),
        GatewayCheck::Saves { rows: names } => {
            let found = names.iter().filter_map(|name| rows.named(name));
            found
                .filter_map(|row| ratio(row, |ratio| beyond(ratio, 1.0)))
                .map(finding(None))
                .collect()
        }
        GatewayCheck::NotMeasured { needs } => vec![not_measured(&format!("needs {needs}"))],
    }
}

/// What was found, and the figures that say so.
type Found = (Shape, String);

struct Rows<'a>(&'a [Row]);

impl<'a> Rows<'a> {
    fn named(&self, label: &str) -> Option<&'a Row> {
        self.0.iter().find(|row| row.label == label)
    }

    /// Of an arm, by the number of instances, as in `fio read × 4, oci`.
    fn of(&self, name: &str, arm: &str) -> impl Iterator<Item = (u32, &'a Row)> {
        let (before, after) = (format!("{name} × "), format!(", {arm}"));
        self.0.iter().filter_map(move |row| {
            let count = row.label.strip_prefix(&before)?.strip_suffix(&after)?;
            Some((count.parse().ok()?, row))
        })
    }
}

fn each_arm(arms: &[String], test: impl Fn(&str) -> Option<Found>) -> Vec<Finding> {
    let of_arm = |arm: &String| test(arm).map(finding(Some(arm.clone())));
    arms.iter().filter_map(of_arm).collect()
}

fn one(found: Option<Found>) -> Vec<Finding> {
    found.map(finding(None)).into_iter().collect()
}

fn finding(arm: Option<String>) -> impl Fn(Found) -> Finding {
    move |(shape, words)| Finding {
        arm: arm.clone(),
        shape,
        words,
    }
}

/// All rows together: one of another shape makes all of another.
fn tested(rows: impl Iterator<Item = Found>) -> Option<Found> {
    let (shapes, words): (Vec<Shape>, Vec<String>) = rows.unzip();
    Some((worst_of(shapes.into_iter())?, words.join(", ")))
}

fn of(holds: Option<bool>) -> Shape {
    match holds {
        Some(true) => Shape::Agrees,
        Some(false) => Shape::Differs,
        None => Shape::Undecided,
    }
}

fn ratio(row: &Row, shape: impl Fn(&Estimate) -> Shape) -> Option<Found> {
    let ratio = row.comparison?.ratio?;
    let words = format!("{}: {} × {}", row.label, words::ratio(&ratio), row.against?);
    Some((shape(&ratio), words))
}

/// Whether the whole interval of a ratio is below a bound. A range carries no confidence.
fn beyond(ratio: &Estimate, bound: f64) -> Shape {
    let interval = ratio.interval;
    match interval.method {
        Method::Range => Shape::Undecided,
        _ if interval.high < bound => Shape::Agrees,
        _ if interval.low >= bound => Shape::Differs,
        _ => Shape::Undecided,
    }
}

/// By the ends of both intervals, which is more cautious than the interval of a difference would be.
fn adds(row: &Row, native: &Row, bound: f64) -> Option<Found> {
    let (ours, theirs) = (row.figure?, native.figure?);
    let words = format!(
        "{}: {}, natively {}",
        row.label,
        with_interval(&ours, row.unit),
        with_interval(&theirs, native.unit)
    );
    let shape = match (ours.interval, theirs.interval) {
        (ours, _) if ours.method == Method::Range => Shape::Undecided,
        (ours, theirs) if ours.high - theirs.low <= bound => Shape::Agrees,
        (ours, theirs) if ours.low - theirs.high > bound => Shape::Differs,
        _ => Shape::Undecided,
    };
    Some((shape, words))
}

fn at_most(row: &Row, bound: f64) -> Option<Found> {
    let figure = row.figure?;
    let shape = match outcome(Promise::AtMost(bound), Some(&figure)) {
        Outcome::Pass => Shape::Agrees,
        Outcome::Fail => Shape::Differs,
        Outcome::Undecided => Shape::Undecided,
    };
    Some((shape, format!("{}: {}", row.label, with_interval(&figure, row.unit))))
}

/// One figure beside each of the others.
fn order(
    rows: &Rows<'_>,
    name: &str,
    others: &[String],
    shape: impl Fn(&Estimate, &Estimate) -> Shape,
) -> Option<Found> {
    let names = std::iter::once(name).chain(others.iter().map(String::as_str));
    let all: Vec<&Row> = names.map(|name| rows.named(name)).collect::<Option<_>>()?;
    let figures: Vec<Estimate> = all.iter().map(|row| row.figure).collect::<Option<_>>()?;
    let (first, rest) = figures.split_first()?;
    let shown = all
        .iter()
        .zip(&figures)
        .map(|(row, figure)| format!("{}: {}", row.label, with_interval(figure, row.unit)));
    let words = shown.collect::<Vec<_>>().join("; ");
    Some((worst_of(rest.iter().map(|other| shape(first, other)))?, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Unit;
    use crate::figures::gateway_as_a_service;
    use crate::gateway::every_label;
    use crate::stats::{Comparison, Interval, Undecided, Verdict};

    fn estimate((low, high): (f64, f64), method: Method) -> Estimate {
        Estimate {
            value: f64::midpoint(low, high),
            interval: Interval { low, high, method },
        }
    }

    fn row(label: &str, figure: (f64, f64), ratio: (f64, f64)) -> Row {
        Row {
            section: "",
            label: label.to_owned(),
            unit: Unit::Share,
            figure: Some(estimate(figure, Method::Bootstrap)),
            values: 1,
            against: Some("native"),
            comparison: Some(Comparison {
                ratio: Some(estimate(ratio, Method::Bootstrap)),
                verdict: Verdict::Undecided(Undecided::Interval),
            }),
            verdict: None,
        }
    }

    fn shapes(rows: &[Row], id: &str) -> Vec<(Option<String>, Shape)> {
        let found = claims_of_gateway(&gateway_as_a_service(), rows);
        let claim = found.into_iter().find(|claim| claim.id == id).unwrap();
        claim
            .findings
            .into_iter()
            .map(|finding| (finding.arm, finding.shape))
            .collect()
    }

    fn arm(name: &str, shape: Shape) -> (Option<String>, Shape) {
        (Some(name.to_owned()), shape)
    }

    #[test]
    fn what_costs_nothing_holds_where_every_number_of_instances_is_within_the_margin() {
        let mut rows = vec![
            row("sysbench, time × 1, oci", (1.0, 1.0), (0.99, 1.01)),
            row("sysbench, time × 4, oci", (1.0, 1.0), (0.98, 1.03)),
            row("sysbench, time × 1, docker", (1.0, 1.0), (1.06, 1.2)),
        ];
        assert_eq!(
            shapes(&rows, "c4.1.cpu"),
            [arm("oci", Shape::Agrees), arm("docker", Shape::Differs)]
        );
        assert_eq!(shapes(&rows, "c4.1.many"), [arm("oci", Shape::Agrees)]);
        rows[1].comparison.as_mut().unwrap().ratio = Some(estimate((0.99, 1.01), Method::Range));
        assert_eq!(
            shapes(&rows, "c4.1.cpu")[0],
            arm("oci", Shape::Undecided),
            "a range carries no confidence"
        );
    }

    #[test]
    fn a_loss_of_writes_is_found_where_the_file_was_and_is_none_within_the_margin() {
        let rows = [
            row("fio write × 1, oci", (1.0, 1.0), (0.97, 1.02)),
            row("fio write × 1, oci, own root", (1.0, 1.0), (0.5, 0.66)),
            row("fio write × 1, docker, own root", (1.0, 1.0), (0.9, 0.99)),
        ];
        assert_eq!(
            shapes(&rows, "c4.1.write"),
            [
                arm("oci, own root", Shape::Agrees),
                arm("docker, own root", Shape::Undecided),
                arm("oci", Shape::Differs)
            ]
        );
    }

    #[test]
    fn a_network_of_its_own_may_add_so_much_of_a_core_and_no_more() {
        let rows = |container| {
            [
                row("UDP in, CPU × 1, native", (0.030, 0.032), (1.0, 1.0)),
                row("UDP in, CPU × 1, oci", container, (1.2, 1.4)),
            ]
        };
        let of = |container| shapes(&rows(container), "c4.1.receive")[0].1;
        assert_eq!(of((0.036, 0.041)), Shape::Agrees);
        assert_eq!(of((0.06, 0.07)), Shape::Differs);
        assert_eq!(of((0.045, 0.055)), Shape::Undecided);
    }

    #[test]
    fn containers_are_set_in_order_by_their_intervals() {
        let rows = [
            row("web server, memory", (20.0, 21.0), (1.0, 1.0)),
            row("database, memory", (10.0, 11.0), (1.0, 1.0)),
            row("orchestrator, memory", (9.0, 10.5), (1.0, 1.0)),
        ];
        assert_eq!(shapes(&rows, "c4.2.web.memory"), [(None, Shape::Agrees)]);
        assert_eq!(shapes(&rows, "c4.2.orchestrator.memory"), [(None, Shape::Undecided)]);
        assert_eq!(shapes(&rows, "c4.2.web.cpu"), [(None, Shape::NotMeasured)]);
    }

    #[test]
    fn a_bound_and_a_saving_are_judged_by_the_interval() {
        let rows = |share, saved| {
            [
                row("all three, of a core", share, (1.0, 1.0)),
                row("CPU of a day, on demand", (1.0, 1.0), saved),
            ]
        };
        let of = |share, saved| ["c4.2.total", "c4.3.energy"].map(|id| shapes(&rows(share, saved), id)[0].1);
        assert_eq!(of((0.05, 0.09), (0.4, 0.6)), [Shape::Agrees; 2]);
        assert_eq!(of((0.12, 0.15), (1.1, 1.3)), [Shape::Differs; 2]);
        assert_eq!(of((0.09, 0.11), (0.9, 1.1)), [Shape::Undecided; 2]);
    }

    #[test]
    fn every_claim_is_tested_on_rows_that_there_are() {
        let known = every_label();
        let is_there = |name: &String| known.contains(name);
        let of_arms = |names: &[String], arms: &[String]| {
            names
                .iter()
                .all(|name| arms.iter().all(|arm| is_there(&format!("{name} × 1, {arm}"))))
        };
        for claim in gateway_as_a_service().gateway_claims {
            let are_there = match &claim.check {
                GatewayCheck::Unchanged { rows, arms, .. } => of_arms(rows, arms),
                GatewayCheck::Loses { row, arms, .. } | GatewayCheck::AddsAtMost { row, arms, .. } => {
                    of_arms(std::slice::from_ref(row), arms)
                }
                GatewayCheck::AtMost { row, .. } => is_there(row),
                GatewayCheck::Most { row, others } | GatewayCheck::Least { row, others } => {
                    is_there(row) && others.iter().all(is_there)
                }
                GatewayCheck::Saves { rows } => rows.iter().all(is_there),
                GatewayCheck::NotMeasured { .. } => true,
            };
            assert!(are_there, "{}", claim.id);
        }
    }
}
