//! What the program itself asks of a tenant: twins, calls, sessions, revocations.

use std::sync::Arc;

use broker::{ConnId, Now, Position, Sink};
use device::CallId;
use identity::HeldCredential;
use mqtt::ReasonCode;
use route::CompiledRoute;
use tokio::sync::oneshot;

use super::Shard;
use super::tenant::Tenant;
use crate::arrivals::{self, Arrived, Arriving};
use crate::calls::Location;
use crate::edge_calls::{self, EdgeCall};
use crate::posted::{self, Posted};
use crate::stand_in::{self, StandIn};
use crate::twin_sync::{self, Told};
use crate::{calls, twins};

/// A question to one tenant.
pub(crate) struct Request {
    pub(crate) tenant: Arc<str>,
    pub(crate) ask: Ask,
}

/// What is asked, and where the answer goes.
pub(crate) enum Ask {
    /// Both states of a device's twin, as JSON.
    TwinGet {
        device: String,
        answer: oneshot::Sender<Vec<u8>>,
    },
    /// A merge patch of its desired state; the answer comes once it is durable.
    TwinSet {
        device: String,
        patch: Vec<u8>,
        answer: oneshot::Sender<Vec<u8>>,
    },
    /// Edits of its desired state that were given up.
    LostEdits {
        device: String,
        answer: oneshot::Sender<Vec<u8>>,
    },
    /// A method call; its result, the device's or the hub's own.
    Call {
        device: String,
        name: String,
        call: String,
        payload: Vec<u8>,
        timeout_ms: u64,
        answer: oneshot::Sender<Vec<u8>>,
    },
    /// Where a device is reached.
    Locate {
        device: String,
        answer: oneshot::Sender<Location>,
    },
    /// A twin as its edits made it, for the other side of a link.
    TwinRead {
        device: String,
        answer: oneshot::Sender<Vec<u8>>,
    },
    /// What the other side of a link has of a twin; what it has to be told.
    TwinMerge {
        device: String,
        theirs: Box<Told>,
        answer: oneshot::Sender<Vec<u8>>,
    },
    /// The twins of these devices in short.
    TwinDigests {
        devices: Vec<String>,
        answer: oneshot::Sender<Vec<u64>>,
    },
    /// What came of a call of a device behind an edge.
    CallResult { call: EdgeCall, result: Vec<u8> },
    /// Telemetry of a device that came by another way than MQTT; what became of it, once that is durable.
    Post {
        device: String,
        payload: Vec<u8>,
        answer: oneshot::Sender<Posted>,
    },
    /// Messages of another hub; what became of them, once that is durable.
    Arrive {
        arriving: Arriving,
        answer: oneshot::Sender<Arrived>,
    },
    /// The sessions of the tenant.
    Sessions { answer: oneshot::Sender<Vec<SessionInfo>> },
    /// Exchanges the applications that may be asleep.
    StandIn { stand_ins: Vec<StandIn> },
    /// Messages that one of them has not acknowledged.
    Waiting {
        application: String,
        answer: oneshot::Sender<usize>,
    },
    /// Exchanges the routes.
    SetRoutes {
        routes: Vec<CompiledRoute>,
        answer: oneshot::Sender<()>,
    },
    /// What each route did.
    Routes { answer: oneshot::Sender<Vec<RouteInfo>> },
    /// The owner was removed: ends its sessions, and its twin if it was a device; the answer comes once that is
    /// durable.
    Forget {
        owner: Arc<str>,
        answer: oneshot::Sender<()>,
    },
    /// The tenant was removed, with all its devices and apps: nothing of it is left to one of the same name.
    Clear,
    /// A credential was revoked, or all: ends the connections of its owner that were made with it; its sessions stay.
    Disconnect {
        owner: Arc<str>,
        revoked: Option<HeldCredential>,
    },
}

/// An answer that waits for the log, and who waits for it; who asked may have given up.
pub(crate) enum Answer {
    Bytes(Vec<u8>, oneshot::Sender<Vec<u8>>),
    Arrived(Arrived, oneshot::Sender<Arrived>),
    Posted(Posted, oneshot::Sender<Posted>),
    Done(oneshot::Sender<()>),
}

