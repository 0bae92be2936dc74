//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::sentences::sentences;
use super::words::{self, count};
use super::{Against, ArmFacts, ArmResult, CellSummary, Findings, Summary, knees, models_table, promises};
use crate::balancing;
use crate::capacity;
use crate::gateway;
use crate::interference;
use crate::network;
use crate::processing;
use crate::simulation;
use crate::stats::Comparison;

/// Width of the arms' labels.
const LABEL: usize = 30;
/// Width of the label and the figures beside it.
const FIGURES: usize = LABEL + 35;

/// Every load with its arms, capacity, what follows in sentences, then the promises.
pub fn table(findings: &Findings) -> String {
    let mut out = String::new();
    for summary in &findings.experiments {
        if let Some(overview) = models_table::overview(summary) {
            out.push_str(&overview);
            out.push('\n');
        } else if summary.knees.is_empty() {
            for cell in &summary.cells {
                cell_table(&mut out, summary, cell);
                out.push('\n');
            }
        } else {
            out.push_str(&knees::table(summary));
            out.push('\n');
        }
        for line in sentences(summary) {
            out.push_str(&words::wrapped(&line));
        }
        out.push('\n');
    }
    for capacity in &findings.capacity {
        out.push_str(&capacity::table(&capacity.run, &capacity.rows));
        out.push('\n');
    }
    for found in &findings.gateways {
        out.push_str(&gateway::table(&found.run, &found.rows));
        out.push('\n');
    }
    for found in &findings.balancing {
        out.push_str(&balancing::table(&found.run, &found.cells));
        out.push('\n');
    }
    for found in &findings.interference {
        out.push_str(&interference::table(&found.run, &found.found));
        out.push('\n');
    }
    for found in &findings.processing {
        out.push_str(&processing::table(&found.run, &found.rows));
        out.push('\n');
    }
    for found in &findings.simulations {
        out.push_str(&simulation::table(&found.run, &found.cells, &found.worst));
        out.push('\n');
    }
    for run in &findings.networks {
        out.push_str(&network::table(run));
        out.push('\n');
    }
    out.push_str(&promises::table(&findings.promises));
    out
}

fn cell_table(out: &mut String, summary: &Summary, cell: &CellSummary) {
    let _ = writeln!(out, "  round trip, {}", words::cell(&cell.cell));
    let against = words::baseline(&summary.arms).map_or(String::new(), |arm| format!("× {}", arm.name));
    let method = words::method(summary);
    line(
        out,
        "",
        ["p50 µs", "p99 µs", "CPU µs", "lost"],
        words::shortened(&format!("{against} ({method})"), 32).as_str(),
    );
    for result in &cell.arms {
        let arm = &summary.arms[result.arm];
        if arm.again_of.is_none() {
            arm_rows(out, arm, result);
        }
    }
    if let Some(noise) = cell.noise {
        noise_rows(out, summary, &noise);
    }
}

fn noise_rows(out: &mut String, summary: &Summary, noise: &Against) {
    let label = format!(
        "noise of this machine ({} against itself)",
        summary.arms[noise.other].name
    );
    let ratio = |comparison: &Comparison| {
        let ratio = comparison.ratio.as_ref();
        ratio.map_or_else(|| words::verdict(&comparison.verdict), words::ratio)
    };
    let label = words::shortened(&label, FIGURES);
    let _ = writeln!(out, "  {label:<FIGURES$}  p50 {}", ratio(&noise.p50));
    line(out, "", [""; 4], &format!("p99 {}", ratio(&noise.p99)));
    if let Some(cpu) = &noise.server_cpu {
        line(out, "", [""; 4], &format!("CPU {}", ratio(cpu)));
    }
}

/// Up to three lines: label and figures, and beside them a ratio each.
fn arm_rows(out: &mut String, arm: &ArmFacts, result: &ArmResult) {
    let (p50, p99) = (
        words::micros(result.response.p50.as_ref()),
        words::micros(result.response.p99.as_ref()),
    );
    let cpu = result.load.server_cpu_us.map_or(String::new(), words::number);
    let lost = count(result.counts.lost + result.counts.unsent);
    let mark = if result.is_valid() { "" } else { "INVALID " };
    let (label, rest) = folded(&format!("{mark}{}", arm.label));
    let mut ratios = Vec::new();
    if let Some(against) = &result.against {
        ratios.push(format!("p50 {}", words::comparison(&against.p50)));
        ratios.push(format!("p99 {}", words::comparison(&against.p99)));
        ratios.extend(against.server_cpu.map(|cpu| format!("CPU {}", words::cost(&cpu))));
    } else if arm.baseline {
        ratios.push("1".to_owned());
    }
    let mut ratios = ratios.into_iter();
    line(
        out,
        &label,
        [&p50, &p99, &cpu, &lost],
        &ratios.next().unwrap_or_default(),
    );
    let second = ratios.next().unwrap_or_default();
    if !rest.is_empty() || !second.is_empty() {
        line(out, &rest, [""; 4], &second);
    }
    for more in ratios {
        line(out, "", [""; 4], &more);
    }
}

/// A label in two lines where it is too long for one.
fn folded(label: &str) -> (String, String) {
    if label.chars().count() <= LABEL {
        return (label.to_owned(), String::new());
    }
    let fits = label.char_indices().nth(LABEL).map_or(label.len(), |(at, _)| at);
    let at = label[..fits].rfind(' ').unwrap_or(fits);
    let rest = label[at..].trim_start();
    (label[..at].to_owned(), words::shortened(&format!("  {rest}"), LABEL))
}

fn line(out: &mut String, label: &str, [p50, p99, cpu, lost]: [&str; 4], rest: &str) {
    let text = format!("  {label:<LABEL$}{p50:>10}{p99:>10}{cpu:>7}{lost:>8}  {rest}");
    let _ = writeln!(out, "{}", text.trim_end());
}
