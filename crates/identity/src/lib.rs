//! Who may connect, as whom, and how much each tenant may use.
//!
//! A data directory holds the registry (`registry.db`), the edge's certificate authority (`ca.pem`, `ca.key`), the
//! audit log (`audit.log`) and the lock that says whether an edge runs on it (`edge.lock`). [`Identity`] is the first
//! two together: what adds clients and checks what they present. Knows no protocol, socket or clock: `now` is an
//! argument, in seconds of Unix time.
//!
//! Calls block: they read SQLite, and checking a password that was not checked before takes
//! [`HASHING_MEMORY_BYTES`] and tens of milliseconds of CPU. Callers run them on threads of their own and bound how many at once.

mod audit;
mod authenticate;
mod authority;
mod certificate;
mod client_tls;
mod enrol;
mod files;
mod hashing;
mod lock;
mod login;
mod name;
mod password;
mod quotas;
mod registry;
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
pub use certificate::{CertificateError, CertificateIdentity};
pub use client_tls::{ClientPair, client_config};
pub use enrol::{Credential, Identity, IdentityError, IdentityOptions, Issued, NewClient};
pub use lock::{EdgeLock, LockError};
pub use login::{ACCESS_TOKEN_VALID_S, LoggedIn, REFRESH_TOKEN_VALID_S, UserTokens};
pub use name::{ClientKind, ClientName, DEFAULT_TENANT, MAX_NAME_BYTES, NameError, check_name};
pub use password::{HASHING_MEMORY_BYTES, MAX_PASSWORD_BYTES, PasswordError};
pub use quotas::Quotas;
pub use registry::{
    Change, Client, ClientCertificate, HeldCredential, Labels, MAX_LABELS, MAX_PAGE, NoCredential, OpenError, Registry,
    RegistryError, Snapshot, Tenant, User, What,
};
pub use secret::Secret;
pub use throttle::{Policy, Throttle, network};
pub use tls::{ServerCertificate, Tls, TlsError, server_config};
pub use token::TokenError;
pub use user::{Role, UserName};
