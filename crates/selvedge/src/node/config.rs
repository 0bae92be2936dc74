//! The configuration of an edge. `docs/edge.toml` is its manual: every key with its default and what it does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::image::retention::Policy;
use anyhow::{Context, bail};
use clap::ValueEnum;
use rustix::system::uname;
use serde::{Deserialize, Serialize};

use super::config_error::explain;
use super::enrolment::Enrolment;
use super::origin::Origin;
use super::role::{EDGE_DATA, Role};
use super::site::Site;
use crate::backups_kept::Schedule;
use crate::retention::Retention;

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) data: PathBuf,
    pub(crate) shards: usize,
    pub(crate) low_latency: bool,
    pub(crate) allow_anonymous: bool,
    pub(crate) listen: Listen,
    pub(crate) tls: Tls,
    pub(crate) store: Store,
    pub(crate) link: Link,
    pub(crate) site: Site,
    pub(crate) database: Database,
    pub(crate) enrolment: Enrolment,
    pub(crate) tokens: Tokens,
    pub(crate) history: History,
    pub(crate) images: Images,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) snapshots: Snapshots,
    pub(crate) backup: Backup,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    pub(crate) audit: Audit,
}

/// Where clients and probes knock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Listen {
    pub(crate) mqtt: Vec<SocketAddr>,
    pub(crate) mqtts: Vec<SocketAddr>,
    pub(crate) mqtt_ws: Vec<SocketAddr>,
    pub(crate) mqtt_wss: Vec<SocketAddr>,
    pub(crate) websocket_origins: Vec<Origin>,
    pub(crate) mqtt_unix: Vec<PathBuf>,
    pub(crate) http: Vec<SocketAddr>,
    pub(crate) https: Vec<SocketAddr>,
    pub(crate) proxy_protocol: bool,
}

/// What the doors of TLS show and whom they believe. Empty paths: the edge's own authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: PathBuf,
    pub(crate) names: Vec<String>,
}

/// What survives, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) pending_bytes: usize,
    pub(crate) limit_bytes: u64,
    pub(crate) garbage_bytes: u64,
}

/// The way to the cloud, and how messages wait for it. Empty url: there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Link {
    pub(crate) url: String,
    pub(crate) user_name: String,
    pub(crate) password_file: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) ca: PathBuf,
    pub(crate) proxy: String,
    pub(crate) bytes: u64,
    pub(crate) order: LinkOrder,
}

/// Where a cloud keeps telemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) retention: Retention,
}

/// What is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tokens {
    pub(crate) key_days: u32,
}

/// What an edge keeps of its devices' telemetry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct History {
    pub(crate) enabled: bool,
    pub(crate) retention: Retention,
    pub(crate) bytes: u64,
}

/// Which images of applications go by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Images {
    pub(crate) unused: Retention,
    pub(crate) bytes: u64,
}

impl Images {
    pub(super) fn policy(&self) -> Policy {
        Policy {
            unused: self.unused.age(),
            bytes: (self.bytes > 0).then_some(self.bytes),
        }
    }
}

/// What snapshots of applications may take, and what Secrets in those by schedule are sealed by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Snapshots {
    pub(crate) bytes: u64,
    pub(crate) passphrase_file: PathBuf,
}

/// Backups that are made by themselves; an empty directory: none are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Backup {
    pub(crate) directory: PathBuf,
    pub(crate) every: Retention,
    pub(crate) keep: usize,
    pub(crate) passphrase_file: PathBuf,
}

impl Backup {
    /// Those of the node in the data directory `data`; `None`: none are made.
    pub(crate) fn schedule(&self, data: &Path, role: Role) -> std::io::Result<Option<Schedule>> {
        let Some(every) = self.every.age().filter(|_| !self.directory.as_os_str().is_empty()) else {
            return Ok(None);
        };
        Ok(Some(Schedule {
            data: std::path::absolute(data)?,
            directory: std::path::absolute(&self.directory)?,
            name: format!("{}-{}", role.name(), uname().nodename().to_string_lossy()),
            every,
            keep: self.keep,
            passphrase_file: std::path::absolute(&self.passphrase_file)?,
        }))
    }
}

/// Which of two messages of a device goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LinkOrder {
    /// One that comes now passes those that had to wait.
    LiveFirst,
    /// None passes another.
    InOrder,
}

/// When an acknowledgement may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// Once it survives a crash of the program
    Os,
    /// Once it survives a power cut
    Disk,
}

