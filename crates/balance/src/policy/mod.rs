//! The policies, each a file of its own.

mod least_request;
mod local_first;

use std::borrow::{Borrow, BorrowMut};
use std::str::FromStr;
use std::time::Duration;

use rand::Rng;

use crate::{Endpoint, Node, slow_start};

/// By what a service's requests are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Every endpoint of the site in turn (kubeedge-local-scheduling, 4).
    RoundRobin,
    /// Any endpoint of the site.
    Random,
    /// The endpoints of the node that was asked, in turn, whatever becomes of it (kubeedge-local-scheduling, 4).
    Local,
    /// Where an endpoint has the fewest requests.
    LeastRequest,
    /// The node that was asked while that is fast, another one as soon as waiting here costs more than the way.
    #[default]
    LocalFirst,
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no policy; there are round-robin, random, local, least-request and local-first")]
pub struct UnknownPolicy(String);

impl Policy {
    /// All there are.
    pub const ALL: [Policy; 5] = [
        Policy::RoundRobin,
        Policy::Random,
        Policy::Local,
        Policy::LeastRequest,
        Policy::LocalFirst,
    ];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::RoundRobin => "round-robin",
            Policy::Random => "random",
            Policy::Local => "local",
            Policy::LeastRequest => "least-request",
            Policy::LocalFirst => "local-first",
        }
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// Chooses for one service at one proxy.
#[derive(Clone, Debug)]
pub struct Chooser {
    policy: Policy,
    /// Whose turn it is, of all endpoints of the site.
    turn: usize,
    /// The same of the proxy's own.
    own_turn: usize,
}

impl Chooser {
    /// Many proxies that begin at once do not all begin with the same endpoint.
    pub fn new(policy: Policy, random: &mut impl Rng) -> Self {
        Chooser {
            policy,
            turn: random.random_range(0..1 << 16),
            own_turn: random.random_range(0..1 << 16),
        }
    }

    /// The node that a request goes to, by its place; `None` where none may have it.
    pub fn node(&mut self, nodes: &mut [impl BorrowMut<Node>], now: Duration, random: &mut impl Rng) -> Option<usize> {
        let chosen = self.node_by_policy(nodes, now, random)?;
        if nodes[chosen].borrow().share >= 1.0 {
            return Some(chosen);
        }
        slow_start::choose(nodes, chosen, random, |nodes, random| {
            self.node_by_policy(nodes, now, random)
        })
    }

    fn node_by_policy(&mut self, nodes: &[impl Borrow<Node>], now: Duration, random: &mut impl Rng) -> Option<usize> {
        match self.policy {
            Policy::RoundRobin => {
                self.turn = self.turn.wrapping_add(1);
                with_endpoint(nodes, self.turn)
            }
            Policy::Random => with_endpoint(nodes, random.random_range(0..1 << 32)),
            Policy::Local => {
                let may_be = |node: &Node| node.is_here && node.open() > 0;
                nodes.iter().position(|node| may_be(node.borrow()))
            }
            Policy::LeastRequest => least_request::node(nodes, random),
            Policy::LocalFirst => local_first::node(nodes, now, random),
        }
    }

    /// The endpoint of a node's own that has it, by its place; `None` where there is none.
    pub fn endpoint(&mut self, endpoints: &mut [impl BorrowMut<Endpoint>], random: &mut impl Rng) -> Option<usize> {
        let chosen = self.endpoint_by_policy(endpoints, random)?;
        if endpoints[chosen].borrow().share >= 1.0 {
            return Some(chosen);
        }
        slow_start::choose(endpoints, chosen, random, |endpoints, random| {
            self.endpoint_by_policy(endpoints, random)
        })
    }

    fn endpoint_by_policy(&mut self, endpoints: &[impl Borrow<Endpoint>], random: &mut impl Rng) -> Option<usize> {
        let count = endpoints.len();
        if count == 0 {
            return None;
        }
        let is_open = |place: &usize| !endpoints[*place].borrow().is_left_out;
        let from = |first: usize| (first..count).chain(0..first).filter(is_open);
        match self.policy {
            Policy::RoundRobin | Policy::Local => {
                self.own_turn = from(self.own_turn.wrapping_add(1) % count).next()?;
                Some(self.own_turn)
            }
            Policy::Random => {
                let open = from(0).count();
                from(0).nth(random.random_range(0..open.max(1)))
            }
            Policy::LeastRequest | Policy::LocalFirst => {
                // Of several with as few, the one whose last request is the longest ago: it has the most done of it.
                let weighs = |place: &usize| {
                    let endpoint = endpoints[*place].borrow();
                    endpoint.in_flight as f32 / endpoint.share
                };
                let least =
                    from((self.own_turn + 1) % count).min_by(|one, other| weighs(one).total_cmp(&weighs(other)));
                self.own_turn = least?;
                Some(self.own_turn)
            }
        }
    }
}

/// The node that has the endpoint of that number, of all endpoints one after the other, again and again.
fn with_endpoint(nodes: &[impl Borrow<Node>], number: usize) -> Option<usize> {
    let all: usize = nodes.iter().map(|node| node.borrow().open() as usize).sum();
    let mut left = number.checked_rem(all)?;
    nodes.iter().position(|node| {
        let own = node.borrow().open() as usize;
        let is_it = left < own;
        left = left.wrapping_sub(own);
        is_it
    })
}

#[cfg(test)]
mod tests;
