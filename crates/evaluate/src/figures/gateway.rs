//! The gateway paper's figures beside the rows of a gateway's table.

use super::beside::{Beside, each_beside};
use super::{Figure, Paper, RowOfGateway, RowStatistic};
use crate::gateway::{Row, with_interval};
use crate::report::words;
use crate::stats::Estimate;

/// All figures of a paper beside a run's.
pub fn beside_gateway(paper: &Paper, rows: &[Row]) -> Vec<Beside> {
    let ours = |figure: &Figure| figure.gateway.as_ref().and_then(|ours| counterpart(ours, rows));
    each_beside(paper, ours)
}

/// Of every arm that was measured.
fn counterpart(ours: &RowOfGateway, rows: &[Row]) -> Option<String> {
    let of_label = |label: &str| {
        let row = rows.iter().find(|row| row.label == label)?;
        shown(row, ours.statistic)
    };
    if ours.arms.is_empty() {
        return of_label(&ours.row);
    }
    let of_arm = |arm: &String| {
        Some(format!(
            "{} ({arm})",
            labels(ours, arm).iter().find_map(|label| of_label(label))?
        ))
    };
    let found: Vec<String> = ours.arms.iter().filter_map(of_arm).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// What a row may be called: an arm stands behind what was measured, or before it.
fn labels(ours: &RowOfGateway, arm: &str) -> [String; 2] {
    [format!("{}, {arm}", ours.row), format!("{arm}, {}", ours.row)]
}

fn shown(row: &Row, statistic: RowStatistic) -> Option<String> {
    let ratio = || row.comparison.and_then(|comparison| comparison.ratio);
    match statistic {
        RowStatistic::Figure => row.figure.map(|figure| with_interval(&figure, row.unit)),
        RowStatistic::Added => ratio()
            .map(|Estimate { value, interval }| percent([value, interval.low, interval.high].map(|ratio| ratio - 1.0))),
        RowStatistic::Lost => ratio()
            .map(|Estimate { value, interval }| percent([value, interval.high, interval.low].map(|ratio| 1.0 - ratio))),
    }
}

/// `1.2 % (−0.3…2.1)`; without an interval where it is of one block.
fn percent(shares: [f64; 3]) -> String {
    let [value, low, high] = shares.map(|share| words::round(share * 100.0).replace('-', "−"));
    if low == high {
        return format!("{value} %");
    }
    format!("{value} % ({low}…{high})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Unit;
    use crate::figures::gateway_as_a_service;
    use crate::gateway::every_label;
    use crate::stats::{Comparison, Interval, Method, Undecided, Verdict};

    fn row(label: &str, ratio: (f64, f64, f64)) -> Row {
        let (value, low, high) = ratio;
        let ratio = Estimate {
            value,
            interval: Interval {
                low,
                high,
                method: Method::Bootstrap,
            },
        };
        Row {
            section: "",
            label: label.to_owned(),
            unit: Unit::MegabytesPerS,
            figure: None,
            values: 1,
            against: Some("native"),
            comparison: Some(Comparison {
                ratio: Some(ratio),
                verdict: Verdict::Undecided(Undecided::Interval),
            }),
            verdict: None,
        }
    }

    #[test]
    fn a_ratio_stands_beside_what_the_paper_lost_arm_by_arm() {
        let rows = [
            row("fio write × 1, oci", (0.99, 0.98, 1.01)),
            row("fio write × 1, docker", (0.6, 0.5, 0.7)),
        ];
        let found = beside_gateway(&gateway_as_a_service(), &rows);
        let ours = |id: &str| found.iter().find(|beside| beside.id == id).unwrap().ours.clone();
        assert_eq!(
            ours("s4.general.disk.write.rpi3").as_deref(),
            Some("1 % (−1…2) (oci), 40 % (30…50) (docker)")
        );
        assert_eq!(ours("s4.general.cpu"), None);
    }

    #[test]
    fn every_counterpart_is_a_row_that_there_is() {
        let known = every_label();
        for figure in gateway_as_a_service().figures {
            let Some(ours) = figure.gateway else { continue };
            let is_known = |label: &String| known.contains(label);
            let is_there = if ours.arms.is_empty() {
                is_known(&ours.row)
            } else {
                ours.arms.iter().all(|arm| labels(&ours, arm).iter().any(is_known))
            };
            assert!(is_there, "{}: no row {}", figure.id, ours.row);
        }
    }
}
