//! The load-balancing paper's claims, tested for shape on the cells of a site (rule 13).

use super::claims::{ClaimVerdict, Finding, Shape, each_tested, less, not_measured, worst_of};
use super::{BalancingCheck, Paper};
use crate::balancing::{Arm, CellSummary, Part, Row};
use crate::report::words;
use crate::stats::{Estimate, Method};

/// All claims of a paper on which node answers.
pub fn claims_of_balancing(paper: &Paper, cells: &[CellSummary]) -> Vec<ClaimVerdict> {
    each_tested(&paper.balancing_claims, |check| {
        let found = findings(check, &Cells(cells));
        if found.is_empty() {
            vec![not_measured("no cells that it takes")]
        } else {
            found
        }
    })
}

fn findings(check: &BalancingCheck, cells: &Cells<'_>) -> Vec<Finding> {
    match check {
        BalancingCheck::GrowsWithPods { clients } => {
            let rows = cells.rows(Part::Pods, Arm::LocalFirst, |cell| {
                cell.clients() == Some([*clients, 0, 0])
            });
            let per_s = ascending(rows.iter().map(|(name, row)| (name.clone(), Some(row.per_s))), per_s);
            let falls = ascending(
                rows.iter().rev().map(|(name, row)| (name.clone(), row.mean_us)),
                words::duration,
            );
            [per_s, falls].into_iter().flatten().map(finding).collect()
        }
        BalancingCheck::DistributionsAlike { clients, within } => {
            let rows = cells.of_delay(*clients, 0);
            alike(&rows, *within).map(finding).into_iter().collect()
        }
        BalancingCheck::DistributionsOrdered {
            clients,
            round_trips_ms,
        } => {
            let of = |round_trip_ms: &u32| {
                let rows = cells.of_delay(*clients, *round_trip_ms).into_iter();
                let (shape, words) = ascending(rows.map(|(name, row)| (name, Some(row.per_s))), per_s)?;
                Some(finding((shape, format!("round trip {round_trip_ms} ms: {words}"))))
            };
            round_trips_ms.iter().filter_map(of).collect()
        }
        BalancingCheck::LocalBeatsRoundRobin => cells.of(Part::Policies).filter_map(beats).map(finding).collect(),
        BalancingCheck::LeastTrafficWaitsLongest => cells
            .of(Part::Policies)
            .filter_map(waits_longest)
            .map(finding)
            .collect(),
    }
}

/// What was found, and the figures that say so.
type Found = (Shape, String);

struct Cells<'a>(&'a [CellSummary]);

impl<'a> Cells<'a> {
    fn of(&self, part: Part) -> impl Iterator<Item = &'a CellSummary> + use<'a> {
        self.0.iter().filter(move |summary| summary.cell.part == part)
    }

    /// Of an arm, each with its pods in words, fewest at the first node first.
    fn rows(&self, part: Part, arm: Arm, is_it: impl Fn(&crate::balancing::Cell) -> bool) -> Vec<(String, &'a Row)> {
        let mut all: Vec<&CellSummary> = self.of(part).filter(|summary| is_it(&summary.cell)).collect();
        all.sort_by_key(|summary| summary.cell.pods[0]);
        let row = |summary: &&'a CellSummary| Some((summary.cell.pods_words(), row(summary, arm)?));
        all.iter().filter_map(row).collect()
    }

    fn of_delay(&self, clients: u32, round_trip_ms: u32) -> Vec<(String, &'a Row)> {
        self.rows(Part::Delay, Arm::RoundRobin, |cell| {
            cell.clients() == Some([clients, 0, 0]) && cell.round_trip_ms == round_trip_ms
        })
    }
}

fn row(summary: &CellSummary, arm: Arm) -> Option<&Row> {
    summary.rows.iter().find(|row| row.arm == arm)
}

fn finding((shape, words): Found) -> Finding {
    Finding {
        arm: None,
        shape,
        words,
    }
}

fn per_s(figure: f64) -> String {
    format!("{}/s", words::number_set(figure))
}

