//! The HTTP face of an edge or a cloud, for people and programs that operate it or use what it knows.
//!
//! A [`Desk`] does what operators ask: devices and apps, twins, calls, manifests, figures. [`control_router`] offers
//! all of it under `/v1` on the control socket in the data directory; [`public_router`] offers it on a port to users
//! who log in, each what its role and tenant allow, beside health, readiness and metrics for all. [`Client`] speaks to
//! the control socket of a running edge, or, where none runs, to a desk of its own on the data directory, so a command
//! is the same for both.

mod applications;
mod applying;
mod applying_desired;
mod bodies;
mod calling;
mod client;
mod clients;
mod cloud_client;
mod credentials;
mod database;
mod desk;
mod document;
mod doors;
mod edge_manifests;
mod enrolment;
mod files;
mod guard;
mod health;
mod joining;
mod links;
mod live;
mod locating;
mod log_tail;
mod logins;
mod logs;
mod manifests;
mod member;
mod methods;
mod metrics;
mod nodes;
mod page;
pub mod paths;
mod points;
mod posting;
mod process;
mod routers;
mod routes;
mod services;
mod sessions;
mod sharing;
mod snapshots;
mod subscriptions;
mod telemetry;
mod tenants;
mod token_keys;
mod twins;
mod types;
mod users;
mod wrong;

pub use client::{Answer, Client, ClientError};
pub use desk::{About, Desk, Parts};
pub use doors::{Bounds, Door, serve};
pub use edge_manifests::{ManifestsForEdges, ManifestsFromCloud};
pub use enrolment::{Enrolment, InvitationInfo, Invite};
pub use joining::{JoinCloud, Joined};
pub use log_tail::LogTail;
pub use manifests::Manifests;
pub use member::{Member, SITE_DIRECTORY};
pub use nodes::{NodeInfo, Nodes};
pub use routers::{control_router, public_router};
pub use types::{
    Add, AddTenant, AddUser, Added, AddedUser, Applied, Apply, ArrivalInfo, ChangeUser, ClientInfo, ContainerEnd,
    ContainerInfo, Credential, CredentialInfo, DeploymentInfo, EdgeInfo, EdgeManifest, EdgeState, EventInfo, Give,
    ImageInSnapshot, IssuedCredential, LastFailureInfo, LedgerInfo, LinkInfo, LocationInfo, ManifestState, Page, Patch,
    QuotaChanges, Restore, Restored, RolloutInfo, RotateKeys, RouteInfo, ServiceInfo, ServiceNode, SessionInfo,
    SetPassword, SnapshotInfo, TakeSnapshot, TenantInfo, TenantUse, TokenKeyInfo, TwinConflict, Upstream, UsageInfo,
    UserInfo, UserRole, ValuesInfo, VolumeInSnapshot,
};

/// Name of the control socket in the data directory.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Seconds of Unix time.
pub(crate) fn unix_now_s() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "credentials and the audit log carry dates of the wall clock"
    )]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
