//! When each device sends, fixed before the run: open loops never look at an answer (rule 1).

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::trace::Trace;
use crate::run::{Cell, LoadModel};

/// One message that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    /// Nanoseconds after the start of the block.
    pub(crate) at_ns: u64,
    /// Number of the device that sends it.
    pub(crate) device: u32,
}

/// The messages of one open-loop block in the order of their times; empty for a closed loop.
///
/// # Panics
/// A cell of trace load without a trace: plans do not hold such cells.
pub(crate) fn schedule(cell: &Cell, trace: Option<&Trace>, seed: u64) -> Vec<Due> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let end_ns = cell.duration_us * 1_000;
    let interval_ns = cell.interval_us.unwrap_or(0) * 1_000;
    let mut dues = match cell.load {
        LoadModel::Closed => Vec::new(),
        LoadModel::Periodic => periodic(cell, interval_ns, end_ns, &mut random),
        LoadModel::Poisson => each_device(cell, |device| poisson(device, interval_ns, end_ns, &mut random)),
        LoadModel::Trace => replayed(trace.expect("a trace load has its trace"), cell.devices, end_ns),
    };
    dues.sort_unstable();
    dues
}

fn each_device(cell: &Cell, of_device: impl FnMut(u32) -> Vec<Due>) -> Vec<Due> {
    (0..cell.devices).flat_map(of_device).collect()
}

/// Every device has its own share of the interval, in a random order, and its phase at a random place within it: the
/// load of a fleet is even, as intervals promise. Bursts are what Poisson load is for.
fn periodic(cell: &Cell, interval_ns: u64, end_ns: u64, random: &mut ChaCha8Rng) -> Vec<Due> {
    let mut shares: Vec<u64> = (0..u64::from(cell.devices)).collect();
    shares.shuffle(random);
    let devices = shares.len() as f64;
    each_device(cell, |device| {
        let share = shares[device as usize] as f64 + random.random::<f64>();
        let phase_ns = (share / devices * interval_ns as f64) as u64;
        let times = (0..)
            .map(|i| phase_ns + i * interval_ns)
            .take_while(|&at_ns| at_ns < end_ns);
        times.map(|at_ns| Due { at_ns, device }).collect()
    })
}

fn poisson(device: u32, mean_ns: u64, end_ns: u64, random: &mut ChaCha8Rng) -> Vec<Due> {
    let mut at_ns = 0.0;
    let times = std::iter::from_fn(|| {
        // 1 − u is in (0, 1], so that its logarithm is finite.
        at_ns -= (1.0 - random.random::<f64>()).ln() * mean_ns as f64;
        (at_ns < end_ns as f64).then_some(at_ns as u64)
    });
    times.map(|at_ns| Due { at_ns, device }).collect()
}

fn replayed(trace: &Trace, devices: u32, end_ns: u64) -> Vec<Due> {
    let rows = &trace.readings;
    let last_ns = rows.last().map_or(0, |row| row.at_ns);
    // A repetition begins one mean gap after the last row, so that the seam looks like any other gap.
    let mean_gap_ns = last_ns / (rows.len().max(2) as u64 - 1);
    let round_ns = last_ns + mean_gap_ns.max(1);
    let times = (0..).flat_map(|round| rows.iter().map(move |row| (round * round_ns + row.at_ns, row.device)));
    let within = times.take_while(|&(at_ns, _)| at_ns < end_ns);
    within
        .map(|(at_ns, device)| Due {
            at_ns,
            device: device % devices,
        })
        .collect()
}

/// Adds a block's cell and schedule to a hash, so that two runs can prove that theirs were the same.
pub(crate) fn hash_into(digest: &mut ring::digest::Context, cell: &Cell, dues: &[Due]) {
    digest.update(format!("{cell:?}").as_bytes());
    for due in dues {
        digest.update(&due.at_ns.to_le_bytes());
        digest.update(&due.device.to_le_bytes());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::rtt::trace::Reading;

    pub(crate) fn cell(load: LoadModel, interval_us: u64, devices: u32) -> Cell {
        Cell {
            load,
            interval_us: (!load.is_closed()).then_some(interval_us),
            payload_bytes: 64,
            devices,
            qos: 1,
            concurrency: u32::from(load.is_closed()),
            think_us: 0,
            duration_us: 1_000_000,
            timeout_us: 1_000_000,
            wan: None,
        }
    }

    #[test]
    fn a_periodic_schedule_has_every_interval_of_every_device() {
        let dues = schedule(&cell(LoadModel::Periodic, 10_000, 3), None, 7);
        assert_eq!(dues.len(), 300);
        assert!(dues.is_sorted());
        let one: Vec<u64> = dues.iter().filter(|due| due.device == 1).map(|due| due.at_ns).collect();
        assert!(one.windows(2).all(|pair| pair[1] - pair[0] == 10_000_000));
    }

    #[test]
    fn the_devices_of_a_periodic_schedule_share_the_interval_evenly() {
        let dues = schedule(&cell(LoadModel::Periodic, 10_000, 100), None, 7);
        let in_share = |share: u64| share * 100_000..(share + 1) * 100_000;
        assert!((0..100).all(|share| in_share(share).contains(&dues[share as usize].at_ns)));
        let firsts: Vec<u32> = dues[..100].iter().map(|due| due.device).collect();
        assert!(!firsts.is_sorted(), "in a random order");
    }

    #[test]
    fn a_poisson_schedule_has_the_mean_rate_and_exponential_gaps() {
        let dues = schedule(&cell(LoadModel::Poisson, 100, 1), None, 7);
        let gaps: Vec<f64> = dues
            .windows(2)
            .map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e5 - 1.0).abs() < 0.05, "mean gap {mean} ns");
        assert!(
            (deviation / mean - 1.0).abs() < 0.05,
            "deviation {deviation} of mean {mean}"
        );
    }

    #[test]
    fn equal_seeds_make_equal_schedules_and_others_do_not() {
        for load in [LoadModel::Periodic, LoadModel::Poisson] {
            let cell = cell(load, 10_000, 20);
            assert_eq!(schedule(&cell, None, 42), schedule(&cell, None, 42));
            assert_ne!(schedule(&cell, None, 42), schedule(&cell, None, 43));
        }
    }

    #[test]
    fn a_trace_is_sent_at_its_own_times_and_repeated() {
        let reading = |at_ns, device| Reading {
            at_ns,
            device,
            json: "{\"x\":1}".into(),
        };
        let readings = vec![reading(0, 0), reading(100_000_000, 1), reading(300_000_000, 0)];
        let trace = Trace {
            source: "here".into(),
            sha256: String::new(),
            readings,
        };
        let dues = schedule(&cell(LoadModel::Trace, 0, 2), Some(&trace), 1);
        assert_eq!(
            dues[1],
            Due {
                at_ns: 100_000_000,
                device: 1
            }
        );
        assert_eq!(dues[3].device, 0);
        assert!(dues.len() > 6 && dues.is_sorted() && dues.last().unwrap().at_ns < 1_000_000_000);
    }
}
