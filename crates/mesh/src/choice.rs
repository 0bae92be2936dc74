//! Which node a connection or a request goes to, of those that have the service, and which endpoint of this one.

use std::borrow::{Borrow, BorrowMut};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use balance::scale::Demand;
use balance::{Chooser, Endpoint, Node, Policy, share};
use tokio::time::Instant;

use crate::budget::Budget;
use crate::door::Way;
use crate::figures::{Late, OfNode, OfService, Spilled};
use crate::health::Health;
use crate::held;
use crate::nodes::{Call, Elsewhere, Near};

/// Where one goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum To {
    /// To somebody of this node.
    Here,
    /// To whom another one finds there.
    Node(Arc<str>),
}

/// Why one does not stay on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spill {
    /// Nobody is ready here.
    NobodyReady,
    /// Nobody here had it.
    Failed,
    /// The policy chose another one.
    Policy,
}

/// What a door's connections and requests are spread by.
pub(crate) struct Choice {
    since: Instant,
    chooser: Option<(Policy, Chooser)>,
    /// This node, and the others in the order of `way.elsewhere`; nobody before the first one comes: most doors sleep.
    nodes: Vec<KnownNode>,
    /// Those of this node, in the order of `way.backends`.
    endpoints: Vec<KnownEndpoint>,
    /// Requests at those that nobody is led to any more.
    leaving: BTreeMap<SocketAddrV4, u32>,
    spilled: Spilled,
    refused: u64,
    late: Late,
    budget: Budget,
    way: Way,
    near: Arc<Near>,
    /// Requests that other nodes have sent here.
    sent_here: BTreeMap<String, u32>,
    /// Requests, of whoever they came from, whose answer has not begun, and connections that nobody has yet.
    waiting: u32,
    /// Requests whose answer has begun, and how long that took of all of them together.
    answered: u64,
    took_s: f64,
    /// Until then a node or an endpoint may be out.
    out_until: Duration,
    /// Until then one may be new, where one has been.
    new_until: Option<Duration>,
    /// Who is there from now on is new.
    is_followed: bool,
}

struct KnownNode {
    to: To,
    node: Node,
    health: Health,
    figures: OfNode,
    /// Endpoints of another node that were not there before, and since when they are.
    new: u32,
    new_since: Duration,
}

struct KnownEndpoint {
    at: SocketAddrV4,
    endpoint: Endpoint,
    health: Health,
    /// `None`: it was there before anybody looked.
    ready_since: Option<Duration>,
}

/// One that is at a node, for as long as this is kept.
pub(crate) struct InFlight {
    choice: Arc<Mutex<Choice>>,
    to: To,
    load: f32,
    spilled: Option<Spill>,
    waits: Waits,
}

/// One that is at an endpoint of this node, for as long as this is kept.
pub(crate) struct AtEndpoint {
    choice: Arc<Mutex<Choice>>,
    pub(crate) at: SocketAddrV4,
}

/// One that another node has sent here, for as long as this is kept.
pub(crate) struct SentHere {
    choice: Arc<Mutex<Choice>>,
    node: String,
    waits: Waits,
}

/// Whether one counts among those that wait.
struct Waits(AtomicBool);

impl Spill {
    /// As it is in figures and in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Spill::NobodyReady => "nobody-ready",
            Spill::Failed => "failed",
            Spill::Policy => "policy",
        }
    }
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            since: Instant::now(),
            chooser: None,
            nodes: Vec::new(),
            endpoints: Vec::new(),
            leaving: BTreeMap::new(),
            spilled: Spilled::default(),
            refused: 0,
            late: Late::default(),
            budget: Budget::default(),
            way: Way::default(),
            near: Arc::default(),
            sent_here: BTreeMap::new(),
            waiting: 0,
            answered: 0,
            took_s: 0.0,
            out_until: Duration::ZERO,
            new_until: None,
            is_followed: false,
        }
    }
}

