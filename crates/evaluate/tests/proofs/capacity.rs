//! What a broker takes and holds.

use std::path::{Path, PathBuf};

use super::bench::{Quiet, broker, helper};
use clap::Parser;
use evaluate::capacity::{CapacityRun, Contender, Figure, Options, Row, run, summarise, table};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

/// One block of what one server does, and a backlog, as small as it can be and still show something. The other parts
/// take a line of their own, and are shown by the black-box tests.
const SMALL: [&str; 13] = [
    "capacity",
    "--parts",
    "memory,memory-tls,ready,ready-queued,durable,drain",
    "--blocks",
    "1",
    "--connections",
    "50",
    "--queued",
    "3000",
    "--payload",
    "64",
    "--duration-ms",
    "200",
];

fn measure(programs: [&str; 4]) -> (CapacityRun, Vec<Row>) {
    let options = CommandLine::parse_from(SMALL.into_iter().chain(programs)).options;
    let run = run(&options, &helper(), &mut Quiet).unwrap();
    let rows = summarise(&run);
    (run, rows)
}

/// The only value of a figure in a run of one block.
fn value(run: &CapacityRun, contender: Contender, figure: Figure) -> f64 {
    let mut found = run
        .samples
        .iter()
        .filter(|sample| (sample.contender, sample.figure) == (contender, figure));
    found
        .next()
        .unwrap_or_else(|| panic!("{contender:?} has no {figure:?}: {:?}", run.skipped))
        .value
        .unwrap()
}

/// Selvedge's program as another build has left it beside this one; says so where there is none.
fn selvedge() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_selvedge-evaluate")).with_file_name("selvedge");
    if !program.is_file() {
        eprintln!(
            "not proved here: {} is not built (cargo build -p selvedge)",
            program.display()
        );
        return None;
    }
    Some(program)
}

#[test]
fn mosquitto_loses_what_it_acknowledged_since_its_last_save_and_keeps_what_it_saved_when_it_stopped() {
    if broker::missing() {
        return;
    }
    let (run, rows) = measure(["--mosquitto", "/usr/sbin/mosquitto", "--selvedge", "/nowhere/selvedge"]);
    let of = |figure| value(&run, Contender::Mosquitto, figure);
    assert!(of(Figure::AcknowledgedMessages) > 0.0);
    assert_eq!(of(Figure::LostMessages), of(Figure::AcknowledgedMessages));
    assert_eq!(of(Figure::QueueLostMessages), 0.0);
    assert!(of(Figure::IdlePssBytes) > 100_000.0 && of(Figure::IdlePssBytes) <= of(Figure::IdleRssBytes));
    assert!(
        run.skipped
            .iter()
            .any(|reason| reason.contains("--selvedge selvedge: no such file")),
        "{:?}",
        run.skipped
    );
    assert!(rows.iter().all(|row| row.selvedge.is_none() && row.ratio.is_none()));
}

#[test]
fn selvedge_loses_nothing_that_it_acknowledged_and_every_line_of_the_table_fits() {
    let Some(program) = selvedge() else { return };
    let program = program.display().to_string();
    let (run, rows) = measure(["--selvedge", &program, "--mosquitto", "/nowhere/mosquitto"]);
    for contender in [Contender::SelvedgeDisk, Contender::SelvedgeOs] {
        assert!(value(&run, contender, Figure::AcknowledgedMessages) > 0.0);
        assert_eq!(value(&run, contender, Figure::LostMessages), 0.0);
    }
    assert_eq!(value(&run, Contender::SelvedgeDisk, Figure::QueueLostMessages), 0.0);
    let text = table(&run, &rows);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(
        rows.iter()
            .any(|row| row.label == "program file" && row.selvedge.is_some())
    );
}
