//! Promised figures, each judged under the load that it was promised for.

use serde::Serialize;

use super::against::{Pair, Quantity};
use super::{ArmResult, Judging};
use crate::rtt::presets::think_us;
use crate::run::{Cell, LoadModel};
use crate::stats::{self, Determinism, Estimate, Outcome, Undecided};

const SELVEDGE: &str = "selvedge";
const TLS: &str = "selvedge-tls";
const LOW_LATENCY: &str = "selvedge-low-latency";
const MOSQUITTO: &str = "mosquitto";
const MOSQUITTO_TLS: &str = "mosquitto-tls";
/// A hub by an edge, with the host's network.
const BY_AN_EDGE: [&str; 2] = ["selvedge@process", "selvedge@oci"];
/// How far its round trip may be from that of the same on the host.
const SAME_WITHIN: f64 = 0.05;
const RELAY: &str = "relay";
const DEVICE_CLOUD: &str = "d-c";
/// The second instance of the baseline.
const REPEATED: &str = "d-c-again";
const DEVICE_EDGE_CLOUD: &str = "d-e-c";
const DEVICE_EDGE_CLOUD_DISK: &str = "d-e-c-disk";
/// What edge and link may add to p50 and to p99, in µs.
const ADDED_US: [(Quantity, f64); 2] = [(Quantity::P50, 150.0), (Quantity::P99, 1_000.0)];

/// A promise and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Promised {
    /// Whose.
    pub arm: &'static str,
    /// What is promised.
    pub aim: Aim,
    /// The ratio that was found; absent where it is not a ratio, or could not be found.
    pub ratio: Option<Estimate>,
    /// The difference that was found, in µs, where it is one.
    pub difference_us: Option<Estimate>,
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
    /// As much as another arm's figure.
    Same {
        /// By what they are compared.
        quantity: Quantity,
        /// The other arm.
        other: &'static str,
        /// Up to this share of it.
        within: f64,
    },
    /// That the figure, as a multiple of another arm's, is printed.
    Printed {
        /// By what they are compared.
        quantity: Quantity,
        /// The other arm.
        other: &'static str,
    },
    /// At most so much more than another arm's figure.
    AddsAtMost {
        /// By what they are compared: p50 or p99.
        quantity: Quantity,
        /// The other arm.
        other: &'static str,
        /// How much, in µs.
        us: f64,
    },
    /// That by how much the figure is more than another arm's is printed.
    AddedPrinted {
        /// By what they are compared: p50 or p99.
        quantity: Quantity,
        /// The other arm.
        other: &'static str,
    },
    /// That no message is lost.
    NoneLost,
    /// That the round trip does not rise over the message index.
    NoTrend,
    /// That it is deterministic (rule 7).
    Deterministic,
}

/// What was promised under a load, by arm.
fn promises(cell: &Cell, tls: bool) -> Vec<(&'static str, Aim)> {
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
        list.extend(BY_AN_EDGE.into_iter().flat_map(beside_the_host));
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
    if cell.wan.is_some() {
        list.extend(of_link(cell, tls));
    }
    list
}

/// What is promised of a hub by an edge.
fn beside_the_host(arm: &'static str) -> [(&'static str, Aim); 3] {
    let (quantity, other, within) = (Quantity::P50, SELVEDGE, SAME_WITHIN);
    let printed = |quantity| (arm, Aim::Printed { quantity, other });
    [
        (
            arm,
            Aim::Same {
                quantity,
                other,
                within,
            },
        ),
        printed(Quantity::P99),
        printed(Quantity::ServerCpu),
    ]
}

