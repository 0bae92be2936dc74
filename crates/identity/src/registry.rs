//! Tenants, devices and apps in one SQLite file.

mod applications;
mod certificates;
mod changes;
mod clients;
mod credentials;
mod invitations;
mod keys;
mod labels;
mod schema;
mod shared;
mod snapshot;
mod tenants;
mod users;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::name::{ClientKind, ClientName, NameError};
use crate::user::UserName;

pub use applications::ApplicationLogins;
pub use certificates::ClientCertificate;
pub(crate) use certificates::SerialState;
pub use changes::{Change, What};
pub use clients::Client;
pub(crate) use clients::{NewProof, NewRow, Proofs};
pub use credentials::{HeldCredential, NoCredential};
pub(crate) use invitations::{InvitationRow, Redeemed};
pub(crate) use keys::KeyRow;
pub use labels::{Labels, MAX_LABELS};
pub use schema::OpenError;
pub use shared::{DeviceRecord, Shared, Sharing};
pub use snapshot::Snapshot;
pub use tenants::Tenant;
pub(crate) use users::LoginRow;
pub use users::User;

use changes::ChangeLog;

/// Most rows that one call lists.
pub const MAX_PAGE: usize = 1_000;

/// The registry of a data directory. Safe to share between threads; reads go on while a change is written.
///
/// Several processes may open one registry, but only the holder of the [`EdgeLock`](crate::EdgeLock) may change it:
/// what another process changes is seen here in the rows, not in [`Registry::changes_since`].
#[derive(Debug)]
pub struct Registry {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    changes: ChangeLog,
    snapshot: Mutex<Arc<Snapshot>>,
}

/// Why the registry did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A name that is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No such tenant.
    #[error("no tenant \"{0}\"")]
    NoTenant(String),
    /// The tenant is there already.
    #[error("tenant \"{0}\" exists")]
    TenantExists(String),
    /// The default tenant stays.
    #[error("the default tenant cannot be removed")]
    DefaultTenant,
    /// The tenant has clients.
    #[error("tenant \"{0}\" still has devices or apps; remove them first")]
    TenantNotEmpty(String),
    /// No such client.
    #[error("no device or app \"{0}\"")]
    NoClient(ClientName),
    /// The id is taken, perhaps by the other kind.
    #[error("\"{name}\" exists and is {}", match kind { ClientKind::Device => "a device", ClientKind::App => "an app", ClientKind::Edge => "an edge" })]
    ClientExists {
        /// The name asked for.
        name: ClientName,
        /// What has it.
        kind: ClientKind,
    },
    /// The tenant has as many clients as its quota allows.
    #[error("tenant \"{tenant}\" has its {devices} devices and apps; raise its quota `devices` or remove some")]
    TooManyClients {
        /// The tenant.
        tenant: String,
        /// Its quota.
        devices: u64,
    },
    /// A label that is not allowed.
    #[error("label {shown}: {rule}")]
    Label {
        /// The label's name, escaped and shortened.
        shown: String,
        /// What would be right.
        rule: &'static str,
    },
    /// The client has as many valid certificates as it may.
    #[error("\"{0}\" has {max} valid certificates; revoke one first", max = certificates::MAX_CERTIFICATES)]
    TooManyCertificates(ClientName),
    /// The client does not have this credential.
    #[error("\"{name}\" has no {credential}")]
    NoCredential {
        /// Who.
        name: ClientName,
        /// What it was to lose.
        credential: HeldCredential,
    },
    /// The edge was not invited, or has joined.
    #[error("\"{0}\" has no invitation that could still be used")]
    NoInvitation(ClientName),
    /// No such user.
    #[error("no user \"{0}\"")]
    NoUser(UserName),
    /// The user is there already.
    #[error("user \"{0}\" exists")]
    UserExists(UserName),
    /// The tenant, or the cloud, has as many users as it may.
    #[error("there are {MAX_PAGE} users; remove some first")]
    TooManyUsers,
    /// As many earlier keys are still needed as may be.
    #[error(
        "{max} earlier keys still verify tokens, the first until {first_until_unix_s} seconds of Unix time; wait, or end \
         all tokens at once",
        max = keys::MAX_OLD_KEYS
    )]
    TooManyTokenKeys {
        /// When the first of them has had its time.
        first_until_unix_s: i64,
    },
    /// SQLite failed.
    #[error("registry: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Registry {
    /// Opens `registry.db` in `directory`, which must exist; makes it, readable by its owner alone, on first use.
    ///
    /// # Errors
    /// The file cannot be read and written, is no registry, or was written by a newer version of Selvedge.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join("registry.db");
        let writer = schema::open(&path)?;
        let reader = schema::open(&path)?;
        let registry = Registry {
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            changes: ChangeLog::default(),
            snapshot: Mutex::default(),
        };
        let snapshot = snapshot::read(&registry.reader(), 0).map_err(|source| OpenError::Database { path, source })?;
        *lock(&registry.snapshot) = Arc::new(snapshot);
        Ok(registry)
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        lock(&self.reader)
    }

    /// Runs `work` in one transaction and, once that is on disk, counts `changes`.
    fn change<T>(
        &self,
        changes: &[(&str, Option<&str>, What)],
        work: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut writer = lock(&self.writer);
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        for (tenant, id, what) in changes {
            self.changes.push(tenant, *id, what.clone());
        }
        Ok(done)
    }

    fn change_client<T>(
        &self,
        name: &ClientName,
        what: What,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        self.change(&[(name.tenant(), Some(name.id()), what)], work)
    }
}

/// A panic while a lock was held leaves nothing half done here: a transaction rolls back when it is dropped.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error unless the statement touched a row.
fn touched(rows: usize, otherwise: impl FnOnce() -> RegistryError) -> Result<(), RegistryError> {
    if rows == 0 { Err(otherwise()) } else { Ok(()) }
}
