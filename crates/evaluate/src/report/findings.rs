//! All that raw files say, by experiment.

use serde::Serialize;

use super::promises::{Line, lines};
use super::summary::{Summary, summarise};
use crate::balancing::{self, BalancingRun};
use crate::capacity::{self, CapacityRun};
use crate::figures::{
    Beside, ClaimVerdict, beside_gateway, beside_interference, claims_of_balancing, claims_of_gateway,
    claims_of_interference, claims_of_processing, client_perspective, gateway_as_a_service, local_scheduling,
    microservice_interference,
};
use crate::gateway::{self, GatewayRun};
use crate::interference::{self, InterferenceRun};
use crate::network::NetworkRun;
use crate::processing::{self, ProcessingRun};
use crate::raw::Raw;
use crate::rtt::Options;
use crate::run::Run;
use crate::simulation::{self, SimulationRun};

/// What is reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// Promised figures, of all experiments.
    pub promises: Vec<Line>,
    /// Experiments on the round trip, each with all its runs.
    pub experiments: Vec<Summary>,
    /// Experiments on memory, time until ready and durability.
    pub capacity: Vec<Capacity>,
    /// Experiments on a gateway.
    pub gateways: Vec<Gateway>,
    /// Experiments on which node answers.
    pub balancing: Vec<Balancing>,
    /// Experiments on which services may share a board.
    pub interference: Vec<Interference>,
    /// Experiments on what models cost at the edge.
    pub processing: Vec<Processing>,
    /// Simulations of which node answers.
    pub simulations: Vec<Simulation>,
    /// Measurements of the emulated network.
    pub networks: Vec<NetworkRun>,
}

/// One experiment on capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// What was seen.
    pub run: CapacityRun,
    /// What follows from it.
    pub rows: Vec<capacity::Row>,
}

/// One experiment on a gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// What was seen.
    pub run: GatewayRun,
    /// What follows from it.
    pub rows: Vec<gateway::Row>,
    /// The gateway paper's figures beside it.
    pub figures: Vec<Beside>,
    /// Its claims, tested for shape.
    pub claims: Vec<ClaimVerdict>,
}

/// One experiment on which node answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Balancing {
    /// What was seen.
    #[serde(skip)]
    pub run: BalancingRun,
    /// What follows from it.
    pub cells: Vec<balancing::CellSummary>,
    /// The load-balancing paper's claims, tested for shape.
    pub claims: Vec<ClaimVerdict>,
}

/// One experiment on which services may share a board.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interference {
    /// What was seen.
    #[serde(skip)]
    pub run: InterferenceRun,
    /// What follows from it.
    pub found: interference::Summary,
    /// The interference paper's figures beside it.
    pub figures: Vec<Beside>,
    /// Its claims, tested for shape.
    pub claims: Vec<ClaimVerdict>,
}

/// One experiment on what models cost at the edge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processing {
    /// What was seen.
    #[serde(skip)]
    pub run: ProcessingRun,
    /// What follows from it.
    pub rows: Vec<processing::Row>,
    /// The first paper's claims, tested for shape.
    pub claims: Vec<ClaimVerdict>,
}

/// One simulation of which node answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulation {
    /// What came of it.
    #[serde(skip)]
    pub run: SimulationRun,
    /// What follows from it.
    pub cells: Vec<simulation::CellSummary>,
    /// What `local-first` costs at worst.
    pub worst: Vec<simulation::Finding>,
}

impl Findings {
    /// Judges raw files. Runs with the same options are runs of one experiment.
    pub fn of(raw: Vec<Raw>) -> Findings {
        let mut experiments: Vec<Vec<Run>> = Vec::new();
        let (mut capacity, mut gateways, mut networks) = (Vec::new(), Vec::new(), Vec::new());
        let (mut balancing, mut interference) = (Vec::new(), Vec::new());
        let (mut processing, mut simulations) = (Vec::new(), Vec::new());
        for file in raw {
            match file {
                Raw::RoundTrip(run) => match experiments.iter_mut().find(|runs| is_of_one(&runs[0], &run)) {
                    Some(runs) => runs.push(*run),
                    None => experiments.push(vec![*run]),
                },
                Raw::Capacity(run) => capacity.push(Capacity {
                    rows: capacity::summarise(&run),
                    run: *run,
                }),
                Raw::Gateway(run) => {
                    let (paper, rows) = (gateway_as_a_service(), gateway::summarise(&run));
                    gateways.push(Gateway {
                        figures: beside_gateway(&paper, &rows),
                        claims: claims_of_gateway(&paper, &rows),
                        rows,
                        run: *run,
                    });
                }
                Raw::Balancing(run) => {
                    let cells = balancing::summarise(&run);
                    balancing.push(Balancing {
                        claims: claims_of_balancing(&local_scheduling(), &cells),
                        cells,
                        run: *run,
                    });
                }
                Raw::Interference(run) => {
                    let (paper, found) = (microservice_interference(), interference::summarise(&run));
                    interference.push(Interference {
                        figures: beside_interference(&paper, &found),
                        claims: claims_of_interference(&paper, &found),
                        found,
                        run: *run,
                    });
                }
                Raw::Processing(run) => {
                    let rows = processing::summarise(&run);
                    processing.push(Processing {
                        claims: claims_of_processing(&client_perspective(), &rows),
                        rows,
                        run: *run,
                    });
                }
                Raw::Simulation(run) => {
                    let cells = simulation::summarise(&run);
                    simulations.push(Simulation {
                        worst: simulation::worst(&run, &cells),
                        cells,
                        run: *run,
                    });
                }
                Raw::Network(run) => networks.push(*run),
            }
        }
        let experiments: Vec<Summary> = experiments.iter().map(|runs| summarise(runs)).collect();
        Findings {
            promises: lines(&experiments, &capacity, &gateways, &balancing),
            experiments,
            capacity,
            gateways,
            balancing,
            interference,
            processing,
            simulations,
            networks,
        }
    }

    /// Of experiments on the round trip alone.
    #[cfg(test)]
    pub(super) fn of_round_trips(experiments: Vec<Summary>) -> Findings {
        Findings {
            promises: lines(&experiments, &[], &[], &[]),
            experiments,
            ..Findings::of(Vec::new())
        }
    }
}

fn is_of_one(first: &Run, other: &Run) -> bool {
    let options = |run: &Run| Options {
        seed: None,
        ..run.options.clone()
    };
    first.experiment == other.experiment && options(first) == options(other)
}
