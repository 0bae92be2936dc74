//! What was set against what was got, in words and figures for any page.

use statrs::distribution::{Beta, ContinuousCDF};

use super::measure::Way;
use super::{Cell, Counters, Means, NetworkRun, Settings};
use crate::stats;

/// Probability left out on each side of a two-sided 95 % interval.
const TAIL: f64 = 0.025;

/// Headings of [`rows`]: round trips in ms, their error in µs, shares in percent (95 % intervals), bits a second.
pub(crate) const COLUMNS: [&str; 10] = [
    "", "expected", "p50", "error", "p99", "lost up", "down", "bit/s up", "down", "late",
];

/// Three hosts without anything between them, then every setting.
pub(crate) fn rows(run: &NetworkRun) -> Vec<[String; 10]> {
    let settings = run.cells.iter().map(|cell| row(label(cell), cell));
    std::iter::once(row("nothing between".to_owned(), &run.plain))
        .chain(settings)
        .collect()
}

/// What probes got of what was set, in words.
pub(crate) fn set_against_got(cell: &Cell) -> String {
    let [label, expected, p50, error, p99, ..] = row(label(cell), cell);
    let network = &cell.network;
    if network.not_varied.is_some() {
        return format!("all on this machine: p50 {p50} ms, p99 {p99} ms");
    }
    let expected = if network.edge_cloud.means.is_some() {
        format!("expected {expected} ms, ")
    } else {
        String::new()
    };
    format!("{label}: {expected}p50 {p50} ms ({error} µs), p99 {p99} ms")
}

/// What was set on the emulated line, and by what.
fn label(cell: &Cell) -> String {
    let means = match cell.network.edge_cloud.means {
        Some(Means::Netem) => "netem",
        Some(Means::Relay) => "relay",
        None => "none",
    };
    let Settings {
        bandwidth_bit_per_s,
        round_trip_us,
        ..
    } = cell.settings();
    format!("{bandwidth_bit_per_s}, {} ms, {means}", round_trip_us as f64 / 1e3)
}

fn row(label: String, cell: &Cell) -> [String; 10] {
    let expected_ms = cell.expected_us() / 1e3;
    let quantile = |q| cell.quantile_us(q).map(|us| us / 1e3);
    let error_us = quantile(0.5).map(|p50_ms| (p50_ms - expected_ms) * 1e3);
    let (up, down) = (cell.measured.up, cell.measured.down);
    [
        label,
        format!("{expected_ms:.3}"),
        milliseconds(quantile(0.5)),
        error_us
            .filter(|us| us.is_finite())
            .map_or(String::new(), |us| format!("{us:+.0}")),
        milliseconds(quantile(0.99)),
        lost(up),
        lost(down),
        rate(up.throughput_bit_per_s),
        rate(down.throughput_bit_per_s),
        cell.network.edge_cloud.counters.map_or_else(|| "–".to_owned(), late),
    ]
}

fn milliseconds(ms: Option<f64>) -> String {
    match ms {
        None => "too few".to_owned(),
        Some(ms) if ms.is_infinite() => "lost".to_owned(),
        Some(ms) => format!("{ms:.3}"),
    }
}

/// Share of the packets that our relay delivered too late, in percent.
fn late([up, down]: [Counters; 2]) -> String {
    let (late, all) = (up.delivered_late + down.delivered_late, up.delivered + down.delivered);
    format!("{:.1}", late as f64 * 100.0 / all.max(1) as f64)
}

/// As the interval of the share, in percent.
fn lost(way: Way) -> String {
    let (low, high) = share_interval(way.probes_sent - way.probes_arrived, way.probes_sent);
    format!("{:.1}–{:.1}", low * 100.0, high * 100.0)
}

