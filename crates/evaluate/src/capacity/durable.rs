//! QoS 1 to an offline persistent session: how fast it is acknowledged, and whether `kill -9` breaks the promise.

use std::time::Duration;

use super::contender::{Contender, Site};
use super::flood::{Publisher, Until, fetch, open_session};
use super::options::Options;
use super::record::Figure;
use crate::{proc, stats};

/// Publishes, kills the server under load, starts it again and fetches everything.
pub(super) fn measure(
    site: &Site,
    contender: Contender,
    name: &str,
    (options, payload_bytes): (&Options, u32),
) -> Result<Vec<(Figure, Option<f64>)>, String> {
    let words = |error: std::io::Error| error.to_string();
    let place = site.place(contender, name, false)?;
    let standing = place.start()?;
    open_session(&place.endpoint).map_err(words)?;
    let mut publisher = Publisher::connect(&place.endpoint, options.in_flight, payload_bytes).map_err(words)?;
    let cpu_before_s = own_cpu_s();
    let duration = Duration::from_millis(u64::from(options.duration_ms));
    publisher.run(Until::Elapsed(duration)).map_err(words)?;
    let cpu_s = own_cpu_s() - cpu_before_s;
    let in_time = publisher.acknowledged();
    standing.kill()?;
    let published = publisher.after_the_end();

    let standing = place.start()?;
    let fetched = fetch(&place.endpoint, &published.acknowledged).map_err(words)?;
    standing.stop()?;
    let latency_us = stats::sorted(&published.latency_us[..in_time as usize]);
    let quantile = |q| stats::quantile(&latency_us, q).map(|estimate| estimate.value);
    Ok(vec![
        (Figure::AcknowledgedPerS, Some(in_time as f64 / published.wall_s)),
        (Figure::LatencyP50Us, quantile(0.5)),
        (Figure::LatencyP99Us, quantile(0.99)),
        (Figure::AcknowledgedMessages, Some(published.count() as f64)),
        (Figure::LostMessages, Some(fetched.lost as f64)),
        (Figure::DuplicateMessages, Some(fetched.duplicates as f64)),
        (Figure::GeneratorCpuShare, Some(cpu_s / published.wall_s)),
    ])
}

fn own_cpu_s() -> f64 {
    proc::cpu_s(std::process::id()).unwrap_or_default()
}
