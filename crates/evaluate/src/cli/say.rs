//! What the program says on a terminal or into a pipe. `println!` panics where nobody reads it or the disk is full.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Status of a program that wrote to a pipe which nobody reads any more, as a shell tells it (128 + SIGPIPE).
const NOBODY_READS: i32 = 141;

/// Writes `text` to standard output as it is. Where that is not possible the program ends: without a word if nobody
/// reads any more, else with an error.
pub fn say(text: impl Display) {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(NOBODY_READS),
        Err(error) => {
            complain(format_args!("standard output: {error}"));
            std::process::exit(1);
        }
    }
}

/// Writes a line about what went wrong to standard error, if that is possible.
pub fn complain(error: impl Display) {
    let _ = writeln!(io::stderr(), "error: {error}");
}
