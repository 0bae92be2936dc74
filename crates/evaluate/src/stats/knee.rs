//! Knees of a sweep over load (rule 8).

use serde::Serialize;

/// One load of a sweep and how it went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadPoint {
    /// Messages that the schedule asked for, a second.
    pub offered_per_s: f64,
    /// Messages answered, a second.
    pub answered_per_s: f64,
    /// p50 of the response time in µs; infinite where lost.
    #[serde(serialize_with = "super::estimate::number_or_lost")]
    pub p50_us: f64,
    /// p99 of the response time in µs; infinite where lost.
    #[serde(serialize_with = "super::estimate::number_or_lost")]
    pub p99_us: f64,
    /// Share of messages lost.
    pub lost: f64,
}

/// Where a sweep bends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Knee {
    /// At this offered rate, with higher ones measured.
    At {
        /// Messages a second.
        offered_per_s: f64,
    },
    /// The highest rate measured still holds.
    NotReached {
        /// That rate, messages a second.
        highest_per_s: f64,
    },
    /// Not even the lowest rate keeps the bounds.
    BelowSweep {
        /// That rate, messages a second.
        lowest_per_s: f64,
    },
}

/// The middleware paper's optimum load point: where most messages are answered a second. `None` with fewer than two
/// points.
pub fn optimum_load(points: &[LoadPoint]) -> Option<Knee> {
    let points = by_load(points)?;
    let best = points
        .iter()
        .max_by(|a, b| a.answered_per_s.total_cmp(&b.answered_per_s))?;
    Some(at_or_edge(&points, best))
}

/// The highest load with p99 within `p99_us` and at most the share `lost` lost, all lower ones measured keeping both
/// too. `None` with fewer than two points.
pub fn bounded_latency(points: &[LoadPoint], p99_us: f64, lost: f64) -> Option<Knee> {
    let points = by_load(points)?;
    let holds = |point: &&LoadPoint| point.p99_us <= p99_us && point.lost <= lost;
    let Some(last) = points.iter().take_while(holds).last() else {
        return Some(Knee::BelowSweep {
            lowest_per_s: points[0].offered_per_s,
        });
    };
    Some(at_or_edge(&points, last))
}

fn by_load(points: &[LoadPoint]) -> Option<Vec<LoadPoint>> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    (points.len() >= 2).then_some(points)
}

fn at_or_edge(points: &[LoadPoint], knee: &LoadPoint) -> Knee {
    let highest = points[points.len() - 1].offered_per_s;
    if knee.offered_per_s == highest {
        Knee::NotReached { highest_per_s: highest }
    } else {
        Knee::At {
            offered_per_s: knee.offered_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(points: &[(f64, f64, f64, f64)]) -> Vec<LoadPoint> {
        let point = |&(offered_per_s, answered_per_s, p99_us, lost)| LoadPoint {
            offered_per_s,
            answered_per_s,
            p50_us: p99_us / 2.0,
            p99_us,
            lost,
        };
        points.iter().map(point).collect()
    }

    #[test]
    fn the_optimum_load_has_most_messages_answered() {
        let points = sweep(&[
            (100.0, 100.0, 1.0, 0.0),
            (400.0, 250.0, 9.0, 0.3),
            (200.0, 300.0, 3.0, 0.0),
        ]);
        assert_eq!(optimum_load(&points), Some(Knee::At { offered_per_s: 200.0 }));
    }

    #[test]
    fn a_maximum_at_the_edge_of_the_sweep_is_not_reached() {
        let points = sweep(&[(100.0, 100.0, 1.0, 0.0), (200.0, 200.0, 2.0, 0.0)]);
        assert_eq!(optimum_load(&points), Some(Knee::NotReached { highest_per_s: 200.0 }));
        assert_eq!(
            bounded_latency(&points, 2.0, 0.0),
            Some(Knee::NotReached { highest_per_s: 200.0 })
        );
    }

    #[test]
    fn a_load_above_one_that_failed_is_no_knee() {
        let points = sweep(&[
            (1.0, 1.0, 1.0, 0.0),
            (2.0, 2.0, 1.0, 0.0),
            (3.0, 3.0, f64::INFINITY, 0.02),
            (4.0, 4.0, 1.0, 0.0),
        ]);
        assert_eq!(
            bounded_latency(&points, 5.0, 0.01),
            Some(Knee::At { offered_per_s: 2.0 })
        );
    }

    #[test]
    fn losses_over_the_bound_end_the_load_that_holds() {
        let points = sweep(&[(1.0, 1.0, 1.0, 0.01), (2.0, 2.0, 1.0, 0.0)]);
        assert_eq!(
            bounded_latency(&points, 5.0, 0.001),
            Some(Knee::BelowSweep { lowest_per_s: 1.0 })
        );
    }

    #[test]
    fn one_load_is_no_sweep() {
        assert_eq!(optimum_load(&sweep(&[(1.0, 1.0, 1.0, 0.0)])), None);
    }
}
