//! Which node of a site answers a request, and which endpoint there. Pure: what is known of each, the time and chance
//! come in.
//!
//! A node's proxy chooses a node; the proxy of that node chooses one of its own endpoints, of which it alone knows how
//! many requests they have.

mod answers;
mod policy;
pub mod scale;
pub mod simulate;
mod slow_start;

pub use self::answers::Answers;
pub use self::policy::{Chooser, Policy, UnknownPolicy};
pub use self::slow_start::share;

use std::time::Duration;

/// What a proxy knows of a service at one node.
#[derive(Clone, Debug)]
pub struct Node {
    /// The proxy's own.
    pub is_here: bool,
    /// Round trip to it, as it was measured without requests.
    pub distance: Duration,
    /// Endpoints there that are ready.
    pub endpoints: u32,
    /// Requests of this proxy that are there, or on their way there or back.
    pub in_flight: u32,
    /// Those of other proxies, as the node said with its last answer.
    pub of_others: u32,
    /// How long this proxy's requests there took, the way included.
    pub answers: Answers,
    /// What its endpoints can do, of what they will once all have been ready for long: see [`share`].
    pub share: f32,
    /// It is not to be chosen.
    pub is_left_out: bool,
}

/// What a proxy knows of an endpoint of its own node.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Requests that it has.
    pub in_flight: u32,
    /// What it can do, of what it will once it has been ready for long: see [`share`].
    pub share: f32,
    /// It is not to be chosen.
    pub is_left_out: bool,
}

impl Default for Endpoint {
    fn default() -> Self {
        Endpoint {
            in_flight: 0,
            share: 1.0,
            is_left_out: false,
        }
    }
}

impl Node {
    /// One of which nothing is known but where it is.
    #[must_use]
    pub fn new(is_here: bool, distance: Duration, endpoints: u32) -> Self {
        Node {
            is_here,
            distance,
            endpoints,
            in_flight: 0,
            of_others: 0,
            answers: Answers::default(),
            share: 1.0,
            is_left_out: false,
        }
    }

    /// How many requests each endpoint has with one more, at least 1.
    #[must_use]
    pub fn load_with_one_more(&self) -> f32 {
        let all = self.in_flight + self.of_others + 1;
        (all as f32 / self.endpoints.max(1) as f32).max(1.0)
    }

    /// Endpoints that may have a request.
    fn open(&self) -> u32 {
        if self.is_left_out { 0 } else { self.endpoints }
    }
}
