//! Selvedge: containerised applications across edge and cloud, and how well that works, measured from the client's side.

mod edge;

use clap::{Parser, Subcommand};

/// Runs IoT applications across edge and cloud, and measures how well that works.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an edge gateway: MQTT hub, device twins, methods, routes
    Edge(edge::Edge),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Edge(edge) => edge.run(),
    }
}
