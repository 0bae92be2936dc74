//! A backlog over a line of 300 ms, and over the same line without delay: what delay costs of the throughput.

use std::time::{Duration, Instant};

use super::contender::Site;
use super::linked::{Linked, Side};
use super::options::Options;
use super::readings;
use super::record::Figure;
use crate::network::{Means, Plan, Settings};

/// What the line adds to a round trip.
pub(super) const ROUND_TRIP_US: u64 = 300_000;
const TOPIC: &str = "devices/far/telemetry";
/// A backlog that has not gone by then has failed.
const LIMIT: Duration = Duration::from_secs(300);

/// Both lines are emulated by the same relay, so that they differ in nothing but delay.
pub(super) fn measure(site: &Site, name: &str, options: &Options) -> Result<Vec<(Figure, Option<f64>)>, String> {
    let near_per_s = over_line(site, &format!("{name}-near"), options, 0)?;
    let far_per_s = over_line(site, &format!("{name}-far"), options, ROUND_TRIP_US)?;
    Ok(vec![
        (Figure::NearDrainedPerS, Some(near_per_s)),
        (Figure::FarDrainedPerS, Some(far_per_s)),
        (Figure::FarDrainRatio, Some(far_per_s / near_per_s)),
    ])
}

/// Messages a second of the middle half of the backlog: TCP and the link need some round trips to find out what a line
/// carries, which is no matter of throughput.
fn over_line(site: &Site, name: &str, options: &Options, round_trip_us: u64) -> Result<f64, String> {
    let settings = Settings {
        round_trip_us,
        ..Settings::default()
    };
    let network = site.network(&Plan {
        means: Some(Means::Relay),
        ..Plan::wan(settings, 0)
    })?;
    let linked = Linked::set_up(site, name, None, Some(&network))?;
    let (mut edge, backlog) = (linked.start(Side::Edge)?, u64::from(options.queued));
    readings::fill(
        &linked.endpoint(Side::Edge),
        TOPIC,
        backlog,
        readings::typical(options.values),
    )
    .map_err(|error| error.to_string())?;
    let cloud = linked.start(Side::Cloud)?;
    let mut passes = |messages: u64| -> Result<(u64, Instant), String> {
        let at = linked.reaches((Side::Edge, &mut edge), || messages, LIMIT)?;
        Ok((linked.ledger(Side::Edge)?.delivered, at))
    };
    let (first, began) = passes(backlog / 4)?;
    let (last, ended) = passes(backlog / 4 * 3)?;
    for server in [edge, cloud] {
        server.kill(LIMIT)?;
    }
    Ok((last - first) as f64 / ended.duration_since(began).as_secs_f64())
}