impl Answer {
    fn send(self) {
        match self {
            Answer::Bytes(bytes, to) => drop(to.send(bytes)),
            Answer::Arrived(arrived, to) => drop(to.send(arrived)),
            Answer::Posted(posted, to) => drop(to.send(posted)),
            Answer::Done(to) => drop(to.send(())),
        }
    }
}

/// A route, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its name.
    pub name: String,
    /// What it did.
    pub counters: route::Counters,
    /// The last message that it failed for.
    pub last_failure: Option<route::LastFailure>,
}

/// A session, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Id of the device or app; empty for anonymous clients.
    pub owner: String,
    /// Its client identifier.
    pub client_id: String,
    /// Where it connects from; `None` if it is away or comes over a Unix socket.
    pub address: Option<std::net::SocketAddr>,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Number of its subscriptions.
    pub subscriptions: usize,
    /// Messages that wait for it.
    pub queued_messages: usize,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Messages sent and not acknowledged.
    pub in_flight: usize,
}

impl Shard {
    /// Answers a request; a tenant that the shard does not know yet is made first. An answer that cannot be given
    /// closes its channel.
    pub(super) fn answer(&mut self, now: Now, request: Request) {
        let is_end = matches!(request.ask, Ask::Forget { .. } | Ask::Clear | Ask::Disconnect { .. });
        if is_end && !self.tenant_numbers.contains_key(&request.tenant) {
            return;
        }
        let Some(number) = self.tenant(&request.tenant) else {
            return;
        };
        match request.ask {
            Ask::TwinGet { device, answer } => {
                let (twin, after) = self.with_tenant(now, number, |tenant, _| twins::read(tenant, &device));
                self.answer_after(after, Answer::Bytes(twin, answer));
            }
            Ask::LostEdits { device, answer } => {
                let (edits, after) = twins::lost_edits(&self.tenants[number as usize], &device);
                self.answer_after(after, Answer::Bytes(edits, answer));
            }
            Ask::TwinSet { device, patch, answer } => {
                let set = self.with_tenant(now, number, |tenant, turn| {
                    twins::patch_desired(tenant, turn, &device, &patch)
                });
                let (result, after) = set.unwrap_or_else(|refusal| (refusal.payload(&device), Position::default()));
                self.answer_after(after, Answer::Bytes(result, answer));
            }
            Ask::Call {
                device,
                name,
                call,
                payload,
                timeout_ms,
                answer,
            } => {
                let id = CallId {
                    device: &device,
                    name: &name,
                    call: &call,
                };
                self.with_tenant(now, number, |tenant, turn| {
                    calls::start_local(tenant, turn, id, &payload, timeout_ms, answer);
                });
            }
            Ask::Locate { device, answer } => {
                let location = self.with_tenant(now, number, |tenant, turn| calls::locate(tenant, turn, &device));
                drop(answer.send(location));
            }
            Ask::TwinRead { device, answer } => {
                let (twin, after) = twin_sync::read(&self.tenants[number as usize], &device);
                self.answer_after(after, Answer::Bytes(twin, answer));
            }
            Ask::TwinMerge { device, theirs, answer } => {
                let (reply, after) = self.with_tenant(now, number, |tenant, turn| {
                    twin_sync::merge(tenant, turn, &device, &theirs)
                });
                self.answer_after(after, Answer::Bytes(reply, answer));
            }
            Ask::TwinDigests { devices, answer } => {
                let digests = twin_sync::digests(&self.tenants[number as usize], &devices);
                drop(answer.send(digests));
            }
            Ask::CallResult { call, result } => {
                self.with_tenant(now, number, |tenant, turn| {
                    let EdgeCall {
                        edge,
                        device,
                        name,
                        call,
                        ..
                    } = &call;
                    edge_calls::finish(tenant, turn, edge, CallId { device, name, call }, &result);
                });
            }
            Ask::Post {
                device,
                payload,
                answer,
            } => self.post(now, number, &device, &payload, answer),
            Ask::Arrive { arriving, answer } => {
                let (arrived, after) =
                    self.with_tenant(now, number, |tenant, turn| arrivals::take(tenant, turn, &arriving));
                self.answer_after(after, Answer::Arrived(arrived, answer));
            }
            Ask::Sessions { answer } => drop(answer.send(self.sessions(number))),
            Ask::StandIn { stand_ins } => {
                self.with_tenant(now, number, |tenant, turn| stand_in::replace(tenant, turn, stand_ins));
            }
            Ask::Waiting { application, answer } => {
                // The asker may have given up meanwhile.
                let _ = answer.send(stand_in::waiting(&self.tenants[number as usize], &application));
            }
            Ask::SetRoutes { routes, answer } => {
                let Tenant { name, routing, .. } = &mut self.tenants[number as usize];
                let mut queues = self.queues.as_mut().filter(|_| self.settings.has_upstream);
                routing.replace(routes, |route, upstream| {
                    let queues = queues.as_mut();
                    queues.map(|queues| queues.queue_of(number, name, route, upstream))
                });
                // The asker may have given up meanwhile.
                let _ = answer.send(());
            }
            Ask::Routes { answer } => drop(answer.send(self.tenants[number as usize].routing.list())),
            Ask::Disconnect { owner, revoked } => self.disconnect(now, number, &owner, revoked.as_ref()),
            Ask::Clear => self.clear(now, number),
            Ask::Forget { owner, answer } => {
                let after = self.with_tenant(now, number, |tenant, turn| {
                    tenant
                        .broker
                        .remove_owner(now, &owner, ReasonCode::AdministrativeAction, turn);
                    twins::forget(tenant, turn, &owner)
                });
                self.answer_after(after, Answer::Done(answer));
            }
        }
    }

