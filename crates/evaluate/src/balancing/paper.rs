//! The load-balancing paper's figures (kubeedge-local-scheduling, figures 5 to 7), each beside the cell it is of.

use super::options::Part;
use super::record::{Arm, Cell, Load};

/// Of one cell and arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paper {
    /// Answers a second.
    pub(super) per_s: f64,
    /// Average response time in ms, where it is given.
    pub(super) mean_ms: Option<f64>,
}

const fn of(per_s: f64, mean_ms: Option<f64>) -> Option<Paper> {
    Some(Paper { per_s, mean_ms })
}

/// A delay that the paper gives stands beside both of its readings, round trip and one way; of 30 ms as a round trip
/// that is its 30, not its 15.
pub(super) fn paper(cell: &Cell, arm: Arm) -> Option<Paper> {
    let Load::Closed(clients) = cell.load else { return None };
    match (cell.part, arm) {
        (Part::Pods, Arm::LocalFirst) => pods(cell.pods[0], clients[0]),
        (Part::Delay, Arm::RoundRobin) => delay(cell, clients[0]),
        (Part::Policies, Arm::RoundRobin) => match clients {
            [4, 4, 4] => of(871.0, Some(17.0)),
            [10, 1, 1] => of(1_050.0, None),
            _ => None,
        },
        (Part::Policies, Arm::Local) => match clients {
            [4, 4, 4] => of(1_493.0, Some(8.0)),
            [8, 3, 1] => of(1_646.0, Some(8.0)),
            [10, 1, 1] => of(1_644.0, Some(8.0)),
            _ => None,
        },
        _ => None,
    }
}

fn pods(pods: u32, clients: u32) -> Option<Paper> {
    match (pods, clients) {
        (_, 1) => of(139.0, None),
        (1, 16) => of(308.0, Some(113.0)),
        (4, 16) => of(779.0, Some(42.0)),
        _ => None,
    }
}

fn delay(cell: &Cell, clients: u32) -> Option<Paper> {
    match (cell.pods, cell.round_trip_ms, clients) {
        ([4, 4, 4], 0, 1) => of(132.0, None),
        ([8, 3, 1], 0, 1) => of(127.0, None),
        ([10, 1, 1], 0, 1) => of(145.0, None),
        ([4, 4, 4], 0, 16) => of(1_796.0, None),
        ([8, 3, 1], 0, 16) => of(1_677.0, None),
        ([10, 1, 1], 0, 16) => of(1_726.0, None),
        ([4, 4, 4], 30 | 60, 16) => of(755.0, None),
        ([8, 3, 1], 30 | 60, 16) => of(1_180.0, None),
        ([10, 1, 1], 30 | 60, 16) => of(1_682.0, None),
        _ => None,
    }
}