impl Choice {
    /// Where one goes that nobody of those who `failed` had; `None`: nobody is left. Where all sleep, those of this node
    /// are woken, and else those of another.
    pub(crate) fn choose(
        choice: &Arc<Mutex<Self>>,
        way: &Way,
        near: &Arc<Near>,
        failed: &BTreeMap<To, String>,
    ) -> Option<InFlight> {
        let mut held = held(choice);
        held.follow(way, near);
        let place = held.next(failed)?;
        let is_ready_here = held.nodes[0].node.endpoints > 0;
        let spilled = (place > 0).then(|| match (failed.contains_key(&To::Here), is_ready_here) {
            (true, _) => Spill::Failed,
            (false, false) => Spill::NobodyReady,
            (false, true) => Spill::Policy,
        });
        match spilled {
            Some(Spill::Failed) => held.spilled.failed += 1,
            Some(Spill::NobodyReady) => held.spilled.nobody_ready += 1,
            Some(Spill::Policy) => held.spilled.policy += 1,
            None => {}
        }
        if failed.is_empty() {
            held.budget.earn();
        }
        let known = &mut held.nodes[place];
        let load = known.node.load_with_one_more();
        known.node.in_flight += 1;
        known.figures.led += 1;
        let to = known.to.clone();
        held.waiting += 1;
        Some(InFlight {
            choice: Arc::clone(choice),
            to,
            load,
            spilled,
            waits: Waits(AtomicBool::new(true)),
        })
    }

    /// Which of the endpoints of this node has it, of those that did not fail; one that is out only where all others are.
    pub(crate) fn endpoint(choice: &Arc<Mutex<Self>>, way: &Way, failed: &[SocketAddrV4]) -> Option<AtEndpoint> {
        let mut held = held(choice);
        held.follow_endpoints(way);
        let now = held.since.elapsed();
        held.warm(now);
        let is_any_out = now < held.out_until;
        let Choice { endpoints, chooser, .. } = &mut *held;
        let chooser = chooser_of(chooser, way.terms.policy);
        let place = match failed.is_empty() && !is_any_out {
            true => chooser.endpoint(endpoints, &mut rand::rng()),
            false => {
                for known in &mut *endpoints {
                    known.endpoint.is_left_out = failed.contains(&known.at) || known.health.is_out(now);
                }
                let in_health = chooser.endpoint(endpoints, &mut rand::rng());
                for known in &mut *endpoints {
                    known.endpoint.is_left_out = failed.contains(&known.at);
                }
                let place = in_health.or_else(|| chooser.endpoint(endpoints, &mut rand::rng()));
                endpoints
                    .iter_mut()
                    .for_each(|known| known.endpoint.is_left_out = false);
                place
            }
        }?;
        endpoints[place].endpoint.in_flight += 1;
        Some(AtEndpoint {
            choice: Arc::clone(choice),
            at: endpoints[place].at,
        })
    }

    /// Nobody had one.
    pub(crate) fn refuse(choice: &Mutex<Self>) {
        held(choice).refused += 1;
    }

    /// One had no answer in time, which the service sets, or who asks.
    pub(crate) fn late(choice: &Mutex<Self>, is_of_service: bool) {
        let late = &mut held(choice).late;
        match is_of_service {
            true => late.service += 1,
            false => late.caller += 1,
        }
    }

    /// Whether one may be asked once more, though somebody may have seen it: which it is then.
    pub(crate) fn may_repeat(choice: &Mutex<Self>) -> bool {
        held(choice).budget.spend()
    }

    /// One that a node has sent, and how many there are here beside those of that node.
    pub(crate) fn take(choice: &Arc<Mutex<Self>>, node: &str) -> (SentHere, u32) {
        let mut held = held(choice);
        held.know_own();
        *held.sent_here.entry(node.to_owned()).or_default() += 1;
        let of_node = held.sent_here[node];
        let own = &mut held.nodes[0].node;
        own.of_others += 1;
        let beside = own.in_flight + own.of_others - of_node;
        let sent = SentHere {
            choice: Arc::clone(choice),
            node: node.to_owned(),
            waits: Waits(AtomicBool::new(true)),
        };
        held.waiting += 1;
        (sent, beside)
    }

