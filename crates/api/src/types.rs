//! What goes over the control socket and the port, as JSON.

use std::collections::BTreeMap;

use identity::Quotas;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

mod applications;
mod passphrase;

pub use self::applications::*;

/// Which edge this is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeInfo {
    /// Its version.
    pub version: String,
    /// Where clients connect, as URLs; empty where no edge runs.
    pub addresses: Vec<String>,
    /// Clients without credentials are let in.
    pub allow_anonymous: bool,
}

/// The way to the cloud, or in a cloud to its database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LinkInfo {
    /// Where messages go that routes send upstream.
    pub goes_to: Upstream,
    /// URL of the cloud, or of another broker; `None`: there is none, or it was not looked for yet.
    pub cloud: Option<String>,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// For how many seconds there is one, or is none.
    pub since_s: u64,
    /// Why the last connection ended, or was not made.
    pub last_error: Option<String>,
    /// Until when the edge's certificate is good, if it has joined a cloud.
    pub certificate_until: Option<String>,
    /// Why that could not be renewed, if it is due.
    pub renewal_error: Option<String>,
    /// Rate of the line in bytes a second, if it has shown one.
    pub rate_bytes_per_s: Option<u64>,
    /// The shortest round trip of late, in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// For how many seconds the oldest message has waited that is not there yet, or up to one more; `None`: none waits.
    pub oldest_s: Option<u64>,
    /// Bytes of the log that those take which wait.
    pub queued_bytes: u64,
    /// Bytes that they may take, of all tenants and routes together.
    pub limit_bytes: u64,
    /// What became of the messages of each route: `received = delivered + queued + dropped`.
    pub ledgers: Vec<LedgerInfo>,
}

/// Where messages go that routes send upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Upstream {
    /// Nowhere: no cloud is configured, and none was joined.
    #[default]
    Nowhere,
    /// From an edge to its cloud.
    Cloud,
    /// In a cloud to its database.
    Database,
}

/// The part of a tenant in what goes upstream: its own messages, and the edges that bring them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TenantLink {
    /// Where its messages go that routes send upstream.
    pub goes_to: Upstream,
    /// Whether they can: there is a connection of the edge to its cloud. In a cloud always.
    pub is_connected: bool,
    /// What became of the messages of each route that clients of this hub sent: `received = delivered + queued +
    /// dropped`.
    pub ledgers: Vec<LedgerInfo>,
    /// In a cloud: the edges of the tenant, and those that brought messages of it, each with what is the tenant's.
    pub edges: Vec<EdgeState>,
}

/// What became of the messages of a route that sends upstream, since it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerInfo {
    /// Its tenant.
    pub tenant: String,
    /// The route.
    pub route: String,
    /// The edge that its messages came from; `None`: clients of this hub.
    #[serde(default)]
    pub edge: Option<String>,
    /// Messages that it sent.
    pub received: u64,
    /// Of these, those that are there.
    pub delivered: u64,
    /// Those that wait, or are on their way.
    pub queued: u64,
    /// Those that never will be, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Bytes of the log that those take which wait.
    pub bytes: u64,
    /// Bytes that they may take, if the route has a bound of its own.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// For how many seconds the oldest of them has waited, or up to one more; `None`: none waits.
    #[serde(default)]
    pub oldest_s: Option<u64>,
}

/// An edge, as its cloud knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeState {
    /// Its name.
    pub name: String,
    /// Whether it is connected.
    pub is_connected: bool,
    /// For how many seconds.
    pub since_s: u64,
    /// How many seconds ago something came from it last; `None`: nothing has since this cloud started.
    #[serde(default)]
    pub last_heard_s: Option<u64>,
    /// Where from; `None`: it is not connected, over a Unix socket, or it is another tenant's.
    pub address: Option<String>,
    /// What came by each of its routes: what its own ledger calls delivered is `taken + forbidden`.
    pub arrivals: Vec<ArrivalInfo>,
    /// What became of that here, on its way to the database, by this cloud's routes: `received = delivered + queued +
    /// dropped`.
    pub ledgers: Vec<LedgerInfo>,
}

