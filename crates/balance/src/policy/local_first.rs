//! The node that was asked while that is fast; other ones as soon as waiting here costs more than the way.
//!
//! As long as all requests that are under way from here would be answered here as fast as they would be on average if
//! every endpoint of the site had one, they all stay: none has to go any way, so that the slowest is no slower than the
//! others. Beyond that, one goes where it waits for nobody, or where endpoints still have time for it, the nearest of those;
//! where it would have to wait everywhere, to where it is answered first.

use std::time::Duration;

use rand::Rng;

use crate::Node;

/// Nodes that are looked at beside the proxy's own. Of more, so many are drawn by chance: many proxies that all chose
/// the best of all would choose the same one.
const LOOKED_AT: usize = 16;
/// Of the two times that are compared, before requests leave: noise of the means sends nobody away.
const TOLERANCE: f32 = 1.05;
/// Of what one that waits for nobody adds to the answers a second of its node: from there on, a little waiting keeps
/// nobody away. Endpoints that are far off are free between requests though some of these meet.
const ADDS: f32 = 0.9;

pub(super) fn node(nodes: &[Node], now: Duration, random: &mut impl Rng) -> Option<usize> {
    let ready = |place: &usize| nodes[*place].endpoints > 0;
    let here = nodes.iter().position(|node| node.is_here).filter(ready);
    let alone_here = here.and_then(|here| nodes[here].answers.alone(now)).unwrap_or_default();
    if let Some(here) = here
        && all_stay(nodes, &nodes[here], alone_here, now)
    {
        return Some(here);
    }
    let first = random.random_range(0..nodes.len().max(1));
    let others = (first..nodes.len())
        .chain(0..first)
        .filter(|place| Some(*place) != here);
    let places = here.into_iter().chain(others.take(LOOKED_AT)).filter(ready);
    // The first of several that are as good: one's own.
    places.min_by_key(|place| {
        let node = &nodes[*place];
        let load = node.load_with_one_more();
        let expected = node.answers.expect(load, now).unwrap_or(node.distance + alone_here);
        (is_full(node, now), expected)
    })
}

/// Whether one that comes waits there for others, and the node answers hardly more a second for it.
fn is_full(node: &Node, now: Duration) -> bool {
    let load = node.load_with_one_more();
    if !node.answers.waits(load, now) {
        return false;
    }
    let endpoints = node.endpoints.max(1) as f32;
    let there = (node.in_flight + node.of_others) as f32;
    let (Some(alone), Some(before), Some(with)) = (
        node.answers.alone(now),
        node.answers.expect(there / endpoints, now),
        node.answers.expect(load, now),
    ) else {
        return false;
    };
    let more_per_s = (there + 1.0) / with.as_secs_f32() - there / before.as_secs_f32();
    more_per_s * alone.as_secs_f32() < ADDS
}

fn all_stay(nodes: &[Node], here: &Node, alone_here: Duration, now: Duration) -> bool {
    let all: u32 = nodes.iter().map(|node| node.in_flight).sum::<u32>() + here.of_others + 1;
    let Some(all_here) = here.answers.expect(all as f32 / here.endpoints as f32, now) else {
        return true;
    };
    let mut endpoints = 0.0;
    let mut answers_per_s = 0.0;
    for node in nodes {
        let alone = node.answers.alone(now).unwrap_or(node.distance + alone_here);
        endpoints += node.endpoints as f32;
        answers_per_s += node.endpoints as f32 / alone.as_secs_f32().max(1e-9);
    }
    all_here.as_secs_f32() <= TOLERANCE * endpoints / answers_per_s
}