    /// Knows of the same nodes as `way`.
    pub(crate) fn follow(&mut self, way: &Way, near: &Arc<Near>) {
        let is_followed = self.is_followed;
        self.follow_endpoints(way);
        if !Arc::ptr_eq(&self.way.elsewhere, &way.elsewhere) {
            let known = self.nodes.drain(1..);
            let mut known: BTreeMap<To, KnownNode> = known.map(|known| (known.to.clone(), known)).collect();
            for other in &*way.elsewhere {
                let to = To::Node(Arc::clone(&other.node));
                self.nodes.push(known.remove(&to).unwrap_or_else(|| KnownNode::new(to)));
            }
            self.way.elsewhere = Arc::clone(&way.elsewhere);
            self.near = Arc::default();
        }
        if !Arc::ptr_eq(&self.near, near) {
            let now = self.since.elapsed();
            let is_slow = is_followed && !way.terms.slow_start.is_zero();
            for (other, known) in way.elsewhere.iter().zip(&mut self.nodes[1..]) {
                let near = near.get(&*other.node);
                let endpoints: u32 = near.map_or(0, |_| other.has.endpoints.into());
                let more = endpoints.saturating_sub(known.node.endpoints);
                if is_slow && more > 0 {
                    (known.new, known.new_since) = (known.new + more, now);
                    self.new_until = Some(now + way.terms.slow_start);
                }
                known.new = known.new.min(endpoints);
                known.node.endpoints = endpoints;
                known.node.distance = near.copied().flatten().unwrap_or_default();
            }
            self.near = Arc::clone(near);
        }
        self.way.sleepers = Arc::clone(&way.sleepers);
    }

    fn know_own(&mut self) {
        if self.nodes.is_empty() {
            self.nodes.push(KnownNode::new(To::Here));
        }
    }

    /// Whether requests are under way to an endpoint that nobody is led to any more.
    pub(crate) fn is_leaving(&self, address: Ipv4Addr) -> bool {
        self.leaving.keys().any(|at| *at.ip() == address)
    }

    /// What is under way to endpoints that are not in `way` any more counts on.
    pub(crate) fn lead_to(&mut self, way: &Way) {
        if !self.nodes.is_empty() {
            self.follow_endpoints(way);
        }
    }

    /// Knows of the same endpoints of this node as `way`.
    fn follow_endpoints(&mut self, way: &Way) {
        self.know_own();
        self.way.terms = way.terms;
        if Arc::ptr_eq(&self.way.backends, &way.backends) {
            return;
        }
        let now = self.since.elapsed();
        let is_slow = self.is_followed && !way.terms.slow_start.is_zero();
        let known = self.endpoints.drain(..).map(|known| (known.at, known));
        let mut known: BTreeMap<SocketAddrV4, KnownEndpoint> = known.collect();
        for at in &*way.backends {
            let endpoint = known.remove(at).unwrap_or_else(|| {
                self.new_until = self.new_until.max(is_slow.then(|| now + way.terms.slow_start));
                KnownEndpoint {
                    at: *at,
                    endpoint: Endpoint {
                        in_flight: self.leaving.remove(at).unwrap_or_default(),
                        ..Endpoint::default()
                    },
                    health: Health::default(),
                    ready_since: is_slow.then_some(now),
                }
            });
            self.endpoints.push(endpoint);
        }
        let gone = known.into_values().filter(|known| known.endpoint.in_flight > 0);
        self.leaving
            .extend(gone.map(|known| (known.at, known.endpoint.in_flight)));
        self.way.backends = Arc::clone(&way.backends);
        self.nodes[0].node.endpoints = way.backends.len() as u32;
        self.is_followed = true;
    }

    /// Knows what those that are new can do by now.
    fn warm(&mut self, now: Duration) {
        let Some(until) = self.new_until else { return };
        let slow_start = self.way.terms.slow_start;
        for known in &mut self.endpoints {
            let ready_since = known.ready_since;
            known.endpoint.share = ready_since.map_or(1.0, |since| share(now.saturating_sub(since), slow_start));
        }
        let [here, others @ ..] = &mut *self.nodes else { return };
        let own: f32 = self.endpoints.iter().map(|known| known.endpoint.share).sum();
        here.node.share = match self.endpoints.len() {
            0 => 1.0,
            count => own / count as f32,
        };
        for known in others {
            let cold = 1.0 - share(now.saturating_sub(known.new_since), slow_start);
            known.node.share = 1.0 - known.new as f32 * cold / known.node.endpoints.max(1) as f32;
        }
        if now >= until {
            self.nodes.iter_mut().for_each(|known| known.new = 0);
            self.new_until = None;
        }
    }

