//! Shims by themselves, for the tests of this crate: `agent-shim shims DIRECTORY`, as `selvedge shims DIRECTORY` is,
//! and `agent-shim DIRECTORY`, which is a shim for one container.

use std::path::Path;
use std::process::ExitCode;

use agent::shim::{run, zygote};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [zygote::SHIMS, containers, ..] => zygote::serve(Path::new(containers)),
        [directory] => run(Path::new(directory)),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
