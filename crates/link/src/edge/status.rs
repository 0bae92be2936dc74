//! How the link is, for whoever asks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::dial::Target;
use crate::devices::DeviceFigures;

/// Whether there is a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// One is being made, or is waited for.
    Connecting,
    /// There is one.
    Connected,
}

/// How a link is at one instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it goes; `None`: nowhere yet.
    pub target: Option<String>,
    /// Whether there is a connection.
    pub state: State,
    /// For how long it has been so.
    pub since: Duration,
    /// Why the last connection ended, or was not made.
    pub last_error: Option<String>,
    /// Rate of the line in bytes a second, if it has shown one.
    pub rate_bytes_per_s: Option<u64>,
    /// The shortest round trip of late.
    pub round_trip: Option<Duration>,
}

/// Says how a link is; the link writes it, anybody reads it.
#[derive(Debug)]
pub struct LinkStatus {
    inner: Mutex<Inner>,
    devices: Arc<DeviceFigures>,
}

#[derive(Debug)]
struct Inner {
    target: Option<String>,
    state: State,
    since: Instant,
    last_error: Option<String>,
    rate_bytes_per_s: Option<u64>,
    round_trip: Option<Duration>,
}

impl Default for LinkStatus {
    fn default() -> Self {
        Self {
            inner: Mutex::new(Inner {
                target: None,
                state: State::Connecting,
                since: Instant::now(),
                last_error: None,
                rate_bytes_per_s: None,
                round_trip: None,
            }),
            devices: Arc::default(),
        }
    }
}

impl LinkStatus {
    /// How it is now.
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.lock();
        Snapshot {
            target: inner.target.clone(),
            state: inner.state,
            since: inner.since.elapsed(),
            last_error: inner.last_error.clone(),
            rate_bytes_per_s: inner.rate_bytes_per_s,
            round_trip: inner.round_trip,
        }
    }

    /// What was told of devices, and taken.
    pub fn devices(&self) -> &Arc<DeviceFigures> {
        &self.devices
    }

    /// Another connection is made, to this place.
    pub(super) fn goes_to(&self, target: &Target) {
        self.lock().target = Some(target.to_string());
    }

    pub(super) fn set(&self, state: State) {
        let mut inner = self.lock();
        if inner.state != state {
            tracing::info!(?state, "the link to the cloud");
            (inner.state, inner.since) = (state, Instant::now());
        }
    }

    /// The connection ended, or was not made.
    pub(super) fn broke(&self, reason: &str) {
        let mut inner = self.lock();
        if inner.state == State::Connected || inner.last_error.as_deref() != Some(reason) {
            tracing::warn!(%reason, "no link to the cloud");
        }
        if inner.state == State::Connected {
            inner.since = Instant::now();
        }
        inner.state = State::Connecting;
        inner.last_error = Some(reason.to_owned());
    }

    pub(super) fn saw_line(&self, rate_bytes_per_s: Option<f64>, round_trip: Option<Duration>) {
        let mut inner = self.lock();
        inner.rate_bytes_per_s = rate_bytes_per_s.map(|rate| rate as u64);
        inner.round_trip = round_trip;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock panics")
    }
}
