//! Connections whose next message waits until the log has room again: they publish faster than the disk writes, for a
//! moment. They are not read meanwhile, which TCP tells their clients; nothing is dropped, and nobody is turned away.
//! What is of QoS 0 promises nothing, and waits for nothing.

use std::collections::VecDeque;

use broker::{ConnId, Now, Position};
use mqtt::{Publish, QoS};

use super::Shard;

/// Time in milliseconds in which the log has to get on; then those that wait are refused.
const PATIENCE_MS: u64 = 5_000;
/// Time in milliseconds between two looks at those that wait: a connection that is not read must not be taken for
/// silent (MQTT-3.1.2-22).
const LOOK_EVERY_MS: u64 = 500;

/// Those that wait, in the order in which they go on. They are no more than connections.
#[derive(Default)]
pub(super) struct Behind {
    waiting: VecDeque<ConnId>,
    /// How far the log was durable when it was last seen to get on.
    durable: Position,
    refused_at_ms: u64,
    looks_at_ms: u64,
    /// It is the turn of those that waited.
    is_going_on: bool,
    /// They have waited for too long.
    has_given_up: bool,
}

impl Behind {
    /// When there is something to do for those that wait.
    pub(super) fn due_ms(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.looks_at_ms.min(self.refused_at_ms))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Shard {
    /// Whether a message in a packet of so many bytes has to wait for the log.
    pub(super) fn has_to_wait(&self, publish: &Publish<'_>, packet_bytes: usize) -> bool {
        if publish.qos == QoS::AtMostOnce || self.behind.has_given_up {
            return false;
        }
        let others_wait = !self.behind.is_empty() && !self.behind.is_going_on;
        others_wait || self.journal.is_behind(packet_bytes)
    }

    /// The next message of a connection waits for the log.
    pub(super) fn wait_for_log(&mut self, now: Now, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        connection.is_paused = true;
        let tenant = connection.tenant as usize;
        self.connections.list(conn);
        self.tenants[tenant].broker.keep_alive(now, conn);
        self.counters.waits_for_log += 1;
        if self.behind.is_empty() && !self.behind.is_going_on {
            self.behind.refused_at_ms = now.monotonic_ms + PATIENCE_MS;
            self.behind.looks_at_ms = now.monotonic_ms + LOOK_EVERY_MS;
        }
        self.behind.waiting.push_back(conn);
    }

    /// Lets those go on for whom the log has room.
    pub(super) fn catch_up(&mut self, now: Now) {
        if self.behind.is_empty() {
            return;
        }
        let durable = self.journal.durable();
        if std::mem::replace(&mut self.behind.durable, durable) != durable {
            self.behind.refused_at_ms = now.monotonic_ms + PATIENCE_MS;
        }
        self.behind.is_going_on = true;
        self.behind.has_given_up = now.monotonic_ms >= self.behind.refused_at_ms;
        for _ in 0..self.behind.waiting.len() {
            if self.journal.is_behind(0) && !self.behind.has_given_up {
                break;
            }
            if let Some(conn) = self.behind.waiting.pop_front() {
                self.go_on(now, conn);
            }
        }
        (self.behind.is_going_on, self.behind.has_given_up) = (false, false);
        if now.monotonic_ms >= self.behind.looks_at_ms {
            self.behind.looks_at_ms = now.monotonic_ms + LOOK_EVERY_MS;
            for conn in &self.behind.waiting {
                let tenant = self.connections.get(*conn).map(|connection| connection.tenant);
                if let Some(tenant) = tenant {
                    self.tenants[tenant as usize].broker.keep_alive(now, *conn);
                }
            }
        }
    }
}