    fn next(&mut self, failed: &BTreeMap<To, String>) -> Option<usize> {
        if self.way.elsewhere.is_empty() {
            return (!failed.contains_key(&To::Here)).then_some(0);
        }
        let now = self.since.elapsed();
        self.warm(now);
        let Choice { nodes, chooser, .. } = self;
        let chooser = chooser_of(chooser, self.way.terms.policy);
        if failed.is_empty() && now >= self.out_until {
            let chosen = chooser.node(nodes, now, &mut rand::rng());
            return chosen.or_else(|| self.asleep(failed));
        }
        for known in &mut *nodes {
            known.node.is_left_out = failed.contains_key(&known.to) || known.health.is_out(now);
        }
        let in_health = chooser.node(nodes, now, &mut rand::rng());
        for known in &mut *nodes {
            known.node.is_left_out = failed.contains_key(&known.to);
        }
        let chosen = in_health.or_else(|| chooser.node(nodes, now, &mut rand::rng()));
        nodes.iter_mut().for_each(|known| known.node.is_left_out = false);
        chosen.or_else(|| self.asleep(failed))
    }

    /// The first one where somebody sleeps who has not failed.
    fn asleep(&self, failed: &BTreeMap<To, String>) -> Option<usize> {
        let wakes_here = !self.way.sleepers.is_empty();
        let others = self.way.elsewhere.iter();
        let others = others.map(|other| other.has.wakes && self.near.contains_key(&*other.node));
        let wake = std::iter::once(wakes_here).chain(others);
        let mut asleep = self.nodes.iter().zip(wake);
        asleep.position(|(known, wakes)| wakes && !failed.contains_key(&known.to))
    }

    /// What comes to the endpoints here, or would if there were enough: all that came in at this node, and those of nodes
    /// that can have no more endpoints themselves.
    pub(crate) fn demand(&self, elsewhere: &[Elsewhere]) -> Demand {
        let own: u32 = self.nodes.iter().map(|known| known.node.in_flight).sum();
        let grows = |node: &str| {
            let mut others = elsewhere.iter();
            others.any(|other| *other.node == *node && other.has.grows)
        };
        let sent = self.sent_here.iter().filter(|(node, _)| !grows(node));
        let sent: u32 = sent.map(|(_, count)| count).sum();
        Demand {
            under_way: (own + sent) as f32,
            waiting: self.waiting.min(own + sent) as f32,
            answered: self.answered,
            took_s: self.took_s,
        }
    }

    /// What was led where.
    pub(crate) fn figures(&self, of: &Call) -> OfService {
        let nodes = self.nodes.iter().map(|known| OfNode {
            in_flight: known.node.in_flight,
            ..known.figures.clone()
        });
        OfService {
            tenant: of.tenant.clone(),
            service: of.service.clone(),
            port: of.port,
            policy: self.way.terms.policy.name(),
            nodes: nodes.collect(),
            spilled: self.spilled,
            refused: self.refused,
            late: self.late,
        }
    }

    /// Its answer begins, which took so long, where it is known to be one; or it is over, or nobody looks for one.
    fn begins(&mut self, waits: &Waits, took: Option<Duration>) {
        if waits.0.swap(false, Ordering::Relaxed) {
            self.waiting -= 1;
            self.answered += u64::from(took.is_some());
            self.took_s += took.map_or(0.0, |took| took.as_secs_f64());
        }
    }

    fn known_endpoint(&mut self, at: SocketAddrV4) -> Option<&mut KnownEndpoint> {
        self.endpoints.iter_mut().find(|known| known.at == at)
    }

    fn known(&mut self, to: &To) -> Option<&mut KnownNode> {
        self.nodes.iter_mut().find(|known| known.to == *to)
    }
}

fn chooser_of(chooser: &mut Option<(Policy, Chooser)>, policy: Policy) -> &mut Chooser {
    let made = chooser.take().filter(|(of, _)| *of == policy);
    let made = made.unwrap_or_else(|| (policy, Chooser::new(policy, &mut rand::rng())));
    &mut chooser.insert(made).1
}

