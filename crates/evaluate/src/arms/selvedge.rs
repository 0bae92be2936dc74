//! Selvedge's edge hub with everything switched on, set up as a user does: by its own commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Helper, Recipe, Site, find_program};
use crate::environment::hexadecimal;
use crate::generator::device_id;
use crate::generator::fleet::Protocol;
use crate::rtt::ArmKind;

/// Where the route brings telemetry to.
const RESPONDER_FILTER: &str = "apps/responder/in/+";
const ROUTE: &str = "\
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
    let password = password()?;
    set_up(&program, directory, &data, site.devices, &password)?;
    let tls = *kind == ArmKind::SelvedgeTls;
    Ok(Recipe {
        version,
        arguments: edge_arguments(kind, site, &data, address),
        program,
        settings: settings(kind),
        protocol: Protocol::Mqtt {
            responder_filter: RESPONDER_FILTER.to_owned(),
            password: Some(password),
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
fn set_up(program: &Path, directory: &Path, data: &Path, devices: u32, password: &str) -> Result<(), String> {
    let data = data.display().to_string();
    for device in 0..devices {
        output_of(
            program,
            &[
                "device",
                "add",
                &device_id(device),
                "--password",
                password,
                "--data",
                &data,
            ],
        )?;
    }
    output_of(
        program,
        &["app", "add", "responder", "--password", password, "--data", &data],
    )?;
    let route = directory.join("route.yaml");
    std::fs::write(&route, ROUTE).map_err(|error| format!("{}: {error}", route.display()))?;
    output_of(program, &["apply", "-f", &route.display().to_string(), "--data", &data]).map(drop)
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

/// Runs a command to its end; what it printed.
fn output_of(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let command = || format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{}: {error}", command()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!(
        "`{}` failed ({}): {}",
        command(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

/// A password for this run alone.
fn password() -> Result<String, String> {
    let mut bytes = [0; 16];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut bytes).map_err(|_| "the kernel gives no random numbers".to_owned())?;
    Ok(hexadecimal(&bytes))
}
