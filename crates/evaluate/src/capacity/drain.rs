//! A backlog at an edge whose cloud was away: how fast it goes to the cloud and into its database, and what that does
//! to messages that come meanwhile.

use std::io;
use std::time::{Duration, Instant};

use super::contender::Site;
use super::linked::{Linked, Side};
use super::live::Live;
use super::options::Options;
use super::readings;
use super::record::Figure;

const TOPIC: &str = "devices/backlog/telemetry";
/// Time between two messages that come meanwhile.
const LIVE_INTERVAL: Duration = Duration::from_millis(10);
/// A backlog that has not gone by then has failed.
const LIMIT: Duration = Duration::from_secs(300);

/// Fills the edge's log while the cloud is away, then watches it drain. `database`: as of [`Linked::set_up`].
pub(super) fn measure(
    site: &Site,
    name: &str,
    options: &Options,
    database: Option<&str>,
) -> Result<Vec<(Figure, Option<f64>)>, String> {
    let words = |error: io::Error| error.to_string();
    let linked = Linked::set_up(site, name, database, None)?;
    let cloud = linked.start(Side::Cloud)?;
    let mut edge = linked.start(Side::Edge)?;
    let live = Live::new(linked.endpoint(Side::Edge), linked.endpoint(Side::Cloud), LIVE_INTERVAL);
    let alone = live.alone().map_err(words)?;
    linked.reaches((Side::Edge, &mut edge), || live.sent(), LIMIT)?;
    cloud.stop(LIMIT)?;

    let before = linked.ledger(Side::Edge)?.delivered;
    let backlog = u64::from(options.queued);
    readings::fill(
        &linked.endpoint(Side::Edge),
        TOPIC,
        backlog,
        readings::typical(options.values),
    )
    .map_err(words)?;
    let mut cloud = linked.start(Side::Cloud)?;
    let first = linked.reaches((Side::Edge, &mut edge), || before + 1, LIMIT)?;
    let waiting = before + backlog - linked.ledger(Side::Edge)?.delivered;
    let sent_before = live.sent();
    let all = || before + backlog + live.sent() - sent_before;
    let (drained, ends) = live
        .during(|| {
            let in_cloud = linked.reaches((Side::Edge, &mut edge), all, LIMIT)?;
            // The cloud counts from its own start, with what the edge had sent before that among it.
            let stored = linked.reaches((Side::Cloud, &mut cloud), || backlog, LIMIT)?;
            Ok::<_, String>((in_cloud, stored))
        })
        .map_err(words)?;
    let (in_cloud, stored) = ends?;
    edge.stop(LIMIT)?;
    cloud.stop(LIMIT)?;
    let per_s = |end: Instant| Some(waiting as f64 / end.duration_since(first).as_secs_f64());
    let (alone_us, drained_us) = (alone.p99_us(), drained.p99_us());
    Ok(vec![
        (Figure::DrainedPerS, per_s(in_cloud)),
        (Figure::StoredPerS, per_s(stored)),
        (Figure::LiveP99Us, alone_us),
        (Figure::LiveDrainP99Us, drained_us),
        (
            Figure::LiveDrainRatio,
            drained_us.zip(alone_us).map(|(during, alone)| during / alone),
        ),
    ])
}

/// The same into PostgreSQL.
pub(super) fn into_postgres(site: &Site, name: &str, options: &Options) -> Result<Vec<(Figure, Option<f64>)>, String> {
    if let Some(url) = &options.database {
        return measure(site, name, options, Some(url));
    }
    let database = site.postgres()?;
    let figures = measure(site, name, options, Some(&database.url()))?;
    database.stop()?;
    Ok(figures)
}
