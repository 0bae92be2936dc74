//! Many loads of the models on a terminal: a row a load, a column a model.

use std::fmt::Write as _;

use super::plain::models;
use super::words;
use super::{ArmResult, CellSummary, Summary};

/// Loads from which on one table holds all of them.
const FROM: usize = 3;
const LABEL: usize = 44;

/// All loads in one table; `None` for few loads, which have a table each, and without models.
pub(super) fn overview(summary: &Summary) -> Option<String> {
    let models = models(summary);
    if models.is_empty() || summary.cells.len() < FROM {
        return None;
    }
    let width = (98 - LABEL) / models.len();
    let mut out = format!("  {:<LABEL$}", "round trip in ms: p50 / p99");
    for arm in &models {
        let _ = write!(out, "{:>width$}", words::shortened(&summary.arms[*arm].name, width - 1));
    }
    out.push('\n');
    for cell in &summary.cells {
        row(&mut out, cell, &models, width);
    }
    out.push_str("  A load is 64 B, QoS 1, every 200 ms, 1 device unless it says something else.\n");
    Some(out)
}

fn row(out: &mut String, cell: &CellSummary, models: &[usize], width: usize) {
    let _ = write!(
        out,
        "  {:<LABEL$}",
        words::shortened(&words::unusual(&cell.cell), LABEL - 1)
    );
    for arm in models {
        let text = cell.arm(*arm).map_or(String::new(), figures);
        let _ = write!(out, "{text:>width$}");
    }
    *out = out.trim_end().to_owned() + "\n";
}

fn figures(result: &ArmResult) -> String {
    if !result.is_valid() {
        return "invalid".to_owned();
    }
    let ms = |estimate: Option<crate::stats::Estimate>| match estimate {
        None => "too few".to_owned(),
        Some(estimate) if estimate.value.is_infinite() => "lost".to_owned(),
        Some(estimate) => words::number(estimate.value / 1e3),
    };
    format!("{} / {}", ms(result.response.p50), ms(result.response.p99))
}