/// Bounds of what clients can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) connects_per_s: u32,
    pub(crate) pending_connects: usize,
    pub(crate) connect_timeout_s: u32,
    pub(crate) connect_bytes: usize,
    pub(crate) packet_bytes: u32,
    pub(crate) login_checks: usize,
    pub(crate) sessions: usize,
    pub(crate) subscriptions_per_session: usize,
    pub(crate) topic_levels: usize,
    pub(crate) queue_messages: usize,
    pub(crate) queue_bytes: u64,
    pub(crate) queue_policy: QueuePolicy,
    pub(crate) queue_memory_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) in_flight: NonZeroU16,
    pub(crate) receive_maximum: NonZeroU16,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) topic_aliases_outgoing: u16,
    pub(crate) retained_messages: usize,
    pub(crate) retained_bytes: u64,
    pub(crate) session_expiry_s: u32,
    pub(crate) keep_alive_s: u16,
}

/// What becomes of a message that finds the queue of a session full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueuePolicy {
    /// That session goes without it.
    DropNewest,
    /// Its publisher is told, and keeps it.
    Refuse,
}

/// What the program says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: String,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For programs: an object a line
    Json,
}

/// Bounds of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Audit {
    pub(crate) max_file_bytes: u64,
    pub(crate) old_files: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: EDGE_DATA.into(),
            shards: 0,
            low_latency: false,
            allow_anonymous: false,
            listen: Listen::default(),
            tls: Tls::default(),
            store: Store::default(),
            link: Link::default(),
            site: Site::default(),
            database: Database::default(),
            enrolment: Enrolment::default(),
            tokens: Tokens::default(),
            history: History::default(),
            images: Images::default(),
            labels: BTreeMap::new(),
            snapshots: Snapshots::default(),
            backup: Backup::default(),
            limits: Limits::default(),
            log: Log::default(),
            audit: Audit::default(),
        }
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self { key_days: 90 }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            mqtt: vec![SocketAddr::from(([127, 0, 0, 1], 1883))],
            mqtts: Vec::new(),
            mqtt_ws: Vec::new(),
            mqtt_wss: Vec::new(),
            websocket_origins: Vec::new(),
            mqtt_unix: Vec::new(),
            http: Vec::new(),
            https: Vec::new(),
            proxy_protocol: false,
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        let options = store::Options::default();
        Self {
            durability: Durability::Disk,
            segment_bytes: options.segment_bytes,
            pending_bytes: options.pending_bytes,
            limit_bytes: options.limit_bytes,
            garbage_bytes: options.garbage_bytes,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self {
            url: String::new(),
            user_name: String::new(),
            password_file: PathBuf::new(),
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            ca: PathBuf::new(),
            proxy: String::new(),
            bytes: hub::OutboxOptions::default().bytes,
            order: LinkOrder::LiveFirst,
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            enabled: false,
            retention: "7d".parse().expect("is a time"),
            bytes: 256 << 20,
        }
    }
}

impl Default for Images {
    fn default() -> Self {
        Self {
            unused: "30d".parse().expect("is a time"),
            bytes: 8 << 30,
        }
    }
}

impl Default for Backup {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            every: "24h".parse().expect("is a time"),
            keep: 7,
            passphrase_file: PathBuf::new(),
        }
    }
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            bytes: 8 << 30,
            passphrase_file: PathBuf::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let hub = hub::Limits::default();
        let broker = hub.broker;
        Self {
            connections: hub.connections,
            connects_per_s: hub.connects_per_s,
            pending_connects: hub.pending_connects,
            connect_timeout_s: hub.connect_timeout.as_secs() as u32,
            connect_bytes: hub.connect_bytes,
            packet_bytes: broker.maximum_packet_size,
            login_checks: hub.login_checks,
            sessions: broker.sessions,
            subscriptions_per_session: broker.subscriptions_per_session,
            topic_levels: broker.topic_levels,
            queue_messages: broker.queue_messages,
            queue_bytes: broker.queue_bytes,
            queue_policy: QueuePolicy::DropNewest,
            queue_memory_bytes: broker.queue_memory_bytes,
            memory_bytes: broker.memory_bytes,
            in_flight: broker.in_flight,
            receive_maximum: broker.receive_maximum,
            topic_alias_maximum: broker.topic_alias_maximum,
            topic_aliases_outgoing: broker.topic_aliases_outgoing,
            retained_messages: broker.retained_messages,
            retained_bytes: broker.retained_bytes,
            session_expiry_s: broker.session_expiry_s,
            keep_alive_s: broker.keep_alive_s.map_or(0, NonZeroU16::get),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info".to_owned(),
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        let options = identity::AuditOptions::default();
        Self {
            max_file_bytes: options.max_file_bytes,
            old_files: options.old_files,
        }
    }
}

