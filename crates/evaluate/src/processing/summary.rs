//! What the turns and looks say: how long each takes, what it takes meanwhile, and whether a container costs anything.

use serde::Serialize;

use super::experiment::jobs;
use super::record::{Job, Look, Place, ProcessingRun, Seen, Task};
use crate::stats::{Bootstrap, Comparison, Conditions, Estimate, Pool, Units, compare, ratio_of_costs};

/// Promised: the same as on the host, within this share.
pub(crate) const SAME_WITHIN: f64 = 0.03;

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub job: Job,
    /// Trainings, or predictions.
    pub count: usize,
    /// How long one takes, in microseconds, the middle one.
    pub p50_us: Option<Estimate>,
    /// The 99th percentile; none: too few.
    pub p99_us: Option<Estimate>,
    /// The mean as a multiple of that on the host, within blocks.
    pub against_host: Option<Comparison>,
    /// Processor of the work, as a share of a core: at most, and on average.
    pub cpu_share: [f64; 2],
    /// Of the whole machine, as a share of all its cores.
    pub system_cpu_share: [f64; 2],
    /// Resident memory of the work.
    pub memory_bytes: [f64; 2],
    /// Memory of the whole machine that is in use.
    pub system_memory_bytes: [f64; 2],
    /// From the command that starts it until it is ready.
    pub cold_start_s: Option<Estimate>,
    /// Processor time of each training or prediction, in microseconds.
    pub cpu_us: f64,
}

/// Every cell that was measured.
pub fn summarise(run: &ProcessingRun) -> Vec<Row> {
    let all = jobs(&run.options).into_iter();
    let measured = all.filter(|job| run.seen(*job).next().is_some());
    measured.map(|job| row(run, job)).collect()
}

