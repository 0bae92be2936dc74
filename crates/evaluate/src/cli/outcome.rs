//! Where raw files and their report go.

use std::path::PathBuf;

use super::{Failure, say};
use crate::raw::Raw;
use crate::report::{self, Findings};

/// What is done with the runs.
#[derive(Debug, clap::Args)]
pub(super) struct Outcome {
    /// Directory for raw files and the report
    #[arg(long, default_value = "target/evaluate", value_name = "DIR")]
    pub(super) out: PathBuf,
    /// What is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A table for people
    #[default]
    Table,
    /// The whole summary for programs
    Json,
}

/// Make the report of raw files again, of any experiments; several with the same options are runs of one
#[derive(Debug, clap::Args)]
pub struct Report {
    /// The raw files
    #[arg(required = true)]
    raw_files: Vec<PathBuf>,
    #[command(flatten)]
    outcome: Outcome,
}

impl Report {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let raw: Vec<Raw> = self
            .raw_files
            .iter()
            .map(|path| Raw::read(path))
            .collect::<Result<_, _>>()?;
        self.outcome.report(raw)
    }
}

impl Outcome {
    /// Writes the report as HTML, CSV and JSON, and prints it.
    pub(super) fn report(&self, raw: Vec<Raw>) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.out).map_err(|error| format!("{}: {error}", self.out.display()))?;
        let findings = Findings::of(raw);
        let json = report::json(&findings);
        for (name, text) in [
            ("report.html", report::html(&findings)),
            ("report.csv", report::csv(&findings)),
        ] {
            self.write(name, &text)?;
        }
        self.write("report.json", &json)?;
        match self.output {
            Output::Json => say(format_args!("{json}\n")),
            Output::Table => {
                say(report::table(&findings));
                let page = self.out.join("report.html");
                say(format_args!("  Report with plots: {}\n", page.display()));
            }
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.out.join(name);
        Ok(std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?)
    }
}
