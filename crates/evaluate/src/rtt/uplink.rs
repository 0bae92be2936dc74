//! The line between edge and cloud as blocks use it; where all runs on this machine, there is none.

use crate::network::{Bandwidth, Counters, Network, NetworkError, NetworkRecord, Settings, Span};
use crate::run::Cell;

/// Keeps the emulated network, if there is one.
pub(crate) struct Uplink {
    network: Option<Network>,
}

impl Uplink {
    pub(crate) fn of(network: Option<Network>) -> Uplink {
        Uplink { network }
    }

    /// Takes the bandwidth away: clients connect, and what is left of the block before drains, at once.
    ///
    /// # Errors
    /// The line cannot be set.
    pub(crate) fn widen(&self, cell: &Cell) -> Result<(), NetworkError> {
        let wide = |settings| Settings {
            bandwidth_bit_per_s: Bandwidth::UNSHAPED,
            ..settings
        };
        self.set(cell, wide)
    }

    /// Gives it the bandwidth that a load asks for.
    ///
    /// # Errors
    /// The line cannot be set.
    pub(crate) fn narrow(&self, cell: &Cell) -> Result<(), NetworkError> {
        self.set(cell, |settings| settings)
    }

    fn set(&self, cell: &Cell, change: impl Fn(Settings) -> Settings) -> Result<(), NetworkError> {
        let shaped = cell.wan.filter(|wan| wan.bandwidth_bit_per_s.bit_per_s.is_some());
        match (&self.network, shaped) {
            (Some(network), Some(settings)) => network.line(Span::EdgeCloud).set(change(settings)),
            _ => Ok(()),
        }
    }

    /// What it has carried so far; a relay that has ended is seen by the messages.
    pub(crate) fn carried(&self) -> Option<[Counters; 2]> {
        self.record()?.edge_cloud.counters
    }

    /// What a raw file keeps of the network.
    pub(crate) fn record(&self) -> Option<NetworkRecord> {
        self.network.as_ref()?.record().ok()
    }

    pub(crate) fn is_there(&self) -> bool {
        self.network.is_some()
    }
}
