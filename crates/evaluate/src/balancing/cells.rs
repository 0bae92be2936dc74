//! The cells, and by which arms each is done.

use super::NODES;
use super::options::{Options, Part};
use super::record::{Arm, BalancingRun, Cell, Event, Job, Load, Work};

/// The paper's 1, 2 and 4, of the first node.
const PODS: [u32; 3] = [1, 2, 4];
/// The paper's twelve pods.
const DISTRIBUTIONS: [[u32; NODES]; 3] = [[4, 4, 4], [8, 3, 1], [10, 1, 1]];
/// The paper's 0, 15 and 30 ms read as round trips; read as one way they are 0, 30 and 60 (rule 11).
const ROUND_TRIPS_MS: [u32; 4] = [0, 15, 30, 60];
/// The paper's eighteen pods, each distribution with its clients.
const TRAFFIC: [([u32; NODES], [u32; NODES]); 3] = [
    ([6, 6, 6], [4, 4, 4]),
    ([12, 5, 1], [8, 3, 1]),
    ([16, 1, 1], [10, 1, 1]),
];
/// The paper's 15 ms, read both ways.
const TRAFFIC_ROUND_TRIPS_MS: [u32; 2] = [15, 30];
/// What is asked in an open loop is so many times what the node's own pods can do.
const OVERLOAD: u32 = 2;

/// Arms where one node alone has pods, so that policies have nothing to choose.
const ONE_NODE: [Arm; 5] = [
    Arm::LocalFirst,
    Arm::LocalFirstAgain,
    Arm::NginxRoundRobin,
    Arm::NginxLeastConnections,
    Arm::Haproxy,
];

/// Who leads to one pod, and the pod itself.
const ONE_POD: [Arm; 5] = [
    Arm::Direct,
    Arm::LocalFirst,
    Arm::LocalFirstAgain,
    Arm::NginxRoundRobin,
    Arm::Haproxy,
];
const QUICK_ONE_POD: [Arm; 2] = [Arm::LocalFirst, Arm::NginxRoundRobin];
const PROXY_CLIENTS: [u32; 2] = [1, 16];

/// Arms that lead past a node in which something happens.
const MANY_NODES: [Arm; 7] = [
    Arm::RoundRobin,
    Arm::Random,
    Arm::LeastRequest,
    Arm::LocalFirst,
    Arm::NginxRoundRobin,
    Arm::NginxLeastConnections,
    Arm::Haproxy,
];
/// Of them, where it is to be quick.
const QUICK_ARMS: [Arm; 3] = [Arm::RoundRobin, Arm::LocalFirst, Arm::Haproxy];

/// Those of a run, each with its arms.
pub(super) fn cells(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let of_part = |part: &Part| match part {
        Part::Pods => pods(options),
        Part::Delay => delay(options),
        Part::Policies => policies(options),
        Part::Overload => overload(options),
        Part::Faults => faults(options),
        Part::Calculate => calculate(options),
        Part::Proxy => proxy(options),
    };
    options.parts.iter().flat_map(of_part).collect()
}

/// Those jobs that a run has done at least once.
pub(crate) fn measured(run: &BalancingRun) -> Vec<Job> {
    let all = jobs(&run.options).into_iter();
    all.filter(|job| run.done.iter().any(|done| done.job == *job)).collect()
}

/// Every cell with each of its arms.
pub(super) fn jobs(options: &Options) -> Vec<Job> {
    let of_cell = |(cell, arms): (Cell, &'static [Arm])| {
        let arms = arms.iter().filter(|arm| options.arms.contains(arm));
        arms.map(move |arm| Job { cell, arm: *arm })
    };
    cells(options).into_iter().flat_map(of_cell).collect()
}

/// All of them, or the ends where it is to be quick.
fn some<T: Copy>(all: &[T], quick: bool) -> Vec<T> {
    match all {
        [first, .., last] if quick => vec![*first, *last],
        all => all.to_vec(),
    }
}

fn pods(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let cell = |pods: u32, clients: u32| Cell {
        part: Part::Pods,
        pods: [pods, 0, 0],
        round_trip_ms: 0,
        load: Load::Closed([clients, 0, 0]),
        event: None,
        work: Work::Wait,
    };
    let of_pods = |pods: u32| {
        options
            .clients
            .iter()
            .map(move |clients| (cell(pods, *clients), &ONE_NODE[..]))
    };
    some(&PODS, options.quick).into_iter().flat_map(of_pods).collect()
}

