//! A door has let a client in: its session begins.

use std::sync::Arc;

use broker::{Broker, Now, Position};
use device::topic::DeviceTopic;
use mqtt::{ConnAck, Packet, ReasonCode};
use store::Kind;

use super::Shard;
use super::connection::{Admitted, Connection, decode_connect};
use super::journal::Entry;
use super::tenant::Tenant;
use crate::acl;
use crate::refused::Refused;

/// Time in milliseconds that the log has to make room for a client whose session is to be kept. It is refused then.
const ROOM_WAIT_MS: u64 = 1_000;
/// Clients that wait for that, at most; one more is refused at once.
const HELD_MAX: usize = 1_024;

impl Shard {
    /// Admits a client; one whose session is to be kept, once the log has room for that.
    pub(super) fn let_in(&mut self, now: Now, client: Box<Admitted>) {
        if self.held.len() < HELD_MAX && client.is_to_be_kept() && self.journal.is_making_room() {
            self.held.push_back((now.monotonic_ms + ROOM_WAIT_MS, client));
        } else {
            self.admit(now, *client);
        }
    }

    /// Admits those who waited for room, as long as there is any, and those who may wait no longer.
    pub(super) fn let_held_in(&mut self, now: Now) {
        while !self.held.is_empty() {
            let has_room = !self.journal.is_making_room();
            let is_next = |(until_ms, _): &mut (u64, _)| has_room || *until_ms <= now.monotonic_ms;
            let Some((_, client)) = self.held.pop_front_if(is_next) else {
                return;
            };
            self.admit(now, *client);
        }
    }

    fn admit(&mut self, now: Now, client: Admitted) {
        let connect = decode_connect(&client.connect);
        if self.labels.is_revoked_since(client.seen_change, &client.peer) {
            self.counters.refused[Refused::Revoked as usize] += 1;
            tracing::info!(id = %client.peer.principal.id, "credentials were revoked while they were checked");
            return;
        }
        let Some(tenant) = self.tenant(&client.peer.principal.tenant) else {
            self.counters.refused[Refused::Quota as usize] += 1;
            tracing::error!("the log is full: no place for a new tenant");
            return;
        };
        self.counters.connects += 1;
        let may_will = connect.will.as_ref().is_none_or(|will| {
            let parsed = DeviceTopic::parse(will.topic);
            acl::may_publish(&client.peer.principal, will.topic, parsed.as_ref())
        });
        let owner = Arc::clone(&client.peer.principal.id);
        let response_root = acl::response_root(&client.peer.principal);
        let conn = match self.connections.insert(Connection::new(
            client.link,
            client.peer,
            client.place,
            tenant,
            connect.version,
            self.settings.limits.broker.maximum_packet_size,
        )) {
            Ok(conn) => conn,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be watched");
                return;
            }
        };
        self.with_tenant(now, tenant, |tenant, turn| {
            if !may_will {
                refuse(turn, conn, ReasonCode::NotAuthorized);
            } else if !tenant.may_connect(&owner, connect.client_id) {
                tenant.refused_connections += 1;
                refuse(turn, conn, ReasonCode::QuotaExceeded);
            } else {
                let broker = &mut tenant.broker;
                broker.connect(now, conn, &connect, &owner, response_root.as_deref(), turn);
            }
        });
        self.take_early(now, conn, &client.early);
    }

    /// What the client sent right behind its CONNECT.
    fn take_early(&mut self, now: Now, conn: broker::ConnId, early: &[u8]) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(connection) = self.connections.get_mut(conn) {
            let arrived = connection.link.take_early(early, &mut buffer);
            self.take(now, conn, &buffer);
            self.follow_link(now, conn, arrived);
        }
        buffer.clear();
        self.buffer = buffer;
    }

    /// The number of a tenant, which the log learns when it is new; `None` if the log is full.
    pub(super) fn tenant(&mut self, name: &Arc<str>) -> Option<u32> {
        if let Some(number) = self.tenant_numbers.get(name) {
            return Some(*number);
        }
        let number = self.tenants.len() as u32;
        let position = self
            .journal
            .append(number, Kind::Value, Entry::Tenant(name), &[])
            .ok()?;
        self.add_tenant(name, position, self.new_broker());
        Some(number)
    }

    pub(super) fn add_tenant(&mut self, name: &Arc<str>, position: Position, broker: Broker) {
        let number = self.tenants.len() as u32;
        self.tenant_numbers.insert(Arc::clone(name), number);
        let mut tenant = Tenant::new(Arc::clone(name), position, broker, self.settings.is_open);
        tenant.set_bounds(&self.settings.limits.broker, &self.labels.quotas(name));
        self.tenants.push(tenant);
    }

    pub(super) fn new_broker(&self) -> Broker {
        Broker::new(self.settings.limits.broker.clone())
    }
}

/// Refuses a connection, while there is somebody to tell: for a will that its client may not publish, say.
fn refuse(turn: &mut super::turn::Turn<'_>, conn: broker::ConnId, reason: ReasonCode) {
    use broker::Sink;
    turn.reply(
        conn,
        &Packet::ConnAck(Box::new(ConnAck::new(reason))),
        Position::default(),
    );
    turn.close(conn, reason);
}
