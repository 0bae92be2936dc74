//! Which node a connection goes to, of those that have the service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use balance::{Chooser, Node, Policy};

use crate::door::Way;
use crate::held;

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum To {
    /// To somebody of this node.
    Here,
    /// To whom another one finds there.
    Node(String),
}

/// What a door's connections are spread by.
#[derive(Default)]
pub(crate) struct Choice {
    chooser: Option<(Policy, Chooser)>,
    /// Connections of this door that are at a node, or on their way there.
    in_flight: BTreeMap<To, u32>,
}

/// A connection that is at a node, for as long as this is kept.
pub(crate) struct InFlight {
    choice: Arc<Mutex<Choice>>,
    to: To,
}

impl Choice {
    /// Where one goes that nobody of those who `failed` had; `None`: nobody is left. Where all sleep, those of this node
    /// are woken, and else those of another.
    pub(crate) fn choose(
        choice: &Arc<Mutex<Self>>,
        way: &Way,
        failed: &BTreeMap<To, String>,
    ) -> Option<(To, InFlight)> {
        let to = held(choice).next(way, failed)?;
        *held(choice).in_flight.entry(to.clone()).or_default() += 1;
        let in_flight = InFlight {
            choice: Arc::clone(choice),
            to: to.clone(),
        };
        Some((to, in_flight))
    }

    fn next(&mut self, way: &Way, failed: &BTreeMap<To, String>) -> Option<To> {
        let may_be_here = !failed.contains_key(&To::Here);
        if way.elsewhere.is_empty() {
            return may_be_here.then_some(To::Here);
        }
        let is_here = |has: usize| if may_be_here { has as u32 } else { 0 };
        let mut nodes = vec![self.node(&To::Here, is_here(way.backends.len()))];
        let others = way.elsewhere.iter().map(|other| {
            let to = To::Node(other.node.clone());
            let endpoints = if failed.contains_key(&to) {
                0
            } else {
                other.has.endpoints
            };
            self.node(&to, endpoints.into())
        });
        nodes.extend(others);
        let random = &mut rand::rng();
        if self.chooser.as_ref().is_none_or(|(policy, _)| *policy != way.policy) {
            self.chooser = Some((way.policy, Chooser::new(way.policy, random)));
        }
        let (_, chooser) = self.chooser.as_mut().expect("it was made");
        // How long answers take is not known of connections, nor looked at.
        match chooser.node(&nodes, Duration::ZERO, random) {
            Some(0) => Some(To::Here),
            Some(place) => Some(To::Node(way.elsewhere[place - 1].node.clone())),
            None if may_be_here && !way.sleepers.is_empty() => Some(To::Here),
            None => {
                let mut asleep = way.elsewhere.iter().filter(|other| other.has.wakes);
                asleep.find_map(|other| {
                    let to = To::Node(other.node.clone());
                    (!failed.contains_key(&to)).then_some(to)
                })
            }
        }
    }

    fn node(&self, to: &To, endpoints: u32) -> Node {
        let in_flight = self.in_flight.get(to).copied().unwrap_or_default();
        Node {
            in_flight,
            ..Node::new(*to == To::Here, Duration::ZERO, endpoints)
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut choice = held(&self.choice);
        if let Some(in_flight) = choice.in_flight.get_mut(&self.to) {
            *in_flight -= 1;
            if *in_flight == 0 {
                choice.in_flight.remove(&self.to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Elsewhere, Has};

    fn way(here: usize, elsewhere: &[(&str, u16, bool)], policy: Policy) -> Way {
        let elsewhere = elsewhere.iter().map(|(node, endpoints, wakes)| Elsewhere {
            node: (*node).to_owned(),
            has: Has {
                endpoints: *endpoints,
                wakes: *wakes,
            },
        });
        Way {
            backends: vec!["10.0.0.1:80".parse().unwrap(); here].into(),
            sleepers: Arc::default(),
            elsewhere: elsewhere.collect(),
            policy,
        }
    }

    fn to(node: &str) -> To {
        To::Node(node.to_owned())
    }

    fn chosen(way: &Way, failed: &[To]) -> Option<To> {
        let failed = failed.iter().map(|to| (to.clone(), "it fails".to_owned())).collect();
        Choice::choose(&Arc::default(), way, &failed).map(|(to, _)| to)
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
    fn where_no_other_node_has_it_all_go_to_those_here_once() {
        let way = way(0, &[], Policy::LocalFirst);
        assert_eq!(chosen(&way, &[]), Some(To::Here));
        assert_eq!(chosen(&way, &[To::Here]), None);
    }

    #[test]
    fn those_that_are_under_way_count() {
        let way = way(1, &[("one", 1, false)], Policy::LeastRequest);
        let choice = Arc::default();
        let next = || Choice::choose(&choice, &way, &BTreeMap::new()).unwrap();
        let [first, second] = [next(), next()];
        assert_ne!(first.0, second.0);
        let only = first.0.clone();
        drop(first);
        assert_eq!(next().0, only);
        drop(second);
        assert!(held(&choice).in_flight.is_empty());
    }
}
