//! Which node of a site answers a request, and which endpoint there. Pure: what is known of each, the time and chance
//! come in.
//!
//! A node's proxy chooses a node; the proxy of that node chooses one of its own endpoints, of which it alone knows how
//! many requests they have.

mod answers;
mod policy;
pub mod scale;
pub mod simulate;

pub use self::answers::Answers;
pub use self::policy::{Chooser, Policy};

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
        }
    }

    /// How many requests each endpoint has with one more, at least 1.
    #[must_use]
    pub fn load_with_one_more(&self) -> f32 {
        let all = self.in_flight + self.of_others + 1;
        (all as f32 / self.endpoints.max(1) as f32).max(1.0)
    }
}
