use std::iter::repeat_with;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn site(endpoints: [u32; 3]) -> Vec<Node> {
    let node = |(place, count): (usize, u32)| Node::new(place == 0, 15 * MS * u32::from(place > 0), count);
    endpoints.into_iter().enumerate().map(node).collect()
}

/// Endpoints that have so many requests.
fn with(in_flight: [u32; 3]) -> [Endpoint; 3] {
    in_flight.map(|in_flight| Endpoint {
        in_flight,
        ..Endpoint::default()
    })
}

/// How many of 1,200 requests, each answered before the next, each node has.
fn shares(policy: Policy, endpoints: [u32; 3]) -> [usize; 3] {
    let (mut nodes, mut random) = (site(endpoints), ChaCha8Rng::seed_from_u64(1));
    let mut chooser = Chooser::new(policy, &mut random);
    let mut shares = [0; 3];
    let chosen = repeat_with(|| chooser.node(&mut nodes, MS, &mut random));
    chosen.take(1_200).flatten().for_each(|node| shares[node] += 1);
    shares
}

#[test]
fn in_turn_every_endpoint_has_as_many() {
    assert_eq!(shares(Policy::RoundRobin, [8, 3, 1]), [800, 300, 100]);
}

#[test]
fn by_chance_and_by_least_request_every_endpoint_has_about_as_many() {
    for policy in [Policy::Random, Policy::LeastRequest] {
        for (share, fair) in shares(policy, [8, 3, 1]).into_iter().zip([800_usize, 300, 100]) {
            assert!(share.abs_diff(fair) < 60, "{}: {share} of {fair}", policy.name());
        }
    }
}

#[test]
fn local_and_local_first_stay_while_nobody_waits() {
    assert_eq!(shares(Policy::Local, [1, 3, 8]), [1_200, 0, 0]);
    assert_eq!(shares(Policy::LocalFirst, [1, 3, 8]), [1_200, 0, 0]);
}

#[test]
fn where_the_node_has_no_endpoint_all_but_local_go_to_another() {
    for policy in Policy::ALL {
        let shares = shares(policy, [0, 3, 1]);
        let all = if policy == Policy::Local { 0 } else { 1_200 };
        assert_eq!((shares[0], shares[1] + shares[2]), (0, all), "{}", policy.name());
    }
}

#[test]
fn where_no_node_has_an_endpoint_none_is_chosen() {
    for policy in Policy::ALL {
        assert_eq!(shares(policy, [0, 0, 0]), [0, 0, 0], "{}", policy.name());
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut chooser = Chooser::new(policy, &mut random);
        assert_eq!(chooser.node(&mut [] as &mut [Node], MS, &mut random), None);
        assert_eq!(chooser.endpoint(&mut [] as &mut [Endpoint], &mut random), None);
    }
}

#[test]
fn of_endpoints_with_as_few_requests_each_has_its_turn() {
    for policy in [
        Policy::RoundRobin,
        Policy::Local,
        Policy::LeastRequest,
        Policy::LocalFirst,
    ] {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut chooser = Chooser::new(policy, &mut random);
        let mut had = [0; 3];
        for _ in 0..30 {
            had[chooser.endpoint(&mut with([4, 4, 4]), &mut random).unwrap()] += 1;
        }
        assert_eq!(had, [10, 10, 10], "{}", policy.name());
    }
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut chooser = Chooser::new(Policy::LocalFirst, &mut random);
    assert!((0..9).all(|_| chooser.endpoint(&mut with([4, 3, 4]), &mut random) == Some(1)));
}

#[test]
fn a_policy_is_known_by_its_name_alone() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    let error = "lokal".parse::<Policy>().unwrap_err().to_string();
    assert_eq!(
        error,
        "\"lokal\" is no policy; there are round-robin, random, local, least-request and local-first"
    );
}
