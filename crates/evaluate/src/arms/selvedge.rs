//! Selvedge's edge hub with everything switched on, set up as a user does: by its own commands.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde::Deserialize;

use super::{Helper, Recipe, Site, find_program};
use crate::generator::device_id;
use crate::generator::fleet::Protocol;
use crate::generator::login::{Login, Passwords, RESPONDER_ID, Secret};
use crate::rtt::ArmKind;

/// Devices added by one command: a command line has its bounds.
const DEVICES_AT_ONCE: usize = 1_000;

/// Where the route brings telemetry to.
pub(crate) const RESPONDER_FILTER: &str = "apps/responder/in/+";
/// Brings telemetry there.
pub(crate) const ROUTE: &str = "\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: to-responder}
spec:
  from: devices/+/telemetry
  to:
    - topic: apps/responder/in/{device}
";

/// Its program and version; the one beside this program where none is named.
///
/// # Errors
/// It is not there, or does not say its version, in words that say what would help.
pub(crate) fn find(named: Option<&PathBuf>, helper: &Helper) -> Result<(PathBuf, String), String> {
    let beside = helper.program.with_file_name("selvedge");
    let program = find_program(named, "selvedge", &[beside], "--selvedge")?;
    let version = output_of(&program, &["--version"])?.trim().to_owned();
    Ok((program, version))
}

pub(super) fn prepare(kind: &ArmKind, site: &Site, directory: &Path, address: SocketAddr) -> Result<Recipe, String> {
    let (program, version) = find(site.selvedge_program.as_ref(), &site.helper)?;
    let data = directory.join("data");
    let passwords = set_up(&program, directory, &data, site.devices)?;
    let tls = *kind == ArmKind::SelvedgeTls;
    Ok(Recipe {
        version,
        arguments: edge_arguments(kind, site, &data, address),
        program,
        settings: settings(kind),
        protocol: Protocol::Mqtt {
            version: site.protocol,
            responder_filter: RESPONDER_FILTER.to_owned(),
            login: Login::Own(Arc::new(passwords)),
        },
        tls,
    })
}

fn settings(kind: &ArmKind) -> String {
    let more = match kind {
        ArmKind::SelvedgeTls => ", TLS",
        ArmKind::SelvedgeLowLatency => ", low latency",
        _ => "",
    };
    format!("passwords, ACL, a route, twins{more}")
}

/// Adds the devices and the responder, and applies the route, all before the hub starts.
fn set_up(program: &Path, directory: &Path, data: &Path, devices: u32) -> Result<Passwords, String> {
    let ids: Vec<String> = (0..devices).map(device_id).collect();
    let passwords = add(program, "device", &ids, data)?;
    let responder = add(program, "app", &[RESPONDER_ID.to_owned()], data)?;
    apply_route(program, directory, data)?;
    Ok(Passwords {
        devices: passwords,
        responder: responder
            .into_iter()
            .next()
            .ok_or("no password was made for the responder")?,
    })
}

/// Applies the route from telemetry to the responder; `directory` keeps its manifest.
pub(super) fn apply_route(program: &Path, directory: &Path, data: &Path) -> Result<(), String> {
    let route = directory.join("route.yaml");
    std::fs::write(&route, ROUTE).map_err(|error| format!("{}: {error}", route.display()))?;
    let (route, data) = (route.display().to_string(), data.display().to_string());
    output_of(program, &["apply", "-f", &route, "--data", &data]).map(drop)
}

/// What `add --output json` prints of each.
#[derive(Deserialize)]
struct Added {
    id: String,
    issued: Issued,
}

#[derive(Deserialize)]
struct Issued {
    password: String,
}

/// Adds devices, apps or edges; their passwords in the order of `ids`. They are made by Selvedge: such are checked fast
/// enough for 10,000 devices that come back at once.
pub(crate) fn add(program: &Path, kind: &str, ids: &[String], data: &Path) -> Result<Vec<Secret>, String> {
    let mut passwords = Vec::with_capacity(ids.len());
    for some in ids.chunks(DEVICES_AT_ONCE) {
        passwords.extend(add_some(program, kind, some, data)?);
    }
    Ok(passwords)
}

fn add_some(program: &Path, kind: &str, ids: &[String], data: &Path) -> Result<Vec<Secret>, String> {
    let data = data.display().to_string();
    let before = [kind, "add", "--output", "json", "--data", &data];
    let arguments: Vec<&str> = before.into_iter().chain(ids.iter().map(String::as_str)).collect();
    let printed = output_of(program, &arguments)?;
    // What was printed holds passwords, so that an error must not repeat it.
    let added: Vec<Added> =
        serde_json::from_str(&printed).map_err(|_| format!("`selvedge {kind} add --output json` printed no list"))?;
    if !added.iter().map(|added| &added.id).eq(ids) {
        return Err(format!("`selvedge {kind} add` added others than it was asked to"));
    }
    Ok(added.into_iter().map(|added| Secret(added.issued.password)).collect())
}

fn edge_arguments(kind: &ArmKind, site: &Site, data: &Path, address: SocketAddr) -> Vec<String> {
    let mut arguments: Vec<String> = ["edge", "--data"].map(str::to_owned).into();
    arguments.push(data.display().to_string());
    if *kind == ArmKind::SelvedgeTls {
        let listener = [
            "--mqtts".to_owned(),
            address.to_string(),
            "--tls-certificate".to_owned(),
        ];
        arguments.extend(listener);
        arguments.push(site.certificates.certificate.display().to_string());
        arguments.push("--tls-key".to_owned());
        arguments.push(site.certificates.key.display().to_string());
    } else {
        arguments.extend(["--mqtt".to_owned(), address.to_string()]);
    }
    if *kind == ArmKind::SelvedgeLowLatency {
        arguments.push("--low-latency".to_owned());
    }
    arguments
}

/// Runs a command to its end, whatever a terminal's Ctrl-C ends meanwhile; what it printed.
pub(crate) fn output_of(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let command = format!(
        "{name} {}",
        arguments.iter().take(2).copied().collect::<Vec<_>>().join(" ")
    );
    let output = Command::new(program)
        .args(arguments)
        .process_group(0)
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{command}` failed ({}): {}", output.status, words.trim()))
}
