//! A responder that is a process of its own, as a service application is: on the host beside the hub, or run by an
//! edge.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use mqtt::QoS;

use super::Helper;
use crate::generator::fleet::{Access, Fleet, Protocol};
use crate::generator::login::{Login, Secret};
use crate::generator::socket::Endpoint;
use crate::rtt::Protocol as MqttVersion;

/// How one is started: a hidden command of this program.
#[derive(Debug, clap::Args)]
pub struct Responder {
    /// Address to listen at once it can answer
    #[arg(long)]
    listen: SocketAddr,
    /// Address of its hub
    #[arg(long)]
    hub: SocketAddr,
    /// Version of MQTT; without it, frames of a relay
    #[arg(long, value_enum, requires = "filter")]
    mqtt: Option<MqttVersion>,
    /// What it subscribes
    #[arg(long)]
    filter: Option<String>,
    /// User name and a file with the password
    #[arg(long, num_args = 2, value_names = ["NAME", "FILE"])]
    login: Vec<String>,
}

impl Responder {
    /// The words that start one; its password, if it has one, is written into `directory`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn words(
        helper: &Helper,
        (listen, hub): (SocketAddr, SocketAddr),
        protocol: &Protocol,
        directory: &Path,
    ) -> Result<Vec<String>, String> {
        let mut words = helper.arguments(&["responder", "--listen", &listen.to_string(), "--hub", &hub.to_string()]);
        let Protocol::Mqtt {
            version,
            responder_filter,
            login,
        } = protocol
        else {
            return Ok(words);
        };
        let version = if *version == mqtt::Version::V5 { "5" } else { "3.1.1" };
        words.extend(["--mqtt", version, "--filter", responder_filter].map(str::to_owned));
        if let Some((user_name, Some(password))) = login.of(None) {
            let file = directory.join("password");
            fs::write(&file, password.0).map_err(|error| format!("{}: {error}", file.display()))?;
            words.extend(["--login".to_owned(), user_name, file.display().to_string()]);
        }
        Ok(words)
    }

    /// Answers until its connection ends; why that did.
    ///
    /// # Errors
    /// The hub cannot be reached or refuses, the password cannot be read, or nobody can listen there.
    pub(crate) fn serve(self) -> Result<String, String> {
        let access = Access {
            endpoint: endpoint(self.hub),
            responder: Some(endpoint(self.hub)),
            protocol: self.protocol().map_err(|error| format!("its password: {error}"))?,
        };
        // It is asked at any QoS that a device publishes at, and answers at that.
        let fleet = Fleet::connect(&access, 0, QoS::ExactlyOnce, false)?;
        let door = TcpListener::bind(self.listen).map_err(|error| format!("{}: {error}", self.listen))?;
        let ended = fleet.serve().map_err(|error| error.to_string());
        drop(door);
        ended
    }

    fn protocol(&self) -> io::Result<Protocol> {
        let Some((version, filter)) = self.mqtt.zip(self.filter.clone()) else {
            return Ok(Protocol::Relay);
        };
        let login = match self.login.as_slice() {
            [user_name, file] => Login::Shared {
                user_name: user_name.clone(),
                password: Some(Secret(fs::read_to_string(PathBuf::from(file))?)),
            },
            _ => Login::Anonymous,
        };
        Ok(Protocol::Mqtt {
            version: version.into(),
            responder_filter: filter,
            login,
        })
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint {
        address,
        tls: None,
        from: None,
    }
}
