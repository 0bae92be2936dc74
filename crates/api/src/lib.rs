//! The HTTP face of an edge, for people and programs that operate it.
//!
//! A [`Desk`] does what operators ask: devices and apps, twins, calls, manifests, figures. [`control_router`] offers
//! all of it under `/v1` on the control socket in the data directory; [`public_router`] offers health, readiness and
//! metrics on a port. [`Client`] speaks to the control socket of a running edge, or, where none runs, to a desk of its
//! own on the data directory, so a command is the same for both.

mod applying;
mod applying_desired;
mod calling;
mod client;
mod clients;
mod credentials;
mod desk;
mod doors;
mod health;
mod links;
mod log_tail;
mod manifests;
mod metrics;
mod page;
pub mod paths;
mod process;
mod routers;
mod routes;
mod sessions;
mod tenants;
mod twins;
mod types;
mod wrong;

pub use client::{Answer, Client, ClientError};
pub use desk::{About, Desk, Parts};
pub use doors::{Bounds, Door, serve};
pub use log_tail::LogTail;
pub use manifests::Manifests;
pub use routers::{control_router, public_router};
pub use types::{
    Add, AddTenant, Added, Applied, Apply, ClientInfo, Credential, CredentialInfo, EdgeInfo, EdgeState, Give,
    IssuedCredential, LastFailureInfo, LedgerInfo, LinkInfo, Page, Patch, QuotaChanges, RouteInfo, SessionInfo,
    TenantInfo, TenantUse,
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
