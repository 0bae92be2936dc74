//! Which node a connection or a request goes to, of those that have the service, and which endpoint of this one.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use balance::scale::Demand;
use balance::{Chooser, Node, Policy};
use tokio::time::Instant;

use crate::budget::Budget;
use crate::door::Way;
use crate::figures::{Answers, OfNode, OfService, Spilled};
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

/// What a door's connections and requests are spread by.
pub(crate) struct Choice {
    since: Instant,
    chooser: Option<(Policy, Chooser)>,
    /// This node, and the others in the order of `way.elsewhere`; nobody before the first one comes: most doors sleep.
    tos: Vec<To>,
    nodes: Vec<Node>,
    health: Vec<Health>,
    figures: Vec<OfNode>,
    spilled: Spilled,
    refused: u64,
    budget: Budget,
    way: Way,
    near: Arc<Near>,
    /// Requests that other nodes have sent here.
    sent_here: BTreeMap<String, u32>,
    /// How long answers to those took.
    sent_answers: Answers,
    /// Requests at each endpoint of this node, in the order of `way.backends`.
    endpoints: Vec<u32>,
    endpoint_health: Vec<Health>,
    /// Requests at those that nobody is led to any more.
    leaving: BTreeMap<SocketAddrV4, u32>,
    /// Until then a node or an endpoint may be out.
    out_until: Duration,
}

