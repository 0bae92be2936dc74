//! What applications log in by at the hub of the edge that runs them.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use agent::logins::{Issuer, RENEWED_AFTER};
use agent::runtime::Pod;
use hub::Address;
use identity::{ClientName, Identity};

use super::listeners::Opened;
use super::unix_now_s;

/// How long one is good: whoever reads it anew for each connection has half of that at least.
const VALID_S: u32 = 2 * RENEWED_AFTER.as_secs() as u32;
/// What containers with a network of their own call their edge.
const EDGE: &str = "edge.selvedge.local";

/// Tokens of the edge's own, each of the application's name.
pub(super) struct HubLogins {
    identity: Arc<Identity>,
    /// Scheme and address of the first door of MQTT over TCP.
    door: Option<(String, SocketAddr)>,
}

impl HubLogins {
    pub(super) fn new(identity: &Arc<Identity>, opened: &[Opened]) -> Self {
        let door = opened.iter().find_map(|opened| match opened.door.local_address() {
            Address::Tcp(address) => Some((opened.url.split(':').next()?.to_owned(), address)),
            Address::Unix(_) => None,
        });
        HubLogins {
            identity: Arc::clone(identity),
            door,
        }
    }

    fn url(&self, has_own_network: bool) -> Option<String> {
        let (scheme, door) = self.door.as_ref()?;
        let port = door.port();
        Some(match has_own_network {
            true => format!("{scheme}://{EDGE}:{port}"),
            false => format!("{scheme}://{}", SocketAddr::new(reached_at(door.ip()), port)),
        })
    }
}

/// From the host itself.
fn reached_at(listening: IpAddr) -> IpAddr {
    match listening {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

impl fmt::Debug for HubLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubLogins")
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

impl Issuer for HubLogins {
    fn issue(&self, tenant: &str, application: &str) -> io::Result<Option<String>> {
        let Ok(name) = ClientName::new(tenant, application) else {
            return Ok(None);
        };
        let token = self.identity.application_token(&name, unix_now_s(), VALID_S);
        let token = token.map_err(io::Error::other)?;
        Ok(token.map(|token| token.expose().to_owned()))
    }

    fn variables(&self, pod: &Pod, has_own_network: bool, file: &Path) -> Vec<(String, String)> {
        let Ok(name) = ClientName::new(&pod.tenant, &pod.application) else {
            return Vec::new();
        };
        let told = [
            ("SELVEDGE_MQTT_URL", self.url(has_own_network)),
            ("SELVEDGE_MQTT_USERNAME", Some(name.user_name())),
            ("SELVEDGE_MQTT_TOKEN_FILE", Some(file.display().to_string())),
        ];
        let told = told
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        told.collect()
    }
}
