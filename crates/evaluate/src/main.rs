//! The measuring instrument alone, for brokers other than Selvedge; `selvedge evaluate` is the same.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "selvedge-evaluate", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: evaluate::cli::Command,
}

fn main() -> ExitCode {
    Arguments::parse().command.run(&[])
}
