//! What the samples say: each figure of Selvedge beside Mosquitto's, their ratio within blocks, and whether a promise
//! is kept.

mod sources;

use serde::Serialize;

use super::contender::Contender;
use super::record::CapacityRun;
use crate::stats::{Bootstrap, Estimate, Interval, Method, Outcome, log_median, median};
use sources::{Source, sources};

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes, shown in decimal megabytes.
    Megabytes,
    /// Bytes, shown in units of 1,024.
    Kibibytes,
    /// Milliseconds.
    Ms,
    /// Microseconds, shown in milliseconds where they are many.
    Us,
    /// Messages a second.
    PerS,
    /// Messages, edges or calls, of all blocks together.
    Messages,
    /// Bytes a second, shown in decimal megabytes.
    MegabytesPerS,
    /// Seconds.
    Seconds,
    /// Watts.
    Watts,
    /// Joules, shown in thousands of them.
    Kilojoules,
    /// Megabytes of memory that are taken for hours.
    MegabyteHours,
    /// A share of a whole, shown in per cent.
    Share,
    /// One figure as a multiple of another.
    Times,
}

/// A promised figure, in the unit of its row's values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// A promise with its outcome, as far as the interval tells (rule 12).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What was promised.
    pub promise: Promise,
    /// Whether it is kept.
    pub outcome: Outcome,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub label: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Selvedge's figure with its interval over the blocks; of messages their sum. Absent where it was not measured.
    pub selvedge: Option<Estimate>,
    /// Mosquitto's.
    pub mosquitto: Option<Estimate>,
    /// Median of the ratios within blocks, Selvedge to Mosquitto; of messages none.
    pub ratio: Option<Estimate>,
    /// The promise for Selvedge's figure, if there is one.
    pub verdict: Option<Verdict>,
}

/// Every row that was measured, and those of which something is promised that was asked for and could not be measured.
pub fn summarise(run: &CapacityRun) -> Vec<Row> {
    let rows = sources(run).into_iter().filter_map(|source| {
        let selvedge = values(run, &source, source.selvedge);
        let mosquitto = values(run, &source, Contender::Mosquitto);
        let row = row(&source, &selvedge, &mosquitto, run.seed);
        let is_lacking = row.verdict.is_some() && source.part.is_of_link() && run.options.parts.contains(&source.part);
        (row.selvedge.is_some() || row.mosquitto.is_some() || is_lacking).then_some(row)
    });
    rows.chain(binary(run)).collect()
}

/// Block and value, by block.
fn values(run: &CapacityRun, source: &Source, contender: Contender) -> Vec<(u32, f64)> {
    let of_source = run.samples.iter().filter(|sample| {
        (sample.part, sample.figure, sample.contender, sample.payload_bytes)
            == (source.part, source.figure, contender, source.payload_bytes)
    });
    of_source
        .filter_map(|sample| Some((sample.block, sample.value?)))
        .collect()
}

fn row(source: &Source, selvedge: &[(u32, f64)], mosquitto: &[(u32, f64)], seed: u64) -> Row {
    let bootstrap = &mut Bootstrap::new(seed, 0, Bootstrap::RESAMPLES);
    let each = |values: &[(u32, f64)]| values.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let mut figure = |values: &[(u32, f64)]| match source.unit {
        Unit::Messages => sum(&each(values)),
        _ => estimate(&each(values), median, bootstrap),
    };
    let (of_selvedge, of_mosquitto) = (figure(selvedge), figure(mosquitto));
    let ratios: Vec<f64> = pairs(selvedge, mosquitto).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = match source.unit {
        Unit::Messages => None,
        _ => estimate(&ratios, log_median, bootstrap),
    };
    Row {
        label: source.label.clone(),
        unit: source.unit,
        verdict: source.promise.map(|promise| Verdict {
            promise,
            outcome: outcome(promise, of_selvedge.as_ref()),
        }),
        selvedge: of_selvedge,
        mosquitto: of_mosquitto,
        ratio,
    }
}

/// Values of the same block.
fn pairs(ours: &[(u32, f64)], theirs: &[(u32, f64)]) -> impl Iterator<Item = (f64, f64)> {
    ours.iter().filter_map(|(block, value)| {
        let other = theirs.iter().find(|(other, _)| other == block);
        other.map(|(_, other)| (*value, *other))
    })
}