    fn post(&mut self, now: Now, number: u32, device: &str, payload: &[u8], answer: oneshot::Sender<Posted>) {
        if !self.tenants[number as usize].may_publish(now.monotonic_ms, payload.len()) {
            // The asker may have given up meanwhile.
            let _ = answer.send(Posted::TooFast);
            return;
        }
        let outcome = self.with_tenant(now, number, |tenant, turn| posted::take(tenant, turn, device, payload));
        let posted = match outcome.reason.is_error() {
            true => Posted::NoRoom,
            false => Posted::Taken,
        };
        self.answer_after(outcome.after, Answer::Posted(posted, answer));
    }

    fn clear(&mut self, now: Now, number: u32) {
        self.with_tenant(now, number, |tenant, turn| {
            let devices: Vec<Box<str>> = tenant.twins.keys().cloned().collect();
            for device in devices {
                twins::forget(tenant, turn, &device);
            }
            if tenant.broker.unretain_all(turn).is_err() {
                tracing::error!(tenant = %tenant.name, "the log is full: retained messages of a removed tenant stay");
            }
        });
    }

    fn disconnect(&mut self, now: Now, number: u32, owner: &str, revoked: Option<&HeldCredential>) {
        let is_theirs = |conn: &ConnId| {
            let connection = self.connections.get(*conn).expect("listed just now");
            let peer = &connection.peer;
            let is_of_owner = connection.tenant == number && &*peer.principal.id == owner;
            is_of_owner && revoked.is_none_or(|revoked| peer.proofs.contains(revoked))
        };
        let theirs: Vec<ConnId> = self.connections.ids().filter(is_theirs).collect();
        for conn in theirs {
            self.with_tenant(now, number, |tenant, turn| {
                tenant.broker.closed(now, conn, turn);
                turn.close(conn, ReasonCode::AdministrativeAction);
            });
        }
    }

    fn sessions(&self, number: u32) -> Vec<SessionInfo> {
        let address = |conn: ConnId| {
            self.connections
                .get(conn)
                .and_then(|connection| connection.peer.address)
        };
        let sessions = self.tenants[number as usize].broker.sessions();
        let info = sessions.map(|session| SessionInfo {
            owner: session.owner.to_owned(),
            client_id: session.client_id.to_owned(),
            address: session.conn.and_then(address),
            is_connected: session.conn.is_some(),
            subscriptions: session.subscriptions,
            queued_messages: session.queued_messages,
            queued_bytes: session.queued_bytes,
            in_flight: session.in_flight,
        });
        info.collect()
    }

    fn answer_after(&mut self, after: Position, answer: Answer) {
        self.pass_copies_on();
        // None overtakes another: what is behind waits for it.
        let after = self.answers.back().map_or(after, |(last, _)| after.max(*last));
        self.answers.push_back((after, answer));
        self.send_answers();
    }

    /// Sends the answers whose promises are durable.
    pub(super) fn send_answers(&mut self) {
        let durable = self.journal.durable();
        while let Some((_, answer)) = self.answers.pop_front_if(|(after, _)| *after <= durable) {
            answer.send();
        }
    }
}