/// Messages that came from an edge by one of its routes, since it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArrivalInfo {
    /// Tenant of the devices.
    pub tenant: String,
    /// The edge's route.
    pub route: String,
    /// Those that were taken, each counted once.
    pub taken: u64,
    /// Those that no edge may send, and that went no further: with `$…` topics.
    pub forbidden: u64,
    /// Those that came again, though they had been taken: their acknowledgement was lost.
    pub sent_again: u64,
    /// Those that there was no room for, and that the edge was to send again later.
    pub returned: u64,
}

/// Devices or apps to be added: all or none.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Add {
    /// Their ids within the tenant.
    pub ids: Vec<String>,
    /// What each shall prove itself by; what is made here is made for each.
    pub credential: Credential,
    /// Their first labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Of devices in a cloud: the edge that they log in at, and nowhere else.
    #[serde(default)]
    pub edge: Option<String>,
}

/// What a device or app shall prove itself by.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Credential {
    /// This password.
    Password(String),
    /// A password made here.
    GeneratedPassword,
    /// A signed token.
    Token {
        /// How long it is valid, in seconds.
        valid_s: u32,
    },
    /// A certificate and key made here.
    Certificate {
        /// How long it is valid, in seconds.
        valid_s: u32,
    },
    /// Any certificate with its name, of an authority that the edge was told to trust.
    TrustedCertificate,
}

/// A device or app that was added, with what it is to be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Added {
    /// `device` or `app`.
    pub kind: String,
    /// Its tenant.
    pub tenant: String,
    /// Whether the tenant was added with it.
    pub is_new_tenant: bool,
    /// Its id within the tenant.
    pub id: String,
    /// What it gives as its user name.
    pub user_name: String,
    /// The edge that it logs in at, and nowhere else; `None`: here.
    pub edge: Option<String>,
    /// Shown this once.
    pub issued: IssuedCredential,
}

/// What a device or app is to be given; kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IssuedCredential {
    /// Nothing: it has its credential already.
    Nothing,
    /// A password.
    Password(String),
    /// A token, for the password field.
    Token(String),
    /// A certificate with its key, both in PEM.
    Certificate {
        /// Its serial number in hexadecimal.
        serial: String,
        /// The certificate.
        certificate_pem: String,
        /// Its private key.
        key_pem: String,
    },
}

/// A device or app, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientInfo {
    /// `device` or `app`.
    pub kind: String,
    /// Its tenant.
    pub tenant: String,
    /// Its id within the tenant.
    pub id: String,
    /// What it gives as its user name.
    pub user_name: String,
    /// When it was added.
    pub created: String,
    /// Whether it is kept from logging in.
    pub is_disabled: bool,
    /// Whether a session of it is connected; `None` where no edge runs.
    pub is_connected: Option<bool>,
    /// What it can prove itself by: `password`, `token`, `certificate …`.
    pub credentials: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The edge that it logs in at, and nowhere else; `None`: here.
    pub edge: Option<String>,
}

/// Where a device is reached at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "at", rename_all = "lowercase")]
pub enum LocationInfo {
    /// A connection of it is here.
    Here,
    /// It is behind an edge, which knows whether it is there.
    Edge {
        /// The edge.
        edge: String,
        /// Whether that edge is connected, as far as is known: a line that falls silent is found out after 16 s at
        /// most.
        is_connected: bool,
        /// How many seconds ago something came from it last; `None`: nothing has since this cloud started.
        #[serde(default)]
        last_heard_s: Option<u64>,
    },
    /// It is away.
    Nowhere,
}

/// A credential to have beside the others, or in place of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Give {
    /// What it shall prove itself by from now on.
    pub credential: Credential,
}

/// A credential that a device or app has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CredentialInfo {
    /// `password`, `token`, `certificate` or `trusted-certificate`.
    pub sort: String,
    /// Serial number of a certificate in hexadecimal.
    pub serial: Option<String>,
    /// When a certificate expires.
    pub until: Option<String>,
}

