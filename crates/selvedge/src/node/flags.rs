//! The flags of `selvedge edge` and `selvedge cloud`, which win over the file.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::bail;
use clap::builder::RangedU64ValueParser;
use clap::{Arg, Args};

use super::config::{Config, Durability, LogFormat};
use super::role::Role;
use crate::retention::Retention;

/// Most threads that serve clients: beyond the cores of the largest machines.
pub(super) const SHARDS_MAX: u64 = 256;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Flags {
    /// Configuration file; docs/edge.toml is its manual [flags win over it]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of all that survives a restart
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address for MQTT over TCP; may be repeated
    #[arg(long, value_name = "ADDR")]
    mqtt: Vec<SocketAddr>,
    /// Address for MQTT over TLS; may be repeated
    #[arg(long, value_name = "ADDR")]
    mqtts: Vec<SocketAddr>,
    /// Address for MQTT over WebSocket; may be repeated
    #[arg(long, value_name = "ADDR")]
    mqtt_ws: Vec<SocketAddr>,
    /// Address for MQTT over WebSocket over TLS; may be repeated
    #[arg(long, value_name = "ADDR")]
    mqtt_wss: Vec<SocketAddr>,
    /// Path of a Unix socket for MQTT; may be repeated
    #[arg(long, value_name = "PATH")]
    mqtt_unix: Vec<PathBuf>,
    /// Each connection of every door but the Unix sockets begins with a PROXY protocol header that says where it is
    /// from
    #[arg(long)]
    proxy_protocol: bool,
    /// Address for the API, /healthz, /readyz and /metrics; may be repeated
    #[arg(long, value_name = "ADDR")]
    http: Vec<SocketAddr>,
    /// Address for the same with TLS, by which edges join a cloud, and nodes a site; may be repeated
    #[arg(long, value_name = "ADDR")]
    https: Vec<SocketAddr>,
    /// Address where the nodes of this edge's site connect; may be repeated
    #[arg(long, value_name = "ADDR")]
    site: Vec<SocketAddr>,
    /// Certificate chain of the server in PEM [default: one of its own authority, renewed in time]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of that certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Authorities in PEM whose client certificates are believed beside its own
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Database of a cloud, such as postgres://user@host/name [default: one in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// How long a cloud keeps telemetry, such as 90d or 12h [default: for ever]
    #[arg(long, value_name = "TIME")]
    retention: Option<Retention>,
    /// Let clients in without credentials; they have the whole tree of the default tenant
    #[arg(long)]
    allow_anonymous: bool,
    /// Threads that serve clients, 1 to 256; each tenant lives on one of them [default: as its logs say, else one a
    /// core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=SHARDS_MAX))]
    shards: Option<usize>,
    /// When an acknowledgement may leave: "disk" survives a power cut, "os" a crash of the program [default: disk]
    #[arg(long, value_name = "WHEN")]
    durability: Option<Durability>,
    /// Stay awake for a short adaptive time before sleeping: less latency for up to a core per busy shard
    #[arg(long)]
    low_latency: bool,
    /// How the log is written [default: text]
    #[arg(long, value_name = "FORM")]
    log_format: Option<LogFormat>,
}

/// Says in the help of a flag what `role` does without it.
pub(super) fn with_default(role: Role) -> impl Fn(Arg) -> Arg {
    let Config { data, listen, .. } = role.defaults();
    let addresses = |of: &[SocketAddr]| of.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let defaults = [
        ("data", data.display().to_string()),
        ("mqtt", addresses(&listen.mqtt)),
        ("mqtts", addresses(&listen.mqtts)),
        ("http", addresses(&listen.http)),
        ("https", addresses(&listen.https)),
    ];
    move |arg| {
        let default = defaults.iter().find(|(name, _)| arg.get_id() == name);
        match (default, arg.get_help()) {
            (Some((name, default)), Some(help)) if !default.is_empty() => {
                let more = if *name == "mqtt" {
                    " where no other is given"
                } else {
                    ""
                };
                let help = format!("{help} [default: {default}{more}]");
                arg.help(help)
            }
            _ => arg,
        }
    }
}

