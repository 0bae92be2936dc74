//! QoS 1 to an offline persistent session: how fast it is acknowledged, and whether `kill -9` breaks the promise.

use std::time::Duration;

use super::contender::{Contender, Site};
use super::flood::{Pace, Publisher, Until, fetch, open_session};
use super::options::Options;
use super::record::Figure;
use crate::{proc, stats};

/// Messages a second at which the time to acknowledge is promised.
pub(super) const PACED_PER_S: u32 = 20_000;

/// Publishes at a pace, then as fast as it can, kills the server under load, starts it again and fetches everything.
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
    let duration = Duration::from_millis(u64::from(options.duration_ms));
    let pace = Pace {
        per_s: PACED_PER_S,
        duration,
    };
    let late_us = publisher.run_at(pace).map_err(words)?;
    let paced = publisher.acknowledged() as usize;
    let cpu_before_s = own_cpu_s();
    publisher.run(Until::Elapsed(duration)).map_err(words)?;
    let cpu_s = own_cpu_s() - cpu_before_s;
    let in_time = publisher.acknowledged() as usize;
    standing.kill()?;
    let published = publisher.after_the_end();

    let standing = place.start()?;
    let fetched = fetch(&place.endpoint, &published.acknowledged).map_err(words)?;
    standing.stop()?;
    let (paced_us, latency_us) = published.latency_us[..in_time].split_at(paced);
    Ok(vec![
        (
            Figure::AcknowledgedPerS,
            Some(latency_us.len() as f64 / published.wall_s),
        ),
        (Figure::LatencyP50Us, quantile(latency_us, 0.5)),
        (Figure::LatencyP99Us, quantile(latency_us, 0.99)),
        (Figure::PacedLatencyP99Us, paced_p99_us(paced_us, &late_us)),
        (Figure::AcknowledgedMessages, Some(published.count() as f64)),
        (Figure::LostMessages, Some(fetched.lost as f64)),
        (Figure::DuplicateMessages, Some(fetched.duplicates as f64)),
        (Figure::GeneratorCpuShare, Some(cpu_s / published.wall_s)),
    ])
}

fn quantile(latency_us: &[f64], q: f64) -> Option<f64> {
    stats::quantile(&stats::sorted(latency_us), q).map(|estimate| estimate.value)
}

/// None where the generator was late by more than rule 2 allows: there is no result then.
fn paced_p99_us(latency_us: &[f64], late_us: &[f64]) -> Option<f64> {
    let is_on_time = stats::send_lag(quantile(late_us, 0.99)?, quantile(latency_us, 0.5)?).holds;
    is_on_time.then(|| quantile(latency_us, 0.99)).flatten()
}

fn own_cpu_s() -> f64 {
    proc::cpu_s(std::process::id()).unwrap_or_default()
}
