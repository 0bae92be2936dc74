//! Tenants that publish faster than they may: the connections whose next PUBLISH is too early are not read until its
//! turn comes. Nothing is dropped, and nobody else waits.

use broker::{ConnId, Now};

use super::Shard;
use super::link::Arrived;
use super::tenant::Tenant;

/// Shortest time in milliseconds between two looks at those that wait: each look may pass several of them.
const LOOK_EVERY_MS: u64 = 10;

/// Time in milliseconds after which a look is due even if nothing may pass: a connection that is not read must not be
/// taken for silent (MQTT-3.1.2-22).
const LOOK_AT_LEAST_EVERY_MS: u64 = 500;

impl Shard {
    /// The next packet of a connection is too early: it goes on when its turn comes.
    pub(super) fn pause(&mut self, now: Now, conn: ConnId, number: u32) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        connection.is_paused = true;
        self.connections.list(conn);
        let tenant = &mut self.tenants[number as usize];
        tenant.pauses += 1;
        tenant.paused.push_back(conn);
        tenant.broker.keep_alive(now, conn);
        if tenant.paused.len() == 1 {
            tenant.look_later(now.monotonic_ms);
        }
        self.next_due_ms = self.next_due_ms.min(tenant.resumes_at_ms);
    }

    /// Lets the connections of a tenant go on that waited longest, as many as the rate lets pass.
    pub(super) fn resume(&mut self, now: Now, number: u32) {
        let tenant = &mut self.tenants[number as usize];
        if now.monotonic_ms < tenant.resumes_at_ms {
            return;
        }
        tenant.is_resuming = true;
        // Those that have to wait again come behind all that have not had their turn.
        for _ in 0..tenant.paused.len() {
            let tenant = &mut self.tenants[number as usize];
            if tenant.rate.opens_at_ms() > now.monotonic_ms {
                break;
            }
            if let Some(conn) = tenant.paused.pop_front() {
                self.go_on(now, conn);
            }
        }
        let tenant = &mut self.tenants[number as usize];
        tenant.is_resuming = false;
        for conn in &tenant.paused {
            tenant.broker.keep_alive(now, *conn);
        }
        tenant.look_later(now.monotonic_ms);
    }

    pub(super) fn go_on(&mut self, now: Now, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        connection.is_paused = false;
        let arrived = if connection.has_ended {
            Arrived::End
        } else {
            Arrived::Bytes
        };
        self.connections.list(conn);
        self.take(now, conn, &[]);
        self.follow_link(now, conn, arrived);
    }
}

impl Tenant {
    /// Whether a PUBLISH of `bytes` bytes may pass now; if so, it has. While some wait, nobody comes before them.
    #[inline]
    pub(super) fn may_publish(&mut self, now_ms: u64, bytes: usize) -> bool {
        let is_its_turn = self.paused.is_empty() || self.is_resuming;
        !self.rate.is_bounded() || (is_its_turn && self.rate.take(now_ms, bytes))
    }

    fn look_later(&mut self, now_ms: u64) {
        let opens_at_ms = self.rate.opens_at_ms();
        self.resumes_at_ms = match self.paused.is_empty() {
            true => u64::MAX,
            false => opens_at_ms.clamp(now_ms + LOOK_EVERY_MS, now_ms + LOOK_AT_LEAST_EVERY_MS),
        };
    }
}
