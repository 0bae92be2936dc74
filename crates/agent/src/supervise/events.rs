//! What has happened to containers, the last of it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::runtime::Pod;
use crate::shim::unix_now_ms;

/// Of a tenant; the oldest go.
const EVENTS_MAX: usize = 250;
/// Of a message: registries and archives may say more.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// Something that has happened to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose it is.
    pub pod: Pod,
    /// Its name in its application; empty: it is of the application as a whole.
    pub container: String,
    /// What happened.
    pub what: What,
    /// How, or why.
    pub message: String,
    /// The last time, in ms since 1970 UTC.
    pub at_ms: i64,
    /// How often the very same has happened.
    pub times: u32,
}

/// Kinds of what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is to start, and waits for what it comes after.
    Waiting,
    /// It was started, or found to run.
    Started,
    /// It is ready.
    Ready,
    /// It has ended by itself.
    Ended,
    /// It does not live, and is ended.
    Unhealthy,
    /// It has more on disk than it may, and its replica is replaced.
    Evicted,
    /// It could not be started, looked at or ended.
    Failed,
    /// It was ended, as nobody wants it so any more.
    Stopped,
    /// Its time stands still, as nobody asks it.
    Paused,
    /// More of its replicas are wanted for those who ask, or fewer.
    Scaled,
    /// A new version of its application did not become ready: the last good one runs in its place.
    TakenBack,
    /// A snapshot of its application was due, and was not taken.
    SnapshotFailed,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            What::Waiting => "waiting",
            What::Started => "started",
            What::Ready => "ready",
            What::Ended => "ended",
            What::Unhealthy => "unhealthy",
            What::Evicted => "evicted",
            What::Failed => "failed",
            What::Stopped => "stopped",
            What::Paused => "paused",
            What::Scaled => "scaled",
            What::TakenBack => "taken-back",
            What::SnapshotFailed => "snapshot-failed",
        };
        f.write_str(name)
    }
}

/// The last of them of each tenant, the newest behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Events(Arc<Mutex<BTreeMap<String, VecDeque<Event>>>>);

impl Events {
    /// The very same once more is counted where it stands, so that what happens again and again pushes nothing else
    /// out.
    pub(super) fn note(&self, pod: &Pod, container: &str, what: What, message: &str) {
        let message = cut(message);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let events = all.entry(pod.tenant.clone()).or_default();
        let is_same = |event: &Event| {
            event.what == what && event.container == container && event.message == message && event.pod == *pod
        };
        let known = events.iter().position(is_same).and_then(|at| events.remove(at));
        if events.len() >= EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(Event {
            pod: pod.clone(),
            container: container.to_owned(),
            what,
            message,
            at_ms: unix_now_ms(),
            times: known.map_or(1, |event| event.times.saturating_add(1)),
        });
    }

    pub(super) fn of_tenant(&self, tenant: &str) -> Vec<Event> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(tenant).into_iter().flatten().cloned().collect()
    }
}

/// The beginning of a message that is too long.
pub(super) fn cut(message: &str) -> String {
    match message.char_indices().find(|(at, _)| *at >= MESSAGE_BYTES_MAX) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_kept_and_what_happens_again_is_counted() {
        let pod = |tenant: &str| Pod {
            tenant: tenant.to_owned(),
            application: "site".to_owned(),
            replica: 0,
        };
        let events = Events::default();
        events.note(&pod("a"), "web", What::Started, "first");
        for number in 0..2 * EVENTS_MAX {
            events.note(&pod("b"), "web", What::Ended, &format!("{number}{}", "é".repeat(1_000)));
            events.note(&pod("a"), "web", What::Ended, "again");
        }
        let of_a = events.of_tenant("a");
        assert_eq!(of_a.len(), 2, "another tenant's push nothing out");
        assert_eq!((of_a[1].times, &*of_a[1].message), (2 * EVENTS_MAX as u32, "again"));
        let of_b = events.of_tenant("b");
        assert_eq!(of_b.len(), EVENTS_MAX);
        assert!(of_b.iter().all(|event| event.message.len() < MESSAGE_BYTES_MAX + 8));
    }
}
