//! Who may connect, as whom, and how much each tenant may use.
//!
//! A data directory holds the registry (`registry.db`), the edge's certificate authority (`ca.pem`, `ca.key`), the
//! audit log (`audit.log`) the lock that says whether an edge runs on it (`edge.lock`), and what an edge that joined a
//! cloud proves itself by there (`membership.json`). [`Identity`] is the first two together: what adds clients and
//! checks what they present. Knows no protocol, socket or clock: `now` is an argument, in seconds of Unix time.
//!
//! Calls block: they read SQLite, and checking a password that was not checked before takes
//! [`HASHING_MEMORY_BYTES`] and tens of milliseconds of CPU. Callers run them on threads of their own and bound how many at once.

mod audit;
mod authenticate;
mod authority;
mod bans;
mod certificate;
mod client_tls;
mod cloud_trust;
mod edge_key;
mod enrol;
mod files;
mod fingerprint;
mod hashing;
mod invitation;
mod join_token;
mod lock;
mod login;
mod membership;
mod name;
mod node;
mod password;
mod pinned;
mod quotas;
mod registry;
mod renewal;
mod secret;
mod slow_clock;
mod throttle;
mod tls;
mod token;
mod user;
mod verified;

pub use audit::{Action, Audit, AuditOptions, Event};
pub use authenticate::{Login, Presented, Principal, PrincipalKind, Refusal};
pub use authority::{Authority, AuthorityError};
pub use bans::{BanError, Bans, MAX_BANNED};
pub use certificate::{CertificateError, CertificateIdentity};
pub use client_tls::{ClientPair, client_config};
pub use cloud_trust::{CloudTrust, CloudTrustError, PublicTokenKey};
pub use edge_key::{EdgeKey, EdgeKeyError};
pub use enrol::{Credential, Identity, IdentityError, IdentityOptions, Issued, NewClient};
pub use fingerprint::Fingerprint;
pub use invitation::{Enrolled, EnrolmentOptions, Invitation};
pub use join_token::{JoinToken, JoinTokenError};
pub use lock::{EdgeLock, LockError};
pub use login::{ACCESS_TOKEN_VALID_S, LoggedIn, REFRESH_TOKEN_VALID_S, UserTokens};
pub use membership::{CertificateEnd, MEMBERSHIP_FILE, Membership, MembershipError, certificate_end};
pub use name::{ClientKind, ClientName, DEFAULT_TENANT, MAX_NAME_BYTES, NameError, check_name, tenants_of_edge};
pub use node::{NodeKeys, NodeKeysError, node_of};
pub use password::{HASHING_MEMORY_BYTES, MAX_PASSWORD_BYTES, PasswordError};
pub use pinned::{Pin, pinned_config};
pub use quotas::{Quotas, RETENTION_S};
pub use registry::{
    ApplicationLogins, Change, Client, ClientCertificate, DeviceRecord, HeldCredential, Labels, MAX_LABELS, MAX_PAGE,
    NoCredential, OpenError, Registry, RegistryError, Shared, Sharing, Snapshot, Tenant, User, What,
};
pub use secret::Secret;
pub use throttle::{Policy, Throttle, network};
pub use tls::{ServerCertificate, Tls, TlsError, server_config};
pub use token::{TokenError, TokenKey};
pub use user::{Role, UserName};