/// What is promised of the way through an edge, where there is a line to the cloud.
fn of_link(cell: &Cell, tls: bool) -> Vec<(&'static str, Aim)> {
    let mut list = Vec::new();
    if is_fleet(cell, 1, 10_000) && tls {
        let other = DEVICE_CLOUD;
        list.extend(ADDED_US.map(|(quantity, us)| (DEVICE_EDGE_CLOUD, Aim::AddsAtMost { quantity, other, us })));
        list.extend(ADDED_US.map(|(quantity, _)| (DEVICE_EDGE_CLOUD_DISK, Aim::AddedPrinted { quantity, other })));
    }
    if is_fleet(cell, 1, 1_000) {
        list.push((DEVICE_EDGE_CLOUD, Aim::Deterministic));
    }
    if is_fleet(cell, 1_000, 200_000) {
        list.extend([Aim::NoneLost, Aim::NoTrend].map(|aim| (DEVICE_EDGE_CLOUD, aim)));
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
    (cell, tls): (&Cell, bool),
    result_of: impl Fn(&str) -> Option<&'a ArmResult>,
    pair_of: impl Fn(&str, &str) -> Option<Pair<'a>>,
    judging: &Judging,
) -> Vec<Promised> {
    let judge = |(arm, aim): (&'static str, Aim)| {
        let (quantity, other) = match aim {
            Aim::NoneLost => return Some(none_lost(arm, result_of(arm)?)),
            Aim::NoTrend => return Some(judged_alone(arm, aim, result_of(arm)?, |is| is.no_buffering)),
            Aim::Deterministic => return Some(judged_alone(arm, aim, result_of(arm)?, Determinism::outcome)),
            Aim::AddsAtMost { quantity, other, .. } | Aim::AddedPrinted { quantity, other } => {
                let again = pair_of(REPEATED, other);
                return Some(added(
                    arm,
                    aim,
                    quantity,
                    &pair_of(arm, other)?,
                    again.as_ref(),
                    judging,
                ));
            }
            Aim::AtMost { quantity, other, .. }
            | Aim::Same { quantity, other, .. }
            | Aim::Printed { quantity, other } => (quantity, other),
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
            Aim::Same { within, .. } => Some(ratio.and_then(|ratio| stats::equivalent(&ratio, within))),
            _ => ratio.err().map(Err),
        };
        Some(Promised {
            arm,
            aim,
            ratio: ratio.ok(),
            difference_us: None,
            lost: None,
            outcome: kept.map(|kept| Outcome::of(kept.ok())),
            why: kept.and_then(Result::err),
        })
    };
    promises(cell, tls).into_iter().filter_map(judge).collect()
}

/// A difference, and whether it is small enough; `again` is the other arm against itself.
fn added(
    arm: &'static str,
    aim: Aim,
    quantity: Quantity,
    pair: &Pair<'_>,
    again: Option<&Pair<'_>>,
    judging: &Judging,
) -> Promised {
    let difference = pair.difference(quantity, judging);
    let noise = again.and_then(|again| again.difference(quantity, judging).ok());
    let kept =
        match aim {
            Aim::AddsAtMost { us, .. } => Some(difference.and_then(|difference| {
                stats::adds_at_most(&difference, us, noise, &pair.conditions(quantity, judging))
            })),
            _ => difference.err().map(Err),
        };
    Promised {
        arm,
        aim,
        ratio: None,
        difference_us: difference.ok(),
        lost: None,
        outcome: kept.map(|kept| Outcome::of(kept.ok())),
        why: kept.and_then(Result::err),
    }
}

/// What one part of the verdict on determinism says.
fn judged_alone(arm: &'static str, aim: Aim, result: &ArmResult, of: impl Fn(&Determinism) -> Outcome) -> Promised {
    let outcome = if result.is_valid() {
        of(&result.determinism)
    } else {
        Outcome::Undecided
    };
    let why = match (outcome, result.is_valid()) {
        (_, false) => Some(Undecided::Invalid),
        (Outcome::Undecided, _) => Some(Undecided::TooFewMessages),
        _ => None,
    };
    Promised {
        arm,
        aim,
        ratio: None,
        difference_us: None,
        lost: None,
        outcome: Some(outcome),
        why,
    }
}

fn none_lost(arm: &'static str, result: &ArmResult) -> Promised {
    let lost = result.counts.lost + result.counts.unsent;
    let holds = result.is_valid().then_some(lost == 0);
    Promised {
        arm,
        aim: Aim::NoneLost,
        ratio: None,
        difference_us: None,
        lost: Some(lost),
        outcome: Some(Outcome::of(holds)),
        why: holds.is_none().then_some(Undecided::Invalid),
    }
}
