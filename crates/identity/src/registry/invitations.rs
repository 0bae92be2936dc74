//! Edges that may join: one invitation each, of which only a digest of the secret is kept.

use rusqlite::{OptionalExtension, params};

use super::{ClientCertificate, Registry, RegistryError, What, certificates, clients, touched};
use crate::name::ClientName;

/// An invitation.
pub(crate) struct InvitationRow {
    pub(crate) name: ClientName,
    /// Tells it from others.
    pub(crate) number: String,
    pub(crate) secret_sha256: Vec<u8>,
    pub(crate) until_unix_s: i64,
    /// Of the public key that it was used for.
    pub(crate) key_sha256: Option<Vec<u8>>,
}

/// What an invitation is used for.
pub(crate) struct Redeemed<'a> {
    pub(crate) number: &'a str,
    pub(crate) key_sha256: &'a [u8],
    pub(crate) certificate: &'a ClientCertificate,
}

impl Registry {
    /// Invites an edge; an earlier invitation of it is worthless from now on.
    pub(crate) fn invite(&self, row: &InvitationRow) -> Result<(), RegistryError> {
        let name = &row.name;
        self.change(&[], |transaction| {
            clients::require(transaction, name)?;
            let sql = "INSERT OR REPLACE INTO invitations (tenant, id, number, secret_sha256, until_unix_s, key_sha256)
                 VALUES (?1, ?2, ?3, ?4, ?5, NULL)";
            let values = params![
                name.tenant(),
                name.id(),
                row.number,
                row.secret_sha256,
                row.until_unix_s
            ];
            transaction.execute(sql, values)?;
            Ok(())
        })
    }

    pub(crate) fn invitation(&self, number: &str) -> Result<Option<InvitationRow>, RegistryError> {
        let sql =
            "SELECT tenant, id, number, secret_sha256, until_unix_s, key_sha256 FROM invitations WHERE number = ?1";
        let reader = self.reader();
        let found = reader.prepare_cached(sql)?.query_row([number], |row| {
            let name = ClientName::new(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
            Ok(InvitationRow {
                name: name.map_err(|_| rusqlite::Error::InvalidQuery)?,
                number: row.get(2)?,
                secret_sha256: row.get(3)?,
                until_unix_s: row.get(4)?,
                key_sha256: row.get(5)?,
            })
        });
        Ok(found.optional()?)
    }

    /// Until when an edge may join, in seconds of Unix time; `None` if it is not invited, or has joined.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn invited_until(&self, name: &ClientName, now_unix_s: i64) -> Result<Option<i64>, RegistryError> {
        let sql = "SELECT until_unix_s FROM invitations
             WHERE tenant = ?1 AND id = ?2 AND key_sha256 IS NULL AND until_unix_s >= ?3";
        let reader = self.reader();
        let found = reader
            .prepare_cached(sql)?
            .query_row(params![name.tenant(), name.id(), now_unix_s], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// Makes the invitation of an edge worthless.
    ///
    /// # Errors
    /// It has none.
    pub fn withdraw_invitation(&self, name: &ClientName) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            let sql = "DELETE FROM invitations WHERE tenant = ?1 AND id = ?2";
            let gone = transaction.execute(sql, [name.tenant(), name.id()])?;
            touched(gone, || RegistryError::NoInvitation(name.clone()))
        })
    }

    /// Uses an invitation: it is bound to this key from now on, and the certificate takes the place of those that the
    /// edge had by earlier ones. An edge that did not get its answer asks again with the same key, and gets another.
    ///
    /// # Errors
    /// The invitation is gone, or bound to another key.
    pub(crate) fn redeem(&self, name: &ClientName, redeemed: &Redeemed<'_>) -> Result<(), RegistryError> {
        self.change_client(name, What::CredentialRevoked(None), |transaction| {
            let sql = "UPDATE invitations SET key_sha256 = ?2
                 WHERE number = ?1 AND (key_sha256 IS NULL OR key_sha256 = ?2)";
            let bound = transaction.execute(sql, params![redeemed.number, redeemed.key_sha256])?;
            touched(bound, || RegistryError::NoInvitation(name.clone()))?;
            certificates::revoke_renewable(transaction, name)?;
            certificates::insert_renewable(transaction, name, redeemed.certificate)
        })
    }
}
