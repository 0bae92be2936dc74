//! Keys that sign tokens; kept beside the clients so that one transaction changes both and one file holds the secrets.

use rusqlite::{OptionalExtension, params};
use zeroize::Zeroizing;

use super::{Registry, RegistryError};

/// Keys that no longer sign but still verify.
const MAX_OLD_KEYS: i64 = 8;

/// A stored key.
pub(crate) struct KeyRow {
    pub(crate) key_id: String,
    pub(crate) pkcs8: Zeroizing<Vec<u8>>,
    /// `None`: it signs.
    pub(crate) verify_until_unix_s: Option<i64>,
}

impl Registry {
    pub(crate) fn token_keys(&self) -> Result<Vec<KeyRow>, RegistryError> {
        let reader = self.reader();
        let keys = reader
            .prepare_cached("SELECT key_id, pkcs8, verify_until_unix_s FROM token_keys")?
            .query_map([], |row| {
                Ok(KeyRow {
                    key_id: row.get(0)?,
                    pkcs8: Zeroizing::new(row.get(1)?),
                    verify_until_unix_s: row.get(2)?,
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

    pub(crate) fn set_cloud_trust(&self, trust: &str) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            transaction.execute("INSERT OR REPLACE INTO cloud_trust VALUES (1, ?1)", [trust])?;
            Ok(())
        })
    }

    /// Makes `new` the key that signs; those before verify until `old_until_unix_s` at the latest. Keys past their time
    /// go, and so do the oldest beyond [`MAX_OLD_KEYS`].
    pub(crate) fn rotate_token_keys(
        &self,
        new: &KeyRow,
        old_until_unix_s: i64,
        now_unix_s: i64,
    ) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            transaction.execute(
                "UPDATE token_keys SET verify_until_unix_s = min(coalesce(verify_until_unix_s, ?1), ?1)",
                [old_until_unix_s],
            )?;
            transaction.execute(
                "DELETE FROM token_keys WHERE verify_until_unix_s <= ?1 OR key_id NOT IN
                 (SELECT key_id FROM token_keys ORDER BY verify_until_unix_s DESC LIMIT ?2)",
                [now_unix_s, MAX_OLD_KEYS],
            )?;
            transaction.execute(
                "INSERT INTO token_keys (key_id, pkcs8, verify_until_unix_s) VALUES (?1, ?2, NULL)",
                params![new.key_id, &**new.pkcs8],
            )?;
            Ok(())
        })
    }
}
