//! Keys that sign tokens; kept beside the clients so that one transaction changes both and one file holds the secrets.

use rusqlite::{OptionalExtension, Transaction, params};
use zeroize::Zeroizing;

use super::{HeldCredential, Registry, RegistryError, What};

/// Keys that no longer sign but still verify; with one more the next rotation is refused until the first has had its
/// time, for a token that nobody ended shall not end by itself. With the one that signs as many as an edge believes of
/// its cloud.
pub(super) const MAX_OLD_KEYS: u32 = 15;

/// A stored key.
pub(crate) struct KeyRow {
    pub(crate) key_id: String,
    pub(crate) pkcs8: Zeroizing<Vec<u8>>,
    pub(crate) created_unix_s: i64,
    /// When the last of the tokens of devices and apps that it signed ends.
    pub(crate) signed_until_unix_s: i64,
    /// `None`: it signs.
    pub(crate) verify_until_unix_s: Option<i64>,
}

impl Registry {
    pub(crate) fn token_keys(&self) -> Result<Vec<KeyRow>, RegistryError> {
        let reader = self.reader();
        let keys = reader
            .prepare_cached(
                "SELECT key_id, pkcs8, created_unix_s, signed_until_unix_s, verify_until_unix_s FROM token_keys
                 ORDER BY verify_until_unix_s IS NOT NULL, verify_until_unix_s DESC",
            )?
            .query_map([], |row| {
                Ok(KeyRow {
                    key_id: row.get(0)?,
                    pkcs8: Zeroizing::new(row.get(1)?),
                    created_unix_s: row.get(2)?,
                    signed_until_unix_s: row.get(3)?,
                    verify_until_unix_s: row.get(4)?,
                })
            })?
            .collect::<Result<_, _>>()?;
        Ok(keys)
    }

    /// What an edge believes of its cloud, as it was set.
    pub(crate) fn cloud_trust(&self) -> Result<Option<String>, RegistryError> {
        let reader = self.reader();
        let found = reader.query_row("SELECT trust FROM cloud_trust", [], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// `ends_tokens`: connections made with a token end.
    pub(crate) fn set_cloud_trust(&self, trust: &str, ends_tokens: bool) -> Result<(), RegistryError> {
        self.change_keys(ends_tokens, |transaction| {
            transaction.execute("INSERT OR REPLACE INTO cloud_trust VALUES (1, ?1)", [trust])?;
            Ok(())
        })
    }

    /// Writes down that a key signs a token that ends then, before anybody gets it.
    pub(crate) fn note_signed_until(&self, key_id: &str, until_unix_s: i64) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            transaction.execute(
                "UPDATE token_keys SET signed_until_unix_s = max(signed_until_unix_s, ?2) WHERE key_id = ?1",
                params![key_id, until_unix_s],
            )?;
            Ok(())
        })
    }

    /// Makes `new` the key that signs. The one before verifies until the last token that it signed has ended, and until
    /// `old_until_unix_s` at least; keys that were past their time before this go. With `ends_others` all others go at
    /// once, and connections made with a token end.
    pub(crate) fn rotate_token_keys(
        &self,
        new: &KeyRow,
        ends_others: bool,
        old_until_unix_s: i64,
    ) -> Result<(), RegistryError> {
        self.change_keys(ends_others, |transaction| {
            match ends_others {
                true => {
                    transaction.execute("DELETE FROM token_keys", [])?;
                }
                false => retire(transaction, old_until_unix_s, new.created_unix_s)?,
            }
            transaction.execute(
                "INSERT INTO token_keys VALUES (?1, ?2, NULL, ?3, ?4)",
                params![new.key_id, &**new.pkcs8, new.created_unix_s, new.signed_until_unix_s],
            )?;
            Ok(())
        })
    }

    fn change_keys(
        &self,
        ends_tokens: bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), RegistryError>,
    ) -> Result<(), RegistryError> {
        let holders = if ends_tokens { self.token_holders()? } else { Vec::new() };
        let revoked = |is_application| match is_application {
            true => What::CredentialRevoked(Some(HeldCredential::Application)),
            false => What::CredentialRevoked(Some(HeldCredential::Tokens)),
        };
        let changes: Vec<_> = holders
            .iter()
            .map(|(tenant, id, is_application)| (&**tenant, Some(&**id), revoked(*is_application)))
            .collect();
        self.change(&changes, work)
    }

    /// Tenant and id of each that has tokens, and whether they are those of an application of the edge's.
    fn token_holders(&self) -> Result<Vec<(String, String, bool)>, RegistryError> {
        let reader = self.reader();
        let holders = reader
            .prepare_cached(
                "SELECT tenant, id, 0 FROM clients WHERE token_epoch IS NOT NULL
                 UNION ALL SELECT tenant, id, 1 FROM applications",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<_, _>>()?;
        Ok(holders)
    }
}

/// Has the key that signs verify alone from now on.
fn retire(transaction: &Transaction<'_>, until_unix_s: i64, now_unix_s: i64) -> Result<(), RegistryError> {
    // Not the one that signs: a clock that is ahead for a moment would end what it signed.
    transaction.execute("DELETE FROM token_keys WHERE verify_until_unix_s <= ?1", [now_unix_s])?;
    let (old, first_until_unix_s): (u32, Option<i64>) = transaction.query_row(
        "SELECT count(*), min(verify_until_unix_s) FROM token_keys WHERE verify_until_unix_s IS NOT NULL",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if let Some(first_until_unix_s) = first_until_unix_s.filter(|_| old >= MAX_OLD_KEYS) {
        return Err(RegistryError::TooManyTokenKeys { first_until_unix_s });
    }
    transaction.execute(
        "UPDATE token_keys SET verify_until_unix_s = max(signed_until_unix_s, ?1) WHERE verify_until_unix_s IS NULL",
        [until_unix_s],
    )?;
    Ok(())
}
