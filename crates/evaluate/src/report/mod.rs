//! The report: a pure function of the raw files (rule 14), as terminal table, HTML, CSV and JSON (rule 15).

mod csv;
mod html;
mod plot;
mod sentences;
mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
mod table;
pub(crate) mod words;

pub use csv::csv;
pub use html::html;
pub use summary::{
    Against, ArmFacts, ArmResult, BoxStatistics, CellSummary, Figures, Judging, Latency, LawResult, Load,
    RequirementVerdict, RunFacts, Shapes, Summary, Sweep, SweepKnees, Swept, summarise, summarise_by,
};
pub use table::table;
pub(crate) use words::{bytes, duration};

/// The summary as JSON, for programs: figures in µs, losses as the word `"lost"`.
///
/// # Panics
/// Never: a summary holds nothing that JSON lacks.
pub fn json(summary: &Summary) -> String {
    serde_json::to_string_pretty(summary).expect("a summary holds nothing that JSON lacks")
}

#[cfg(test)]
mod tests;