fn estimate(values: &[f64], middle: fn(&[f64]) -> Option<f64>, bootstrap: &mut Bootstrap) -> Option<Estimate> {
    let value = middle(values)?;
    Some(Estimate::over_units(value, values, || bootstrap.of(values, middle)))
}

/// A count has no uncertainty.
fn sum(values: &[f64]) -> Option<Estimate> {
    let value: f64 = values.iter().sum();
    (!values.is_empty()).then_some(Estimate::exact(value))
}

pub(crate) fn outcome(promise: Promise, figure: Option<&Estimate>) -> Outcome {
    Outcome::of(figure.and_then(|figure| {
        let Interval { low, high, method } = figure.interval;
        match promise {
            // A range of four blocks or fewer says nothing of the next one.
            _ if method == Method::Range && low < high => None,
            Promise::AtMost(bound) if high <= bound => Some(true),
            Promise::AtMost(bound) if low > bound => Some(false),
            Promise::AtLeast(bound) if low >= bound => Some(true),
            Promise::AtLeast(bound) if high < bound => Some(false),
            _ => None,
        }
    }))
}

fn binary(run: &CapacityRun) -> Option<Row> {
    let size = |contender| {
        let program = run
            .programs
            .iter()
            .find(|program| program.contenders.contains(&contender));
        program.map(|program| Estimate::exact(program.binary_bytes as f64))
    };
    let (selvedge, mosquitto) = (size(Contender::SelvedgeDisk), size(Contender::Mosquitto));
    let promise = Promise::AtMost(25e6);
    selvedge?;
    Some(Row {
        label: "program file".to_owned(),
        unit: Unit::Megabytes,
        ratio: selvedge
            .zip(mosquitto)
            .map(|(ours, theirs)| Estimate::exact(ours.value / theirs.value)),
        verdict: Some(Verdict {
            promise,
            outcome: outcome(promise, selvedge.as_ref()),
        }),
        selvedge,
        mosquitto,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::{Figure, Options, Part, Sample};
    use crate::environment::Environment;

    fn run(parts: &[Part], samples: &[(Part, Figure, f64)]) -> CapacityRun {
        let sample = |(part, figure, value): &(Part, Figure, f64)| Sample {
            block: 0,
            part: *part,
            contender: Contender::SelvedgeDisk,
            figure: *figure,
            payload_bytes: None,
            value: Some(*value),
        };
        CapacityRun {
            format: crate::capacity::FORMAT,
            experiment: "capacity".to_owned(),
            options: Options {
                parts: parts.to_vec(),
                ..Options::default()
            },
            seed: 1,
            programs: Vec::new(),
            samples: samples.iter().map(sample).collect(),
            skipped: Vec::new(),
            environment: Environment::default(),
        }
    }

    /// Label and outcome of each row that holds a promise.
    fn verdicts(run: &CapacityRun) -> Vec<(String, Outcome)> {
        let rows = summarise(run).into_iter();
        rows.filter_map(|row| Some((row.label, row.verdict?.outcome))).collect()
    }

    #[test]
    fn a_promise_that_was_asked_for_and_not_measured_is_undecided_and_others_are_not_spoken_of() {
        let found = verdicts(&run(&[Part::Cut], &[]));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|(_, outcome)| *outcome == Outcome::Undecided));
        assert_eq!(summarise(&run(&[Part::Memory], &[])), []);
    }

    #[test]
    fn one_message_lost_by_a_cut_is_a_promise_missed_and_an_edge_back_in_time_is_one_met() {
        let samples = [
            (Part::Cut, Figure::CutLostMessages, 1.0),
            (Part::Storm, Figure::LineSyncMs, 24_000.0),
            (Part::Storm, Figure::CloudSyncMs, 31_000.0),
        ];
        let found = verdicts(&run(&[Part::Storm, Part::Cut], &samples));
        let of = |label: &str| {
            found
                .iter()
                .find(|(found, _)| found.contains(label))
                .map(|(_, outcome)| *outcome)
        };
        assert_eq!(of("acknowledged and lost"), Some(Outcome::Fail));
        assert_eq!(of("in sync, line back"), Some(Outcome::Pass));
        assert_eq!(of("in sync, cloud killed"), Some(Outcome::Fail));
    }
}
