//! Routes at work: the copies that a message's routes ask for, and theirs in turn, each within the bound on hops.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use broker::ConnId;
use identity::{Identity, Quotas, Snapshot};
use mqtt::{Publish, QoS, ReasonCode};
use route::{Action, CompiledRoute, Lookup, Message, Priority, Routes, Upstream};

use crate::calls;
use crate::pipeline::{self, Outcome};
use crate::shard::connection::Peer;
use crate::shard::control::RouteInfo;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;
use crate::upstream;

/// Copies that one message may become in all; more are dropped and counted.
const COPIES_MAX: usize = 1_024;

/// All devices, their labels and the quotas of all tenants, as of the last refresh; read without a lock.
#[derive(Clone)]
pub(crate) struct LabelSource {
    identity: Arc<Identity>,
    snapshot: Arc<ArcSwap<Snapshot>>,
}

impl LabelSource {
    pub(crate) fn new(identity: &Arc<Identity>) -> Result<Self, identity::RegistryError> {
        let snapshot = Arc::new(ArcSwap::new(identity.registry().snapshot()?));
        Ok(Self {
            identity: Arc::clone(identity),
            snapshot,
        })
    }

    /// Reads the registry anew.
    pub(crate) fn refresh(&self) -> Result<(), identity::RegistryError> {
        self.snapshot.store(self.identity.registry().snapshot()?);
        Ok(())
    }

    /// What a tenant may use.
    pub(crate) fn quotas(&self, tenant: &str) -> Quotas {
        self.snapshot.load().quotas(tenant).copied().unwrap_or_default()
    }

    /// Names of the tenants.
    pub(crate) fn tenants(&self) -> Vec<String> {
        self.snapshot.load().tenants().map(str::to_owned).collect()
    }

    /// A label of a client.
    pub(crate) fn label(&self, tenant: &str, id: &str, name: &str) -> Option<String> {
        self.snapshot.load().labels(tenant, id)?.get(name).cloned()
    }

    /// The edge that a device logs in at, `Some(None)`: here; `None` if it is not registered.
    pub(crate) fn home(&self, tenant: &str, device: &str) -> Option<Option<Arc<str>>> {
        let snapshot = self.snapshot.load();
        snapshot.home(tenant, device).map(Option::<&Arc<str>>::cloned)
    }

    /// Whether a device is registered.
    pub(crate) fn has_device(&self, tenant: &str, device: &str) -> bool {
        self.snapshot.load().has_device(tenant, device)
    }

    /// Whether a credential that `peer` came in by was revoked after change number `seen` of the registry, or may have
    /// been.
    pub(crate) fn is_revoked_since(&self, seen: u64, peer: &Peer) -> bool {
        let registry = self.identity.registry();
        if registry.last_change() == seen {
            return false;
        }
        let is_theirs = |change: &identity::Change| {
            let who = &peer.principal;
            let is_of_client = change.tenant == who.tenant && change.id.as_ref() == Some(&who.id);
            is_of_client && change.what.ends_connection_by(&peer.proofs)
        };
        registry
            .changes_since(seen)
            .is_none_or(|changes| changes.iter().any(is_theirs))
    }
}

/// A tenant's routes, and the room in which their copies wait; used again for each message.
#[derive(Default)]
pub(crate) struct Routing {
    routes: Routes,
    /// Topics of the copies, one behind the other.
    topics: String,
    /// Where each copy's topic ends, and how many routes it came through.
    copies: Vec<(usize, u8)>,
    topic: String,
    calls: Vec<Call>,
    /// The queue of each route that sends upstream, with its priority.
    queues: HashMap<Box<str>, (Priority, u32)>,
    /// Where the message goes upstream, and its copies.
    upstream: Vec<Departure>,
}

/// A message that leaves the hub.
#[derive(Clone, Copy)]
struct Departure {
    /// Which copy; `None`: the message itself.
    copy: Option<usize>,
    priority: Priority,
    queue: u32,
}

impl Routing {
    /// Whether there are no routes.
    pub(crate) fn is_idle(&self) -> bool {
        self.routes.names().next().is_none()
    }

    /// Exchanges all routes. Those that are as they were go on counting.
    /// `queue_of` gives the queue of one that sends upstream; `None`: nothing leaves this hub.
    pub(crate) fn replace(
        &mut self,
        routes: Vec<CompiledRoute>,
        mut queue_of: impl FnMut(&str, &Upstream) -> Option<u32>,
    ) {
        self.queues = routes
            .iter()
            .filter_map(|route| {
                let upstream = route.upstream()?;
                let queue = queue_of(route.name(), upstream)?;
                Some((route.name().into(), (upstream.priority, queue)))
            })
            .collect();
        let is_gone = |name: &&str| routes.iter().all(|route| route.name() != *name);
        let gone: Vec<String> = self.routes.names().filter(is_gone).map(str::to_owned).collect();
        for name in gone {
            self.routes.remove(&name);
        }
        for route in routes {
            if let Err(error) = self.routes.put(route) {
                tracing::error!(%error, "a route was left out");
            }
        }
    }

