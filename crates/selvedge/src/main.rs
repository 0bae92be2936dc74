//! Selvedge: containerised applications across edge and cloud, and how well that works, measured from the client's
//! side.

// They panic where nobody reads or the disk is full: `say` and `complain` do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod backups_kept;
mod commands;
mod images_kept;
mod node;
mod output;
mod registries;
mod retention;
mod up;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use agent::shim::zygote;
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
    /// Run an edge gateway: MQTT hub, device twins, methods, routes; have it join a cloud; there, edges: invite, add,
    /// list, …
    Edge(Box<node::Edge>),
    /// Run the cloud end: hub for devices and edges, database, API
    Cloud(Box<node::Cloud>),
    /// Run a cloud, an edge behind it and a few simulated devices on this machine, to be looked at
    Up(up::Up),
    /// The site of an edge, whose nodes find each other without a cloud: invite, join
    #[command(subcommand)]
    Site(commands::site::Command),
    /// Devices that may connect: add, list, show, rotate, remove, disable, enable, label
    #[command(subcommand)]
    Device(commands::clients::Command),
    /// Applications that may connect: add, list, show, rotate, remove, disable, enable, label
    #[command(subcommand)]
    App(commands::clients::Command),
    /// Tenants and what each may use: add, list, show, set, remove
    #[command(subcommand)]
    Tenant(commands::tenants::Command),
    /// Users of the HTTP API and what each may do: add, list, set, rotate, remove
    #[command(subcommand)]
    User(commands::users::Command),
    /// Keys that sign the tokens of users, devices and apps: list, rotate
    #[command(subcommand)]
    Key(commands::keys::Command),
    /// What a device is desired to be, and what it reports
    #[command(subcommand)]
    Twin(commands::twin::Command),
    /// Call a method of a device and wait for its result
    Call(commands::call::Call),
    /// Apply a manifest, or those of a folder: applications and what they are given, routes, devices' labels and
    /// desired state
    Apply(commands::apply::Apply),
    /// List applications, routes, devices, apps, edges, sessions, an edge's manifests or the nodes of its site, or say how
    /// the link is
    Get(commands::get::Get),
    /// All about one application, route, device or app
    Describe(commands::describe::Describe),
    /// Delete an application, what it is given, a route, device or app
    Delete(commands::delete::Delete),
    /// What the containers of an application said
    Logs(commands::applications::Logs),
    /// Run another command in a container of this machine
    Exec(commands::exec::Exec),
    /// What the containers of applications take
    Top(commands::watching::Top),
    /// What has happened to the containers of applications
    Events(commands::watching::Events),
    /// Images that containers are made of: list, pull, import, build, remove
    #[command(subcommand)]
    Image(commands::images::Command),
    /// Volumes that applications keep: list, remove
    #[command(subcommand)]
    Volume(commands::volumes::Command),
    /// Snapshots of applications, with their images, manifests and volumes: create, list, restore, export, import,
    /// remove
    #[command(subcommand)]
    Snapshot(commands::snapshots::Command),
    /// All of an edge or a cloud in one sealed file: create, restore
    #[command(subcommand)]
    Backup(commands::backups::Command),
    /// Say how fit this machine is for an edge, and how to mend what is not
    Check(commands::check::Check),
    /// Pack configuration, figures and the end of the logs, without secrets, for somebody who helps
    SupportBundle(commands::bundle::SupportBundle),
    /// Measure, beside other brokers, with honest statistics
    #[command(subcommand)]
    Evaluate(evaluate::cli::Command),
}

fn main() -> ExitCode {
    use identity::ClientKind;
    // What an edge starts for its containers is no command, and has no memory for what commands are made of.
    if let [_, shims, containers, ..] = &env::args_os().collect::<Vec<_>>()[..]
        && shims == zygote::SHIMS
    {
        return finish(zygote::serve(Path::new(containers)).map_err(Into::into));
    }
    let done = match Cli::parse().command {
        Command::Edge(edge) => edge.run(),
        Command::Cloud(cloud) => cloud.run(),
        Command::Up(up) => up.run(),
        Command::Site(command) => command.run(),
        Command::Device(command) => command.run(ClientKind::Device),
        Command::App(command) => command.run(ClientKind::App),
        Command::Tenant(command) => command.run(),
        Command::User(command) => command.run(),
        Command::Key(command) => command.run(),
        Command::Twin(command) => command.run(),
        Command::Call(call) => call.run(),
        Command::Apply(apply) => apply.run(),
        Command::Get(get) => get.run(),
        Command::Describe(describe) => describe.run(),
        Command::Delete(delete) => delete.run(),
        Command::Logs(logs) => logs.run(),
        Command::Exec(exec) => exec.run(),
        Command::Top(top) => top.run(),
        Command::Events(events) => events.run(),
        Command::Image(command) => command.run(),
        Command::Volume(command) => command.run(),
        Command::Snapshot(command) => command.run(),
        Command::Backup(command) => command.run(),
        Command::Check(check) => return check.run(),
        Command::SupportBundle(bundle) => bundle.run(),
        Command::Evaluate(command) => return command.run(&["evaluate"]),
    };
    finish(done)
}

fn finish(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(output::message(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_systemd_starts_an_edge_with_what_the_program_knows() {
        let unit = include_str!("../../../docs/selvedge-edge.service");
        let starts = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
        let words = starts.expect("it says what it starts").split_whitespace();
        let parsed = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(parsed.command, Command::Edge(_)));
    }
}