impl Config {
    /// Reads a file. What it leaves out is as `role` has it by default.
    ///
    /// # Errors
    /// Names the file, the line and the key, and says what would be right.
    pub(crate) fn read(path: &Path, role: Role) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let config = Self::parse(&path.display().to_string(), &text)?;
        Ok(match role {
            Role::Edge => config,
            Role::Cloud => config.of_cloud(&text.parse()?),
        })
    }

    /// The same with a cloud's defaults, which are others, for what is not in `file`.
    fn of_cloud(self, file: &toml::Table) -> Self {
        let cloud = Role::Cloud.defaults();
        let listened = file.get("listen").and_then(toml::Value::as_table);
        let is_said = |door: &str| listened.is_some_and(|listened| listened.contains_key(door));
        let choose = |door, said, default| if is_said(door) { said } else { default };
        let (said, default) = (self.listen, cloud.listen);
        Self {
            data: if file.contains_key("data") {
                self.data
            } else {
                cloud.data
            },
            listen: Listen {
                mqtt: choose("mqtt", said.mqtt, default.mqtt),
                mqtts: choose("mqtts", said.mqtts, default.mqtts),
                http: choose("http", said.http, default.http),
                https: choose("https", said.https, default.https),
                ..said
            },
            ..self
        }
    }

    pub(super) fn parse(file: &str, text: &str) -> anyhow::Result<Self> {
        let config: Config = match toml::from_str(text) {
            Ok(config) => config,
            Err(error) => bail!("{}", explain(file, text, &error)),
        };
        match config.mistake() {
            Some(mistake) => bail!("{}", mistake.explain(file, text)),
            None => Ok(config),
        }
    }

    /// The configuration as a file that says all of it, but for the password of a proxy: there are no secrets in it.
    pub(crate) fn to_toml(&self) -> String {
        let mut shown = self.clone();
        if let Some((_, place)) = shown.link.proxy.rsplit_once('@') {
            shown.link.proxy = format!("http://…@{place}");
        }
        toml::to_string(&shown).expect("a configuration is TOML")
    }

    /// How the hub is run; `has_cloud`: an edge that has one from the start, and not once it joins.
    pub(crate) fn hub_options(&self, role: Role, has_cloud: bool) -> hub::Options {
        let options = hub::Options::new(&self.data);
        let outbox = match role {
            Role::Edge => self.link.outbox(),
            // Rows go by the order in which an edge sent them.
            Role::Cloud => hub::OutboxOptions {
                ordering: hub::Ordering::Strict,
                ..self.link.outbox()
            },
        };
        hub::Options {
            shards: match self.shards {
                0 => options.shards,
                shards => shards,
            },
            log: self.store.options(),
            allow_anonymous: self.allow_anonymous,
            low_latency: self.low_latency,
            limits: self.limits.hub(),
            outbox: Some(outbox),
            has_upstream: role == Role::Cloud || has_cloud,
            shares_twins: true,
            ..options
        }
    }
}

impl Link {
    fn outbox(&self) -> hub::OutboxOptions {
        hub::OutboxOptions {
            bytes: self.bytes,
            ordering: match self.order {
                LinkOrder::LiveFirst => hub::Ordering::LiveFirst,
                LinkOrder::InOrder => hub::Ordering::Strict,
            },
        }
    }
}

impl Store {
    pub(super) fn options(&self) -> store::Options {
        store::Options {
            durability: match self.durability {
                Durability::Os => store::Durability::Os,
                Durability::Disk => store::Durability::Disk,
            },
            segment_bytes: self.segment_bytes,
            pending_bytes: self.pending_bytes,
            limit_bytes: self.limit_bytes,
            garbage_bytes: self.garbage_bytes,
        }
    }
}

impl Limits {
    pub(crate) fn hub(&self) -> hub::Limits {
        hub::Limits {
            connections: self.connections,
            connects_per_s: self.connects_per_s,
            pending_connects: self.pending_connects,
            connect_timeout: Duration::from_secs(self.connect_timeout_s.into()),
            connect_bytes: self.connect_bytes,
            login_checks: self.login_checks,
            broker: broker::Limits {
                sessions: self.sessions,
                subscriptions_per_session: self.subscriptions_per_session,
                topic_levels: self.topic_levels,
                queue_messages: self.queue_messages,
                queue_bytes: self.queue_bytes,
                queue_policy: match self.queue_policy {
                    QueuePolicy::DropNewest => broker::QueuePolicy::DropNewest,
                    QueuePolicy::Refuse => broker::QueuePolicy::Refuse,
                },
                queue_memory_bytes: self.queue_memory_bytes,
                memory_bytes: self.memory_bytes,
                in_flight: self.in_flight,
                receive_maximum: self.receive_maximum,
                maximum_packet_size: self.packet_bytes,
                topic_alias_maximum: self.topic_alias_maximum,
                topic_aliases_outgoing: self.topic_aliases_outgoing,
                retained_messages: self.retained_messages,
                retained_bytes: self.retained_bytes,
                session_expiry_s: self.session_expiry_s,
                keep_alive_s: NonZeroU16::new(self.keep_alive_s),
                ..broker::Limits::default()
            },
        }
    }
}