/// One that is at a node, for as long as this is kept.
pub(crate) struct InFlight {
    choice: Arc<Mutex<Choice>>,
    to: To,
    load: f32,
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
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            since: Instant::now(),
            chooser: None,
            tos: Vec::new(),
            nodes: Vec::new(),
            health: Vec::new(),
            figures: Vec::new(),
            spilled: Spilled::default(),
            refused: 0,
            budget: Budget::default(),
            way: Way::default(),
            near: Arc::default(),
            sent_here: BTreeMap::new(),
            sent_answers: Answers::default(),
            endpoints: Vec::new(),
            endpoint_health: Vec::new(),
            leaving: BTreeMap::new(),
            out_until: Duration::ZERO,
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
        if place > 0 {
            let is_ready_here = held.nodes[0].endpoints > 0;
            match (failed.contains_key(&To::Here), is_ready_here) {
                (true, _) => held.spilled.failed += 1,
                (false, false) => held.spilled.nobody_ready += 1,
                (false, true) => held.spilled.policy += 1,
            }
        }
        let load = held.nodes[place].load_with_one_more();
        held.nodes[place].in_flight += 1;
        held.figures[place].led += 1;
        if failed.is_empty() {
            held.budget.earn();
        }
        Some(InFlight {
            choice: Arc::clone(choice),
            to: held.tos[place].clone(),
            load,
        })
    }

    /// Which of the endpoints of this node has it, of those that did not fail; one that is out only where all others are.
    pub(crate) fn endpoint(choice: &Arc<Mutex<Self>>, way: &Way, failed: &[SocketAddrV4]) -> Option<AtEndpoint> {
        let mut held = held(choice);
        held.follow_endpoints(way);
        let now = held.since.elapsed();
        let is_any_out = now < held.out_until;
        let Choice {
            endpoints,
            chooser,
            endpoint_health,
            ..
        } = &mut *held;
        let chooser = chooser_of(chooser, way.policy);
        let place = match failed.is_empty() && !is_any_out {
            true => chooser.endpoint(endpoints, &mut rand::rng())?,
            false => {
                let left = (0..endpoints.len()).filter(|place| !failed.contains(&way.backends[*place]));
                let mut left: Vec<usize> = left.collect();
                if left.iter().any(|place| !endpoint_health[*place].is_out(now)) {
                    left.retain(|place| !endpoint_health[*place].is_out(now));
                }
                let in_flight: Vec<u32> = left.iter().map(|place| endpoints[*place]).collect();
                left[chooser.endpoint(&in_flight, &mut rand::rng())?]
            }
        };
        endpoints[place] += 1;
        Some(AtEndpoint {
            choice: Arc::clone(choice),
            at: way.backends[place],
        })
    }

    /// Nobody had one.
    pub(crate) fn refuse(choice: &Mutex<Self>) {
        held(choice).refused += 1;
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
        held.nodes[0].of_others += 1;
        let of_node = held.sent_here[node];
        let beside = held.nodes[0].in_flight + held.nodes[0].of_others - of_node;
        let sent = SentHere {
            choice: Arc::clone(choice),
            node: node.to_owned(),
        };
        (sent, beside)
    }

    /// Knows of the same nodes as `way`.
    fn follow(&mut self, way: &Way, near: &Arc<Near>) {
        self.follow_endpoints(way);
        if !Arc::ptr_eq(&self.way.elsewhere, &way.elsewhere) {
            let known = self
                .nodes
                .drain(1..)
                .zip(self.health.drain(1..))
                .zip(self.figures.drain(1..));
            let mut known: BTreeMap<To, ((Node, Health), OfNode)> = self.tos.drain(1..).zip(known).collect();
            for other in &*way.elsewhere {
                let to = To::Node(Arc::clone(&other.node));
                let ((node, health), figures) = known.remove(&to).unwrap_or_else(|| {
                    let figures = OfNode {
                        node: Some(other.node.as_ref().to_owned()),
                        ..OfNode::default()
                    };
                    ((Node::new(false, Duration::ZERO, 0), Health::default()), figures)
                });
                self.figures.push(figures);
                self.health.push(health);
                self.nodes.push(node);
                self.tos.push(to);
            }
            self.way.elsewhere = Arc::clone(&way.elsewhere);
            self.near = Arc::default();
        }
        if !Arc::ptr_eq(&self.near, near) {
            for (other, node) in way.elsewhere.iter().zip(&mut self.nodes[1..]) {
                let near = near.get(&*other.node);
                node.endpoints = near.map_or(0, |_| other.has.endpoints.into());
                node.distance = near.copied().flatten().unwrap_or_default();
            }
            self.near = Arc::clone(near);
        }
        (self.way.policy, self.way.sleepers) = (way.policy, Arc::clone(&way.sleepers));
    }

    fn know_own(&mut self) {
        if self.tos.is_empty() {
            self.tos.push(To::Here);
            self.nodes.push(Node::new(true, Duration::ZERO, 0));
            self.health.push(Health::default());
            self.figures.push(OfNode::default());
        }
    }

    /// Whether requests are under way to an endpoint that nobody is led to any more.
    pub(crate) fn is_leaving(&self, address: Ipv4Addr) -> bool {
        self.leaving.keys().any(|at| *at.ip() == address)
    }

    /// What is under way to endpoints that are not in `way` any more counts on.
    pub(crate) fn lead_to(&mut self, way: &Way) {
        if !self.tos.is_empty() {
            self.follow_endpoints(way);
        }
    }

    /// Knows of the same endpoints of this node as `way`.
    fn follow_endpoints(&mut self, way: &Way) {
        self.know_own();
        if Arc::ptr_eq(&self.way.backends, &way.backends) {
            return;
        }
        let known = self.endpoints.drain(..).zip(self.endpoint_health.drain(..));
        let mut known: BTreeMap<SocketAddrV4, (u32, Health)> = self.way.backends.iter().copied().zip(known).collect();
        for at in &*way.backends {
            let back = self.leaving.remove(at).map(|in_flight| (in_flight, Health::default()));
            let (in_flight, health) = known.remove(at).or(back).unwrap_or_default();
            self.endpoints.push(in_flight);
            self.endpoint_health.push(health);
        }
        let gone = known.into_iter().filter(|(_, (in_flight, _))| *in_flight > 0);
        self.leaving.extend(gone.map(|(at, (in_flight, _))| (at, in_flight)));
        self.way.backends = Arc::clone(&way.backends);
        self.nodes[0].endpoints = way.backends.len() as u32;
    }

    fn next(&mut self, failed: &BTreeMap<To, String>) -> Option<usize> {
        let may_be = |to: &To| !failed.contains_key(to);
        if self.way.elsewhere.is_empty() {
            return may_be(&To::Here).then_some(0);
        }
        let now = self.since.elapsed();
        let chooser = chooser_of(&mut self.chooser, self.way.policy);
        let mut of_those = |may_be: &dyn Fn(usize) -> bool| {
            let nodes = self.nodes.iter().enumerate().map(|(place, node)| Node {
                endpoints: if may_be(place) { node.endpoints } else { 0 },
                ..node.clone()
            });
            chooser.node(&nodes.collect::<Vec<_>>(), now, &mut rand::rng())
        };
        let chosen = match failed.is_empty() && now >= self.out_until {
            true => chooser.node(&self.nodes, now, &mut rand::rng()),
            false => {
                let in_health = |place: usize| may_be(&self.tos[place]) && !self.health[place].is_out(now);
                of_those(&in_health).or_else(|| of_those(&|place| may_be(&self.tos[place])))
            }
        };
        chosen.or_else(|| {
            let wakes_here = !self.way.sleepers.is_empty();
            let others = self.way.elsewhere.iter();
            let others = others.map(|other| other.has.wakes && self.near.contains_key(&*other.node));
            let wake = std::iter::once(wakes_here).chain(others);
            let mut asleep = self.tos.iter().zip(wake);
            asleep.position(|(to, wakes)| wakes && may_be(to))
        })
    }

    /// What comes to the endpoints here, or would if there were enough: all that came in at this node, and those of nodes
    /// that can have no more endpoints themselves.
    pub(crate) fn demand(&self, elsewhere: &[Elsewhere]) -> Demand {
        let own: u32 = self.nodes.iter().map(|node| node.in_flight).sum();
        let grows = |node: &str| {
            let mut others = elsewhere.iter();
            others.any(|other| *other.node == *node && other.has.grows)
        };
        let sent = self.sent_here.iter().filter(|(node, _)| !grows(node));
        let sent: u32 = sent.map(|(_, count)| count).sum();
        let answers = || {
            self.figures
                .iter()
                .map(|of_node| &of_node.answers)
                .chain([&self.sent_answers])
        };
        Demand {
            under_way: (own + sent) as f32,
            answered: answers().map(Answers::count).sum(),
            took_s: answers().map(|answers| answers.sum_s).sum(),
        }
    }

    /// What was led where.
    pub(crate) fn figures(&self, of: &Call) -> OfService {
        let nodes = self.figures.iter().zip(&self.nodes).map(|(figures, node)| OfNode {
            in_flight: node.in_flight,
            ..figures.clone()
        });
        OfService {
            tenant: of.tenant.clone(),
            service: of.service.clone(),
            port: of.port,
            policy: self.way.policy.name(),
            nodes: nodes.collect(),
            spilled: self.spilled,
            refused: self.refused,
        }
    }

    fn endpoint_place(&self, at: SocketAddrV4) -> Option<usize> {
        self.way.backends.iter().position(|other| *other == at)
    }

    fn place(&self, to: &To) -> Option<usize> {
        self.tos.iter().position(|other| other == to)
    }
}

