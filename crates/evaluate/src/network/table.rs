//! What was set against what was got, on a terminal: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::{COLUMNS, NetworkRun, notes, rows};
use crate::report::words::wrapped;

/// Every setting, then what has to be known to read them.
pub(crate) fn table(run: &NetworkRun) -> String {
    let mut out = String::new();
    line(&mut out, &COLUMNS.map(str::to_owned));
    for row in rows(run) {
        line(&mut out, &row);
    }
    out.push('\n');
    for note in notes(run) {
        out.push_str(&wrapped(&note));
    }
    out
}

fn line(out: &mut String, [label, expected, p50, error, p99, lost_up, lost_down, up, down, late]: &[String; 10]) {
    let _ = writeln!(
        out,
        "  {label:<23}{expected:>8}{p50:>9}{error:>7}{p99:>8}{lost_up:>9}{lost_down:>9}{up:>9}{down:>9}{late:>6}"
    );
}
