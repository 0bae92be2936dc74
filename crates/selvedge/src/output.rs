//! How answers are shown.

use std::io::Write;

use clap::ValueEnum;
pub(crate) use evaluate::cli::{complain, say};
use serde::Serialize;

/// For a person or a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl Output {
    /// Prints `value` as JSON, or what `text` makes of it.
    pub(crate) fn show<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) {
        match self {
            Output::Json => {
                let json = serde_json::to_string_pretty(value).expect("answers are JSON");
                say(format_args!("{json}\n"));
            }
            Output::Text => say(text(value)),
        }
    }
}

/// Writes a line to standard error about what was done beside what was asked for, if that is possible.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "note: {text}");
}

/// What went wrong, with its causes; one that is quoted already is not said again.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.contains(&cause) {
            let before = if said.is_empty() { "" } else { ": " };
            said += &format!("{before}{cause}");
        }
    }
    said
}

/// Rows under a header, each column as wide as its widest cell.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(header[column].len())
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = padded.collect::<Vec<_>>().join("   ");
        format!("{}\n", line.trim_end())
    };
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    line(header.to_vec()) + &rows.collect::<String>()
}

/// `name=value name=value`.
pub(crate) fn labels(labels: &std::collections::BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let error = anyhow::anyhow!("no such file")
            .context("a.toml: no such file")
            .context("starting");
        assert_eq!(message(&error), "starting: a.toml: no such file");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["pump-7".to_owned(), "yes".to_owned()], ["x".to_owned(), String::new()]];
        assert_eq!(table(["ID", "HERE"], &rows), "ID       HERE\npump-7   yes\nx\n");
    }
}