/// Two-sided 95 % interval of a share of which `count` of `all` were seen (Clopper and Pearson, 1934).
fn share_interval(count: u64, all: u64) -> (f64, f64) {
    let quantile = |a: u64, b: u64, q: f64| Beta::new(a as f64, b as f64).map(|beta| beta.inverse_cdf(q)).ok();
    let low = quantile(count, all - count + 1, TAIL).unwrap_or(0.0);
    let high = quantile(count + 1, all - count, 1.0 - TAIL).unwrap_or(1.0);
    (low, high)
}

fn rate(bit_per_s: f64) -> String {
    let scales = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (scale, unit) = scales
        .into_iter()
        .find(|(scale, _)| bit_per_s >= *scale)
        .unwrap_or((1.0, ""));
    format!("{:.3}{unit}", bit_per_s / scale)
}

/// What has to be known to read the rows.
pub(crate) fn notes(run: &NetworkRun) -> Vec<String> {
    let bytes = run.plain.measured.probe_bytes;
    let mut notes = vec![
        format!(
            "Device to cloud through the edge. Expected round trip, ms: the delay that is set, and sending {bytes} \
             bytes (IP header included) twice. Error: that of p50, µs. Lost: 95 % interval of the share, %."
        ),
        "Throughput: IP packets of UDP where there is a bandwidth, else the payload of one TCP connection. The queue \
         holds 100 ms of the line, at least 6,000 bytes; what finds it full is dropped."
            .to_owned(),
    ];
    let lines = || run.cells.iter().map(|cell| cell.network.edge_cloud);
    if lines().any(|line| line.means == Some(Means::Relay)) {
        notes.push(
            "Relay: a thread of ours carries packets between two TUN devices. Late: share of them that it delivered \
             more than 100 µs after their time, %; many, where TCP takes all it can."
                .to_owned(),
        );
    }
    if run.options.jitter_us > 0 {
        notes.push(
            "Jitter keeps packets in order: one that follows another closely may have to wait for it, which makes \
             round trips longer."
                .to_owned(),
        );
    }
    if lines().any(|line| line.runs_first == Some(false)) {
        notes.push("The relay was not let run before other threads: busy cores delay its packets.".to_owned());
    }
    notes.extend(
        run.plain
            .network
            .not_varied
            .iter()
            .map(|words| format!("Not varied: {words}.")),
    );
    notes
}

impl Cell {
    /// What was set between edge and cloud.
    pub fn settings(&self) -> Settings {
        self.network.plan.edge_cloud.settings().copied().unwrap_or_default()
    }

    /// Microseconds that a probe's round trip takes by the settings alone.
    pub fn expected_us(&self) -> f64 {
        let settings = self.settings();
        let sending_ns = settings.bandwidth_bit_per_s.sending_ns(self.measured.probe_bytes);
        settings.round_trip_us as f64 + 2.0 * sending_ns as f64 / 1e3
    }

    /// Quantile of the round trips in microseconds, losses being infinite; none = too few (rule 5).
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let us = |ns: &Option<u64>| ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e3);
        let samples: Vec<f64> = self.measured.round_trips_ns.iter().map(us).collect();
        stats::quantile(&stats::sorted(&samples), q).map(|estimate| estimate.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_among_the_losses_is_said_to_be_lost() {
        let shown = [None, Some(30.1), Some(f64::INFINITY)].map(milliseconds);
        assert_eq!(shown, ["too few", "30.100", "lost"]);
    }

    #[test]
    fn the_interval_of_a_share_is_that_of_clopper_and_pearson() {
        // From scipy.stats.binomtest(k, n).proportion_ci(method="exact").
        for (count, all, low, high) in [
            (0, 400, 0.0, 0.009_180),
            (20, 2_000, 0.006_119, 0.015_401),
            (400, 400, 0.990_820, 1.0),
        ] {
            let (got_low, got_high) = share_interval(count, all);
            assert!(
                (got_low - low).abs() < 1e-5 && (got_high - high).abs() < 1e-5,
                "{got_low} {got_high}"
            );
        }
    }
}
