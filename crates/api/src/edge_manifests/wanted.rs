//! What a cloud keeps of the manifests of its edges: which are wanted, and what became of them there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use identity::ClientName;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

use super::records::Records;
use super::wire::{Applied, Revision, There, Verdict};
use crate::types::ManifestState;
use crate::wrong::Done;

/// Where they are kept, in the data directory: `{tenant}/{edge}` below this.
const DIRECTORY: &str = "manifests-of-edges";

/// What is wanted of an edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wanted {
    /// That this is in effect.
    Applied(Applied),
    /// That it is not; once the edge says so, nothing is kept of it.
    Removed,
    /// Nothing is known here of what the edge has: this cloud was restored from a backup, or its data were lost. The
    /// edge keeps it until somebody applies or removes it.
    Unknown,
}

/// What is kept of a manifest of an edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) wanted: Wanted,
    /// What the edge told of it last; `None`: it has none.
    pub(super) there: Option<There>,
}

impl Record {
    /// The revision that is wanted.
    pub(super) fn revision(&self) -> Option<Revision> {
        match &self.wanted {
            Wanted::Applied(applied) => Some(applied.revision),
            Wanted::Removed | Wanted::Unknown => None,
        }
    }

    /// What the edge said of the revision that is wanted; `None`: it did not say anything yet.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let there = self.there.as_ref()?;
        (self.revision() == Some(there.revision)).then_some(there.verdict)
    }

    /// Whether the edge is to be told what is wanted.
    pub(super) fn is_due(&self) -> bool {
        match self.wanted {
            Wanted::Applied(_) => self.verdict().is_none(),
            Wanted::Removed => true,
            Wanted::Unknown => false,
        }
    }

    pub(super) fn state(&self) -> ManifestState {
        match (&self.wanted, self.verdict()) {
            (Wanted::Removed, _) => ManifestState::Removing,
            (Wanted::Unknown, _) => ManifestState::Unknown,
            (Wanted::Applied(_), None) => ManifestState::Waiting,
            (Wanted::Applied(_), Some(Verdict::Applied)) => ManifestState::Applied,
            (Wanted::Applied(_), Some(Verdict::Refused)) => ManifestState::Refused,
            (Wanted::Applied(_), Some(Verdict::TakenOver)) => ManifestState::TakenOver,
        }
    }
}

/// The manifests of all edges.
#[derive(Debug)]
pub(crate) struct ForEdges {
    data: Arc<Path>,
    edges: std::sync::Mutex<HashMap<ClientName, Arc<OfEdge>>>,
}

/// Those of one.
#[derive(Debug)]
pub(super) struct OfEdge {
    pub(super) records: Records<Record>,
    /// Held while one is read and written.
    pub(super) turn: Mutex<()>,
    /// Told where another one is wanted.
    pub(super) changed: watch::Sender<()>,
}

impl ForEdges {
    /// Those in the data directory `data`.
    pub(crate) fn new(data: &Arc<Path>) -> Self {
        Self {
            data: Arc::clone(data),
            edges: std::sync::Mutex::default(),
        }
    }

    /// Those of an edge that is registered.
    pub(super) fn of(&self, edge: &ClientName) -> Arc<OfEdge> {
        let mut edges = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
        let of_edge = edges.entry(edge.clone()).or_insert_with(|| {
            let directory = PathBuf::from(DIRECTORY).join(&**edge.tenant()).join(&**edge.id());
            Arc::new(OfEdge {
                records: Records::new(&self.data, directory),
                turn: Mutex::new(()),
                changed: watch::Sender::new(()),
            })
        });
        Arc::clone(of_edge)
    }

    /// The edge was removed.
    pub(crate) async fn forget(&self, edge: &ClientName) -> Done<()> {
        let of_edge = self.of(edge);
        let _turn = of_edge.turn.lock().await;
        of_edge.records.clear().await?;
        self.edges.lock().unwrap_or_else(PoisonError::into_inner).remove(edge);
        Ok(())
    }
}
