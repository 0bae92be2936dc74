//! The node that was asked while that is fast; other ones as soon as waiting here costs more than the way.
//!
//! As long as all requests that are under way from here would be answered here as fast as they would be on average if
//! every endpoint of the site had one, they all stay: none has to go any way, so that the slowest is no slower than the
//! others. Beyond that, one's own node and two that are drawn by chance are looked at: one goes where it waits for nobody,
//! or where endpoints still have time for it, the fastest of those; where it would have to wait at all three, to where it
//! is answered first.

use std::borrow::Borrow;
use std::time::Duration;

use rand::Rng;

use crate::Node;
use crate::answers::WAITS_FROM;

/// Nodes that are looked at beside the proxy's own, drawn by chance: what is known of them is as old as their last answer,
/// and many proxies that all chose the best of all would choose the same one.
const LOOKED_AT: usize = 2;
/// Of the two times that are compared, before requests leave: noise of the means sends nobody away.
const TOLERANCE: f32 = 1.05;
/// Of what one that waits for nobody adds to the answers a second of its node: from there on, a little waiting keeps
/// nobody away. Endpoints that are far off are free between requests though some of these meet.
const ADDS: f32 = 0.9;
/// Where one alone takes so many times as long as was seen of several at once, the node has become slower since.
const SLOWER: f32 = 1.2;
/// What nothing is known of, at no distance, weighs as much as this.
const SHORTEST_S: f32 = 1e-6;

pub(super) fn node<N: Borrow<Node>>(nodes: &[N], now: Duration, random: &mut impl Rng) -> Option<usize> {
    let all = || nodes.iter().map(Borrow::<Node>::borrow);
    let here = all().position(|node| node.is_here && node.open() > 0);
    let service = service(nodes, here, now);
    let mut per_s: Vec<f32> = all().map(|node| answers_per_s(node, service, now)).collect();
    if let Some(here) = here {
        if all_stay(nodes, nodes[here].borrow(), per_s.iter().sum(), now) {
            return Some(here);
        }
        per_s[here] = 0.0;
    }
    // The first of several that are as good: one's own.
    here.into_iter().chain(drawn(per_s, random)).min_by_key(|place| {
        let node: &Node = nodes[*place].borrow();
        let own = here.map(|here| nodes[here].borrow());
        let load = node.load_with_one_more();
        let expected = expect(node, own, load, now).unwrap_or(node.distance + service);
        (is_full(node, own, now), expected)
    })
}

/// How long an endpoint takes, the way left out: as is known of one's own, else of whom it is least.
fn service<N: Borrow<Node>>(nodes: &[N], here: Option<usize>, now: Duration) -> Duration {
    let without_way = |node: &Node| Some(node.answers.alone(now)?.saturating_sub(node.distance));
    let own = here.and_then(|here| nodes[here].borrow().answers.calm(now));
    let of_all = || nodes.iter().filter_map(|node| without_way(node.borrow()));
    own.or_else(|| of_all().min()).unwrap_or_default()
}

/// Some of those that weigh anything, each by its weight, and none twice.
fn drawn(mut weights: Vec<f32>, random: &mut impl Rng) -> impl Iterator<Item = usize> {
    let one = move |_| {
        let mut left = weights.iter().sum::<f32>() * random.random::<f32>();
        let is_it = |weight: &f32| {
            left -= weight;
            *weight > 0.0 && left <= 0.0
        };
        // Sums of numbers of very different size may miss the last one by a hair.
        let place = weights.iter().position(is_it);
        let place = place.or_else(|| weights.iter().rposition(|weight| *weight > 0.0))?;
        weights[place] = 0.0;
        Some(place)
    };
    (0..LOOKED_AT).map_while(one)
}

/// Of its endpoints, where none waits.
fn answers_per_s(node: &Node, service: Duration, now: Duration) -> f32 {
    let alone = alone(node, now).unwrap_or(node.distance + service);
    node.open() as f32 * node.share / alone.as_secs_f32().max(SHORTEST_S)
}

/// How long one takes that waits for nobody.
fn alone(node: &Node, now: Duration) -> Option<Duration> {
    match node.is_here {
        true => node.answers.calm(now),
        false => node.answers.alone(now),
    }
}

/// How long one takes at that load. Of another node of which nothing has come back for long, or one that has become slower,
/// what was seen does not hold: waiting there is taken to be as it is at one's `own`, whose endpoints are alike.
fn expect(node: &Node, own: Option<&Node>, load: f32, now: Duration) -> Option<Duration> {
    let (seen, alone) = (node.answers.expect(load, now)?, node.answers.alone(now)?);
    let Some(own) = own.filter(|_| !node.is_here) else {
        return Some(seen);
    };
    if alone <= seen.mul_f32(SLOWER) {
        return Some(seen);
    }
    let there = alone.saturating_sub(node.distance);
    // So many of them are there, and not on the way.
    let load_there = load * there.as_secs_f32() / alone.as_secs_f32().max(SHORTEST_S);
    let (own_alone, own_with) = (own.answers.alone(now)?, own.answers.expect(load_there, now)?);
    let times = own_with.as_secs_f32() / own_alone.as_secs_f32().max(SHORTEST_S);
    Some(seen.max(alone + there.mul_f32((times - 1.0).max(0.0))))
}