/// Quotas to set, by their names in [`Quotas`]; `None` takes the limit away.
pub type QuotaChanges = BTreeMap<String, Option<u64>>;

/// A tenant to be added.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddTenant {
    /// Its name.
    pub name: String,
    /// Its quotas, as far as they are not the defaults.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<u64>>)]
    pub quotas: QuotaChanges,
}

/// A tenant, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantInfo {
    /// Its name.
    pub name: String,
    /// What it may use.
    #[schema(value_type = BTreeMap<String, Option<u64>>)]
    pub quotas: Quotas,
    /// Its devices and apps.
    pub devices: u64,
    /// What it uses now; `None` where no edge runs.
    pub uses: Option<TenantUse>,
}

/// What a tenant uses at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantUse {
    /// Open connections.
    pub connections: u64,
    /// Sessions, connected or not.
    pub sessions: u64,
    /// Bytes of memory that they count as.
    pub session_bytes: u64,
    /// Bytes of memory that its subscriptions count as.
    pub subscription_bytes: u64,
    /// Bytes of messages that wait or are retained.
    pub stored_bytes: u64,
    /// Bytes of messages that wait to leave for the cloud.
    pub upstream_bytes: u64,
    /// Containers that its applications want.
    #[serde(default)]
    pub containers: u64,
    /// Bytes of memory that all its containers take.
    #[serde(default)]
    pub app_memory_bytes: u64,
    /// Their processes and threads.
    #[serde(default)]
    pub app_pids: u64,
    /// Bytes on the disk of what they have written, as far as that was counted last: where there is a quota.
    #[serde(default)]
    pub app_disk_bytes: u64,
}

/// A page of a list; the next one is asked for with `?after=` the last id of this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// What is listed.
    pub items: Vec<T>,
    /// Whether there may be more.
    pub has_more: bool,
}

/// What is to change about a device or app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Patch {
    /// Whether it is kept from logging in.
    pub is_disabled: Option<bool>,
    /// Labels to set, and with `null` to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Of a device in a cloud: the edge that it logs in at from now on, and nowhere else; empty: here.
    pub edge: Option<String>,
}

/// A manifest to apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// Name of the file, for errors.
    pub file: String,
    /// Its text.
    pub text: String,
    /// Only say what would change.
    #[serde(default)]
    pub is_dry_run: bool,
    /// At an edge: change also what came from its cloud, which does not change it any more until it is applied there
    /// again.
    #[serde(default)]
    pub takes_over: bool,
}

/// A manifest that was applied at a cloud for an edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeManifest {
    /// Its tenant.
    pub tenant: String,
    /// `Device` or `Route`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Where the edge is with it.
    pub state: ManifestState,
    /// Number of the revision that is wanted; `None`: it is to be removed, or this cloud does not know it.
    pub wanted: Option<u64>,
    /// Number of the revision that is in effect at the edge, as far as the edge told; `None`: none is.
    pub on_edge: Option<u64>,
    /// Why the wanted one is not, in the words of the edge; or why the edge is not told of it.
    pub error: Option<String>,
}

/// Where an edge is with a manifest that was applied for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestState {
    /// The edge has not said yet what became of it.
    Waiting,
    /// It is in effect there.
    Applied,
    /// The edge cannot apply it as things are there, and tries again.
    Refused,
    /// Somebody at the edge has changed or deleted it there; applied here again, it takes effect again.
    TakenOver,
    /// It is to be removed, and the edge has not said yet that it is.
    Removing,
    /// The edge has it from a cloud that knew more than this one, which was restored from a backup perhaps. It stays
    /// there until it is applied or removed here.
    Unknown,
}

/// What applying changed, or would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// A line for each resource added and each field changed.
    pub changes: Vec<String>,
    /// Titles of the resources that were so already.
    pub unchanged: Vec<String>,
}

