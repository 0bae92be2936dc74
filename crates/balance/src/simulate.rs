//! Sites under simulated time: the policies' own code, endpoints and ways whose times are given, one seed, one outcome.
//!
//! Proxies take no time of their own, and nothing is lost. An endpoint answers its requests one after the other, in the
//! order in which they came.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Chooser, Endpoint, Node, Policy};

/// A node of the site.
#[derive(Clone, Debug)]
pub struct Member {
    /// Endpoints that it has.
    pub endpoints: u32,
    /// What is asked of its proxy.
    pub load: Load,
}

/// From a time on endpoints of a node take longer.
#[derive(Clone, Copy, Debug)]
pub struct Slows {
    /// Whose.
    pub node: usize,
    /// From then on.
    pub from: Duration,
    /// So many times as long.
    pub times: u32,
}

/// What a proxy is asked.
#[derive(Clone, Debug)]
pub enum Load {
    /// So many clients, each of which asks again once it has its answer.
    Closed {
        /// Of them.
        clients: u32,
    },
    /// Whatever becomes of the answers, at times of chance (Poisson).
    Open {
        /// On average.
        requests_per_s: f64,
    },
    /// The same at a rate that changes, again and again from the beginning.
    Shaped {
        /// How many a second, each for one step.
        requests_per_s: Arc<[f64]>,
        /// How long one of them is so.
        step: Duration,
    },
}

impl Load {
    /// Nobody asks.
    pub const NONE: Load = Load::Closed { clients: 0 };

    /// Requests a second at that time; `None` where they come when answers do.
    fn requests_per_s(&self, now: Duration) -> Option<f64> {
        match self {
            Load::Closed { .. } => None,
            Load::Open { requests_per_s } => Some(*requests_per_s),
            Load::Shaped { requests_per_s, step } => {
                let passed = now.as_nanos() / step.as_nanos().max(1);
                Some(requests_per_s[passed as usize % requests_per_s.len()])
            }
        }
    }

    /// The most of it.
    fn peak_per_s(&self) -> Option<f64> {
        match self {
            Load::Closed { .. } => None,
            Load::Open { requests_per_s } => Some(*requests_per_s),
            Load::Shaped { requests_per_s, .. } => Some(requests_per_s.iter().copied().fold(0.0, f64::max)),
        }
    }
}

/// Round trips between nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distances {
    /// Between any two.
    Same(Duration),
    /// Nodes at places, and places in regions, in the order of their numbers.
    Nested {
        /// Nodes of a place.
        nodes_per_place: usize,
        /// Places of a region.
        places_per_region: usize,
        /// Within a place.
        in_place: Duration,
        /// Between places of a region.
        in_region: Duration,
        /// Between regions.
        beyond: Duration,
    },
}

impl Distances {
    fn between(self, one: usize, other: usize) -> Duration {
        match self {
            _ if one == other => Duration::ZERO,
            Distances::Same(distance) => distance,
            Distances::Nested {
                nodes_per_place,
                places_per_region,
                in_place,
                in_region,
                beyond,
            } => {
                let place = |node: usize| node / nodes_per_place;
                let region = |node: usize| place(node) / places_per_region;
                match (place(one) == place(other), region(one) == region(other)) {
                    (true, _) => in_place,
                    (false, true) => in_region,
                    (false, false) => beyond,
                }
            }
        }
    }
}

/// How long an endpoint has a request for itself.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// Always as long.
    Constant(Duration),
    /// Of this mean, exponential.
    Exponential(Duration),
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its nodes.
    pub members: Vec<Member>,
    /// Of an endpoint.
    pub service: Service,
    /// Whether a node slows down.
    pub slows: Option<Slows>,
    /// Between its nodes.
    pub distances: Distances,
    /// Of all proxies.
    pub policy: Policy,
    /// What is asked, in a closed loop answered, until then does not count.
    pub warm_up: Duration,
    /// That which counts, after it.
    pub measured: Duration,
    /// Of all chance in it.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of each node, how long the answers took that its clients had, shortest first. In an open loop those of requests that
    /// came in the time that counts, in a closed one those that came in it themselves.
    pub took: Vec<Vec<Duration>>,
    /// Of those, answered by the node that was asked.
    pub answered_here: u64,
    /// Answers that came in the time that counts.
    pub answered: u64,
    /// Of each node, requests that came in that time, of open loops.
    pub asked: Vec<u64>,
    /// Those of them that had no answer when it was over.
    pub late: Vec<u64>,
    /// Those that had none [`PATIENCE`] later.
    pub lost: u64,
    /// Those that nobody could answer.
    pub refused: u64,
}

