//! Where an endpoint has the fewest requests.

use rand::Rng;

use crate::Node;

/// Of several with as few, each as often as it has endpoints.
pub(super) fn node(nodes: &[Node], random: &mut impl Rng) -> Option<usize> {
    let ready = || nodes.iter().enumerate().filter(|(_, node)| node.endpoints > 0);
    let least = ready().map(|(_, node)| depth_with_one_more(node)).min()?;
    let as_few = || ready().filter(|(_, node)| depth_with_one_more(node) == least);
    let free = |node: &Node| node.endpoints * least - node.in_flight - node.of_others;
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

/// Requests of the busiest endpoint with one more, where they are spread evenly.
fn depth_with_one_more(node: &Node) -> u32 {
    (node.in_flight + node.of_others + 1).div_ceil(node.endpoints)
}
