//! One telemetry message as it comes in, and what it is known by.

use std::sync::Arc;

use bytes::Bytes;

/// Longest name of an edge, tenant, device or stream, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Greatest epoch and sequence: both are kept as signed 64-bit integers.
pub const MAX_NUMBER: u64 = i64::MAX as u64;

/// What a record of an edge is known by for life, wherever it is sent again: a reading with an origin that is in the
/// database already is not stored a second time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    edge: Arc<str>,
    epoch: u64,
    sequence: u64,
}

/// Why there is no such origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The edge's name cannot be kept.
    #[error("an edge's name has 1 to {MAX_NAME_BYTES} bytes and no NUL; this one has {bytes} bytes")]
    Edge {
        /// Its length.
        bytes: usize,
    },
    /// The epoch does not fit.
    #[error("epoch {0} is beyond {MAX_NUMBER}")]
    Epoch(u64),
    /// The sequence does not fit.
    #[error("sequence {0} is beyond {MAX_NUMBER}")]
    Sequence(u64),
}

impl Origin {
    /// The record with this `sequence` of the edge's `epoch`. Epochs are opaque, except that of two epochs of one edge
    /// the greater was opened later, and that two which differ in the lowest bit alone are two lanes of one: of their
    /// records the one with the greater sequence came later.
    ///
    /// # Errors
    /// The name is empty, longer than [`MAX_NAME_BYTES`] or has a NUL; a number is beyond [`MAX_NUMBER`].
    pub fn new(edge: Arc<str>, epoch: u64, sequence: u64) -> Result<Self, OriginError> {
        if edge.is_empty() || !is_storable_name(&edge) {
            return Err(OriginError::Edge { bytes: edge.len() });
        }
        if epoch > MAX_NUMBER {
            return Err(OriginError::Epoch(epoch));
        }
        if sequence > MAX_NUMBER {
            return Err(OriginError::Sequence(sequence));
        }
        Ok(Origin { edge, epoch, sequence })
    }

    /// Name of the edge, unique in the whole cloud.
    pub fn edge(&self) -> &Arc<str> {
        &self.edge
    }

    /// The start of the edge that the record is of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Its number within the epoch.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// One message of `devices/{id}/telemetry[/…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Who the device belongs to.
    pub tenant: String,
    /// The device's id within its tenant.
    pub device: String,
    /// The topic behind `devices/{id}/telemetry/`; empty where there is nothing more.
    pub subtopic: String,
    /// The message, any bytes.
    pub payload: Bytes,
    /// When the edge received it, in ms since 1970 UTC by the edge's clock.
    pub received_at_ms: i64,
    /// What it is known by.
    pub origin: Origin,
}

/// Whether every database can keep and index the name: PostgreSQL's text has no NUL.
pub(crate) fn is_storable_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && !name.contains('\0')
}
