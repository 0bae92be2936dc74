//! File descriptors: each connection takes one, and a process may have so many. Where they run out, logs and registry
//! could open no file any more; so connections are held to what is left beside those.

use rustix::process::{Resource, getrlimit};

use crate::config::Limits;

/// Descriptors that a process needs beside connections: its registry, audit log, doors and 128 connections of HTTP.
const OWN: u64 = 192;

/// Descriptors of a shard: its loop, and the files of its log that are open at once.
const OF_A_SHARD: u64 = 16;

/// Fewer connections than this are not worth a hub.
const CONNECTIONS_LEAST: u64 = 16;

/// What the system lets this process have; `None` is no limit.
pub(crate) fn allowed() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// What a hub with these limits needs.
pub(crate) fn needed(limits: &Limits, shards: usize) -> u64 {
    of_shards(shards) + limits.connections as u64 + limits.pending_connects as u64
}

/// The fewest that a hub can do with.
pub(crate) fn least(shards: usize) -> u64 {
    of_shards(shards) + CONNECTIONS_LEAST
}

/// Lowers what takes descriptors to what this process may have of them, and says so.
pub(crate) fn hold(limits: &Limits, shards: usize) -> Limits {
    let needed = needed(limits, shards);
    let Some(allowed) = allowed().filter(|allowed| *allowed < needed) else {
        return limits.clone();
    };
    let held = fit(limits, shards, allowed);
    tracing::warn!(
        "{} connections and {} unfinished ones need {needed} file descriptors, and this process may have {allowed}: \
         they are held to {} and {}; start it with LimitNOFILE={needed} in its systemd unit, or after ulimit -n {needed}",
        limits.connections,
        limits.pending_connects,
        held.connections,
        held.pending_connects,
    );
    held
}

/// Of what is left, at most a quarter is for connections that have not finished their CONNECT.
fn fit(limits: &Limits, shards: usize, allowed: u64) -> Limits {
    let left = allowed.saturating_sub(of_shards(shards)).max(2);
    let pending_connects = (limits.pending_connects as u64).min(left / 4).max(1);
    let connections = (limits.connections as u64).min(left - pending_connects);
    Limits {
        connections: connections as usize,
        pending_connects: pending_connects as usize,
        ..limits.clone()
    }
}

fn of_shards(shards: usize) -> u64 {
    OWN + OF_A_SHARD * shards as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_held_to_what_is_left_beside_the_hubs_own_files() {
        let check = |allowed, connections, pending_connects| {
            let held = fit(&Limits::default(), 2, allowed);
            assert_eq!(
                (held.connections, held.pending_connects),
                (connections, pending_connects)
            );
            assert!(needed(&held, 2) <= allowed.max(of_shards(2) + 2), "{allowed}");
        };
        check(1_024, 600, 200);
        check(4_096, 2_904, 968);
        check(least(2), 12, 4);
        check(0, 1, 1);
        check(needed(&Limits::default(), 2), 15_000, 1_024);
    }

    #[test]
    fn limits_that_fit_stay_as_they_are() {
        let limits = Limits {
            connections: 10,
            pending_connects: 10,
            ..Limits::default()
        };
        let held = fit(&limits, 1, needed(&limits, 1) + 100);
        assert_eq!((held.connections, held.pending_connects), (10, 10));
    }
}
