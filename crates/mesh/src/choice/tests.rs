use super::*;
use crate::nodes::{Elsewhere, Has};
use crate::terms::Terms;

fn way(here: usize, elsewhere: &[(&str, u16, bool)], policy: Policy) -> Way {
    let elsewhere = elsewhere.iter().map(|(node, endpoints, wakes)| Elsewhere {
        node: (*node).into(),
        has: Has {
            endpoints: *endpoints,
            wakes: *wakes,
            grows: false,
        },
    });
    Way {
        backends: vec!["10.0.0.1:80".parse().unwrap(); here].into(),
        sleepers: Arc::default(),
        elsewhere: elsewhere.collect(),
        terms: Terms {
            policy,
            ..Terms::default()
        },
        is_no_http: false,
        is_told: true,
        scalers: Arc::default(),
    }
}

/// All of them, at no known distance.
fn near() -> Arc<Near> {
    Arc::new(["one", "two", "three"].map(|node| (node.to_owned(), None)).into())
}

fn to(node: &str) -> To {
    To::Node(node.into())
}

fn chosen(way: &Way, failed: &[To]) -> Option<To> {
    let failed = failed.iter().map(|to| (to.clone(), "it fails".to_owned())).collect();
    Choice::choose(&Arc::default(), way, &near(), &failed).map(|chosen| chosen.to().clone())
}

#[test]
fn it_stays_here_while_somebody_is_here_and_goes_to_each_of_the_others_that_has_not_failed() {
    let way = way(1, &[("one", 2, false), ("two", 0, true)], Policy::LocalFirst);
    assert_eq!(chosen(&way, &[]), Some(To::Here));
    assert_eq!(chosen(&way, &[To::Here]), Some(to("one")));
    assert_eq!(chosen(&way, &[To::Here, to("one")]), Some(to("two")));
    assert_eq!(chosen(&way, &[To::Here, to("one"), to("two")]), None);
}

#[test]
fn a_node_that_is_not_near_has_none() {
    let way = way(0, &[("one", 2, false), ("four", 2, true)], Policy::RoundRobin);
    assert!((0..9).all(|_| chosen(&way, &[]) == Some(to("one"))));
    assert_eq!(chosen(&way, &[to("one")]), None);
}

#[test]
fn where_no_other_node_has_it_all_go_to_those_here_once() {
    let way = way(0, &[], Policy::LocalFirst);
    assert_eq!(chosen(&way, &[]), Some(To::Here));
    assert_eq!(chosen(&way, &[To::Here]), None);
}

#[test]
fn those_that_are_under_way_count() {
    let way = way(1, &[("one", 1, false)], Policy::LeastRequest);
    let choice = Arc::default();
    let next = || Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap();
    let [first, second] = [next(), next()];
    assert_ne!(first.to(), second.to());
    let only = first.to().clone();
    drop(first);
    assert_eq!(*next().to(), only);
    drop(second);
    assert!(held(&choice).nodes.iter().all(|known| known.node.in_flight == 0));
}

#[test]
fn who_waits_here_for_longer_than_the_way_takes_goes_to_another_node() {
    let way = way(1, &[("one", 1, false)], Policy::LocalFirst);
    let choice = Arc::default();
    let next = || Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap();
    // The one endpoint takes 8 ms for each, one at a time; the way to the other 5 ms more.
    let alone = next();
    assert_eq!(*alone.to(), To::Here);
    alone.answered(Duration::from_millis(8), None);
    let second = next();
    second.answered(Duration::from_millis(16), None);
    let third = next();
    assert_eq!(*third.to(), to("one"));
    third.answered(Duration::from_millis(13), Some(0));
    drop((alone, second, third));
    assert_eq!(*next().to(), To::Here);
}

#[test]
fn a_node_is_told_how_many_requests_others_than_it_have_here() {
    let way = way(1, &[("one", 1, false)], Policy::LocalFirst);
    let choice = Arc::default();
    let own = Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap();
    let (first, beside_first) = Choice::take(&choice, "one");
    let (second, beside_second) = Choice::take(&choice, "two");
    let (third, beside_third) = Choice::take(&choice, "one");
    assert_eq!([beside_first, beside_second, beside_third], [1, 2, 2]);
    drop((own, first, second, third));
    assert!(held(&choice).sent_here.is_empty());
}

