//! What the policies' own simulator says of a cell, from service time and delay alone: proxies take no time there.

use std::time::Duration;

use balance::simulate::{self, Distances, Experiment, Member, Service};
use serde::Serialize;

use super::options::Options;
use super::record::{Job, Load, Work};
use crate::stats::rank;

const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(30);
/// One seed is enough: what is predicted is an average of thousands.
const SEED: u64 = 1;

/// Of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Answers a second.
    pub per_s: f64,
    /// How long they take on average, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

/// None for what is no site's, where something happens, where pods share the processors that their node may have or do not
/// wait, and where nobody is answered.
pub(super) fn predict(job: &Job, options: &Options) -> Option<Prediction> {
    if job.cell.event.is_some() || job.cell.work != Work::Wait {
        return None;
    }
    let load = |place: usize| match job.cell.load {
        Load::Closed(clients) => simulate::Load::Closed {
            clients: clients[place],
        },
        Load::Open(per_s) if place == 0 => simulate::Load::Open {
            requests_per_s: per_s.into(),
        },
        Load::Open(_) => simulate::Load::NONE,
    };
    let members = job.cell.pods.iter().enumerate().map(|(place, pods)| Member {
        endpoints: *pods,
        load: load(place),
    });
    let outcome = simulate::run(&Experiment {
        members: members.collect(),
        service: Service::Constant(options.service()),
        slows: None,
        distances: Distances::Same(Duration::from_millis(job.cell.round_trip_ms.into())),
        policy: job.arm.policy()?,
        warm_up: WARM_UP,
        measured: MEASURED,
        seed: SEED,
    });
    let took = outcome.all_took();
    let p99 = took.get(rank(took.len(), 0.99) - 1)?;
    Some(Prediction {
        per_s: outcome.answered as f64 / MEASURED.as_secs_f64(),
        mean_us: took.iter().sum::<Duration>().as_secs_f64() * 1e6 / took.len() as f64,
        p99_us: p99.as_secs_f64() * 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancing::{Arm, Cell, Part, Work};

    #[test]
    fn one_client_of_a_distant_pod_waits_for_the_way_and_the_service() {
        let job = Job {
            cell: Cell {
                part: Part::Delay,
                pods: [0, 1, 0],
                round_trip_ms: 30,
                load: Load::Closed([1, 0, 0]),
                event: None,
                work: Work::Wait,
            },
            arm: Arm::RoundRobin,
        };
        let found = predict(&job, &Options::default()).unwrap();
        assert!((found.mean_us - 38_000.0).abs() < 1.0, "{found:?}");
        assert!((found.per_s - 1_000.0 / 38.0).abs() < 0.1, "{found:?}");
    }
}