impl Flags {
    /// The file, if there is one, with the flags over it.
    pub(crate) fn config(&self, role: Role) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::read(path, role)?,
            None => role.defaults(),
        };
        self.put_listeners(&mut config);
        put(&mut config.data, &self.data);
        put(&mut config.tls.certificate, &self.tls_certificate);
        put(&mut config.tls.key, &self.tls_key);
        put(&mut config.tls.client_ca, &self.tls_client_ca);
        put(&mut config.shards, &self.shards);
        put(&mut config.database.url, &self.database);
        put(&mut config.database.retention, &self.retention);
        put(&mut config.store.durability, &self.durability);
        put(&mut config.log.format, &self.log_format);
        config.allow_anonymous |= self.allow_anonymous;
        config.low_latency |= self.low_latency;
        if config.tls.certificate.as_os_str().is_empty() != config.tls.key.as_os_str().is_empty() {
            bail!("tls.certificate and tls.key belong together; give both, or neither for one of its own authority");
        }
        Ok(config)
    }

    fn put_listeners(&self, config: &mut Config) {
        let listen = &mut config.listen;
        let is_elsewhere = [&self.mqtts, &self.mqtt_ws, &self.mqtt_wss]
            .iter()
            .any(|given| !given.is_empty())
            || !self.mqtt_unix.is_empty();
        if self.config.is_none() && is_elsewhere {
            listen.mqtt.clear();
        }
        put_all(&mut listen.mqtt, &self.mqtt);
        put_all(&mut listen.mqtts, &self.mqtts);
        put_all(&mut listen.mqtt_ws, &self.mqtt_ws);
        put_all(&mut listen.mqtt_wss, &self.mqtt_wss);
        put_all(&mut listen.mqtt_unix, &self.mqtt_unix);
        put_all(&mut listen.http, &self.http);
        put_all(&mut listen.https, &self.https);
        listen.proxy_protocol |= self.proxy_protocol;
        put_all(&mut config.site.listen, &self.site);
    }
}

fn put<T: Clone>(value: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        value.clone_from(given);
    }
}

fn put_all<T: Clone>(values: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *values = given.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: Flags,
    }

    fn config(words: &[&str]) -> Config {
        let words = ["edge"].iter().chain(words);
        Cli::try_parse_from(words).unwrap().flags.config(Role::Edge).unwrap()
    }

    #[test]
    fn the_help_of_each_role_says_its_own_defaults() {
        for role in [Role::Edge, Role::Cloud] {
            let help = Cli::command().mut_args(with_default(role)).render_help().to_string();
            let Config { data, listen, .. } = role.defaults();
            let doors = [listen.mqtt, listen.mqtts, listen.http, listen.https].concat();
            let said: Vec<&str> = help.split("[default: ").skip(1).collect();
            assert!(
                said.iter().any(|said| said.starts_with(data.to_str().unwrap())),
                "{help}"
            );
            let of_address = |said: &&&str| said.starts_with("127.0.0.1:");
            assert_eq!(said.iter().filter(of_address).count(), doors.len(), "{help}");
            for door in doors {
                assert!(
                    said.iter().any(|said| said.starts_with(&door.to_string())),
                    "{door}: {help}"
                );
            }
        }
    }

    #[test]
    fn without_flags_and_file_there_are_the_defaults() {
        assert_eq!(config(&[]), Config::default());
    }

    #[test]
    fn flags_win_over_the_file_and_leave_the_rest_of_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"shards = 3\nlow_latency = true\n[listen]\nmqtt = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n")
            .unwrap();
        let path = file.path().to_str().unwrap();
        let config = config(&[
            "--config",
            path,
            "--shards",
            "5",
            "--mqtt",
            "127.0.0.1:9",
            "--durability",
            "os",
        ]);
        assert_eq!((config.shards, config.low_latency), (5, true));
        assert_eq!(config.listen.mqtt, ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(config.store.durability, Durability::Os);
    }

    #[test]
    fn who_asks_for_another_door_gets_no_plain_one_beside_it() {
        assert!(config(&["--mqtts", "127.0.0.1:8883"]).listen.mqtt.is_empty());
        let both = config(&["--mqtts", "127.0.0.1:8883", "--mqtt", "127.0.0.1:1"]).listen;
        assert_eq!((both.mqtt.len(), both.mqtts.len()), (1, 1));
        assert_eq!(config(&["--http", "127.0.0.1:8080"]).listen.mqtt.len(), 1);
    }

    #[test]
    fn a_number_of_shards_that_makes_no_sense_is_refused() {
        for (shards, is_right) in [("0", false), ("1", true), ("256", true), ("257", false), ("-1", false)] {
            let parsed = Cli::try_parse_from(["edge", "--shards", shards]);
            assert_eq!(parsed.is_ok(), is_right, "{shards}");
        }
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        assert!(Cli::try_parse_from(["edge", "--tls-certificate", "a.pem"]).is_err());
    }
}