/// A session, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// Id of the device or app; empty for anonymous clients.
    pub owner: String,
    /// Its client identifier.
    pub client_id: String,
    /// Where it connects from.
    pub address: Option<String>,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Number of its subscriptions.
    pub subscriptions: usize,
    /// Messages that wait for it.
    pub queued_messages: usize,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Messages sent and not acknowledged.
    pub in_flight: usize,
}

/// A route, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteInfo {
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// The topic filter of its messages.
    pub from: String,
    /// Messages whose topic matched, since the route was applied or the edge started.
    pub matched: u64,
    /// Of these, those that the condition was false for.
    pub not_met: u64,
    /// Copies made: one for each target.
    pub delivered: u64,
    /// Conditions without an answer and targets that could not be made of the message.
    pub failed: u64,
    /// Messages that had come through as many routes as may be.
    pub hop_limit: u64,
    /// The last message that it failed for.
    pub last_failure: Option<LastFailureInfo>,
}

/// The last message that a route failed for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastFailureInfo {
    /// Its topic.
    pub topic: String,
    /// What happened.
    pub reason: String,
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Failure {
    /// What happened and what would be right, in words.
    pub(crate) error: String,
}

/// Who logs in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// `{name}` of the whole cloud, `{tenant}/{name}` of a tenant.
    pub(crate) user: String,
    /// Its password.
    pub(crate) password: String,
}

/// A login to go on with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refresh {
    /// As it was given last; good once.
    pub(crate) refresh_token: String,
}

/// What a user is given for a login.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tokens {
    /// To send with each request: `Authorization: Bearer …`.
    pub(crate) access_token: String,
    /// For how many seconds.
    pub(crate) expires_in_s: u32,
    /// To get two new ones with, once, within a week.
    pub(crate) refresh_token: String,
    /// Tenant of the user; `None`: the whole cloud.
    pub(crate) tenant: Option<String>,
    /// `viewer`, `operator` or `admin`.
    pub(crate) role: String,
}

/// What a user may do; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserRole {
    /// Sees devices, twins and telemetry.
    Viewer,
    /// Adds and removes devices and apps, sets twins, calls methods.
    Operator,
    /// Adds and removes users; of the whole cloud also tenants and edges, and sets quotas.
    Admin,
}

/// A user to be added.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddUser {
    /// Its name within the tenant, or the cloud.
    pub name: String,
    /// What it may do.
    pub role: UserRole,
    /// Its password; with none, one is made.
    pub password: Option<String>,
}

/// Another role for a user.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUser {
    /// What it may do from its next request on.
    pub role: UserRole,
}

/// Another password for a user.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPassword {
    /// The password; with none, one is made.
    pub password: Option<String>,
}

/// A user that was added or has another password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedUser {
    /// What it logs in as.
    pub user: String,
    /// The password that was made, shown this once.
    pub password: Option<String>,
}

/// A user, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserInfo {
    /// What it logs in as.
    pub user: String,
    /// Its tenant; `None`: the whole cloud.
    pub tenant: Option<String>,
    /// `viewer`, `operator` or `admin`.
    pub role: String,
    /// When it was added.
    pub created: String,
}

/// A key that tokens are signed with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenKeyInfo {
    /// What tokens call it: `kid` of their header.
    pub id: String,
    /// Since when it is there.
    pub created: String,
    /// Until when it verifies what it has signed; `None`: it signs.
    pub until: Option<String>,
}

/// How keys are rotated.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKeys {
    /// Whether all tokens end at once, because a key got out.
    #[serde(default)]
    pub at_once: bool,
}

/// An edit of a desired state that was given up for another, made on the other side of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TwinConflict {
    /// When this side learned of it.
    pub at: String,
    /// Where the edit was made: `edge` or `cloud`.
    pub side: String,
    /// Which edit of the desired state it was there.
    pub number: u64,
    /// JSON pointer of the value (RFC 6901).
    pub pointer: String,
    /// The value that stays; `null`: it stays removed, or something above or below it stays.
    pub kept: serde_json::Value,
    /// The value that was given up; `null`: its removal was.
    pub lost: serde_json::Value,
}
