//! Mosquitto, anonymous, with nothing switched on but TCP_NODELAY: the baseline that everybody knows.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Recipe, Site, find_program};
use crate::generator::fleet::Protocol;
use crate::generator::login::Login;

/// The filter of a responder that no route serves.
pub(super) const EVERY_TELEMETRY: &str = "devices/+/telemetry";

/// Its program and version.
///
/// # Errors
/// It is not installed, in words that say what would help.
pub(crate) fn find(named: Option<&PathBuf>) -> Result<(PathBuf, String), String> {
    let usual = ["/usr/sbin/mosquitto".into(), "/usr/local/sbin/mosquitto".into()];
    let program = find_program(named, "mosquitto", &usual, "--mosquitto")?;
    let version = version(&program);
    Ok((program, version))
}

pub(super) fn prepare(site: &Site, directory: &Path, address: SocketAddr, tls: bool) -> Result<Recipe, String> {
    let (program, version) = find(site.mosquitto_program.as_ref())?;
    let file = directory.join("mosquitto.conf");
    std::fs::write(&file, configuration(site, address, tls)).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Recipe {
        version,
        program,
        arguments: vec!["-c".to_owned(), file.display().to_string()],
        settings: format!(
            "anonymous{}, TCP_NODELAY, no persistence",
            if tls { ", TLS" } else { "" }
        ),
        protocol: Protocol::Mqtt {
            version: site.protocol,
            responder_filter: EVERY_TELEMETRY.to_owned(),
            login: Login::Anonymous,
        },
        tls,
    })
}

fn configuration(site: &Site, address: SocketAddr, tls: bool) -> String {
    let mut lines = vec![
        format!("listener {} {}", address.port(), address.ip()),
        "allow_anonymous true".to_owned(),
        "set_tcp_nodelay true".to_owned(),
        "persistence false".to_owned(),
        "log_type error".to_owned(),
        "log_dest stderr".to_owned(),
    ];
    if rustix::process::geteuid().is_root() {
        // Else it becomes a user that may not read its files here.
        lines.push("user root".to_owned());
    }
    if tls {
        lines.push(format!("certfile {}", site.certificates.certificate.display()));
        lines.push(format!("keyfile {}", site.certificates.key.display()));
    }
    lines.join("\n") + "\n"
}

/// The first line of its help, which is where it says its version.
fn version(program: &Path) -> String {
    let help = Command::new(program)
        .arg("-h")
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    let first = String::from_utf8_lossy(&help)
        .lines()
        .next()
        .unwrap_or("mosquitto")
        .to_owned();
    first.replace(" version ", " ")
}