    pub(crate) fn list(&self) -> Vec<RouteInfo> {
        let status = |name| self.routes.status(name).expect("listed just now");
        let info = self.routes.names().map(|name| {
            let (counters, last_failure) = status(name);
            RouteInfo {
                name: name.to_owned(),
                counters,
                last_failure: last_failure.cloned(),
            }
        });
        info.collect()
    }
}

/// A method call that a route asks for.
struct Call {
    device: Box<str>,
    name: Box<str>,
    payload: Box<[u8]>,
}

/// What a condition may ask of a message beside topic and payload.
struct View<'a> {
    publish: &'a Publish<'a>,
    labels: arc_swap::Guard<Arc<Snapshot>>,
    tenant: &'a str,
}

impl Lookup for View<'_> {
    fn property(&self, name: &str) -> Option<&str> {
        self.publish
            .properties
            .user_properties
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    fn label(&self, device: &str, name: &str) -> Option<&str> {
        self.labels.labels(self.tenant, device)?.get(name).map(String::as_str)
    }
}

impl Routing {
    /// Delivers a message together with its copies. The outcome is of all of them.
    pub(crate) fn deliver(
        &mut self,
        tenant: &mut Tenant,
        turn: &mut Turn<'_>,
        from: Option<ConnId>,
        publish: &Publish<'_>,
    ) -> Outcome {
        self.plan(tenant, turn, publish);
        let may_come_again_as_new = turn.provenance.is_some() || publish.qos == QoS::ExactlyOnce && from.is_some();
        let delivered = match may_come_again_as_new {
            true => self.deliver_or_refuse(tenant, turn, from, publish),
            false => Ok(self.deliver_each(tenant, turn, from, publish)),
        };
        let calls = std::mem::take(&mut self.calls);
        if delivered.is_ok() {
            for call in calls {
                calls::start_unattended(tenant, turn, &call.device, &call.name, &call.payload);
            }
        }
        delivered.unwrap_or_else(|refused| refused)
    }

    /// Notes all copies that the message asks for, and theirs in turn.
    fn plan(&mut self, tenant: &Tenant, turn: &mut Turn<'_>, publish: &Publish<'_>) {
        self.topics.clear();
        self.copies.clear();
        self.upstream.clear();
        self.evaluate(tenant, turn, publish, publish.topic, None, 0);
        let (mut next, mut start) = (0, 0);
        while let Some(&(end, hops)) = self.copies.get(next) {
            let mut topic = std::mem::take(&mut self.topic);
            topic.clear();
            topic.push_str(&self.topics[start..end]);
            self.evaluate(tenant, turn, publish, &topic, Some(next), hops);
            self.topic = topic;
            (next, start) = (next + 1, end);
        }
    }

    /// Notes the copies of the message on one topic, and its calls.
    fn evaluate(
        &mut self,
        tenant: &Tenant,
        turn: &mut Turn<'_>,
        publish: &Publish<'_>,
        topic: &str,
        copy: Option<usize>,
        hops: u8,
    ) {
        let view = View {
            publish,
            labels: turn.labels.snapshot.load(),
            tenant: &tenant.name,
        };
        let Routing {
            routes,
            topics,
            copies,
            calls,
            queues,
            upstream,
            ..
        } = self;
        let message = Message {
            topic,
            payload: publish.payload,
            hops,
        };
        routes.evaluate(message, &view, |delivery| match delivery.action {
            Action::Publish { topic } if copies.len() < COPIES_MAX => {
                topics.push_str(topic);
                copies.push((topics.len(), delivery.hops));
            }
            Action::Publish { .. } => turn.counters.copies_over_limit += 1,
            Action::Call { device, name, payload } => {
                calls.push(Call {
                    device: device.into(),
                    name: name.into(),
                    payload: payload.into(),
                });
            }
            Action::Upstream { route } => {
                if let Some(&(priority, queue)) = queues.get(route) {
                    depart(upstream, Departure { copy, priority, queue });
                }
            }
        });
    }

    /// The copies, as they are published.
    fn copies_of<'a>(&'a self, publish: &Publish<'a>) -> impl Iterator<Item = Publish<'a>> {
        let mut start = 0;
        self.copies.iter().map(move |&(end, _)| {
            let topic = &self.topics[start..end];
            start = end;
            Publish {
                topic,
                retain: false,
                ..publish.clone()
            }
        })
    }