#[test]
fn an_endpoint_with_fewer_requests_has_the_next_and_one_that_failed_none() {
    let mut way = way(2, &[], Policy::LocalFirst);
    way.backends = ["10.0.0.1:80", "10.0.0.2:80"].map(|at| at.parse().unwrap()).into();
    let choice = Arc::default();
    let next = |failed: &[SocketAddrV4]| Choice::endpoint(&choice, &way, failed);
    let [first, second] = [next(&[]).unwrap(), next(&[]).unwrap()];
    assert_ne!(first.at, second.at);
    let (free, busy) = (first.at, second.at);
    drop(first);
    assert_eq!(next(&[]).unwrap().at, free);
    assert_eq!(next(&[free]).unwrap().at, busy);
    assert!(next(&[free, busy]).is_none());
    drop(second);
    assert!(
        held(&choice)
            .endpoints
            .iter()
            .all(|known| known.endpoint.in_flight == 0)
    );
}

#[test]
fn an_endpoint_or_a_node_that_fails_again_and_again_is_asked_only_where_all_others_are_out_too() {
    let mut way = way(2, &[("one", 1, false)], Policy::RoundRobin);
    way.backends = ["10.0.0.1:80", "10.0.0.2:80"].map(|at| at.parse().unwrap()).into();
    let choice = Arc::default();
    let endpoints = || -> Vec<AtEndpoint> {
        let all = (0..6).map(|_| Choice::endpoint(&choice, &way, &[]).unwrap());
        all.collect()
    };
    let bad = way.backends[0];
    for _ in 0..2 {
        let of_bad = endpoints().into_iter().filter(|one| one.at == bad);
        of_bad.for_each(|one| one.failed());
    }
    assert!(endpoints().iter().all(|one| one.at != bad));
    let good = way.backends[1];
    endpoints()
        .iter()
        .filter(|one| one.at == good)
        .for_each(AtEndpoint::failed);
    assert!(endpoints().iter().any(|one| one.at == bad));

    let nodes = || -> Vec<InFlight> {
        let all = (0..15).map(|_| Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap());
        all.collect()
    };
    nodes()
        .iter()
        .filter(|one| *one.to() == to("one"))
        .for_each(InFlight::failed);
    assert!(nodes().iter().all(|one| *one.to() == To::Here));
}

#[test]
fn what_is_known_of_a_node_stays_while_others_come_and_go() {
    let before = way(1, &[("one", 1, false), ("two", 1, false)], Policy::LeastRequest);
    let choice = Arc::default();
    let failed = BTreeMap::from([(To::Here, String::new()), (to("one"), String::new())]);
    let at_two = Choice::choose(&choice, &before, &near(), &failed).unwrap();
    let after = way(1, &[("three", 1, false), ("two", 1, false)], Policy::LeastRequest);
    let others: Vec<InFlight> = (0..2)
        .map(|_| Choice::choose(&choice, &after, &near(), &BTreeMap::new()).unwrap())
        .collect();
    assert!(others.iter().all(|other| *other.to() != to("two")));
    drop((at_two, others));
    assert!(held(&choice).nodes.iter().all(|known| known.node.in_flight == 0));
}
fn later(choice: &Mutex<Choice>, s: u64) {
    held(choice).since -= Duration::from_secs(s);
}