/// Whether one lies below the other; a range carries no confidence.
fn below(one: &Estimate, other: &Estimate) -> Shape {
    match (one.interval.method, other.interval.method) {
        (Method::Range, _) | (_, Method::Range) => Shape::Undecided,
        _ => less(one, other),
    }
}

/// Each below the next.
fn ascending(figures: impl Iterator<Item = (String, Option<Estimate>)>, words: fn(f64) -> String) -> Option<Found> {
    let figures: Vec<(String, Estimate)> = figures
        .map(|(name, figure)| Some((name, figure?)))
        .collect::<Option<_>>()?;
    let shapes = figures.windows(2).map(|pair| below(&pair[0].1, &pair[1].1));
    let shown = figures
        .iter()
        .map(|(name, figure)| format!("{name}: {}", words(figure.value)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    Some((worst_of(shapes)?, shown))
}

/// The fewest within a share of the most, by the ends of both intervals.
fn alike(rows: &[(String, &Row)], within: f64) -> Option<Found> {
    let by_value = |one: &&(String, &Row), other: &&(String, &Row)| one.1.per_s.value.total_cmp(&other.1.per_s.value);
    let (least, most) = (
        rows.iter().min_by(by_value)?.1.per_s,
        rows.iter().max_by(by_value)?.1.per_s,
    );
    let shape = match (least.interval, most.interval) {
        _ if rows.len() < 2 => return None,
        (least, _) if least.method == Method::Range => Shape::Undecided,
        (least, most) if most.high <= least.low * (1.0 + within) => Shape::Agrees,
        (least, most) if most.low > least.high * (1.0 + within) => Shape::Differs,
        _ => Shape::Undecided,
    };
    let shown = rows
        .iter()
        .map(|(name, row)| format!("{name}: {}", per_s(row.per_s.value)));
    Some((shape, shown.collect::<Vec<_>>().join(", ")))
}

fn beats(summary: &CellSummary) -> Option<Found> {
    let (local, in_turn) = (row(summary, Arm::Local)?, row(summary, Arm::RoundRobin)?);
    let (local_us, in_turn_us) = (local.mean_us?, in_turn.mean_us?);
    let shapes = [below(&in_turn.per_s, &local.per_s), below(&local_us, &in_turn_us)];
    let words = format!(
        "{} pods, {} ms: local {}, {}; round-robin {}, {}",
        summary.cell.pods_words(),
        summary.cell.round_trip_ms,
        per_s(local.per_s.value),
        words::duration(local_us.value),
        per_s(in_turn.per_s.value),
        words::duration(in_turn_us.value)
    );
    Some((worst_of(shapes.into_iter())?, words))
}

/// Of cells in which the first node is asked more than each of the others.
fn waits_longest(summary: &CellSummary) -> Option<Found> {
    let [most, others @ ..] = summary.cell.clients()?;
    let row = row(summary, Arm::RoundRobin)?;
    let [first, rest @ ..] = row.by_node_us;
    let (first, rest) = (first?, rest.into_iter().collect::<Option<Vec<_>>>()?);
    if others.iter().any(|clients| *clients >= most) {
        return None;
    }
    let shown = rest.iter().zip(others);
    let shown = shown.map(|(mean, clients)| format!("{} where {clients} ask(s)", words::duration(mean.value)));
    let words = format!(
        "{} pods, {} ms: {} where {most} ask, {}",
        summary.cell.pods_words(),
        summary.cell.round_trip_ms,
        words::duration(first.value),
        shown.collect::<Vec<_>>().join(", ")
    );
    Some((worst_of(rest.iter().map(|mean| below(&first, mean)))?, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancing::{Cell, Load, Seen, Work, run_of, summarise};
    use crate::figures::local_scheduling;

    fn verdict(cells: &[CellSummary], id: &str) -> Vec<Shape> {
        let all = claims_of_balancing(&local_scheduling(), cells);
        let claim = all.into_iter().find(|claim| claim.id == id).unwrap();
        claim.findings.iter().map(|finding| finding.shape).collect()
    }

    /// A cell in which answers take so long of each node's clients, by arm.
    fn cell(part: Part, pods: [u32; 3], clients: [u32; 3], arms: &[(Arm, [u32; 3])]) -> CellSummary {
        let cell = Cell {
            part,
            pods,
            round_trip_ms: match part {
                Part::Delay => 30,
                Part::Policies => 15,
                _ => 0,
            },
            load: Load::Closed(clients),
            event: None,
            work: Work::Wait,
        };
        let seen = |us: u32, clients: u32| Seen {
            wall_s: 1.0,
            answered: u64::from(clients * 1_000_000 / us),
            answers_us: vec![Some(us); (clients * 1_000_000 / us) as usize],
            ..Seen::default()
        };
        let arms: Vec<(Arm, [Seen; 3])> = (arms.iter())
            .map(|(arm, us)| (*arm, [0, 1, 2].map(|node| seen(us[node], clients[node]))))
            .collect();
        summarise(&run_of(cell, &arms, 5)).remove(0)
    }

    #[test]
    fn distributions_are_ordered_where_each_answers_more_than_the_one_before() {
        let of = |pods, us| cell(Part::Delay, pods, [16, 0, 0], &[(Arm::RoundRobin, [us; 3])]);
        let (even, some, most) = (of([4, 4, 4], 30_000), of([8, 3, 1], 20_000), of([10, 1, 1], 10_000));
        assert_eq!(
            verdict(&[even.clone(), some.clone(), most.clone()], "c3.2.delay"),
            [Shape::Agrees]
        );
        let other = of([10, 1, 1], 25_000);
        assert_eq!(verdict(&[even, some, other], "c3.2.delay"), [Shape::Differs]);
    }

    #[test]
    fn distributions_are_alike_within_a_tenth_and_more_pods_answer_more_and_faster() {
        let delay = |pods, us| {
            let mut found = cell(Part::Delay, pods, [16, 0, 0], &[(Arm::RoundRobin, [us; 3])]);
            found.cell.round_trip_ms = 0;
            found
        };
        assert_eq!(
            verdict(&[delay([4, 4, 4], 10_000), delay([8, 3, 1], 10_500)], "c3.2.none"),
            [Shape::Agrees]
        );
        assert_eq!(
            verdict(&[delay([4, 4, 4], 10_000), delay([8, 3, 1], 12_000)], "c3.2.none"),
            [Shape::Differs]
        );
        let alone = |pods, us| cell(Part::Pods, [pods, 0, 0], [16, 0, 0], &[(Arm::LocalFirst, [us; 3])]);
        let grows = [alone(1, 100_000), alone(4, 40_000), alone(2, 60_000)];
        assert_eq!(verdict(&grows, "c3.1"), [Shape::Agrees; 2]);
        assert_eq!(
            verdict(&[alone(1, 40_000), alone(2, 60_000)], "c3.1"),
            [Shape::Differs; 2]
        );
    }

    #[test]
    fn local_beats_round_robin_only_where_it_answers_more_and_faster() {
        let of = |local| {
            cell(
                Part::Policies,
                [6, 6, 6],
                [4, 4, 4],
                &[(Arm::Local, [local; 3]), (Arm::RoundRobin, [18_000; 3])],
            )
        };
        assert_eq!(verdict(&[of(8_000)], "c3.3"), [Shape::Agrees]);
        assert_eq!(verdict(&[of(20_000)], "c3.3"), [Shape::Differs]);
    }

    #[test]
    fn who_is_asked_least_waits_longest_where_his_mean_is_higher() {
        let of = |last| {
            let arms = [(Arm::RoundRobin, [10_000, last, last])];
            cell(Part::Policies, [16, 1, 1], [10, 1, 1], &arms)
        };
        assert_eq!(verdict(&[of(22_000)], "c3.4"), [Shape::Agrees]);
        assert_eq!(verdict(&[of(8_000)], "c3.4"), [Shape::Differs]);
        let even = cell(Part::Policies, [6, 6, 6], [4, 4, 4], &[(Arm::RoundRobin, [8_000; 3])]);
        assert_eq!(verdict(&[even], "c3.4"), [Shape::NotMeasured], "nobody is asked least");
    }
}