impl Audit {
    pub(crate) fn options(&self) -> identity::AuditOptions {
        identity::AuditOptions {
            max_file_bytes: self.max_file_bytes,
            old_files: self.old_files,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/edge.toml");

    /// The paths of all keys, such as `limits.sessions`.
    fn keys(table: &toml::Table, before: &str) -> BTreeSet<String> {
        let keys = table.iter().flat_map(|(name, value)| {
            let path = format!("{before}{name}");
            match value {
                toml::Value::Table(table) => keys(table, &format!("{path}.")),
                _ => BTreeSet::from([path]),
            }
        });
        keys.collect()
    }

    #[test]
    fn the_manual_has_every_key_with_its_default() {
        assert_eq!(Config::parse("docs/edge.toml", MANUAL).unwrap(), Config::default());
        let of = |text: &str| keys(&text.parse().unwrap(), "");
        assert_eq!(of(MANUAL), of(&Config::default().to_toml()));
    }

    #[test]
    fn what_the_file_of_a_cloud_leaves_out_is_as_a_cloud_has_it() {
        let read = |text: &str, role| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            Config::read(file.path(), role).unwrap()
        };
        for role in [Role::Edge, Role::Cloud] {
            assert_eq!(read("", role), role.defaults());
        }
        let config = read(
            "data = \"x\"\n[listen]\nmqtts = []\nmqtt_ws = [\"127.0.0.1:9\"]\n",
            Role::Cloud,
        );
        assert_eq!(config.data, Path::new("x"));
        assert!(config.listen.mqtt.is_empty() && config.listen.mqtts.is_empty() && config.listen.mqtt_ws.len() == 1);
        assert_eq!(config.listen.https, Role::Cloud.defaults().listen.https);
    }

    #[test]
    fn the_password_of_a_proxy_is_not_shown() {
        let config = Config::parse("edge.toml", "link.proxy = \"http://me:se%40cret@proxy:3128\"").unwrap();
        let shown = config.to_toml();
        assert!(
            shown.contains("proxy = \"http://…@proxy:3128\"") && !shown.contains("cret"),
            "{shown}"
        );
    }

    #[test]
    fn the_defaults_are_those_of_the_rooms() {
        let (ours, theirs) = (Config::default().limits.hub(), hub::Limits::default());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        let (ours, theirs) = (Config::default().store.options(), store::Options::default());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn one_tenant_with_its_default_quota_leaves_room_for_others() {
        let of_tenant = identity::Quotas::default().connections.unwrap();
        assert!(of_tenant < hub::Limits::default().connections as u64);
    }

    fn check(text: &str, expected: &str) {
        let error = Config::parse("edge.toml", text).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_key_that_nobody_knows_is_named_with_its_line_and_what_was_meant() {
        check(
            "data = \"x\"\n[limits]\nconections = 5\n",
            "edge.toml:3: unknown key \"conections\"; did you mean \"connections\"?",
        );
        check(
            "[tls]\nspeed = 5\n",
            "edge.toml:2: unknown key \"speed\"; there are certificate, key, client_ca, names",
        );
    }

    #[test]
    fn a_value_that_cannot_be_is_named_with_its_line() {
        let check_start = |text: &str, start: &str| {
            let error = Config::parse("edge.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        };
        check_start("\n[limits]\nin_flight = 0\n", "edge.toml:3: ");
        check_start("[listen]\nmqtt = [\"localhost\"]\n", "edge.toml:2: ");
        check_start(
            "[store]\ndurability = \"never\"\n",
            "edge.toml:2: unknown variant `never`, expected `os` or `disk`",
        );
        check_start(
            "[limits]\nqueue_policy = \"wait\"\n",
            "edge.toml:2: unknown variant `wait`, expected `drop_newest` or `refuse`",
        );
        check_start(
            "[listen]\nwebsocket_origins = [\"dash.example\"]\n",
            "edge.toml:2: \"dash.example\" is no origin; ",
        );
        check_start("data = \n", "edge.toml:1: ");
    }

    #[test]
    fn an_address_that_is_none_is_quoted_with_what_would_be_right() {
        check(
            "[listen]\nmqtt = [\n  \"127.0.0.1:1883\",\n  \"localhost:1883\",\n]\n",
            "edge.toml:4: \"localhost:1883\" is no address; one is an IP address and a port, such as \
             \"127.0.0.1:1883\", or \"[::]:1883\" for all",
        );
    }
}