impl Outcome {
    /// Of all nodes together, shortest first.
    #[must_use]
    pub fn all_took(&self) -> Vec<Duration> {
        let mut all: Vec<Duration> = self.took.iter().flatten().copied().collect();
        all.sort_unstable();
        all
    }
}

/// After the time that counts, until what was asked in it and has no answer is lost.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
struct Request {
    asked_at: Duration,
    /// How long an endpoint has it for itself.
    takes: Duration,
    of: usize,
    at: usize,
    endpoint: usize,
    load: f32,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Somebody may ask a node's proxy, by the greatest rate of its load.
    Arrival(usize),
    /// Somebody asks it.
    Asks(usize),
    /// It has come to the node that it was sent to.
    Arrives(Request),
    /// The endpoint has done with its first.
    IsDone { at: usize, endpoint: usize },
    /// The answer is back, with what the node said of the requests of others there.
    IsBack(Request, u32),
}

/// What happens first comes first, and of two at once what was known first.
struct Expected {
    at: Duration,
    number: u64,
    event: Event,
}

impl Ord for Expected {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Expected {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Expected {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Expected {}

struct Proxy {
    chooser: Chooser,
    nodes: Vec<Node>,
    endpoints: Vec<VecDeque<Request>>,
    /// How many requests each endpoint has.
    waiting: Vec<Endpoint>,
    /// Its endpoints' requests, of each proxy.
    of_proxies: Vec<u32>,
}

struct World<'a> {
    experiment: &'a Experiment,
    now: Duration,
    events: BinaryHeap<Expected>,
    number: u64,
    proxies: Vec<Proxy>,
    /// When somebody asks, and what he asks: in an open loop the same whatever is chosen.
    arrivals: ChaCha8Rng,
    random: ChaCha8Rng,
    /// Of each node, requests of open loops that count and have no answer yet.
    waiting: Vec<u64>,
    outcome: Outcome,
}

/// From its start to its end.
#[must_use]
pub fn run(experiment: &Experiment) -> Outcome {
    let mut world = World::new(experiment);
    for (of, member) in experiment.members.iter().enumerate() {
        if let Load::Closed { clients } = member.load {
            for _ in 0..clients {
                let at = Duration::from_micros(world.arrivals.random_range(0..10_000));
                world.expect(at, Event::Asks(of));
            }
        } else {
            world.expect_next_arrival(of);
        }
    }
    let end = experiment.warm_up + experiment.measured;
    let mut is_over = false;
    while let Some(Expected { at, event, .. }) = world.events.pop() {
        if at >= end && !is_over {
            is_over = true;
            world.outcome.late.clone_from(&world.waiting);
        }
        if is_over && (at > end + PATIENCE || world.waiting.iter().all(|waiting| *waiting == 0)) {
            break;
        }
        world.now = at;
        world.happens(event);
    }
    let mut outcome = world.outcome;
    outcome.lost = world.waiting.iter().sum();
    outcome.took.iter_mut().for_each(|took| took.sort_unstable());
    outcome
}

impl<'a> World<'a> {
    fn new(experiment: &'a Experiment) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(experiment.seed);
        let mut arrivals = ChaCha8Rng::seed_from_u64(experiment.seed);
        arrivals.set_stream(1);
        let members = &experiment.members;
        let proxy = |own: usize, random: &mut ChaCha8Rng| Proxy {
            chooser: Chooser::new(experiment.policy, random),
            nodes: (members.iter().enumerate())
                .map(|(place, member)| {
                    let distance = experiment.distances.between(own, place);
                    Node::new(place == own, distance, member.endpoints)
                })
                .collect(),
            endpoints: vec![VecDeque::new(); members[own].endpoints as usize],
            waiting: vec![Endpoint::default(); members[own].endpoints as usize],
            of_proxies: vec![0; members.len()],
        };
        let proxies = (0..members.len()).map(|own| proxy(own, &mut random)).collect();
        World {
            experiment,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            number: 0,
            proxies,
            arrivals,
            random,
            waiting: vec![0; members.len()],
            outcome: Outcome {
                took: vec![Vec::new(); members.len()],
                asked: vec![0; members.len()],
                late: vec![0; members.len()],
                ..Outcome::default()
            },
        }
    }

