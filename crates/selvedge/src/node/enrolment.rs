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
                are_nodes: false,
            },
        }
    }

    /// How nodes join the site of this edge, by these doors; `None`: it is in none.
    pub(super) fn site_enrolment(&self, http: &[api::Door]) -> Option<api::Enrolment> {
        let listen = self.site.listen.first()?;
        let of_cloud = self.enrolment(&[], http);
        Some(api::Enrolment {
            link_url: Some(format!("site://{{host}}:{}", listen.port())),
            options: EnrolmentOptions {
                are_nodes: true,
                ..of_cloud.options
            },
            ..of_cloud
        })
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

/// The first door of MQTT with TLS.
fn link_url(mqtt: &[Opened]) -> Option<String> {
    let door = |scheme: &str| mqtt.iter().find(|opened| opened.url.starts_with(scheme));
    with_open_host(&door("mqtts://").or_else(|| door("wss://"))?.url)
}

/// A URL whose host is the one that whoever reads it has asked.
fn with_open_host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (_, port_and_path) = rest.rsplit_once(':')?;
    Some(format!("{scheme}://{{host}}:{port_and_path}"))
}

fn given(url: &str) -> Option<String> {
    (!url.is_empty()).then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_goes_to_the_host_that_the_edge_asked() {
        for (url, expected) in [
            ("mqtts://127.0.0.1:8883", "mqtts://{host}:8883"),
            ("mqtts://[::1]:8883", "mqtts://{host}:8883"),
            ("wss://0.0.0.0:443/mqtt", "wss://{host}:443/mqtt"),
        ] {
            assert_eq!(with_open_host(url).as_deref(), Some(expected));
        }
    }

    #[test]
    fn edges_are_told_a_host_that_the_certificate_has() {
        let mut config = Config::default();
        for (address, expected) in [
            ("127.0.0.1:8443", "https://127.0.0.1:8443"),
            ("[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(config.https_url(address.parse().unwrap()), expected);
        }
        let everywhere = config.https_url("0.0.0.0:8443".parse().unwrap());
        let outward = outward_address().map(|ip| format!("https://{ip}:8443"));
        assert_eq!(everywhere, outward.unwrap_or("https://0.0.0.0:8443".to_owned()));
        config.tls.names = vec!["cloud.example".to_owned(), "10.0.0.1".to_owned()];
        assert_eq!(
            config.https_url("0.0.0.0:8443".parse().unwrap()),
            "https://cloud.example:8443"
        );
    }
}
