//! The line between two hosts.

use serde::{Deserialize, Serialize};

use super::netem::Netem;
use super::relay::Relay;
use super::{LineRecord, Means, NetworkError, Settings};

/// Which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// Between device and edge.
    DeviceEdge,
    /// Between edge and cloud.
    EdgeCloud,
}

/// Between two hosts, in use.
pub struct Line {
    kind: Kind,
}

pub(super) enum Kind {
    Loopback { reason: String },
    Plain,
    Netem(Netem),
    Relay(Relay),
}

/// What became of the packets of one direction since the line was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Arrived at the other end.
    pub delivered: u64,
    /// Bytes of them, IP headers counted.
    #[serde(default)]
    pub delivered_bytes: u64,
    /// Those of them that the relay delivered more than 100 µs after they were due.
    pub delivered_late: u64,
    /// Lost on the way, as the settings ask for.
    pub lost: u64,
    /// Came when the queue before the line was full.
    pub dropped_at_queue: u64,
    /// Were queued or on the way when the line was cut, or came while it was.
    pub dropped_by_cut: u64,
    /// Came when as many were on the way as the relay holds: bandwidth times delay is beyond it.
    pub dropped_on_the_way: u64,
    /// Arrived, but the kernel did not take them.
    pub refused_by_kernel: u64,
}

impl Counters {
    /// What was added since `before`.
    pub(crate) fn since(&self, before: &Counters) -> Counters {
        Counters {
            delivered: self.delivered - before.delivered,
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
            delivered_late: self.delivered_late - before.delivered_late,
            lost: self.lost - before.lost,
            dropped_at_queue: self.dropped_at_queue - before.dropped_at_queue,
            dropped_by_cut: self.dropped_by_cut - before.dropped_by_cut,
            dropped_on_the_way: self.dropped_on_the_way - before.dropped_on_the_way,
            refused_by_kernel: self.refused_by_kernel - before.refused_by_kernel,
        }
    }
}

impl Line {
    pub(super) fn new(kind: Kind) -> Line {
        Line { kind }
    }

    /// What emulates it; none for a plain line and where all is loopback.
    pub fn means(&self) -> Option<Means> {
        match self.kind {
            Kind::Loopback { .. } | Kind::Plain => None,
            Kind::Netem(_) => Some(Means::Netem),
            Kind::Relay(_) => Some(Means::Relay),
        }
    }

    /// Gives it other settings; returns once they are in force. What is being sent or on its way keeps the old ones.
    ///
    /// # Errors
    /// A setting is out of its bounds, or this line cannot be changed.
    pub fn set(&self, settings: Settings) -> Result<(), NetworkError> {
        settings.check()?;
        match &self.kind {
            Kind::Netem(netem) => netem.set(settings),
            Kind::Relay(relay) => relay.set(settings),
            _ => Err(self.fixed("changed")),
        }
    }

    /// Pulls the cable: packets vanish in both directions, nobody is told, connections stay open until they give up.
    ///
    /// # Errors
    /// This line cannot be cut.
    pub fn cut(&self) -> Result<(), NetworkError> {
        match &self.kind {
            Kind::Netem(netem) => netem.cut(),
            Kind::Relay(relay) => relay.cut(),
            _ => Err(self.fixed("cut")),
        }
    }

    /// Puts the cable back.
    ///
    /// # Errors
    /// This line cannot be cut.
    pub fn mend(&self) -> Result<(), NetworkError> {
        match &self.kind {
            Kind::Netem(netem) => netem.mend(),
            Kind::Relay(relay) => relay.mend(),
            _ => Err(self.fixed("mended")),
        }
    }

    /// What it is, and what became of its packets so far.
    ///
    /// # Errors
    /// The relay has ended.
    pub fn record(&self) -> Result<LineRecord, NetworkError> {
        let Kind::Relay(relay) = &self.kind else {
            return Ok(LineRecord {
                means: self.means(),
                ..LineRecord::default()
            });
        };
        Ok(LineRecord {
            means: self.means(),
            runs_first: Some(relay.runs_first()),
            counters: Some(relay.counters()?),
        })
    }

    fn fixed(&self, wish: &'static str) -> NetworkError {
        let reason = match &self.kind {
            Kind::Loopback { reason } => reason.clone(),
            _ => "it is planned as a plain one; plan it as an emulated one".to_owned(),
        };
        NetworkError::Fixed { wish, reason }
    }
}
