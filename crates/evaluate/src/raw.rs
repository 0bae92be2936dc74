//! Raw files of any experiment.

use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::balancing::BalancingRun;
use crate::capacity::CapacityRun;
use crate::gateway::GatewayRun;
use crate::interference::InterferenceRun;
use crate::network::NetworkRun;
use crate::processing::ProcessingRun;
use crate::simulation::SimulationRun;
use crate::{balancing, capacity, gateway, interference, network, processing, run, simulation};

/// One raw file, read.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// Of an experiment on the round trip.
    RoundTrip(Box<run::Run>),
    /// Of the experiment on capacity.
    Capacity(Box<CapacityRun>),
    /// Of what containers cost a gateway.
    Gateway(Box<GatewayRun>),
    /// Of which node answers.
    Balancing(Box<BalancingRun>),
    /// Of which services may share a board.
    Interference(Box<InterferenceRun>),
    /// Of what models cost at the edge.
    Processing(Box<ProcessingRun>),
    /// Of what does not fit on one machine.
    Simulation(Box<SimulationRun>),
    /// Of the emulated network.
    Network(Box<NetworkRun>),
}

/// What tells the experiments apart.
#[derive(Deserialize)]
struct Heading {
    experiment: Option<String>,
    format: Option<u32>,
    /// Of capacity, whose file holds its conclusions beside the run.
    run: Option<Box<Heading>>,
}

impl Raw {
    /// Reads a raw file of whichever experiment.
    ///
    /// # Errors
    /// The file cannot be read, is no raw file, or is one of another format.
    pub fn read(path: &Path) -> io::Result<Raw> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(named)?;
        Raw::parse(&bytes).map_err(named)
    }

    fn parse(bytes: &[u8]) -> io::Result<Raw> {
        let outer: Heading = serde_json::from_slice(bytes)?;
        let is_capacity = outer.run.is_some();
        let heading = outer
            .run
            .map_or_else(|| (outer.experiment, outer.format), |run| (run.experiment, run.format));
        let (Some(experiment), Some(format)) = heading else {
            return Err(invalid("it is no raw file of an experiment"));
        };
        let known = match experiment.as_str() {
            _ if is_capacity => capacity::FORMAT,
            network::EXPERIMENT => network::FORMAT,
            gateway::EXPERIMENT => gateway::FORMAT,
            balancing::EXPERIMENT => balancing::FORMAT,
            interference::EXPERIMENT => interference::FORMAT,
            processing::EXPERIMENT => processing::FORMAT,
            simulation::EXPERIMENT => simulation::FORMAT,
            _ => run::FORMAT,
        };
        if format != known {
            return Err(invalid(&format!(
                "raw format {format} where this program reads {known}"
            )));
        }
        if is_capacity {
            let file: CapacityFile = serde_json::from_slice(bytes)?;
            return Ok(Raw::Capacity(Box::new(file.run)));
        }
        Ok(match experiment.as_str() {
            network::EXPERIMENT => Raw::Network(Box::new(serde_json::from_slice(bytes)?)),
            balancing::EXPERIMENT => Raw::Balancing(Box::new(serde_json::from_slice(bytes)?)),
            interference::EXPERIMENT => Raw::Interference(Box::new(serde_json::from_slice(bytes)?)),
            processing::EXPERIMENT => Raw::Processing(Box::new(serde_json::from_slice(bytes)?)),
            simulation::EXPERIMENT => Raw::Simulation(Box::new(serde_json::from_slice(bytes)?)),
            gateway::EXPERIMENT => Raw::Gateway(Box::new(serde_json::from_slice(bytes)?)),
            _ => Raw::RoundTrip(Box::new(serde_json::from_slice(bytes)?)),
        })
    }
}

/// The part of it that was seen.
#[derive(Deserialize)]
struct CapacityFile {
    run: CapacityRun,
}

fn invalid(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_raw_file_is_named_as_such_and_another_format_too() {
        let error = |text: &str| Raw::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error("{}").contains("no raw file"));
        assert!(error(r#"{"experiment": "rtt", "format": 99}"#).contains("raw format 99"));
        assert!(error(r#"{"experiment": "network", "format": 99}"#).contains("raw format 99"));
        assert!(error(r#"{"experiment": "gateway", "format": 99}"#).contains("raw format 99"));
        assert!(error(r#"{"experiment": "balancing", "format": 99}"#).contains("raw format 99"));
        assert!(error(r#"{"experiment": "interference", "format": 99}"#).contains("raw format 99"));
        assert!(error(r#"{"experiment": "processing", "format": 99}"#).contains("raw format 99"));
        assert!(error(r#"{"experiment": "simulation", "format": 99}"#).contains("raw format 99"));
        assert!(error(r#"{"run": {"experiment": "capacity", "format": 99}}"#).contains("raw format 99"));
    }
}