    /// Messages that leave the hub, each with its queue.
    fn departures_of<'a>(&'a self, publish: &'a Publish<'a>) -> impl Iterator<Item = (u32, Publish<'a>)> {
        self.upstream.iter().map(move |departure| {
            let message = match departure.copy {
                None => publish.clone(),
                Some(at) => self.copies_of(publish).nth(at).expect("a copy that was planned"),
            };
            (departure.queue, message)
        })
    }

    /// Delivers the message, then its copies, and sends them upstream: each as well as it goes, since nobody minds to
    /// have it twice when it comes again.
    fn deliver_each(
        &self,
        tenant: &mut Tenant,
        turn: &mut Turn<'_>,
        from: Option<ConnId>,
        publish: &Publish<'_>,
    ) -> Outcome {
        let mut outcome = pipeline::deliver(tenant, turn, from, publish);
        for copy in self.copies_of(publish) {
            outcome = outcome.and(pipeline::deliver(tenant, turn, from, &copy));
        }
        for (queue, message) in self.departures_of(publish) {
            outcome = outcome.and(upstream::send(tenant, turn, queue, &message));
        }
        outcome
    }

    /// Sends upstream what leaves of a message that comes again as a new one if it is refused: one of QoS 2, or of
    /// another hub; then delivers its copies, then the message itself. If one is refused before anybody has another,
    /// all are (the error), and it may come again. After that a refusal would bring some of them twice: what is refused
    /// then is lost, and counted.
    fn deliver_or_refuse(
        &self,
        tenant: &mut Tenant,
        turn: &mut Turn<'_>,
        from: Option<ConnId>,
        publish: &Publish<'_>,
    ) -> Result<Outcome, Outcome> {
        let mut taken = Taken::default();
        for (queue, message) in self.departures_of(publish) {
            let outcome = upstream::send(tenant, turn, queue, &message);
            taken.add(turn, outcome)?;
        }
        for one in self.copies_of(publish).chain([publish.clone()]) {
            let outcome = pipeline::deliver(tenant, turn, from, &one);
            taken.add(turn, outcome)?;
        }
        Ok(taken.0)
    }
}

/// What became so far of the parts of a message that is taken as a whole or not at all.
struct Taken(Outcome);

impl Default for Taken {
    fn default() -> Self {
        Self(Outcome::now(ReasonCode::NoMatchingSubscribers))
    }
}

impl Taken {
    /// One more part; the error if it was refused before any was taken.
    fn add(&mut self, turn: &mut Turn<'_>, part: Outcome) -> Result<(), Outcome> {
        if !part.reason.is_error() {
            self.0 = self.0.and(part);
        } else if self.0.reason == ReasonCode::NoMatchingSubscribers {
            return Err(part);
        } else {
            turn.counters.copies_refused += 1;
        }
        Ok(())
    }
}

/// Notes where a message leaves by, once: by the route of the highest priority that sends it.
fn depart(upstream: &mut Vec<Departure>, new: Departure) {
    match upstream.iter_mut().find(|noted| noted.copy == new.copy) {
        None => upstream.push(new),
        Some(noted) if noted.priority == Priority::Normal && new.priority == Priority::High => *noted = new,
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use identity::{
        ClientKind, ClientName, Credential, HeldCredential, IdentityOptions, Labels, NewClient, Principal,
        PrincipalKind,
    };

    use super::*;

    #[test]
    fn a_login_that_was_checked_before_its_removal_is_found_out() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Arc::new(Identity::open(directory.path(), IdentityOptions::default(), 0).unwrap());
        let add = |id: &str| {
            let new = NewClient {
                name: ClientName::new("default", id).unwrap(),
                kind: ClientKind::Device,
                labels: Labels::new(),
                credential: Credential::TrustedSubject,
                edge: None,
            };
            identity.add(&new, 0).unwrap();
            let principal = Principal {
                tenant: "default".into(),
                kind: PrincipalKind::Device,
                id: id.into(),
            };
            Peer {
                principal,
                proofs: [HeldCredential::TrustedSubject].into(),
                address: None,
            }
        };
        let (gone, stays) = (add("pump-7"), add("pump-8"));
        let labels = LabelSource::new(&identity).unwrap();
        let seen = identity.registry().last_change();
        assert!(!labels.is_revoked_since(seen, &gone));
        identity
            .registry()
            .remove(&ClientName::new("default", "pump-7").unwrap())
            .unwrap();
        assert!(labels.is_revoked_since(seen, &gone));
        assert!(!labels.is_revoked_since(seen, &stays));
    }
}