/// Whether one that comes waits there for others, and the node answers hardly more a second for it.
fn is_full(node: &Node, own: Option<&Node>, now: Duration) -> bool {
    let load = node.load_with_one_more();
    let endpoints = node.endpoints.max(1) as f32;
    let there = (node.in_flight + node.of_others) as f32;
    let (Some(alone), Some(before), Some(with)) = (
        alone(node, now),
        expect(node, own, there / endpoints, now),
        expect(node, own, load, now),
    ) else {
        return false;
    };
    if with <= alone.mul_f32(WAITS_FROM) {
        return false;
    }
    let more_per_s = (there + 1.0) / with.as_secs_f32() - there / before.as_secs_f32();
    more_per_s * alone.as_secs_f32() < ADDS
}

/// `all_per_s`: what all nodes would answer where none waits.
fn all_stay<N: Borrow<Node>>(nodes: &[N], here: &Node, all_per_s: f32, now: Duration) -> bool {
    let of_proxy: u32 = nodes.iter().map(|node| node.borrow().in_flight).sum();
    let all = of_proxy + here.of_others + 1;
    let Some(all_here) = here.answers.expect(all as f32 / here.endpoints as f32, now) else {
        return true;
    };
    let endpoints: u32 = nodes.iter().map(|node| node.borrow().open()).sum();
    all_here.as_secs_f32() <= TOLERANCE * endpoints as f32 / all_per_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn nodes_are_drawn_as_often_as_they_weigh_and_none_twice_or_that_weighs_nothing() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut first = [0; 4];
        for _ in 0..10_000 {
            let places: Vec<usize> = drawn(vec![0.0, 1.0, 2.0, 7.0], &mut random).collect();
            assert!(places.len() == 2 && places[0] != places[1] && !places.contains(&0));
            first[places[0]] += 1;
        }
        for (place, wanted) in [(1, 1_000), (2, 2_000), (3, 7_000)] {
            assert!((wanted - 200..=wanted + 200).contains(&first[place]), "{first:?}");
        }
        assert_eq!(drawn(vec![0.0, 3.0], &mut random).collect::<Vec<_>>(), [1]);
        assert_eq!(drawn(vec![0.0], &mut random).count(), 0);
        assert_eq!(drawn(Vec::new(), &mut random).count(), 0);
    }

    #[test]
    fn a_node_is_full_where_one_more_waits_and_adds_less_than_nine_tenths_of_one_that_does_not() {
        const MS: Duration = Duration::from_millis(1);
        let mut node = Node::new(false, 15 * MS, 1);
        for (load, took_ms) in [(1.0, 23), (2.0, 26), (4.0, 26), (8.0, 60)] {
            node.answers.observe(load, took_ms * MS, MS);
        }
        // Alone; one more waits for the first, and adds 2/26 − 1/23; four wait no longer than two; eight do.
        let full = [0, 1, 3, 7].map(|in_flight| {
            node.in_flight = in_flight;
            is_full(&node, None, MS)
        });
        assert_eq!(full, [false, true, false, true]);
    }

    #[test]
    fn requests_leave_though_there_have_long_been_so_many_that_nobody_knows_how_fast_one_alone_is() {
        const MS: Duration = Duration::from_millis(1);
        let mut nodes = [
            Node::new(true, Duration::ZERO, 4),
            Node::new(false, 60 * MS, 4),
            Node::new(false, 60 * MS, 4),
        ];
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut chosen = |nodes: &[Node; 3], now| node(nodes, now, &mut random);
        // Sixteen at once here: 500 answers a second, where all twelve endpoints can give 618.
        nodes[0].in_flight = 15;
        for now_ms in 1..=10 {
            nodes[0].answers.observe(4.0, 32 * MS, now_ms * MS);
        }
        assert_ne!(chosen(&nodes, 10 * MS), Some(0), "nobody has ever seen one alone");
        nodes[0].answers.observe(1.0, 8 * MS, 20 * MS);
        for now_ms in 2..=100 {
            nodes[0].answers.observe(4.0, 32 * MS, now_ms * 100 * MS);
        }
        let now = 10_000 * MS;
        assert_ne!(chosen(&nodes, now), Some(0), "somebody has, long ago");
        // Eight at once are as fast here as they were with one at every endpoint.
        nodes[0].in_flight = 7;
        nodes[0].answers.observe(2.0, 16 * MS, now);
        assert_eq!(chosen(&nodes, now), Some(0));
    }
}
