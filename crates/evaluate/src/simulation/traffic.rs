//! What each node of a site is asked.

use std::ops::Range;
use std::time::Duration;

use balance::simulate::{Distances, Load, Member};

use super::record::Traffic;

/// Of each node.
pub(super) const ENDPOINTS: u32 = 2;
const NODES_PER_PLACE: usize = 10;
const PLACES_PER_REGION: usize = 5;
/// Of a whole day; a step of it is a quarter of an hour.
pub(super) const STEPS: usize = 96;
/// How many requests an endpoint can answer in one: a day of 8 ms each goes by in some twelve seconds.
const REQUESTS_PER_STEP: u32 = 16;
/// From the day of one region to that of the next: three hours.
const STEPS_BETWEEN_REGIONS: usize = 12;
/// What is asked on average, of what a node's own endpoints can do.
const EVEN: f64 = 0.7;
const DAY: f64 = 0.5;
const BESIDE_CROWD: f64 = 0.4;
const CROWD: f64 = 3.0;
/// Steps of a crowd.
const CROWDED: Range<usize> = STEPS / 2..STEPS * 6 / 10;

/// Nodes of a place are a millisecond apart, places of a region 15 and regions 60.
pub(super) const DISTANCES: Distances = Distances::Nested {
    nodes_per_place: NODES_PER_PLACE,
    places_per_region: PLACES_PER_REGION,
    in_place: Duration::from_millis(1),
    in_region: Duration::from_millis(15),
    beyond: Duration::from_millis(60),
};

/// How long all steps take, where endpoints take so long for a request.
pub(super) fn measured(service: Duration) -> Duration {
    step(service) * STEPS as u32
}

fn step(service: Duration) -> Duration {
    service * REQUESTS_PER_STEP
}

/// What a node's own endpoints can do.
pub(super) fn able_per_s(service: Duration) -> f64 {
    f64::from(ENDPOINTS) / service.as_secs_f64()
}

/// In words, with what the day follows.
pub(super) fn words(day: &str) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    format!(
        "Sites: places of {NODES_PER_PLACE} nodes 1 ms apart, regions of {PLACES_PER_REGION} places 15 ms apart, regions 60 ms \
         apart; exponential service times. Even: each node is asked {} of what it can do. A day: {} on average, by the hours of \
         {day}, an hour in the time of {} requests; each region {} hours after the one before. Crowds: {}, and the first place of \
         each region {} for {} of the time; ten nodes are one place.",
        percent(EVEN),
        percent(DAY),
        REQUESTS_PER_STEP * STEPS as u32 / 24,
        STEPS_BETWEEN_REGIONS * 24 / STEPS,
        percent(BESIDE_CROWD),
        percent(CROWD),
        percent(CROWDED.len() as f64 / STEPS as f64)
    )
}

/// Those of a site, whose endpoints take so long for a request. `day`: how much is asked in each step, 1 on average.
pub(super) fn members(nodes: usize, traffic: Traffic, day: &[f64], service: Duration) -> Vec<Member> {
    let able_per_s = able_per_s(service);
    let shaped = |of_step: &dyn Fn(usize) -> f64| Load::Shaped {
        requests_per_s: (0..STEPS).map(|step| able_per_s * of_step(step)).collect(),
        step: step(service),
    };
    let load = |node: usize| {
        let place = node / NODES_PER_PLACE;
        let later = place / PLACES_PER_REGION * STEPS_BETWEEN_REGIONS % STEPS;
        let is_first = place.is_multiple_of(PLACES_PER_REGION);
        match traffic {
            Traffic::Even => shaped(&|_| EVEN),
            Traffic::Day => shaped(&|step| DAY * day[(step + STEPS - later) % STEPS]),
            Traffic::Crowd => shaped(&|step| match is_first && CROWDED.contains(&step) {
                true => CROWD,
                false => BESIDE_CROWD,
            }),
        }
    };
    let member = |node| Member {
        endpoints: ENDPOINTS,
        load: load(node),
    };
    (0..nodes).map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two endpoints of it can do one request a second.
    const SERVICE: Duration = Duration::from_secs(2);

    fn per_s(members: &[Member], node: usize) -> Vec<f64> {
        match &members[node].load {
            Load::Shaped { requests_per_s, .. } => requests_per_s.to_vec(),
            load => panic!("{load:?}"),
        }
    }

    #[test]
    fn a_region_has_its_day_three_hours_after_the_one_before() {
        let day: Vec<f64> = (0..STEPS).map(|step| step as f64).collect();
        let members = members(100, Traffic::Day, &day, SERVICE / 2);
        assert_eq!(per_s(&members, 0)[4], 4.0);
        assert_eq!(per_s(&members, 50)[4 + STEPS_BETWEEN_REGIONS], 4.0);
    }

    #[test]
    fn a_crowd_comes_to_the_first_place_of_each_region_for_some_of_the_time() {
        let members = members(100, Traffic::Crowd, &[], SERVICE);
        let crowded = |node| per_s(&members, node).iter().filter(|per_s| **per_s == CROWD).count();
        assert_eq!([0, 9, 10, 49, 50, 60].map(crowded), [9, 9, 0, 0, 9, 0]);
    }
}
