//! What somebody is shown who has added a device or app or changed its credential: that, this once, and a line to try
//! it with.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use api::{Added, EdgeInfo, IssuedCredential};

const PLAIN: &str = "mqtt://";
const SECURE: &str = "mqtts://";

/// Refuses to overwrite an earlier certificate or key, before a new one is made.
pub(crate) fn check_files(id: &str) -> anyhow::Result<()> {
    for path in [format!("{id}.pem"), format!("{id}.key")] {
        if Path::new(&path).exists() {
            bail!("{path} exists here already; move it away, or run this in another directory");
        }
    }
    Ok(())
}

/// Writes a certificate and its key into the working directory.
pub(crate) fn write_files(added: &Added) -> anyhow::Result<()> {
    let IssuedCredential::Certificate {
        certificate_pem,
        key_pem,
        ..
    } = &added.issued
    else {
        return Ok(());
    };
    write_new(&format!("{}.pem", added.id), certificate_pem, 0o644)?;
    write_new(&format!("{}.key", added.id), key_pem, 0o600)
}

fn write_new(path: &str, text: &str, mode: u32) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| path.to_owned())
}

/// Says where a device or app was added.
pub(crate) fn is_added(added: &Added) -> String {
    let Added { kind, id, tenant, .. } = added;
    let is_new = if added.is_new_tenant { " (which is new)" } else { "" };
    format!("{kind} {id} added to tenant {tenant}{is_new}")
}

/// For a person: what happened, and the credential that came of it.
pub(crate) fn text(what_happened: &str, added: &Added, is_chosen: bool, edge: &EdgeInfo, data: &Path) -> String {
    let Added { id, user_name, .. } = added;
    let mut text = format!("{what_happened}\n  user name  {user_name}\n");
    text += &match &added.issued {
        IssuedCredential::Password(password) => format!("  password   {password}   (shown this once)\n"),
        IssuedCredential::Token(token) => format!("  token      {token}   (shown this once)\n"),
        IssuedCredential::Certificate { serial, .. } => {
            format!("  files      {id}.pem {id}.key\n  serial     {serial}\n")
        }
        IssuedCredential::Nothing if is_chosen => "  password   as given\n".to_owned(),
        IssuedCredential::Nothing => "  logs in with its certificate of a trusted authority\n".to_owned(),
    };
    text + &try_line(added, is_chosen, edge, data)
}

/// A command that proves that it works, as far as that can be known from here.
fn try_line(added: &Added, is_chosen: bool, edge: &EdgeInfo, data: &Path) -> String {
    if let Some(edge) = &added.edge {
        return format!("  logs in    at the edge {edge}, which learns it over its link\n");
    }
    if added.kind == "edge" {
        return format!(
            "  use        in [link] of its configuration; or let it join: selvedge edge invite {}\n",
            added.id
        );
    }
    let login = match &added.issued {
        IssuedCredential::Password(secret) | IssuedCredential::Token(secret) => {
            format!("-u {} -P {}", added.user_name, quoted(secret))
        }
        IssuedCredential::Nothing if is_chosen => format!("-u {} -P \"$PASSWORD\"", added.user_name),
        IssuedCredential::Certificate { .. } => format!("--cert {0}.pem --key {0}.key", added.id),
        IssuedCredential::Nothing => return String::new(),
    };
    let needs_tls = matches!(added.issued, IssuedCredential::Certificate { .. });
    let Some(server) = server(edge, needs_tls, data) else {
        return "  try        start the edge with --mqtts, which certificates need\n".to_owned();
    };
    let when = if edge.addresses.is_empty() {
        "   (once the edge runs)"
    } else {
        ""
    };
    let what = match &*added.kind {
        "device" => format!(
            "mosquitto_pub {server} {login} -t devices/{}/telemetry -m '{{\"level\": 0.83}}'",
            added.id
        ),
        _ => format!("mosquitto_sub {server} {login} -t 'devices/#' -v"),
    };
    format!("  try        {what}{when}\n")
}

/// Host and port as mosquitto's clients take them.
fn server(edge: &EdgeInfo, needs_tls: bool, data: &Path) -> Option<String> {
    let find = |scheme: &str| {
        let found = edge.addresses.iter().find_map(|address| address.strip_prefix(scheme))?;
        found.parse::<SocketAddr>().ok()
    };
    if edge.addresses.is_empty() && !needs_tls {
        return Some("-p 1883".to_owned());
    }
    if let (Some(address), false) = (find(PLAIN), needs_tls) {
        return Some(format!("{}-p {}", host(&address), address.port()));
    }
    let address = find(SECURE)?;
    let authority = data.join("ca.pem");
    Some(format!(
        "{}-p {} --cafile {}",
        host(&address),
        address.port(),
        authority.display()
    ))
}

/// Nothing where the client would take this machine by itself.
fn host(address: &SocketAddr) -> String {
    let ip = address.ip();
    if ip.is_loopback() || ip.is_unspecified() {
        String::new()
    } else {
        format!("-h {ip} ")
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(kind: &str, issued: IssuedCredential) -> Added {
        Added {
            kind: kind.into(),
            tenant: "default".into(),
            is_new_tenant: false,
            id: "pump-7".into(),
            user_name: "pump-7".into(),
            edge: None,
            issued,
        }
    }

    fn edge(addresses: &[&str]) -> EdgeInfo {
        EdgeInfo {
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
            ..EdgeInfo::default()
        }
    }

    fn check(added: &Added, addresses: &[&str], expected: &str) {
        let said = text(&is_added(added), added, false, &edge(addresses), Path::new("data"));
        assert_eq!(said, expected);
    }

    #[test]
    fn a_device_is_shown_its_password_once_and_how_to_try_it() {
        let device = added("device", IssuedCredential::Password("7Qe'Zk".into()));
        check(
            &device,
            &["mqtt://127.0.0.1:1884"],
            "device pump-7 added to tenant default\n  user name  pump-7\n  password   7Qe'Zk   (shown this once)\n  \
             try        mosquitto_pub -p 1884 -u pump-7 -P '7Qe'\\''Zk' -t devices/pump-7/telemetry \
             -m '{\"level\": 0.83}'\n",
        );
    }

    #[test]
    fn a_certificate_is_tried_over_tls() {
        let app = added(
            "app",
            IssuedCredential::Certificate {
                serial: "5f".into(),
                certificate_pem: String::new(),
                key_pem: String::new(),
            },
        );
        let start = "app pump-7 added to tenant default\n  user name  pump-7\n  files      pump-7.pem pump-7.key\n  \
                     serial     5f\n";
        let line = "  try        mosquitto_sub -h 192.0.2.1 -p 8883 --cafile data/ca.pem --cert pump-7.pem \
                    --key pump-7.key -t 'devices/#' -v\n";
        check(
            &app,
            &["mqtt://127.0.0.1:1883", "mqtts://192.0.2.1:8883"],
            &format!("{start}{line}"),
        );
        let line = "  try        start the edge with --mqtts, which certificates need\n";
        check(&app, &["mqtt://127.0.0.1:1883"], &format!("{start}{line}"));
    }
}