fn delay(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let round_trips_ms = if options.quick {
        vec![30]
    } else {
        ROUND_TRIPS_MS.to_vec()
    };
    let mut all = Vec::new();
    for pods in some(&DISTRIBUTIONS, options.quick) {
        for round_trip_ms in &round_trips_ms {
            all.extend(options.clients.iter().map(|clients| {
                let cell = Cell {
                    part: Part::Delay,
                    pods,
                    round_trip_ms: *round_trip_ms,
                    load: Load::Closed([*clients, 0, 0]),
                    event: None,
                    work: Work::Wait,
                };
                (cell, &Arm::ALL[..])
            }));
        }
    }
    all
}

fn policies(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let round_trips_ms = if options.quick {
        vec![15]
    } else {
        TRAFFIC_ROUND_TRIPS_MS.to_vec()
    };
    let cell = |(pods, clients): ([u32; NODES], [u32; NODES]), round_trip_ms: u32| Cell {
        part: Part::Policies,
        pods,
        round_trip_ms,
        load: Load::Closed(clients),
        event: None,
        work: Work::Wait,
    };
    let of_traffic = |traffic| round_trips_ms.iter().map(move |ms| (cell(traffic, *ms), &Arm::ALL[..]));
    some(&TRAFFIC, options.quick).into_iter().flat_map(of_traffic).collect()
}

fn overload(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let pods = DISTRIBUTIONS[0];
    let cell = Cell {
        part: Part::Overload,
        pods,
        round_trip_ms: 15,
        load: Load::Open(OVERLOAD * pods[0] * 1_000 / options.service_ms),
        event: None,
        work: Work::Wait,
    };
    vec![(cell, &Arm::ALL[..])]
}

/// Asked for half as much again as the node's own pods can do, so that every arm needs the others.
fn faults(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let pods = DISTRIBUTIONS[0];
    let cell = |event| Cell {
        part: Part::Faults,
        pods,
        round_trip_ms: 15,
        load: Load::Open(pods[0] * 1_500 / options.service_ms),
        event: Some(event),
        work: Work::Wait,
    };
    let arms = if options.quick { &QUICK_ARMS[..] } else { &MANY_NODES };
    let mut events = vec![Event::CutOff, Event::Slow, Event::Moves];
    if !options.quick {
        events.push(Event::Returns);
    }
    events.into_iter().map(|event| (cell(event), arms)).collect()
}

/// As many as a small machine has cores.
fn calculate(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let cell = |clients: u32| Cell {
        part: Part::Calculate,
        pods: [1, 1, 0],
        round_trip_ms: 15,
        load: Load::Closed([clients, 0, 0]),
        event: None,
        work: Work::Calculate,
    };
    let arms = if options.quick { &QUICK_ARMS[..] } else { &Arm::ALL };
    options.clients.iter().map(|clients| (cell(*clients), arms)).collect()
}

/// As the figure has it: one at a time, and sixteen.
fn proxy(options: &Options) -> Vec<(Cell, &'static [Arm])> {
    let cell = |clients: u32| Cell {
        part: Part::Proxy,
        pods: [1, 0, 0],
        round_trip_ms: 0,
        load: Load::Closed([clients, 0, 0]),
        event: None,
        work: Work::None,
    };
    let arms = if options.quick { &QUICK_ONE_POD[..] } else { &ONE_POD };
    PROXY_CLIENTS.iter().map(|clients| (cell(*clients), arms)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_run_has_all_cells_of_the_paper_and_the_short_one_some_of_them() {
        let full = cells(&Options::default());
        let of = |part| full.iter().filter(|(cell, _)| cell.part == part).count();
        assert_eq!(
            [of(Part::Pods), of(Part::Delay), of(Part::Policies), of(Part::Overload)],
            [18, 72, 6, 1]
        );
        let quick = Options {
            quick: true,
            ..Options::default()
        };
        let quick = cells(&quick.effective());
        for (cell, arms) in &quick {
            let of_full = full.iter().find(|(other, _)| other == cell);
            assert!(
                of_full.is_some_and(|(_, all)| arms.iter().all(|arm| all.contains(arm))),
                "{cell:?}"
            );
        }
        assert!(quick.len() < 20);
    }

    #[test]
    fn an_open_loop_asks_for_twice_what_four_pods_can_do() {
        let all = overload(&Options::default());
        assert_eq!(all[0].0.load, Load::Open(1_000));
    }
}
