//! What has just become ready has fewer requests at first: its caches are cold, its connections not made, its code not
//! compiled.

use std::borrow::BorrowMut;
use std::time::Duration;

use rand::Rng;

use crate::{Endpoint, Node};

/// At first: with nothing, nothing would become warm.
const FIRST: f32 = 0.1;

/// What an endpoint can do that has been ready for so long, of what it will: as much more each second until the time of
/// its slow start is over.
#[must_use]
pub fn share(ready_for: Duration, slow_start: Duration) -> f32 {
    match ready_for < slow_start {
        true => FIRST.max(ready_for.as_secs_f32() / slow_start.as_secs_f32()),
        false => 1.0,
    }
}

/// What can be chosen, or left out.
pub(crate) trait Candidate {
    /// Beside those that are open; zero where it is not.
    fn share_if_open(&self) -> f32;
    fn leave_out(&mut self, is_left_out: bool);
}

impl Candidate for Node {
    fn share_if_open(&self) -> f32 {
        if self.open() > 0 { self.share } else { 0.0 }
    }

    fn leave_out(&mut self, is_left_out: bool) {
        self.is_left_out = is_left_out;
    }
}

impl Candidate for Endpoint {
    fn share_if_open(&self) -> f32 {
        if self.is_left_out { 0.0 } else { self.share }
    }

    fn leave_out(&mut self, is_left_out: bool) {
        self.is_left_out = is_left_out;
    }
}

/// What a policy has `chosen` has it by chance, as often as its share is of the greatest; else the policy chooses
/// `again`, of the others. Where nobody else may have it, it does.
pub(crate) fn choose<C: Candidate, T: BorrowMut<C>, R: Rng>(
    all: &mut [T],
    chosen: usize,
    random: &mut R,
    mut again: impl FnMut(&[T], &mut R) -> Option<usize>,
) -> Option<usize> {
    let shares = all.iter().map(|one| one.borrow().share_if_open());
    let greatest = shares.fold(0.0, f32::max);
    let (mut next, mut passed_over) = (Some(chosen), Vec::new());
    while let Some(place) = next {
        let own: &mut C = all[place].borrow_mut();
        if random.random::<f32>() * greatest < own.share_if_open() {
            break;
        }
        own.leave_out(true);
        passed_over.push(place);
        next = again(all, random);
    }
    for place in passed_over {
        all[place].borrow_mut().leave_out(false);
    }
    next.or(Some(chosen))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{Chooser, Policy};

    const S: Duration = Duration::from_secs(1);
    const SLOW_START: Duration = Duration::from_secs(10);

    #[test]
    fn a_share_grows_from_a_tenth_to_all_of_it() {
        let shares = [0, 1, 5, 9, 10, 60].map(|ready_for_s| share(ready_for_s * S, SLOW_START));
        assert_eq!(shares, [0.1, 0.1, 0.5, 0.9, 1.0, 1.0]);
        assert_eq!(share(Duration::ZERO, Duration::ZERO), 1.0);
    }

    /// Of a thousand requests a second, each of which takes `takes_ms`, how many in each second one of four endpoints has
    /// that is ready at the third.
    fn of_the_new_one(policy: Policy, takes_ms: u64) -> Vec<u32> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut chooser = Chooser::new(policy, &mut random);
        let mut endpoints = vec![Endpoint::default(); 3];
        let (mut done, mut had) = (std::collections::VecDeque::new(), vec![0; 16]);
        for now_ms in 0..16_000 {
            if now_ms == 3_000 {
                endpoints.push(Endpoint::default());
            }
            if let Some(new) = endpoints.get_mut(3) {
                new.share = share(Duration::from_millis(now_ms - 3_000), SLOW_START);
            }
            while done.front().is_some_and(|(at_ms, _)| *at_ms <= now_ms) {
                let (_, place): (u64, usize) = done.pop_front().unwrap();
                endpoints[place].in_flight -= 1;
            }
            let place = chooser.endpoint(&mut endpoints, &mut random).unwrap();
            endpoints[place].in_flight += 1;
            done.push_back((now_ms + takes_ms, place));
            had[now_ms as usize / 1_000] += u32::from(place == 3);
        }
        had
    }

    #[test]
    fn by_each_policy_one_of_four_has_more_each_second_and_a_fourth_in_the_end() {
        // One after the other, and forty at once.
        for takes_ms in [1, 40] {
            for policy in [
                Policy::RoundRobin,
                Policy::Random,
                Policy::LeastRequest,
                Policy::LocalFirst,
            ] {
                let had = of_the_new_one(policy, takes_ms);
                let what = format!("{} {takes_ms} ms: {had:?}", policy.name());
                assert_eq!(had[..3], [0, 0, 0], "{what}");
                assert!(had[3] < 70, "{what}");
                for (second, had) in had.iter().enumerate().take(13).skip(4) {
                    // A share of s beside three whole ones.
                    let share = (second as f32 - 2.5) / 10.0;
                    let wanted = 1_000.0 * share / (3.0 + share);
                    assert!((*had as f32 - wanted).abs() < 60.0, "{second}: {wanted} {what}");
                }
                assert!(had[13..].iter().all(|had| (200..300).contains(had)), "{what}");
            }
        }
    }

    #[test]
    fn where_all_are_new_each_has_as_many_and_one_alone_has_all() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let new = Endpoint {
            share: 0.1,
            ..Endpoint::default()
        };
        for policy in Policy::ALL {
            let mut chooser = Chooser::new(policy, &mut random);
            let mut had = [0; 2];
            for _ in 0..1_000 {
                had[chooser.endpoint(&mut [new; 2], &mut random).unwrap()] += 1;
            }
            assert!((400..600).contains(&had[0]), "{}: {had:?}", policy.name());
            assert_eq!(chooser.endpoint(&mut [new], &mut random), Some(0));
            let mut alone = Node::new(true, Duration::ZERO, 1);
            alone.share = 0.1;
            assert!((0..100).all(|_| chooser.node(&mut [alone.clone()], S, &mut random) == Some(0)));
        }
    }

    #[test]
    fn a_node_whose_endpoints_are_new_has_a_share_of_what_it_would_have() {
        for policy in [
            Policy::RoundRobin,
            Policy::Random,
            Policy::LeastRequest,
            Policy::LocalFirst,
        ] {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let mut chooser = Chooser::new(policy, &mut random);
            let mut nodes = [Node::new(true, Duration::ZERO, 1), Node::new(false, Duration::ZERO, 1)];
            nodes[0].share = 0.2;
            let here = (0..10_000).filter(|_| chooser.node(&mut nodes, S, &mut random) == Some(0));
            let wanted = match policy {
                // It would have all.
                Policy::LocalFirst => 1_800..2_200,
                _ => 800..1_800,
            };
            let here = here.count();
            assert!(wanted.contains(&here), "{}: {here}", policy.name());
            assert!(nodes.iter().all(|node| !node.is_left_out));
        }
    }
}
