//! The shim by itself, for the tests of this crate: `agent-shim shim DIRECTORY`, as `selvedge shim DIRECTORY` is.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, directory] = arguments.as_slice() else {
        return ExitCode::from(2);
    };
    match agent::shim::run(Path::new(directory)) {
        _ if command != "shim" => ExitCode::from(2),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