#[test]
fn an_endpoint_that_has_just_become_ready_has_fewer_requests_until_its_slow_start_is_over() {
    let mut way = way(0, &[], Policy::RoundRobin);
    way.terms.slow_start = Duration::from_secs(10);
    let [old, new] = ["10.0.0.1:80", "10.0.0.2:80"].map(|at| at.parse().unwrap());
    way.backends = [old].into();
    let choice = Arc::default();
    let of_new = |way: &Way| {
        let all = (0..1_000).map(|_| Choice::endpoint(&choice, way, &[]).unwrap());
        all.filter(|one| one.at == new).count()
    };
    assert_eq!(of_new(&way), 0);
    way.backends = [old, new].into();
    let at_first = of_new(&way);
    later(&choice, 5);
    let halfway = of_new(&way);
    later(&choice, 5);
    assert!(
        (40..160).contains(&at_first) && (250..420).contains(&halfway),
        "{at_first} {halfway}"
    );
    assert_eq!(of_new(&way), 500);
    // Alone, it has all, however new it is.
    way.backends = ["10.0.0.3:80".parse().unwrap()].into();
    assert!(Choice::endpoint(&choice, &way, &[]).is_some());
}

#[test]
fn a_node_that_has_just_come_has_fewer_requests_until_its_slow_start_is_over_and_those_of_before_are_not_new() {
    let mut before = way(1, &[("one", 1, false)], Policy::RoundRobin);
    before.terms.slow_start = Duration::from_secs(10);
    let mut after = way(1, &[("one", 1, false), ("two", 2, false)], Policy::RoundRobin);
    after.terms = before.terms;
    after.backends = Arc::clone(&before.backends);
    let choice = Arc::default();
    let of = |way: &Way, node: &To| {
        let all = (0..1_200).map(|_| Choice::choose(&choice, way, &near(), &BTreeMap::new()).unwrap());
        all.filter(|one| one.to() == node).count()
    };
    assert_eq!(of(&before, &to("one")), 600);
    let at_first = of(&after, &to("two"));
    // Of three requests it could have one, of which it takes a tenth: 40, with a standard deviation of 6.
    assert!((10..70).contains(&at_first), "{at_first}");
    later(&choice, 10);
    assert_eq!(of(&after, &to("two")), 600);
}

#[test]
fn what_comes_from_a_node_that_can_have_more_endpoints_itself_is_no_demand_here() {
    let mut way = way(1, &[("one", 1, false), ("two", 1, false)], Policy::RoundRobin);
    let mut others = way.elsewhere.to_vec();
    others[0].has.grows = true;
    way.elsewhere = others.into();
    let choice = Arc::default();
    // Wherever those are led that came in here, they are.
    let own = [(); 3].map(|()| Choice::choose(&choice, &way, &near(), &BTreeMap::new()).unwrap());
    let sent = ["one", "two", "three"].map(|node| Choice::take(&choice, node).0);
    let demand = || held(&choice).demand(&way.elsewhere);
    assert_eq!((demand().under_way, demand().waiting), (5.0, 5.0));
    own[0].answered(Duration::from_millis(250), None);
    sent[1].answered(Duration::from_millis(500));
    own[1].reached();
    assert_eq!((demand().under_way, demand().waiting), (5.0, 3.0));
    drop((own, sent));
    let all_over = Demand {
        under_way: 0.0,
        waiting: 0.0,
        answered: 2,
        took_s: 0.75,
    };
    assert_eq!(demand(), all_over);
}

#[test]
fn what_is_under_way_to_an_endpoint_that_leaves_counts_until_it_is_over() {
    let mut before = way(2, &[], Policy::LocalFirst);
    before.backends = ["10.0.0.1:80", "10.0.0.2:80"].map(|at| at.parse().unwrap()).into();
    let choice = Arc::default();
    let both = [(); 2].map(|()| Choice::endpoint(&choice, &before, &[]).unwrap());
    let after = way(1, &[], Policy::LocalFirst);
    held(&choice).lead_to(&after);
    let leaving = || ["10.0.0.1", "10.0.0.2"].map(|ip| held(&choice).is_leaving(ip.parse().unwrap()));
    let in_flight = || -> Vec<u32> {
        let all = held(&choice);
        all.endpoints.iter().map(|known| known.endpoint.in_flight).collect()
    };
    assert_eq!(leaving(), [false, true]);
    held(&choice).lead_to(&before);
    assert_eq!((leaving(), in_flight()), ([false, false], vec![1, 1]));
    held(&choice).lead_to(&after);
    drop(both);
    assert_eq!((leaving(), in_flight()), ([false, false], vec![0]));
}