    fn expect(&mut self, at: Duration, event: Event) {
        self.number += 1;
        let number = self.number;
        self.events.push(Expected { at, number, event });
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival(of) => self.arrival(of),
            Event::Asks(of) => self.asks(of),
            Event::Arrives(request) => self.arrives(request),
            Event::IsDone { at, endpoint } => self.is_done(at, endpoint),
            Event::IsBack(request, of_others) => self.is_back(request, of_others),
        }
    }

    /// At the greatest rate that there is; of those that come at a lower one some are left out.
    fn expect_next_arrival(&mut self, of: usize) {
        let peak_per_s = self.experiment.members[of].load.peak_per_s();
        if let Some(peak_per_s) = peak_per_s.filter(|peak_per_s| *peak_per_s > 0.0) {
            let pause = exponential(Duration::from_secs_f64(1.0 / peak_per_s), &mut self.arrivals);
            self.expect(self.now + pause, Event::Arrival(of));
        }
    }

    fn arrival(&mut self, of: usize) {
        self.expect_next_arrival(of);
        let load = &self.experiment.members[of].load;
        if let (Some(per_s), Some(peak_per_s)) = (load.requests_per_s(self.now), load.peak_per_s())
            && self.arrivals.random::<f64>() * peak_per_s < per_s
        {
            self.asks(of);
        }
    }

    fn asks(&mut self, of: usize) {
        let takes = match self.experiment.service {
            Service::Constant(takes) => takes,
            Service::Exponential(mean) => exponential(mean, &mut self.arrivals),
        };
        let counts = self.is_counted(self.now) && self.is_open(of);
        self.outcome.asked[of] += u64::from(counts);
        let proxy = &mut self.proxies[of];
        let Some(at) = proxy.chooser.node(&mut proxy.nodes, self.now, &mut self.random) else {
            self.outcome.refused += u64::from(counts);
            return;
        };
        let node = &mut proxy.nodes[at];
        let request = Request {
            asked_at: self.now,
            takes,
            of,
            at,
            endpoint: 0,
            load: node.load_with_one_more(),
        };
        node.in_flight += 1;
        self.waiting[of] += u64::from(counts);
        self.expect(self.now + self.way(request), Event::Arrives(request));
    }

    fn arrives(&mut self, mut request: Request) {
        let proxy = &mut self.proxies[request.at];
        let chosen = proxy.chooser.endpoint(&mut proxy.waiting, &mut self.random);
        request.endpoint = chosen.expect("only nodes with endpoints are chosen");
        proxy.of_proxies[request.of] += 1;
        if request.of != request.at {
            proxy.nodes[request.at].of_others += 1;
        }
        proxy.endpoints[request.endpoint].push_back(request);
        let waiting = &mut proxy.waiting[request.endpoint];
        waiting.in_flight += 1;
        if waiting.in_flight == 1 {
            self.serve(request);
        }
    }

    fn serve(&mut self, request: Request) {
        let Request {
            at, endpoint, takes, ..
        } = request;
        let slows = self
            .experiment
            .slows
            .filter(|slows| slows.node == at && slows.from <= self.now);
        let takes = slows.map_or(takes, |slows| slows.times * takes);
        self.expect(self.now + takes, Event::IsDone { at, endpoint });
    }

    fn is_done(&mut self, at: usize, endpoint: usize) {
        let proxy = &mut self.proxies[at];
        let done = proxy.endpoints[endpoint]
            .pop_front()
            .expect("it has one that it has done");
        proxy.waiting[endpoint].in_flight -= 1;
        let next = proxy.endpoints[endpoint].front().copied();
        proxy.of_proxies[done.of] -= 1;
        if done.of != at {
            proxy.nodes[at].of_others -= 1;
        }
        let of_others =
            proxy.waiting.iter().map(|endpoint| endpoint.in_flight).sum::<u32>() - proxy.of_proxies[done.of];
        self.expect(self.now + self.way(done), Event::IsBack(done, of_others));
        if let Some(next) = next {
            self.serve(next);
        }
    }

