//! What a replay of a day says of a whole one: what requests and starts take is as it was seen, what rest takes is for
//! the whole of its time.

use crate::gateway::options::DAY_S;
use crate::gateway::record::{Arm, Figure, GatewayRun, Job, Task};

const HOURS: f64 = 24.0;
const MEGABYTE: f64 = 1e6;

/// A figure of a whole day for each block: of memory MB·h, of anything else what is used of it.
pub(super) fn of_whole_day(run: &GatewayRun, job: Job, figure: Figure) -> Vec<(u32, Vec<f64>)> {
    let blocks = run.blocks_of(job, figure);
    let of_block = |(block, values): (u32, Vec<f64>)| {
        let seen = Seen { run, block };
        let value = match figure {
            Figure::DayMemoryBytes | Figure::DayAddedMemoryBytes => {
                mean_over(&seen.of(job.arm, Figure::LookS)?, &values)? * HOURS / MEGABYTE
            }
            _ => {
                let rest_s = f64::from(DAY_S) - seen.one(job.arm, Figure::DayReplayS)?;
                values.first()? + seen.at_rest(job.arm, figure)? * rest_s
            }
        };
        Some((block, vec![value]))
    };
    blocks.into_iter().filter_map(of_block).collect()
}

/// What was seen in one block.
struct Seen<'a> {
    run: &'a GatewayRun,
    block: u32,
}

impl Seen<'_> {
    fn of(&self, arm: Arm, figure: Figure) -> Option<Vec<f64>> {
        let blocks = self.run.blocks_of(Job { task: Task::Day, arm }, figure);
        blocks
            .into_iter()
            .find(|(block, _)| *block == self.block)
            .map(|(_, values)| values)
    }

    fn one(&self, arm: Arm, figure: Figure) -> Option<f64> {
        self.of(arm, figure)?.first().copied()
    }

    /// What is used in a second without requests: of applications on demand, with those awake that were, as long as
    /// they were.
    fn at_rest(&self, arm: Arm, figure: Figure) -> Option<f64> {
        let is_energy = figure == Figure::DayEnergyJ;
        let [awake, asleep] = if is_energy {
            [Figure::DayAwakePowerW, Figure::DayAsleepPowerW]
        } else {
            [Figure::DayAwakeCpuShare, Figure::DayAsleepCpuShare]
        };
        let of_awake = self.one(arm, awake)?;
        if arm != Arm::OnDemand {
            return Some(of_awake);
        }
        let (of_asleep, shares) = (self.one(arm, asleep)?, self.of(arm, Figure::DayAwakeShare)?);
        let added = if is_energy {
            // Of a processor's energy nothing says whose it was.
            (of_awake - of_asleep) * shares.iter().sum::<f64>() / shares.len() as f64
        } else {
            let each = self.of(arm, Figure::DayAppCpuShare)?;
            shares.iter().zip(&each).map(|(share, of_app)| share * of_app).sum()
        };
        Some(of_asleep + added)
    }
}

/// The mean over time of what was looked at now and then.
fn mean_over(at_s: &[f64], values: &[f64]) -> Option<f64> {
    let time_s = at_s.last()? - at_s.first()?;
    if time_s <= 0.0 {
        return values.first().copied();
    }
    let looks: Vec<(f64, f64)> = at_s.iter().copied().zip(values.iter().copied()).collect();
    let parts = looks
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1));
    Some(parts.sum::<f64>() / time_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::record::{Done, Sample};

    /// One block of a day with these figures.
    fn run(seen: &[(Arm, Figure, &[f64])]) -> GatewayRun {
        let done = |(arm, figure, values): &(Arm, Figure, &[f64])| Done {
            block: 0,
            job: Job {
                task: Task::Day,
                arm: *arm,
            },
            started_s: 0.0,
            samples: vec![Sample {
                figure: *figure,
                values: values.iter().copied().map(Some).collect(),
            }],
        };
        crate::gateway::summary::tests::run(seen.iter().map(done).collect())
    }

    #[test]
    fn a_day_of_applications_on_demand_has_their_rest_as_long_as_they_were_awake() {
        let run = run(&[
            (Arm::AlwaysOn, Figure::DayCpuS, &[2.0]),
            (Arm::AlwaysOn, Figure::DayReplayS, &[400.0]),
            (Arm::AlwaysOn, Figure::DayAwakeCpuShare, &[0.002]),
            (Arm::OnDemand, Figure::DayCpuS, &[10.0]),
            (Arm::OnDemand, Figure::DayReplayS, &[400.0]),
            (Arm::OnDemand, Figure::DayAwakeCpuShare, &[0.002]),
            (Arm::OnDemand, Figure::DayAsleepCpuShare, &[0.0005]),
            (Arm::OnDemand, Figure::DayAppCpuShare, &[0.0, 0.001]),
            (Arm::OnDemand, Figure::DayAwakeShare, &[1.0, 0.25]),
        ]);
        let of = |arm| {
            let job = Job { task: Task::Day, arm };
            of_whole_day(&run, job, Figure::DayCpuS)[0].1[0]
        };
        assert!((of(Arm::AlwaysOn) - (2.0 + 86_000.0 * 0.002)).abs() < 1e-9);
        assert!((of(Arm::OnDemand) - (10.0 + 86_000.0 * 0.000_75)).abs() < 1e-9);
        let lacking = Job {
            task: Task::Day,
            arm: Arm::AlwaysOnAgain,
        };
        assert_eq!(of_whole_day(&run, lacking, Figure::DayCpuS), []);
    }

    #[test]
    fn memory_of_a_day_is_its_mean_for_24_hours_whatever_the_speed() {
        let run = run(&[
            (Arm::OnDemand, Figure::LookS, &[0.0, 30.0, 60.0]),
            (Arm::OnDemand, Figure::DayMemoryBytes, &[10e6, 20e6, 10e6]),
        ]);
        let job = Job {
            task: Task::Day,
            arm: Arm::OnDemand,
        };
        assert_eq!(of_whole_day(&run, job, Figure::DayMemoryBytes), [(0, vec![360.0])]);
    }

    #[test]
    fn the_mean_is_over_time_and_not_over_looks() {
        assert_eq!(mean_over(&[0.0, 1.0, 1.1, 1.2, 2.2], &[10.0; 5]), Some(10.0));
        assert_eq!(mean_over(&[0.0, 3.0, 4.0], &[0.0, 0.0, 8.0]), Some(1.0));
        assert_eq!(mean_over(&[1.0], &[5.0]), Some(5.0));
        assert_eq!(mean_over(&[], &[]), None);
    }
}
