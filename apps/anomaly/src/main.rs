//! Scores telemetry with a model from a registry, as an application of an edge. See docs/anomaly.md.

mod description;
mod engine;
mod hub;
mod loader;
mod model;
mod predict;
mod predictor;
mod reading;
mod reference;
mod registry;
mod serve;
mod settings;
mod status;
mod windows;
mod worker;

use std::error::Error;
use std::process::ExitCode;

use settings::Settings;

const HELP: &str = "\
Scores telemetry with a model from a registry, as an application of an edge.

  anomaly                        serve: what it is told by the environment, see docs/anomaly.md
  anomaly predict --model DIR    scores of windows: a line of JSON for each that comes on standard input,
                                 [[reading 1], [reading 2], …] of a feature each, with DIR/model.json and DIR/model.onnx
  anomaly --version, --help
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            status::log(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Ok(serve::run(Settings::read(|name| std::env::var(name).ok())?)?),
        ["predict", "--model", directory] => predict::run(directory.as_ref()),
        ["worker", ..] => worker::run(&words[1..]),
        ["--version"] => {
            println!("anomaly {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        ["--help"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("{words:?} is not understood; anomaly --help says what is").into()),
    }
}