    fn is_back(&mut self, request: Request, of_others: u32) {
        let took = self.now - request.asked_at;
        let node = &mut self.proxies[request.of].nodes[request.at];
        node.in_flight -= 1;
        if request.of != request.at {
            node.of_others = of_others;
        }
        node.answers.observe(request.load, took, self.now);
        let (in_time, is_open) = (self.is_counted(self.now), self.is_open(request.of));
        self.outcome.answered += u64::from(in_time);
        let counts = if is_open {
            self.is_counted(request.asked_at)
        } else {
            in_time
        };
        if counts {
            self.outcome.took[request.of].push(took);
            self.outcome.answered_here += u64::from(request.of == request.at);
            self.waiting[request.of] -= u64::from(is_open);
        }
        if !is_open {
            self.asks(request.of);
        }
    }

    /// Whether a moment is of the time that counts.
    fn is_counted(&self, at: Duration) -> bool {
        let Experiment { warm_up, measured, .. } = *self.experiment;
        (warm_up..warm_up + measured).contains(&at)
    }

    fn is_open(&self, node: usize) -> bool {
        !matches!(self.experiment.members[node].load, Load::Closed { .. })
    }

    /// One way, of that which a request goes there and back.
    fn way(&self, request: Request) -> Duration {
        self.experiment.distances.between(request.of, request.at) / 2
    }
}

fn exponential(mean: Duration, random: &mut impl Rng) -> Duration {
    let chance: f64 = random.random();
    mean.mul_f64(-(1.0 - chance).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn experiment(members: Vec<Member>, distances: Distances) -> Experiment {
        Experiment {
            members,
            service: Service::Exponential(8 * MS),
            slows: None,
            distances,
            policy: Policy::LocalFirst,
            warm_up: 500 * MS,
            measured: 4_000 * MS,
            seed: 7,
        }
    }

    #[test]
    fn every_request_of_an_open_loop_is_answered_refused_or_lost() {
        let member = |endpoints, requests_per_s| Member {
            endpoints,
            load: Load::Open { requests_per_s },
        };
        let sites = [
            vec![member(2, 200.0), member(1, 50.0)],
            vec![member(1, 2_000.0), member(1, 50.0)],
            vec![member(0, 200.0), member(0, 50.0)],
        ];
        for members in sites {
            let outcome = run(&experiment(members, Distances::Same(15 * MS)));
            let asked: u64 = outcome.asked.iter().sum();
            let answered = outcome.all_took().len() as u64;
            assert_eq!(asked, answered + outcome.lost + outcome.refused);
            assert!(outcome.late.iter().sum::<u64>() >= outcome.lost);
        }
    }

    #[test]
    fn where_more_is_asked_than_all_can_do_some_is_late_and_some_is_lost() {
        let members = vec![Member {
            endpoints: 1,
            load: Load::Open { requests_per_s: 500.0 },
        }];
        let outcome = run(&experiment(members, Distances::Same(MS)));
        // 2,000 are asked, 125 a second are answered: some 500 in time, some 600 in the patience after it.
        assert!((1_300..1_700).contains(&outcome.late[0]), "{outcome:?}");
        assert!((600..1_100).contains(&outcome.lost), "{}", outcome.lost);
    }

    #[test]
    fn a_load_that_changes_asks_as_much_as_each_step_says_and_nothing_in_a_step_of_none() {
        let load = Load::Shaped {
            requests_per_s: Arc::new([0.0, 400.0]),
            step: 500 * MS,
        };
        assert_eq!(load.requests_per_s(499 * MS), Some(0.0));
        assert_eq!(load.requests_per_s(1_999 * MS), Some(400.0));
        let outcome = run(&experiment(vec![Member { endpoints: 4, load }], Distances::Same(MS)));
        // Four of the eight steps that count, each of 200; four standard deviations.
        assert!((690..=910).contains(&outcome.asked[0]), "{}", outcome.asked[0]);
    }

    #[test]
    fn places_of_a_region_are_nearer_than_other_regions() {
        let distances = Distances::Nested {
            nodes_per_place: 2,
            places_per_region: 2,
            in_place: MS,
            in_region: 15 * MS,
            beyond: 60 * MS,
        };
        let from_first = [0, 1, 2, 3, 4].map(|other| distances.between(0, other));
        assert_eq!(from_first, [Duration::ZERO, MS, 15 * MS, 15 * MS, 60 * MS]);
        assert_eq!(distances.between(5, 4), MS);
    }
}
