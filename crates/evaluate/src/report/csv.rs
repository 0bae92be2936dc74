//! One row an arm and load, for spreadsheets and scripts.

use std::fmt::Write as _;

use super::{ArmResult, CellSummary, Findings, Summary, words};
use crate::stats::Estimate;

const COLUMNS: &str = "arm,load,interval_us,payload_bytes,devices,qos,concurrency,blocks,valid,\
    scheduled,answered,lost,unsent,duplicates,reordered,mean_us,\
    p50_us,p50_low_us,p50_high_us,p95_us,p95_low_us,p95_high_us,p99_us,p99_low_us,p99_high_us,\
    p999_us,p999_low_us,p999_high_us,interval_method,send_lag_p99_us,offered_per_s,answered_per_s,\
    server_cpu_us_per_round_trip,server_rss_bytes,slope_ms_per_message,deterministic,\
    p50_ratio,p50_ratio_low,p50_ratio_high,p50_verdict,p99_ratio,p99_ratio_low,p99_ratio_high,p99_verdict,\
    server_cpu_ratio,server_cpu_ratio_low,server_cpu_ratio_high,server_cpu_verdict,\
    line_round_trip_us,line_bandwidth_bit_per_s,line_busy,servers_busy,edge_busy,\
    p50_added_us,p50_added_low_us,p50_added_high_us,p99_added_us,p99_added_low_us,p99_added_high_us";

/// RFC 4180 with a header; empty where there is no value, `inf` where it is among the losses.
pub fn csv(findings: &Findings) -> String {
    let mut out = format!("{COLUMNS}\r\n");
    for summary in &findings.experiments {
        for cell in &summary.cells {
            for result in &cell.arms {
                let fields: Vec<String> = fields(summary, cell, result)
                    .iter()
                    .map(|field| quoted(field))
                    .collect();
                let _ = write!(out, "{}\r\n", fields.join(","));
            }
        }
    }
    out
}

fn fields(summary: &Summary, cell: &CellSummary, result: &ArmResult) -> Vec<String> {
    let load = &cell.cell;
    let counts = &result.counts;
    let mut fields = vec![
        summary.arms[result.arm].name.clone(),
        format!("{:?}", load.load).to_lowercase(),
        optional(load.interval_us),
        load.payload_bytes.to_string(),
        load.devices.to_string(),
        load.qos.to_string(),
        load.concurrency.to_string(),
        result.blocks.to_string(),
        result.is_valid().to_string(),
    ];
    let counted = [
        counts.scheduled,
        counts.answered,
        counts.lost,
        counts.unsent,
        counts.duplicates,
        counts.reordered,
    ];
    fields.extend(counted.map(|count| count.to_string()));
    fields.push(optional(result.response.mean_us));
    let response = &result.response;
    for quantile in [response.p50, response.p95, response.p99, response.p999] {
        fields.extend(figure(quantile));
    }
    fields.push(
        response
            .p50
            .map_or(String::new(), |p50| p50.interval.method.words().to_owned()),
    );
    fields.push(result.send_lag_p99_us.to_string());
    fields.extend([
        result.load.offered_per_s.to_string(),
        result.load.answered_per_s.to_string(),
    ]);
    fields.extend([
        optional(result.load.server_cpu_us),
        optional(result.load.server_rss_bytes),
    ]);
    fields.push(optional(result.trend.map(|trend| trend.slope_per_message.value / 1e3)));
    fields.push(words::outcome(result.determinism.outcome()).to_owned());
    for comparison in [
        result.against.map(|against| against.p50),
        result.against.map(|against| against.p99),
        result.against.and_then(|against| against.server_cpu),
    ] {
        fields.extend(figure(comparison.and_then(|comparison| comparison.ratio)));
        fields.push(comparison.map_or(String::new(), |comparison| words::verdict(&comparison.verdict)));
    }
    fields.extend(of_line(cell, result));
    fields
}

/// The line between edge and cloud, what was busy, and what the way through the edge adds.
fn of_line(cell: &CellSummary, result: &ArmResult) -> Vec<String> {
    let wan = cell.cell.wan;
    let mut fields = vec![
        optional(wan.map(|wan| wan.round_trip_us)),
        optional(wan.and_then(|wan| wan.bandwidth_bit_per_s.bit_per_s)),
        optional(result.busy.line),
        optional(result.busy.cpu),
        optional(result.busy.edge_cpu),
    ];
    let added = cell.added.iter().find(|added| added.arm == result.arm);
    fields.extend(figure(added.and_then(|added| added.p50_us)));
    fields.extend(figure(added.and_then(|added| added.p99_us)));
    fields
}

fn figure(estimate: Option<Estimate>) -> [String; 3] {
    let Some(Estimate { value, interval }) = estimate else {
        return [const { String::new() }; 3];
    };
    [value, interval.low, interval.high].map(|value| value.to_string())
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
