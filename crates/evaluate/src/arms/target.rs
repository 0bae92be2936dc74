//! A broker that runs already, somewhere: reached, not started.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::mosquitto::EVERY_TELEMETRY;
use super::{RunningArm, Site, certificates};
use crate::generator::fleet::{Access, Protocol};
use crate::generator::login::{Login, Secret};
use crate::generator::socket::Endpoint;
use crate::rtt::Target;

/// Holds the password where the address names a user alone: a command line is seen by everybody on a machine.
const PASSWORD_VARIABLE: &str = "SELVEDGE_TARGET_PASSWORD";

/// How the clients reach it.
pub(super) fn reach(target: &Target, site: &Site) -> Result<RunningArm, String> {
    let named = |error: String| format!("{target}: {error}");
    let address = resolve(target).map_err(|error| named(error.to_string()))?;
    let tls = tls(target, site.authority.as_deref()).map_err(named)?;
    let protocol = Protocol::Mqtt {
        version: site.protocol,
        responder_filter: EVERY_TELEMETRY.to_owned(),
        login: login(target),
    };
    let endpoint = Endpoint {
        address,
        tls,
        from: None,
    };
    Ok(RunningArm {
        access: Access {
            responder: Some(endpoint.clone()),
            endpoint,
            protocol,
        },
        servers: Vec::new(),
        version: "unknown".to_owned(),
        settings: "as it runs".to_owned(),
        ready_ms: None,
        carried: Vec::new(),
    })
}

fn login(target: &Target) -> Login {
    let Some(user_name) = target.user_name.clone() else {
        return Login::Anonymous;
    };
    let from_environment = || std::env::var(PASSWORD_VARIABLE).ok().map(Secret);
    let password = target.password.clone().or_else(from_environment);
    Login::Shared { user_name, password }
}

fn tls(target: &Target, authority: Option<&Path>) -> Result<Option<(Arc<ClientConfig>, ServerName<'static>)>, String> {
    if !target.tls {
        return Ok(None);
    }
    let authority = authority.ok_or("it takes TLS, so name the authority of its certificate: --ca FILE")?;
    let host = target.host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let trust = certificates::trusting(authority).map_err(|error| format!("--ca {error}"))?;
    Ok(Some((Arc::new(trust), name)))
}

fn resolve(target: &Target) -> std::io::Result<SocketAddr> {
    let unknown = || std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    let address = format!("{}:{}", target.host, target.port);
    address.to_socket_addrs()?.next().ok_or_else(unknown)
}
