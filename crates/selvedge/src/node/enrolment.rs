//! How edges join this cloud, as the configuration has it.

use std::net::{IpAddr, SocketAddr};

use identity::EnrolmentOptions;
use serde::{Deserialize, Serialize};

use super::certificates::outward_address;
use super::config::Config;
use super::listeners::Opened;

const DAY_S: u32 = 86_400;

/// How edges join. Empty URLs: by the doors of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Enrolment {
    pub(crate) url: String,
    pub(crate) link_url: String,
    pub(crate) certificate_days: u32,
    pub(crate) renewal_grace_days: u32,
}

impl Default for Enrolment {
    fn default() -> Self {
        Self {
            url: String::new(),
            link_url: String::new(),
            certificate_days: 30,
            renewal_grace_days: 90,
        }
    }
}

impl Config {
    /// How edges join, by these doors.
    pub(super) fn enrolment(&self, mqtt: &[Opened], http: &[api::Door]) -> api::Enrolment {
        let https = http
            .iter()
            .filter_map(api::Door::url)
            .find(|url| url.starts_with("https://"));
        let https = https.and_then(|url| url.strip_prefix("https://")?.parse().ok());
        let settings = &self.enrolment;
        api::Enrolment {
            url: given(&settings.url).or_else(|| https.map(|address| self.https_url(address))),
            link_url: given(&settings.link_url).or_else(|| link_url(mqtt)),
            options: EnrolmentOptions {
                certificate_valid_s: settings.certificate_days * DAY_S,
                renewal_grace_s: settings.renewal_grace_days * DAY_S,
            },
        }
    }

    /// What other machines call the door at this address, by a name that its certificate has.
    fn https_url(&self, address: SocketAddr) -> String {
        let ip = match address.ip() {
            ip if ip.is_unspecified() => outward_address().unwrap_or(ip),
            ip => ip,
        };
        let host = match (self.tls.names.first(), ip) {
            (Some(name), _) => name.clone(),
            (None, IpAddr::V6(ip)) => format!("[{ip}]"),
            (None, IpAddr::V4(ip)) => ip.to_string(),
        };
        format!("https://{host}:{}", address.port())
    }
}

/// The first door of MQTT with TLS, its host left open.
fn link_url(mqtt: &[Opened]) -> Option<String> {
    let door = |scheme: &str| mqtt.iter().find(|opened| opened.url.starts_with(scheme));
    let url = &door("mqtts://").or_else(|| door("wss://"))?.url;
    let (scheme, rest) = url.split_once("://")?;
    let (address, path) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(address, path)| (address, format!("/{path}")));
    let (_, port) = address.rsplit_once(':')?;
    Some(format!("{scheme}://{{host}}:{port}{path}"))
}

fn given(url: &str) -> Option<String> {
    (!url.is_empty()).then(|| url.to_owned())
}