fn chooser_of(chooser: &mut Option<(Policy, Chooser)>, policy: Policy) -> &mut Chooser {
    let made = chooser.take().filter(|(of, _)| *of == policy);
    let made = made.unwrap_or_else(|| (policy, Chooser::new(policy, &mut rand::rng())));
    &mut chooser.insert(made).1
}

impl InFlight {
    pub(crate) fn to(&self) -> &To {
        &self.to
    }

    /// It was answered, and took so long; beside those of this door the node had so many then.
    pub(crate) fn answered(&self, took: Duration, of_others: Option<u32>) {
        let mut choice = held(&self.choice);
        let now = choice.since.elapsed();
        if let Some(place) = choice.place(&self.to) {
            let node = &mut choice.nodes[place];
            node.answers.observe(self.load, took, now);
            node.of_others = of_others.unwrap_or(node.of_others);
            choice.figures[place].answers.add(took);
            choice.health[place].answered();
        }
    }

    /// Somebody there had it.
    pub(crate) fn reached(&self) {
        let mut choice = held(&self.choice);
        if let Some(place) = choice.place(&self.to) {
            choice.health[place].answered();
        }
    }

    /// Nobody there had it, or answered.
    pub(crate) fn failed(&self) {
        let mut choice = held(&self.choice);
        let now = choice.since.elapsed();
        if let Some(place) = choice.place(&self.to) {
            choice.figures[place].failed += 1;
            choice.health[place].failed(now);
            choice.out_until = choice.out_until.max(choice.health[place].out_until());
        }
    }
}

