//! Where an endpoint has the fewest requests.

use std::borrow::Borrow;

use rand::Rng;

use crate::Node;

/// Of several with as few, each as often as it has endpoints.
pub(super) fn node(nodes: &[impl Borrow<Node>], random: &mut impl Rng) -> Option<usize> {
    let open = || {
        let all = nodes.iter().map(Borrow::borrow).enumerate();
        all.filter(|(_, node): &(usize, &Node)| node.open() > 0)
    };
    let least = open().map(|(_, node)| depth_with_one_more(node)).min()?;
    let as_few = || open().filter(|(_, node)| depth_with_one_more(node) == least);
    let free = |node: &Node| node.endpoints * least - weighed(node);
    let all: u32 = as_few().map(|(_, node)| free(node)).sum();
    let mut left = random.random_range(0..all);
    let mut places = as_few();
    let (place, _) = places.find(|(_, node)| {
        let is_it = left < free(node);
        left = left.wrapping_sub(free(node));
        is_it
    })?;
    Some(place)
}

/// Requests that are there, of which those of a node that is new weigh more.
fn weighed(node: &Node) -> u32 {
    ((node.in_flight + node.of_others) as f32 / node.share).ceil() as u32
}

/// Requests of the busiest endpoint with one more, where they are spread evenly.
fn depth_with_one_more(node: &Node) -> u32 {
    (weighed(node) + 1).div_ceil(node.endpoints)
}
