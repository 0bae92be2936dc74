//! The cells, and the sites that each is.

use std::time::Duration;

use balance::Policy;
use balance::simulate::{Distances, Experiment, Load, Member, Service};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::options::{Options, Part};
use super::record::{Cell, Law, Traffic};
use super::traffic::{DISTANCES, ENDPOINTS, able_per_s, measured, members};

const LAWS: [Law; 2] = [Law::Constant, Law::Exponential];
const NEIGHBOURS_PERCENT: [u32; 2] = [0, 60];
const ROUND_TRIPS_MS: [u32; 6] = [0, 1, 5, 15, 30, 60];
const LOADS_PERCENT: [u32; 7] = [30, 60, 80, 100, 120, 200, 400];
const TRAFFIC: [Traffic; 3] = [Traffic::Even, Traffic::Day, Traffic::Crowd];
/// Of a map.
const MAP_NODES: usize = 10;
/// So many requests an endpoint can answer in the time that counts: at the least load of the map, p99 has more than it needs.
const MAP_REQUESTS: u32 = 2_000;
/// Until what was slow is forgotten (decision 49).
const WARM_UP: Duration = Duration::from_secs(2);
/// A site has no more than 256 (`site`).
const SITE_NODES: u32 = 250;

/// Those of a run.
pub(super) fn cells(options: &Options) -> Vec<Cell> {
    let of_part = |part: &Part| match part {
        Part::Map => map(options.quick),
        Part::Scale => scale(&options.nodes),
    };
    options.parts.iter().flat_map(of_part).collect()
}

fn map(quick: bool) -> Vec<Cell> {
    let mut all = Vec::new();
    for law in LAWS {
        for neighbours_percent in NEIGHBOURS_PERCENT {
            for round_trip_ms in ROUND_TRIPS_MS {
                all.extend(LOADS_PERCENT.map(|load_percent| Cell::Map {
                    law,
                    neighbours_percent,
                    round_trip_ms,
                    load_percent,
                }));
            }
        }
    }
    if quick {
        all.retain(|cell| {
            matches!(
                cell,
                Cell::Map {
                    law: Law::Exponential,
                    neighbours_percent: 0,
                    ..
                }
            )
        });
    }
    all
}

fn scale(nodes: &[u32]) -> Vec<Cell> {
    let of_nodes = |nodes: &u32| TRAFFIC.map(|traffic| Cell::Scale { nodes: *nodes, traffic });
    nodes.iter().flat_map(of_nodes).collect()
}

/// How many sites its nodes are.
fn sites(cell: Cell) -> u32 {
    match cell {
        Cell::Map { .. } => 1,
        Cell::Scale { nodes, .. } => nodes.div_ceil(SITE_NODES),
    }
}

/// How many sites of it are simulated: all of them, as many times as there have to be as many as seeds.
pub(super) fn units(cell: Cell, seeds: u32) -> u32 {
    sites(cell) * seeds.div_ceil(sites(cell))
}

/// One of its sites. `day`: how much is asked in each step, 1 on average.
pub(super) fn site(cell: Cell, policy: Policy, (unit, seed): (u32, u64), options: &Options, day: &[f64]) -> Experiment {
    let mean = Duration::from_millis(options.service_ms.into());
    let seed = seed_of(seed, cell, unit);
    match cell {
        Cell::Map {
            law,
            neighbours_percent,
            round_trip_ms,
            load_percent,
        } => {
            let member = |node: usize| {
                let percent = if node == 0 { load_percent } else { neighbours_percent };
                let requests_per_s = able_per_s(mean) * f64::from(percent) / 100.0;
                let load = Load::Open { requests_per_s };
                Member {
                    endpoints: ENDPOINTS,
                    load,
                }
            };
            Experiment {
                members: (0..MAP_NODES).map(member).collect(),
                service: match law {
                    Law::Constant => Service::Constant(mean),
                    Law::Exponential => Service::Exponential(mean),
                },
                slows: None,
                distances: Distances::Same(Duration::from_millis(round_trip_ms.into())),
                policy,
                warm_up: WARM_UP,
                measured: mean * MAP_REQUESTS,
                seed,
            }
        }
        Cell::Scale { nodes, traffic } => Experiment {
            members: members(nodes_of(nodes, sites(cell), unit) as usize, traffic, day, mean),
            service: Service::Exponential(mean),
            slows: None,
            distances: DISTANCES,
            policy,
            warm_up: WARM_UP,
            measured: measured(mean),
            seed,
        },
    }
}

/// As evenly as it goes.
fn nodes_of(nodes: u32, sites: u32, unit: u32) -> u32 {
    nodes / sites + u32::from(unit % sites < nodes % sites)
}

/// The same for every policy, and another for each site and number of nodes.
fn seed_of(seed: u64, cell: Cell, unit: u32) -> u64 {
    let nodes = match cell {
        Cell::Map { .. } => 0,
        Cell::Scale { nodes, .. } => nodes,
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(u64::from(nodes) << 32 | u64::from(unit));
    random.random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_nodes_are_forty_sites_and_ten_are_one_for_each_seed() {
        let units = |nodes| {
            let traffic = Traffic::Even;
            super::units(Cell::Scale { nodes, traffic }, 5)
        };
        assert_eq!([10, 250, 1_000, 10_000].map(units), [5, 5, 8, 40]);
        assert_eq!([0, 1, 2].map(|unit| nodes_of(301, 2, unit)), [151, 150, 151]);
    }

    #[test]
    fn sites_and_seeds_have_nothing_in_common() {
        let scale = |nodes| Cell::Scale {
            nodes,
            traffic: Traffic::Even,
        };
        let mut all: Vec<u64> = Vec::new();
        for seed in [7, 8] {
            for cell in [scale(10), scale(1_000)] {
                all.extend((0..8).map(|unit| seed_of(seed, cell, unit)));
            }
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 32);
    }

    #[test]
    fn the_short_run_has_some_cells_of_the_full_one() {
        let of = |quick| {
            cells(&Options {
                quick,
                ..Options::default()
            })
        };
        let (full, some) = (of(false), of(true));
        assert_eq!(full.len(), 2 * 2 * 6 * 7 + 4 * 3);
        assert!(some.len() < full.len() / 2 && some.iter().all(|cell| full.contains(cell)));
    }
}
