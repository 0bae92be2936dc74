//! From a readable socket to packets, each handed to the broker and the pipeline.

use broker::{ConnId, Now};
use mqtt::{Packet, ReasonCode};
use rustix::event::epoll::EventFlags;

use super::Shard;
use super::connection::Phase;
use super::link::Arrived;
use super::turn::LINGER_MS;
use crate::{acl, pipeline};

/// Bytes taken from a socket at once.
const READ_BYTES: usize = 64 * 1024;

/// Bytes taken at once where the tenant publishes as fast as it may, or the log takes no more: what cannot be served
/// yet is kept.
const READ_PACED_BYTES: usize = 4 * 1024;

impl Shard {
    /// Something came, or the peer hung up.
    pub(super) fn hear_peer(&mut self, now: Now, conn: ConnId, flags: EventFlags) {
        let is_gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if let Some(connection) = self.connections.get_mut(conn) {
            connection.has_hung_up |= is_gone || flags.contains(EventFlags::RDHUP);
        }
        self.read(now, conn, is_gone);
    }

    /// Reads a socket once and serves the packets that are complete with it. Epoll says but once that there is
    /// something to read: what may be left, the end of the stream too, is read in the next turn.
    fn read(&mut self, now: Now, conn: ConnId, is_gone: bool) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        if !connection.is_read() {
            // What still has to go out to it goes out, unless nobody is there any more.
            let phase = connection.phase;
            if is_gone {
                self.lose(now, conn, phase);
            }
            return;
        }
        if connection.is_paused {
            return;
        }
        let is_paced = !self.tenants[connection.tenant as usize].paused.is_empty() || !self.behind.is_empty();
        let (mut buffer, room) = match is_paced {
            true => (Vec::new(), READ_PACED_BYTES),
            false => (std::mem::take(&mut self.buffer), READ_BYTES),
        };
        let arrived = connection.link.read(&mut buffer, room);
        let has_more = arrived == Arrived::BytesOfMore || connection.has_hung_up;
        if has_more && !std::mem::replace(&mut connection.is_unread, true) {
            self.unread.push(conn);
        }
        self.take(now, conn, &buffer);
        self.follow_link(now, conn, arrived);
        if !is_paced {
            buffer.clear();
            self.buffer = buffer;
        }
    }

    /// Reads on where the turn before left something. A connection that is not read now has epoll look at it anew when
    /// it is again.
    pub(super) fn read_on(&mut self, now: Now) {
        for conn in std::mem::take(&mut self.unread) {
            let Some(connection) = self.connections.get_mut(conn) else {
                continue;
            };
            connection.is_unread = false;
            if connection.is_watched() {
                self.read(now, conn, false);
            }
        }
    }

    /// Serves the packets that are complete with `bytes`, and keeps the beginning of one that is not.
    pub(super) fn take(&mut self, now: Now, conn: ConnId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        self.counters.bytes_received += bytes.len() as u64;
        if connection.partial.is_empty() {
            let used = self.packets(now, conn, bytes);
            self.keep(conn, bytes[used..].to_vec());
            return;
        }
        let mut partial = std::mem::take(&mut connection.partial);
        partial.extend_from_slice(bytes);
        let used = self.packets(now, conn, &partial);
        if used > 0 {
            partial.drain(..used);
            partial.shrink_to_fit();
        }
        self.keep(conn, partial);
    }

    fn keep(&mut self, conn: ConnId, partial: Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(conn) {
            connection.partial = partial;
        }
    }

    /// The link below MQTT has ended, or has something of its own to send.
    pub(super) fn follow_link(&mut self, now: Now, conn: ConnId, arrived: Arrived) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        match arrived {
            _ if connection.is_paused => connection.has_ended |= arrived == Arrived::End,
            Arrived::End => {
                let phase = connection.phase;
                self.lose(now, conn, phase);
            }
            Arrived::Bytes | Arrived::BytesOfMore if connection.link.is_closing() && connection.is_read() => {
                let tenant = connection.tenant;
                self.with_tenant(now, tenant, |tenant, turn| tenant.broker.closed(turn.now, conn, turn));
                self.connections
                    .end(conn, ReasonCode::Success, now.monotonic_ms + LINGER_MS);
            }
            Arrived::Bytes | Arrived::BytesOfMore if connection.link.is_blocked() => self.connections.list(conn),
            Arrived::Bytes | Arrived::BytesOfMore => {}
        }
    }

    /// Serves the whole packets at the beginning of `bytes`; how many bytes they were.
    fn packets(&mut self, now: Now, conn: ConnId, bytes: &[u8]) -> usize {
        let mut used = 0;
        while used < bytes.len() {
            let Some(connection) = self.connections.get(conn).filter(|connection| connection.is_read()) else {
                return bytes.len();
            };
            let tenant = connection.tenant;
            match Packet::read(&bytes[used..], connection.version, connection.packet_bytes as usize) {
                Ok(None) => return used,
                Ok(Some((Packet::Publish(publish), len))) if self.has_to_wait(&publish, len) => {
                    self.wait_for_log(now, conn);
                    return used;
                }
                Ok(Some((Packet::Publish(_), len)))
                    if !self.tenants[tenant as usize].may_publish(now.monotonic_ms, len) =>
                {
                    self.pause(now, conn, tenant);
                    return used;
                }
                Ok(Some((packet, len))) => {
                    self.packet(now, conn, tenant, &packet);
                    used += len;
                }
                Err(error) => self.refuse(now, conn, &error),
            }
        }
        used
    }

    /// Serves one packet.
    fn packet(&mut self, now: Now, conn: ConnId, tenant: u32, packet: &Packet<'_>) {
        match packet {
            Packet::Publish(publish) => {
                self.with_tenant(now, tenant, |tenant, turn| {
                    pipeline::publish(tenant, turn, conn, publish);
                });
            }
            Packet::Subscribe(subscribe) => {
                let Some(connection) = self.connections.get(conn) else {
                    return;
                };
                let who = connection.peer.principal.clone();
                let mut allowed = |filter: &str| acl::may_subscribe(&who, filter);
                self.with_tenant(now, tenant, |tenant, turn| {
                    tenant.broker.subscribe(turn.now, conn, subscribe, &mut allowed, turn);
                });
            }
            Packet::Unsubscribe(unsubscribe) => {
                self.with_tenant(now, tenant, |tenant, turn| {
                    tenant.broker.unsubscribe(turn.now, conn, unsubscribe, turn);
                });
            }
            Packet::Disconnect(disconnect) => {
                self.with_tenant(now, tenant, |tenant, turn| {
                    tenant.broker.disconnect(turn.now, conn, disconnect, turn);
                });
                self.connections
                    .end(conn, ReasonCode::Success, now.monotonic_ms + LINGER_MS);
            }
            Packet::PubAck(_) | Packet::PubRec(_) | Packet::PubRel(_) | Packet::PubComp(_) | Packet::PingReq => {
                self.with_tenant(now, tenant, |tenant, turn| {
                    tenant.broker.handle(turn.now, conn, packet, turn);
                });
            }
            _ => {
                self.end(now, conn, ReasonCode::ProtocolError);
            }
        }
    }

    fn refuse(&mut self, now: Now, conn: ConnId, error: &mqtt::DecodeError) {
        self.counters.malformed += 1;
        let address = self
            .connections
            .get(conn)
            .and_then(|connection| connection.peer.address);
        tracing::debug!(?address, clause = error.clause, "{}", error.message);
        self.end(now, conn, error.reason);
    }

    /// Ends a connection for something its client did; its will is due.
    fn end(&mut self, now: Now, conn: ConnId, reason: ReasonCode) {
        let Some(connection) = self
            .connections
            .get(conn)
            .filter(|connection| connection.phase != Phase::Ending)
        else {
            return;
        };
        let tenant = connection.tenant;
        self.with_tenant(now, tenant, |tenant, turn| tenant.broker.closed(turn.now, conn, turn));
        self.connections.end(conn, reason, now.monotonic_ms + LINGER_MS);
    }
}
