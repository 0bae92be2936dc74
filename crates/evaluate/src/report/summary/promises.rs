//! Promised figures, each judged under the load that it was promised for.

use serde::Serialize;

use super::against::{Pair, Quantity};
use super::{ArmResult, Judging};
use crate::rtt::presets::think_us;
use crate::run::{Cell, LoadModel};
use crate::stats::{self, Estimate, Outcome, Undecided};

const SELVEDGE: &str = "selvedge";
const TLS: &str = "selvedge-tls";
const LOW_LATENCY: &str = "selvedge-low-latency";
const MOSQUITTO: &str = "mosquitto";
const MOSQUITTO_TLS: &str = "mosquitto-tls";
const RELAY: &str = "relay";

/// A promise and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Promised {
    /// Whose.
    pub arm: &'static str,
    /// What is promised.
    pub aim: Aim,
    /// The ratio that was found; absent where it is not a ratio, or could not be found.
    pub ratio: Option<Estimate>,
    /// Of [`Aim::NoneLost`]: messages lost or not sent.
    pub lost: Option<u64>,
    /// Whether it is kept, as far as the interval tells; absent where only the figure was promised.
    pub outcome: Option<Outcome>,
    /// Why that is undecided.
    pub why: Option<Undecided>,
}

/// What is promised of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// At most so many times another arm's figure.
    AtMost {
        /// By what they are compared.
        quantity: Quantity,
        /// The other arm.
        other: &'static str,
        /// How many times.
        times: f64,
    },
    /// That the figure, as a multiple of another arm's, is printed.
    Printed {
        /// By what they are compared.
        quantity: Quantity,
        /// The other arm.
        other: &'static str,
    },
    /// That no message is lost.
    NoneLost,
}

/// What was promised under a load, by arm.
fn promises(cell: &Cell) -> Vec<(&'static str, Aim)> {
    let at_most = |quantity, other, times| Aim::AtMost { quantity, other, times };
    let round_trip =
        |arm, other, times| [Quantity::P50, Quantity::P99].map(|quantity| (arm, at_most(quantity, other, times)));
    let mut list = Vec::new();
    if is_closed_loop_of_one(cell) {
        let times = [1.0, 0.9, 0.55][usize::from(cell.qos.min(2))];
        list.extend(round_trip(SELVEDGE, MOSQUITTO, times));
        list.push((SELVEDGE, at_most(Quantity::ServerCpu, MOSQUITTO, 1.0)));
        list.extend(round_trip(TLS, MOSQUITTO_TLS, 1.0));
        list.push((TLS, at_most(Quantity::ServerCpu, MOSQUITTO_TLS, 1.0)));
    }
    if is_closed_loop_of_one(cell) && cell.qos == 0 {
        list.extend(round_trip(SELVEDGE, RELAY, 1.5));
        list.extend(round_trip(LOW_LATENCY, MOSQUITTO, 0.75));
        let (quantity, other) = (Quantity::ServerCpu, SELVEDGE);
        list.push((LOW_LATENCY, Aim::Printed { quantity, other }));
    }
    if is_fleet(cell, 200, 100_000) {
        list.push((SELVEDGE, at_most(Quantity::ServerCpu, MOSQUITTO, 0.8)));
        list.extend(round_trip(SELVEDGE, MOSQUITTO, 1.0));
    }
    if is_fleet(cell, 10_000, 1_000_000) {
        list.push((SELVEDGE, Aim::NoneLost));
        list.push((SELVEDGE, at_most(Quantity::P99, MOSQUITTO, 1.0)));
    }
    list
}

fn is_closed_loop_of_one(cell: &Cell) -> bool {
    let one = (cell.devices, cell.concurrency, cell.think_us) == (1, 1, think_us(cell.qos));
    cell.load.is_closed() && one && cell.payload_bytes == 64
}

fn is_fleet(cell: &Cell, devices: u32, interval_us: u64) -> bool {
    let load = (cell.load, cell.devices, cell.interval_us);
    load == (LoadModel::Periodic, devices, Some(interval_us)) && (cell.qos, cell.payload_bytes) == (1, 64)
}

/// What became of the promises for `cell`, of arms that were measured. `result_of` and `pair_of` find them by name.
pub(super) fn judged<'a>(
    cell: &Cell,
    result_of: impl Fn(&str) -> Option<&'a ArmResult>,
    pair_of: impl Fn(&str, &str) -> Option<Pair<'a>>,
    judging: &Judging,
) -> Vec<Promised> {
    let judge = |(arm, aim): (&'static str, Aim)| {
        let (quantity, other) = match aim {
            Aim::NoneLost => return Some(none_lost(arm, result_of(arm)?)),
            Aim::AtMost { quantity, other, .. } | Aim::Printed { quantity, other } => (quantity, other),
        };
        let pair = pair_of(arm, other)?;
        let ratio = pair.ratio(quantity, judging);
        let kept = match aim {
            Aim::AtMost { times, .. } => Some(ratio.and_then(|ratio| {
                stats::keeps(
                    &ratio,
                    times,
                    pair.values(quantity),
                    &pair.conditions(quantity, judging),
                )
            })),
            _ => ratio.err().map(Err),
        };
        Some(Promised {
            arm,
            aim,
            ratio: ratio.ok(),
            lost: None,
            outcome: kept.map(|kept| Outcome::of(kept.ok())),
            why: kept.and_then(Result::err),
        })
    };
    promises(cell).into_iter().filter_map(judge).collect()
}

fn none_lost(arm: &'static str, result: &ArmResult) -> Promised {
    let lost = result.counts.lost + result.counts.unsent;
    let holds = result.is_valid().then_some(lost == 0);
    Promised {
        arm,
        aim: Aim::NoneLost,
        ratio: None,
        lost: Some(lost),
        outcome: Some(Outcome::of(holds)),
        why: holds.is_none().then_some(Undecided::Invalid),
    }
}
