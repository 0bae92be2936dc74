//! Routes at work: the copies that a message's routes ask for, and theirs in turn, each within the bound on hops.

use std::sync::Arc;

use arc_swap::ArcSwap;
use broker::Position;
use identity::{Identity, Principal, Quotas, Snapshot};
use mqtt::{Publish, ReasonCode};
use route::{Action, CompiledRoute, Lookup, Message, Routes};

use crate::calls;
use crate::pipeline::{self, Outcome};
use crate::shard::control::RouteInfo;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Copies that one message may become in all; more are dropped and counted.
const COPIES_MAX: usize = 1_024;

/// The labels of all devices and the quotas of all tenants, as of the last refresh; read without a lock.
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

    pub(crate) fn refresh(&self) -> Result<(), identity::RegistryError> {
        self.snapshot.store(self.identity.registry().snapshot()?);
        Ok(())
    }

    /// What a tenant may use.
    pub(crate) fn quotas(&self, tenant: &str) -> Quotas {
        self.snapshot.load().quotas(tenant).copied().unwrap_or_default()
    }

    /// Whether a credential of `who` was revoked after change number `seen` of the registry, or may have been.
    pub(crate) fn is_revoked_since(&self, seen: u64, who: &Principal) -> bool {
        let registry = self.identity.registry();
        if registry.last_change() == seen {
            return false;
        }
        let is_theirs = |change: &identity::Change| {
            change.what.ends_connections() && change.tenant == who.tenant && change.id.as_ref() == Some(&who.id)
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
}

impl Routing {
    /// Whether there are no routes.
    pub(crate) fn is_idle(&self) -> bool {
        self.routes.names().next().is_none()
    }

    /// Exchanges all routes. Those that are as they were go on counting.
    pub(crate) fn replace(&mut self, routes: Vec<CompiledRoute>) {
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

/// Sends the copies of a message that has been delivered to its own subscribers. The outcome is of all copies together.
pub(crate) fn copy(tenant: &mut Tenant, turn: &mut Turn<'_>, publish: &Publish<'_>) -> Outcome {
    let mut outcome = Outcome {
        reason: ReasonCode::NoMatchingSubscribers,
        after: Position::default(),
    };
    let mut routing = std::mem::take(&mut tenant.routing);
    routing.topics.clear();
    routing.copies.clear();
    evaluate(&mut routing, tenant, turn, publish, 0);
    let (mut next, mut start) = (0, 0);
    while let Some(&(end, hops)) = routing.copies.get(next) {
        let mut topic = std::mem::take(&mut routing.topic);
        topic.clear();
        topic.push_str(&routing.topics[start..end]);
        let copy = Publish {
            topic: &topic,
            retain: false,
            ..publish.clone()
        };
        let delivered = pipeline::deliver(tenant, turn, None, &copy);
        outcome.after = outcome.after.max(delivered.after);
        if delivered.reason != ReasonCode::NoMatchingSubscribers {
            outcome.reason = delivered.reason;
        }
        evaluate(&mut routing, tenant, turn, &copy, hops);
        routing.topic = topic;
        (next, start) = (next + 1, end);
    }
    tenant.routing = routing;
    outcome
}

/// Notes the copies of one message, and makes the calls.
fn evaluate(routing: &mut Routing, tenant: &mut Tenant, turn: &mut Turn<'_>, publish: &Publish<'_>, hops: u8) {
    let name = Arc::clone(&tenant.name);
    let view = View {
        publish,
        labels: turn.labels.snapshot.load(),
        tenant: &name,
    };
    let Routing {
        routes, topics, copies, ..
    } = routing;
    let mut asked: Vec<Call> = Vec::new();
    let message = Message {
        topic: publish.topic,
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
            asked.push(Call {
                device: device.into(),
                name: name.into(),
                payload: payload.into(),
            });
        }
    });
    for call in asked {
        calls::start_unattended(tenant, turn, &call.device, &call.name, &call.payload);
    }
}

#[cfg(test)]
mod tests {
    use identity::{ClientKind, ClientName, Credential, IdentityOptions, Labels, NewClient, PrincipalKind};

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
            };
            identity.add(&new, 0).unwrap();
            Principal {
                tenant: "default".into(),
                kind: PrincipalKind::Device,
                id: id.into(),
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