impl KnownNode {
    fn new(to: To) -> Self {
        let node = match &to {
            To::Here => None,
            To::Node(name) => Some(name.as_ref().to_owned()),
        };
        KnownNode {
            node: Node::new(to == To::Here, Duration::ZERO, 0),
            to,
            health: Health::default(),
            figures: OfNode {
                node,
                ..OfNode::default()
            },
            new: 0,
            new_since: Duration::ZERO,
        }
    }
}

impl Borrow<Node> for KnownNode {
    fn borrow(&self) -> &Node {
        &self.node
    }
}

impl BorrowMut<Node> for KnownNode {
    fn borrow_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

impl Borrow<Endpoint> for KnownEndpoint {
    fn borrow(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl BorrowMut<Endpoint> for KnownEndpoint {
    fn borrow_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }
}

impl InFlight {
    pub(crate) fn to(&self) -> &To {
        &self.to
    }

    /// Why it does not stay on this node, where it does not.
    pub(crate) fn spilled(&self) -> Option<Spill> {
        self.spilled
    }

    /// It was answered, and took so long; beside those of this door the node had so many then.
    pub(crate) fn answered(&self, took: Duration, of_others: Option<u32>) {
        let mut choice = held(&self.choice);
        let now = choice.since.elapsed();
        if let Some(known) = choice.known(&self.to) {
            known.node.answers.observe(self.load, took, now);
            known.node.of_others = of_others.unwrap_or(known.node.of_others);
            known.figures.answers.add(took);
            known.health.answered();
        }
        choice.begins(&self.waits, Some(took));
    }

    /// Somebody there had it.
    pub(crate) fn reached(&self) {
        let mut choice = held(&self.choice);
        if let Some(known) = choice.known(&self.to) {
            known.health.answered();
        }
        choice.begins(&self.waits, None);
    }

    /// Nobody there had it, or answered.
    pub(crate) fn failed(&self) {
        let mut choice = held(&self.choice);
        let now = choice.since.elapsed();
        if let Some(known) = choice.known(&self.to) {
            known.figures.failed += 1;
            known.health.failed(now);
            let until = known.health.out_until();
            choice.out_until = choice.out_until.max(until);
        }
    }
}

// What has been forgotten meanwhile, and is known anew, has none of before.

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut choice = held(&self.choice);
        if let Some(known) = choice.known(&self.to) {
            known.node.in_flight = known.node.in_flight.saturating_sub(1);
        }
        choice.begins(&self.waits, None);
    }
}

impl AtEndpoint {
    /// It has answered.
    pub(crate) fn answered(&self) {
        if let Some(known) = held(&self.choice).known_endpoint(self.at) {
            known.health.answered();
        }
    }

    /// It could not be reached, or did not answer as it should.
    pub(crate) fn failed(&self) {
        let mut choice = held(&self.choice);
        let now = choice.since.elapsed();
        if let Some(known) = choice.known_endpoint(self.at) {
            known.health.failed(now);
            let until = known.health.out_until();
            choice.out_until = choice.out_until.max(until);
        }
    }
}

impl Drop for AtEndpoint {
    fn drop(&mut self) {
        let mut choice = held(&self.choice);
        if let Some(known) = choice.known_endpoint(self.at) {
            known.endpoint.in_flight = known.endpoint.in_flight.saturating_sub(1);
        } else if let Some(in_flight) = choice.leaving.get_mut(&self.at) {
            *in_flight -= 1;
            if *in_flight == 0 {
                choice.leaving.remove(&self.at);
            }
        }
    }
}

impl SentHere {
    /// It was answered here, and took so long.
    pub(crate) fn answered(&self, took: Duration) {
        held(&self.choice).begins(&self.waits, Some(took));
    }

    /// Somebody here had it.
    pub(crate) fn reached(&self) {
        held(&self.choice).begins(&self.waits, None);
    }
}

impl Drop for SentHere {
    fn drop(&mut self) {
        let mut choice = held(&self.choice);
        choice.nodes[0].node.of_others -= 1;
        choice.begins(&self.waits, None);
        if let Some(count) = choice.sent_here.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                choice.sent_here.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests;
