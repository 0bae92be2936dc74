//! Sites under simulated time: the policies' own code, endpoints and ways whose times are given, one seed, one outcome.
//!
//! Proxies take no time of their own, and nothing is lost. An endpoint answers its requests one after the other, in the
//! order in which they came.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Chooser, Node, Policy};

/// A node of the site.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Endpoints that it has.
    pub endpoints: u32,
    /// What is asked of its proxy.
    pub load: Load,
}

/// What a proxy is asked.
#[derive(Clone, Copy, Debug)]
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
    pub sites: Vec<Site>,
    /// Of an endpoint.
    pub service: Service,
    /// Round trip between any two nodes.
    pub distance: Duration,
    /// Of all proxies.
    pub policy: Policy,
    /// Answers until then do not count.
    pub warm_up: Duration,
    /// That which counts, after it.
    pub measured: Duration,
    /// Of all chance in it.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of each node, the answers that its clients had, shortest first.
    pub took: Vec<Vec<Duration>>,
    /// Of those, answered by the node that was asked.
    pub answered_here: u64,
    /// What nobody could answer.
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

#[derive(Clone, Copy, Debug)]
struct Request {
    asked_at: Duration,
    of: usize,
    at: usize,
    endpoint: usize,
    load: f32,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Somebody asks a node's proxy.
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
    /// Its endpoints' requests, of each proxy.
    of_proxies: Vec<u32>,
}

struct World {
    now: Duration,
    events: BinaryHeap<Expected>,
    number: u64,
    proxies: Vec<Proxy>,
    random: ChaCha8Rng,
    outcome: Outcome,
}

/// From its start to its end.
#[must_use]
pub fn run(experiment: &Experiment) -> Outcome {
    let mut random = ChaCha8Rng::seed_from_u64(experiment.seed);
    let sites = &experiment.sites;
    let proxy = |own: usize, random: &mut ChaCha8Rng| Proxy {
        chooser: Chooser::new(experiment.policy, random),
        nodes: (sites.iter().enumerate())
            .map(|(place, site)| match place == own {
                true => Node::new(true, Duration::ZERO, site.endpoints),
                false => Node::new(false, experiment.distance, site.endpoints),
            })
            .collect(),
        endpoints: vec![VecDeque::new(); sites[own].endpoints as usize],
        of_proxies: vec![0; sites.len()],
    };
    let proxies = (0..sites.len()).map(|own| proxy(own, &mut random)).collect();
    let mut world = World {
        now: Duration::ZERO,
        events: BinaryHeap::new(),
        number: 0,
        proxies,
        random,
        outcome: Outcome {
            took: vec![Vec::new(); sites.len()],
            ..Outcome::default()
        },
    };
    for (place, site) in sites.iter().enumerate() {
        let first = match site.load {
            Load::Closed { clients } => clients,
            Load::Open { .. } => 1,
        };
        for _ in 0..first {
            let at = Duration::from_micros(world.random.random_range(0..10_000));
            world.expect(at, Event::Asks(place));
        }
    }
    let end = experiment.warm_up + experiment.measured;
    while let Some(Expected { at, event, .. }) = world.events.pop() {
        if at > end {
            break;
        }
        world.now = at;
        world.happens(event, experiment);
    }
    let mut outcome = world.outcome;
    outcome.took.iter_mut().for_each(|took| took.sort_unstable());
    outcome
}

impl World {
    fn expect(&mut self, at: Duration, event: Event) {
        self.number += 1;
        let number = self.number;
        self.events.push(Expected { at, number, event });
    }

    fn happens(&mut self, event: Event, experiment: &Experiment) {
        match event {
            Event::Asks(of) => self.asks(of, experiment),
            Event::Arrives(request) => self.arrives(request, experiment),
            Event::IsDone { at, endpoint } => self.is_done(at, endpoint, experiment),
            Event::IsBack(request, of_others) => self.is_back(request, of_others, experiment),
        }
    }

    fn asks(&mut self, of: usize, experiment: &Experiment) {
        if let Load::Open { requests_per_s } = experiment.sites[of].load {
            let pause = exponential(Duration::from_secs_f64(1.0 / requests_per_s), &mut self.random);
            self.expect(self.now + pause, Event::Asks(of));
        }
        let proxy = &mut self.proxies[of];
        let Some(at) = proxy.chooser.node(&proxy.nodes, self.now, &mut self.random) else {
            self.outcome.refused += u64::from(self.now >= experiment.warm_up);
            return;
        };
        let node = &mut proxy.nodes[at];
        let request = Request {
            asked_at: self.now,
            of,
            at,
            endpoint: 0,
            load: node.load_with_one_more(),
        };
        node.in_flight += 1;
        self.expect(self.now + way(request, experiment), Event::Arrives(request));
    }

    fn arrives(&mut self, mut request: Request, experiment: &Experiment) {
        let proxy = &mut self.proxies[request.at];
        let in_flight: Vec<u32> = proxy.endpoints.iter().map(|requests| requests.len() as u32).collect();
        let chosen = proxy.chooser.endpoint(&in_flight, &mut self.random);
        request.endpoint = chosen.expect("only nodes with endpoints are chosen");
        proxy.of_proxies[request.of] += 1;
        if request.of != request.at {
            proxy.nodes[request.at].of_others += 1;
        }
        let waiting = &mut proxy.endpoints[request.endpoint];
        waiting.push_back(request);
        if waiting.len() == 1 {
            self.serve(request, experiment);
        }
    }

    fn serve(&mut self, Request { at, endpoint, .. }: Request, experiment: &Experiment) {
        let takes = match experiment.service {
            Service::Constant(takes) => takes,
            Service::Exponential(mean) => exponential(mean, &mut self.random),
        };
        self.expect(self.now + takes, Event::IsDone { at, endpoint });
    }

    fn is_done(&mut self, at: usize, endpoint: usize, experiment: &Experiment) {
        let proxy = &mut self.proxies[at];
        let done = proxy.endpoints[endpoint]
            .pop_front()
            .expect("it has one that it has done");
        let next = proxy.endpoints[endpoint].front().copied();
        proxy.of_proxies[done.of] -= 1;
        if done.of != at {
            proxy.nodes[at].of_others -= 1;
        }
        let of_others = proxy.of_proxies.iter().sum::<u32>() - proxy.of_proxies[done.of];
        self.expect(self.now + way(done, experiment), Event::IsBack(done, of_others));
        if let Some(next) = next {
            self.serve(next, experiment);
        }
    }

    fn is_back(&mut self, request: Request, of_others: u32, experiment: &Experiment) {
        let took = self.now - request.asked_at;
        let node = &mut self.proxies[request.of].nodes[request.at];
        node.in_flight -= 1;
        if request.of != request.at {
            node.of_others = of_others;
        }
        node.answers.observe(request.load, took, self.now);
        if self.now >= experiment.warm_up {
            self.outcome.took[request.of].push(took);
            self.outcome.answered_here += u64::from(request.of == request.at);
        }
        if matches!(experiment.sites[request.of].load, Load::Closed { .. }) {
            self.expect(self.now, Event::Asks(request.of));
        }
    }
}

/// One way, of that which a request goes there and back.
fn way(request: Request, experiment: &Experiment) -> Duration {
    match request.of == request.at {
        true => Duration::ZERO,
        false => experiment.distance / 2,
    }
}

fn exponential(mean: Duration, random: &mut impl Rng) -> Duration {
    let chance: f64 = random.random();
    mean.mul_f64(-(1.0 - chance).ln())
}