// What has been forgotten meanwhile, and is known anew, has none of before.

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut choice = held(&self.choice);
        if let Some(place) = choice.place(&self.to) {
            let node = &mut choice.nodes[place];
            node.in_flight = node.in_flight.saturating_sub(1);
        }
    }
}

impl AtEndpoint {
    /// It has answered.
    pub(crate) fn answered(&self) {
        let mut choice = held(&self.choice);
        if let Some(place) = choice.endpoint_place(self.at) {
            choice.endpoint_health[place].answered();
        }
    }

    /// It could not be reached, or did not answer as it should.
    pub(crate) fn failed(&self) {
        let mut choice = held(&self.choice);
        let now = choice.since.elapsed();
        if let Some(place) = choice.endpoint_place(self.at) {
            choice.endpoint_health[place].failed(now);
            choice.out_until = choice.out_until.max(choice.endpoint_health[place].out_until());
        }
    }
}

impl Drop for AtEndpoint {
    fn drop(&mut self) {
        let mut choice = held(&self.choice);
        if let Some(place) = choice.endpoint_place(self.at) {
            choice.endpoints[place] = choice.endpoints[place].saturating_sub(1);
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
        held(&self.choice).sent_answers.add(took);
    }
}

impl Drop for SentHere {
    fn drop(&mut self) {
        let mut choice = held(&self.choice);
        choice.nodes[0].of_others -= 1;
        if let Some(count) = choice.sent_here.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                choice.sent_here.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Has;

    fn way(here: usize, elsewhere: &[(&str, u16, bool)], policy: Policy) -> Way {
        let elsewhere = elsewhere.iter().map(|(node, endpoints, wakes)| Elsewhere {
            node: (*node).into(),
            has: Has {
                endpoints: *endpoints,
                wakes: *wakes,
                grows: false,
            },
        });
        Way {
            backends: vec!["10.0.0.1:80".parse().unwrap(); here].into(),
            sleepers: Arc::default(),
            elsewhere: elsewhere.collect(),
            policy,
            is_no_http: false,
            is_told: true,
            scalers: Arc::default(),
        }
    }

    /// All of them, at no known distance.
    fn near() -> Arc<Near> {
        Arc::new(["one", "two", "three"].map(|node| (node.to_owned(), None)).into())
    }

    fn to(node: &str) -> To {
        To::Node(node.into())
    }

    fn chosen(way: &Way, failed: &[To]) -> Option<To> {
        let failed = failed.iter().map(|to| (to.clone(), "it fails".to_owned())).collect();
        Choice::choose(&Arc::default(), way, &near(), &failed).map(|chosen| chosen.to().clone())
    }

    #[test]
    fn it_stays_here_while_somebody_is_here_and_goes_to_each_of_the_others_that_has_not_failed() {
        let way = way(1, &[("one", 2, false), ("two", 0, true)], Policy::LocalFirst);
        assert_eq!(chosen(&way, &[]), Some(To::Here));
        assert_eq!(chosen(&way, &[To::Here]), Some(to("one")));
        assert_eq!(chosen(&way, &[To::Here, to("one")]), Some(to("two")));
        assert_eq!(chosen(&way, &[To::Here, to("one"), to("two")]), None);
    }

    #[test]
    fn a_node_that_is_not_near_has_none() {
        let way = way(0, &[("one", 2, false), ("four", 2, true)], Policy::RoundRobin);
        assert!((0..9).all(|_| chosen(&way, &[]) == Some(to("one"))));
        assert_eq!(chosen(&way, &[to("one")]), None);
    }

    #[test]
    fn where_no_other_node_has_it_all_go_to_those_here_once() {
        let way = way(0, &[], Policy::LocalFirst);
        assert_eq!(chosen(&way, &[]), Some(To::Here));
        assert_eq!(chosen(&way, &[To::Here]), None);
    }

    #[test]
    fn those_that_are_under_way_count() {
        let way = way(1, &[("one", 1, false)], Policy::LeastRequest);
        let choice = Arc::default();
        let next = || Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap();
        let [first, second] = [next(), next()];
        assert_ne!(first.to(), second.to());
        let only = first.to().clone();
        drop(first);
        assert_eq!(*next().to(), only);
        drop(second);
        assert!(held(&choice).nodes.iter().all(|known| known.in_flight == 0));
    }

    #[test]
    fn who_waits_here_for_longer_than_the_way_takes_goes_to_another_node() {
        let way = way(1, &[("one", 1, false)], Policy::LocalFirst);
        let choice = Arc::default();
        let next = || Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap();
        // The one endpoint takes 8 ms for each, one at a time; the way to the other 5 ms more.
        let alone = next();
        assert_eq!(*alone.to(), To::Here);
        alone.answered(Duration::from_millis(8), None);
        let second = next();
        second.answered(Duration::from_millis(16), None);
        let third = next();
        assert_eq!(*third.to(), to("one"));
        third.answered(Duration::from_millis(13), Some(0));
        drop((alone, second, third));
        assert_eq!(*next().to(), To::Here);
    }

    #[test]
    fn a_node_is_told_how_many_requests_others_than_it_have_here() {
        let way = way(1, &[("one", 1, false)], Policy::LocalFirst);
        let choice = Arc::default();
        let own = Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap();
        let (first, beside_first) = Choice::take(&choice, "one");
        let (second, beside_second) = Choice::take(&choice, "two");
        let (third, beside_third) = Choice::take(&choice, "one");
        assert_eq!([beside_first, beside_second, beside_third], [1, 2, 2]);
        drop((own, first, second, third));
        assert!(held(&choice).sent_here.is_empty());
    }

    #[test]
    fn an_endpoint_with_fewer_requests_has_the_next_and_one_that_failed_none() {
        let mut way = way(2, &[], Policy::LocalFirst);
        way.backends = ["10.0.0.1:80", "10.0.0.2:80"].map(|at| at.parse().unwrap()).into();
        let choice = Arc::default();
        let next = |failed: &[SocketAddrV4]| Choice::endpoint(&choice, &way, failed);
        let [first, second] = [next(&[]).unwrap(), next(&[]).unwrap()];
        assert_ne!(first.at, second.at);
        let (free, busy) = (first.at, second.at);
        drop(first);
        assert_eq!(next(&[]).unwrap().at, free);
        assert_eq!(next(&[free]).unwrap().at, busy);
        assert!(next(&[free, busy]).is_none());
        drop(second);
        assert_eq!(held(&choice).endpoints, [0, 0]);
    }

    #[test]
    fn what_comes_from_a_node_that_can_have_more_endpoints_itself_is_no_demand_here() {
        let mut way = way(1, &[("one", 1, false), ("two", 1, false)], Policy::RoundRobin);
        let mut others = way.elsewhere.to_vec();
        others[0].has.grows = true;
        way.elsewhere = others.into();
        let choice = Arc::default();
        // Wherever those are led that came in here, they are.
        let own = [(); 3].map(|()| Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap());
        let sent = ["one", "two", "three"].map(|node| Choice::take(&choice, node).0);
        let demand = || held(&choice).demand(&way.elsewhere);
        assert_eq!(demand().under_way, 5.0);
        own[0].answered(Duration::from_millis(250), None);
        sent[1].answered(Duration::from_millis(500));
        drop((own, sent));
        let all_over = Demand {
            under_way: 0.0,
            answered: 2,
            took_s: 0.75,
        };
        assert_eq!(demand(), all_over);
    }

    #[test]
    fn what_is_under_way_to_an_endpoint_that_leaves_counts_until_it_is_over() {
        let mut before = way(2, &[], Policy::LocalFirst);
        before.backends = ["10.0.0.1:80", "10.0.0.2:80"].map(|at| at.parse().unwrap()).into();
        let choice = Arc::default();
        let both = [(); 2].map(|()| Choice::endpoint(&choice, &before, &[]).unwrap());
        let after = way(1, &[], Policy::LocalFirst);
        held(&choice).lead_to(&after);
        let leaving = || ["10.0.0.1", "10.0.0.2"].map(|ip| held(&choice).is_leaving(ip.parse().unwrap()));
        assert_eq!(leaving(), [false, true]);
        held(&choice).lead_to(&before);
        assert_eq!(
            (leaving(), held(&choice).endpoints.clone()),
            ([false, false], vec![1, 1])
        );
        held(&choice).lead_to(&after);
        drop(both);
        assert_eq!((leaving(), held(&choice).endpoints.clone()), ([false, false], vec![0]));
    }

    #[test]
    fn an_endpoint_or_a_node_that_fails_again_and_again_is_asked_only_where_all_others_are_out_too() {
        let mut way = way(2, &[("one", 1, false)], Policy::RoundRobin);
        way.backends = ["10.0.0.1:80", "10.0.0.2:80"].map(|at| at.parse().unwrap()).into();
        let choice = Arc::default();
        let endpoints = || -> Vec<AtEndpoint> {
            let all = (0..6).map(|_| Choice::endpoint(&choice, &way, &[]).unwrap());
            all.collect()
        };
        let bad = way.backends[0];
        for _ in 0..2 {
            let of_bad = endpoints().into_iter().filter(|one| one.at == bad);
            of_bad.for_each(|one| one.failed());
        }
        assert!(endpoints().iter().all(|one| one.at != bad));
        let good = way.backends[1];
        endpoints()
            .iter()
            .filter(|one| one.at == good)
            .for_each(AtEndpoint::failed);
        assert!(endpoints().iter().any(|one| one.at == bad));

        let nodes = || -> Vec<InFlight> {
            let all = (0..15).map(|_| Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap());
            all.collect()
        };
        nodes()
            .iter()
            .filter(|one| *one.to() == to("one"))
            .for_each(InFlight::failed);
        assert!(nodes().iter().all(|one| *one.to() == To::Here));
    }

    #[test]
    fn what_is_known_of_a_node_stays_while_others_come_and_go() {
        let before = way(1, &[("one", 1, false), ("two", 1, false)], Policy::LeastRequest);
        let choice = Arc::default();
        let failed = BTreeMap::from([(To::Here, String::new()), (to("one"), String::new())]);
        let at_two = Choice::choose(&choice, &before, &near(), &failed).unwrap();
        let after = way(1, &[("three", 1, false), ("two", 1, false)], Policy::LeastRequest);
        let others: Vec<InFlight> = (0..2)
            .map(|_| Choice::choose(&choice, &after, &near(), &BTreeMap::new()).unwrap())
            .collect();
        assert!(others.iter().all(|other| *other.to() != to("two")));
        drop((at_two, others));
        assert!(held(&choice).nodes.iter().all(|known| known.in_flight == 0));
    }
}
