//! The terminal table: within 100 columns (rule 15). The first paper's Table III, cell by cell.

use std::fmt::Write as _;

use super::experiment::{estimate, jobs};
use super::options::Options;
use super::record::{Model, Place, ProcessingRun, Task};
use super::summary::{Row, SAME_WITHIN};
use crate::report::words;
use crate::stats::Estimate;

/// Every cell, then what has to be known to read it.
pub fn table(run: &ProcessingRun, rows: &[Row]) -> String {
    let mut out = String::new();
    for (model, task) in cells(run) {
        let of_cell: Vec<&Row> = rows
            .iter()
            .filter(|row| (row.job.model, row.job.task) == (model, task))
            .collect();
        if of_cell.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  {}", heading(model, task));
        line(
            &mut out,
            ["", "one takes", "× host", "CPU %", "memory MB", "start s", "CPU of one"].map(str::to_owned),
        );
        for row in of_cell {
            line(&mut out, figures(row));
        }
        out.push('\n');
    }
    for note in notes(run, rows) {
        out.push_str(&words::wrapped(&note));
    }
    out
}

/// Models with their tasks.
pub(crate) fn cells(run: &ProcessingRun) -> Vec<(Model, Task)> {
    let models = run.options.models.iter();
    models
        .flat_map(|model| run.options.tasks.iter().map(|task| (*model, *task)))
        .collect()
}

/// What the rows of a cell are about.
pub(crate) fn heading(model: Model, task: Task) -> String {
    format!("{}, {}", model.name(), task.name())
}

fn line(out: &mut String, [place, one, host, cpu, memory, start, each]: [String; 7]) {
    let text = format!("  {place:<11} {one:<22} {host:<18} {cpu:<10} {memory:<10} {start:>7} {each:>11}");
    let _ = writeln!(out, "{}", text.trim_end());
}

/// Place, how long one takes, as a multiple of the host, processor and memory at most and on average, cold start, and
/// processor time of one.
pub(crate) fn figures(row: &Row) -> [String; 7] {
    let ratio = row.against_host.and_then(|comparison| comparison.ratio);
    let percent = row.cpu_share.map(|share| format!("{:.0}", share * 100.0));
    let memory = row.memory_bytes.map(|bytes| format!("{:.0}", bytes / 1e6));
    [
        row.job.place.name().to_owned(),
        time(row.p50_us.as_ref()),
        ratio.as_ref().map_or(String::new(), words::ratio),
        percent.join(", "),
        memory.join(", "),
        row.cold_start_s
            .map_or(String::new(), |start| format!("{:.1}", start.value)),
        words::duration(row.cpu_us),
    ]
}

/// `1.24 s (1.20…1.31)`.
fn time(estimate: Option<&Estimate>) -> String {
    let Some(Estimate { value, interval }) = estimate else {
        return "–".to_owned();
    };
    let middle = words::duration(*value);
    if interval.low == interval.high {
        return middle;
    }
    let bare = |us: f64| {
        let text = words::duration(us);
        match (text.split_once(' '), middle.split_once(' ')) {
            (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
            _ => text,
        }
    };
    format!("{middle} ({}…{})", bare(interval.low), bare(interval.high))
}

/// What has to be known to read the figures.
pub(crate) fn notes(run: &ProcessingRun, rows: &[Row]) -> Vec<String> {
    let options = &run.options;
    let about = |program: &crate::gateway::About| format!("{}: {}.", program.version, program.settings);
    let mut notes: Vec<String> = run.programs.iter().map(about).collect();
    let looking = run.done.iter().map(|done| done.seen.looking_share).fold(0.0, f64::max);
    notes.push(format!(
        "{} blocks in random order, seed {}; middle training or prediction with its interval; × host: means within blocks, and the same \
         within {:.0} % is what is promised of containers. CPU, of a core, and resident memory: at most, on average; looked at \
         20 times a second, which takes {:.1} % of a core itself. Start: from the command until it is ready, interpreter, libraries, data \
         and, to predict, a model. CPU of one: processor time of a training or a prediction.",
        options.blocks,
        run.seed,
        SAME_WITHIN * 100.0,
        looking * 100.0
    ));
    notes.push(format!(
        "The board, round all but the cloud side: {:.2} cores of this machine and {} MiB, as the first paper's (4 cores of 1.4 GHz, 1 GB) \
         has them by its clock beside 4.5 GHz; memory is not scaled, as an interpreter takes what it takes. The cloud side has all of \
         this machine. Training: {} epochs; a prediction is one window by Keras's `predict`, or by NumPy.",
        f64::from(run.board.cpu_millis) / 1e3,
        run.board.memory_mib,
        options.epochs
    ));
    if run.image_bytes > 0 {
        notes.push(format!(
            "The image has files of {}.",
            words::bytes(run.image_bytes as f64)
        ));
    }
    let cloud = rows.iter().filter(|row| row.job.place == Place::Cloud);
    let faster: Vec<String> = cloud
        .filter_map(|row| {
            let ratio = row.against_host?.ratio?;
            Some(format!(
                "{} {} ×",
                heading(row.job.model, row.job.task),
                words::round(ratio.value.recip())
            ))
        })
        .collect();
    if !faster.is_empty() {
        notes.push(format!(
            "The cloud side is faster than the board: {}.",
            faster.join("; ")
        ));
    }
    let full = jobs(&Options::default()).len();
    notes.push(format!(
        "Measured {} of the {full} cells of a full run, {} of its {} blocks of each; a full run takes {}, and --resume goes on with one \
         that was ended.",
        rows.len(),
        options.blocks,
        Options::default().blocks,
        words::about(estimate(&Options::default())),
    ));
    notes.extend(words::machine(&run.environment));
    notes.extend(run.skipped.iter().map(|skipped| format!("Not measured: {skipped}")));
    notes
}

#[cfg(test)]
mod tests {
    use super::super::summary::summarise;
    use super::super::summary::tests::trainings;
    use super::*;

    #[test]
    fn the_table_fits_a_terminal_and_has_what_each_place_takes() {
        let run = trainings(&[(Place::Host, 2.0), (Place::Oci, 2.02), (Place::Cloud, 0.5)]);
        let text = table(&run, &summarise(&run));
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{text}");
        assert!(text.contains("autoencoder, training"), "{text}");
        assert!(text.contains("100, 50"), "{text}");
        assert!(text.contains("autoencoder, training 4 ×"), "{text}");
    }
}
