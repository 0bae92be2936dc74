//! The report: a pure function of the raw files (rule 14), as terminal table, HTML, CSV and JSON (rule 15).

mod csv;
mod findings;
mod html;
mod knees;
mod load_words;
#[cfg(test)]
mod model_tests;
mod models_table;
mod plain;
mod plot;
mod promises;
mod sentences;
mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
mod table;
pub(crate) mod words;

pub use csv::csv;
pub use findings::{Balancing, Capacity, Findings, Gateway, Interference, Processing, Simulation};
pub use html::html;
pub use promises::Line;
pub(crate) use summary::boxed;
pub use summary::{
    Added, Against, Aim, ArmFacts, ArmResult, BoxStatistics, Busy, CellSummary, Figures, FoundKnee, Judging, Latency,
    LawResult, Limit, Load, Promised, Quantity, RequirementVerdict, RunFacts, Shapes, Summary, Sweep, SweepKnees,
    Swept, summarise, summarise_by,
};
pub use table::table;
pub(crate) use words::{bytes, duration};

/// The findings as JSON, for programs: figures in µs, losses as the word `"lost"`.
///
/// # Panics
/// Never: findings hold nothing that JSON lacks.
pub fn json(findings: &Findings) -> String {
    serde_json::to_string_pretty(findings).expect("findings hold nothing that JSON lacks")
}

#[cfg(test)]
mod tests;