/// Microseconds of each training, or of each prediction.
fn each_us(job: Job, seen: &Seen) -> Vec<f64> {
    match job.task {
        Task::Training => {
            let turns = seen.turns.iter();
            turns.map(|turn| (turn.ended_ns - turn.began_ns) as f64 / 1e3).collect()
        }
        Task::Prediction => seen
            .turns
            .iter()
            .flat_map(|turn| turn.values.iter().flatten().copied())
            .collect(),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of each block.
fn means(run: &ProcessingRun, job: Job) -> Vec<(u32, f64)> {
    let all = run.seen(job);
    all.filter_map(|(block, seen)| Some((block, mean(&each_us(job, seen))?)))
        .collect()
}

fn row(run: &ProcessingRun, job: Job) -> Row {
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let blocks: Vec<Vec<f64>> = run.seen(job).map(|(_, seen)| each_us(job, seen)).collect();
    let slices: Vec<&[f64]> = blocks.iter().map(Vec::as_slice).collect();
    let count = blocks.iter().map(Vec::len).sum();
    let middles: Vec<f64> = blocks.iter().filter_map(|block| crate::stats::median(block)).collect();
    let pool = Pool::new(&Units::new(&[slices]));
    let starts: Vec<f64> = run.seen(job).map(|(_, seen)| seen.cold_start_s).collect();
    let looks = || run.seen(job).flat_map(|(_, seen)| &seen.looks);
    let most_and_mean = |of: fn(&Look) -> f64| {
        let values: Vec<f64> = looks().map(of).collect();
        [
            values.iter().copied().fold(0.0, f64::max),
            mean(&values).unwrap_or_default(),
        ]
    };
    Row {
        job,
        count,
        // A handful of trainings has a middle, if no interval within blocks.
        p50_us: pool
            .quantile(0.5, bootstrap)
            .or_else(|| Estimate::median_of(&middles, bootstrap)),
        p99_us: pool.quantile(0.99, bootstrap),
        against_host: (job.place != Place::Host).then(|| against_host(run, job)).flatten(),
        cpu_share: most_and_mean(|look| look.cpu_share),
        system_cpu_share: most_and_mean(|look| look.system_cpu_share),
        memory_bytes: most_and_mean(|look| look.memory_bytes as f64),
        system_memory_bytes: most_and_mean(|look| look.system_memory_bytes as f64),
        cold_start_s: Estimate::median_of(&starts, bootstrap),
        cpu_us: cpu_us(run, job, count),
    }
}

/// Of all looks, by what was done meanwhile.
fn cpu_us(run: &ProcessingRun, job: Job, count: usize) -> f64 {
    let used = run.seen(job).map(|(_, seen)| {
        let looks = seen.looks.windows(2);
        looks
            .map(|pair| pair[1].cpu_share * (pair[1].at_ns - pair[0].at_ns) as f64 / 1e3)
            .sum::<f64>()
    });
    used.sum::<f64>() / count.max(1) as f64
}

fn times(run: &ProcessingRun, job: Job, other: Place) -> Option<Estimate> {
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let theirs = means(run, Job { place: other, ..job });
    let of_block = |block: u32| theirs.iter().find(|(other, _)| *other == block).map(|(_, mean)| *mean);
    let pairs = means(run, job)
        .into_iter()
        .filter_map(|(block, mean)| Some((mean, of_block(block)?)));
    ratio_of_costs(&[pairs.collect()], bootstrap).ok()
}

fn against_host(run: &ProcessingRun, job: Job) -> Option<Comparison> {
    let again = Job {
        place: Place::HostAgain,
        ..job
    };
    let conditions = Conditions {
        margin: SAME_WITHIN,
        noise: times(run, again, Place::Host),
        ..Conditions::default()
    };
    Some(compare(Ok(times(run, job, Place::Host)?), (1.0, 1.0), &conditions))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::interference::Turn;
    use crate::processing::record::{Done, FORMAT, Limits, Model};
    use crate::processing::{EXPERIMENT, Options};
    use crate::stats::Verdict;

    /// Five blocks of trainings that take so long in each of these places.
    pub(crate) fn trainings(places: &[(Place, f64)]) -> ProcessingRun {
        let done = |block: u32, (place, took_s): &(Place, f64)| {
            let took_ns = (took_s * (1.0 + f64::from(block) / 1e3) * 1e9) as u64;
            let look = |at_ns, cpu_share| Look {
                at_ns,
                cpu_share,
                memory_bytes: 300_000_000,
                ..Look::default()
            };
            Done {
                block,
                job: Job {
                    model: Model::Autoencoder,
                    task: Task::Training,
                    place: *place,
                },
                started_s: 0.0,
                seen: Seen {
                    cold_start_s: 4.0,
                    turns: vec![
                        Turn {
                            began_ns: 0,
                            ended_ns: took_ns,
                            values: Vec::new(),
                        };
                        2
                    ],
                    looks: vec![look(0, 0.0), look(1_000_000_000, 0.5), look(2_000_000_000, 1.0)],
                    looking_share: 0.001,
                },
            }
        };
        ProcessingRun {
            format: FORMAT,
            experiment: EXPERIMENT.to_owned(),
            options: Options::default(),
            seed: 7,
            programs: Vec::new(),
            board: Limits {
                cpu_millis: 622,
                memory_mib: 1_024,
            },
            image_bytes: 700_000_000,
            done: (0..5)
                .flat_map(|block| places.iter().map(move |place| done(block, place)))
                .collect(),
            skipped: Vec::new(),
            environment: Environment::default(),
        }
    }

    #[test]
    fn a_container_as_fast_as_the_host_is_equivalent_and_a_cloud_side_is_faster_by_how_much() {
        let run = trainings(&[
            (Place::Host, 2.0),
            (Place::HostAgain, 2.01),
            (Place::Oci, 2.02),
            (Place::Docker, 2.4),
            (Place::Cloud, 0.5),
        ]);
        let rows = summarise(&run);
        let of = |place| rows.iter().find(|row| row.job.place == place).unwrap();
        let verdict = |place| of(place).against_host.unwrap().verdict;
        assert_eq!(of(Place::Host).against_host, None);
        assert!(matches!(verdict(Place::Oci), Verdict::Equivalent { .. }));
        assert_eq!(verdict(Place::Docker), Verdict::Slower);
        assert_eq!(verdict(Place::Cloud), Verdict::Faster);
        assert!((of(Place::Cloud).against_host.unwrap().ratio.unwrap().value - 0.25).abs() < 1e-6);
        assert_eq!((of(Place::Oci).count, of(Place::Oci).p99_us), (10, None));
        assert_eq!(of(Place::Oci).cpu_share, [1.0, 0.5]);
        // A second and a half of a core in each of five blocks, of two trainings each.
        assert!((of(Place::Oci).cpu_us - 750_000.0).abs() < 1.0);
    }
}
