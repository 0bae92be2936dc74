//! Users of the HTTP API, and where they are logged in.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{MAX_PAGE, Registry, RegistryError, tenants, touched};
use crate::user::{Role, UserName};

/// Logins of one user at one time; one more ends the one that would have ended first.
const MAX_LOGINS: i64 = 32;

/// A user as the registry shows it; no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Who.
    pub name: UserName,
    /// What it may do.
    pub role: Role,
    /// When it was added, in seconds of Unix time.
    pub created_unix_s: i64,
}

/// A login to keep: only the digest of the secret that goes on with it.
pub(crate) struct LoginRow<'a> {
    pub(crate) id: &'a str,
    pub(crate) refresh_sha256: &'a [u8],
    pub(crate) until_unix_s: i64,
}

impl Registry {
    /// Adds a user whose password hashes to `phc`; at most [`MAX_PAGE`] of a tenant, and of the whole cloud.
    pub(crate) fn add_user(&self, user: &User, phc: &str) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            let (tenant, name) = columns(&user.name);
            check_room(transaction, &user.name)?;
            let sql = "INSERT INTO users (tenant, name, role, created_unix_s, password) VALUES (?1, ?2, ?3, ?4, ?5)";
            transaction.execute(sql, params![tenant, name, user.role.as_str(), user.created_unix_s, phc])?;
            Ok(())
        })
    }

    /// The users of a tenant, or with `None` those of the whole cloud, by name.
    ///
    /// # Errors
    /// No such tenant.
    pub fn users(&self, tenant: Option<&str>) -> Result<Vec<User>, RegistryError> {
        let reader = self.reader();
        check_tenant(&reader, tenant)?;
        let sql = "SELECT tenant, name, role, created_unix_s FROM users WHERE tenant = ?1 ORDER BY name";
        let users = reader
            .prepare_cached(sql)?
            .query_map([tenant.unwrap_or_default()], from_row)?
            .collect::<Result<_, _>>()?;
        Ok(users)
    }

    /// A user; `None` if it is not there.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn user(&self, name: &UserName) -> Result<Option<User>, RegistryError> {
        Ok(self.user_with_hash(name)?.map(|(user, _)| user))
    }

    /// A user and the hash of its password.
    pub(crate) fn user_with_hash(&self, name: &UserName) -> Result<Option<(User, String)>, RegistryError> {
        let sql = "SELECT tenant, name, role, created_unix_s, password FROM users WHERE tenant = ?1 AND name = ?2";
        let reader = self.reader();
        let found = reader
            .prepare_cached(sql)?
            .query_row(columns(name), |row| Ok((from_row(row)?, row.get(4)?)))
            .optional()?;
        Ok(found)
    }

    /// Removes a user: its tokens are worthless at once.
    ///
    /// # Errors
    /// No such user.
    pub fn remove_user(&self, name: &UserName) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            let sql = "DELETE FROM users WHERE tenant = ?1 AND name = ?2";
            touched(transaction.execute(sql, columns(name))?, || absent(name))
        })
    }

    /// Gives a user another role, which holds from its next request on; its logins go on. The user as it is then.
    ///
    /// # Errors
    /// No such user.
    pub fn set_user_role(&self, name: &UserName, role: Role) -> Result<User, RegistryError> {
        self.change(&[], |transaction| {
            let (tenant, user) = columns(name);
            let sql = "UPDATE users SET role = ?3 WHERE tenant = ?1 AND name = ?2
                 RETURNING tenant, name, role, created_unix_s";
            let changed = transaction.query_row(sql, params![tenant, user, role.as_str()], from_row);
            changed.optional()?.ok_or_else(|| absent(name))
        })
    }

    /// Gives a user another password, and ends its logins.
    pub(crate) fn set_user_password(&self, name: &UserName, phc: &str) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            let (tenant, user) = columns(name);
            let sql = "UPDATE users SET password = ?3 WHERE tenant = ?1 AND name = ?2";
            touched(transaction.execute(sql, params![tenant, user, phc])?, || absent(name))?;
            transaction.execute("DELETE FROM logins WHERE tenant = ?1 AND name = ?2", [tenant, user])?;
            Ok(())
        })
    }

    /// Begins a login of a user whose password still hashes to `phc`; logins that are over go.
    pub(crate) fn begin_login(
        &self,
        name: &UserName,
        phc: &str,
        login: &LoginRow<'_>,
        now_unix_s: i64,
    ) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            let (tenant, user) = columns(name);
            let sql = "INSERT INTO logins (id, tenant, name, refresh_sha256, until_unix_s)
                 SELECT ?1, tenant, name, ?2, ?3 FROM users WHERE tenant = ?4 AND name = ?5 AND password = ?6";
            let values = params![login.id, login.refresh_sha256, login.until_unix_s, tenant, user, phc];
            touched(transaction.execute(sql, values)?, || absent(name))?;
            transaction.execute("DELETE FROM logins WHERE until_unix_s <= ?1", [now_unix_s])?;
            let sql = "DELETE FROM logins WHERE tenant = ?1 AND name = ?2 AND id NOT IN
                 (SELECT id FROM logins WHERE tenant = ?1 AND name = ?2 ORDER BY until_unix_s DESC, id = ?3 DESC LIMIT ?4)";
            transaction.execute(sql, params![tenant, user, login.id, MAX_LOGINS])?;
            Ok(())
        })
    }

    /// Puts a new secret in place of `old_sha256`; the user, unless the login is over. Where the login has another
    /// secret, the old one was used twice, by whoever: the login ends (RFC 9700, section 4.14.2).
    pub(crate) fn go_on_with_login(
        &self,
        login: &LoginRow<'_>,
        old_sha256: &[u8],
        now_unix_s: i64,
    ) -> Result<Option<User>, RegistryError> {
        self.change(&[], |transaction| {
            let sql = "UPDATE logins SET refresh_sha256 = ?2, until_unix_s = ?3
                 WHERE id = ?1 AND refresh_sha256 = ?4 AND until_unix_s > ?5";
            let values = params![
                login.id,
                login.refresh_sha256,
                login.until_unix_s,
                old_sha256,
                now_unix_s
            ];
            if transaction.execute(sql, values)? == 0 {
                transaction.execute("DELETE FROM logins WHERE id = ?1", [login.id])?;
            }
            Ok(user_of(transaction, login.id, now_unix_s)?)
        })
    }

    /// Whose login it is; `None` if it is over.
    pub(crate) fn login(&self, id: &str, now_unix_s: i64) -> Result<Option<User>, RegistryError> {
        Ok(user_of(&self.reader(), id, now_unix_s)?)
    }

    /// Ends a login, if it is there.
    pub(crate) fn end_login(&self, id: &str) -> Result<(), RegistryError> {
        self.change(&[], |transaction| {
            transaction.execute("DELETE FROM logins WHERE id = ?1", [id])?;
            Ok(())
        })
    }
}

fn user_of(connection: &Connection, login: &str, now_unix_s: i64) -> rusqlite::Result<Option<User>> {
    let sql = "SELECT users.tenant, users.name, role, created_unix_s FROM logins JOIN users USING (tenant, name)
         WHERE id = ?1 AND until_unix_s > ?2";
    connection
        .prepare_cached(sql)?
        .query_row(params![login, now_unix_s], from_row)
        .optional()
}

fn check_room(connection: &Connection, name: &UserName) -> Result<(), RegistryError> {
    check_tenant(connection, name.tenant())?;
    let (tenant, user) = columns(name);
    let sql = "SELECT count(*), coalesce(max(name = ?2), 0) FROM users WHERE tenant = ?1";
    let (count, is_taken): (i64, bool) =
        connection.query_row(sql, [tenant, user], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match is_taken {
        true => Err(RegistryError::UserExists(name.clone())),
        false if count >= MAX_PAGE as i64 => Err(RegistryError::TooManyUsers),
        false => Ok(()),
    }
}

fn check_tenant(connection: &Connection, tenant: Option<&str>) -> Result<(), RegistryError> {
    let Some(name) = tenant else { return Ok(()) };
    let found = tenants::find(connection, name)?;
    found.map(drop).ok_or_else(|| RegistryError::NoTenant(name.into()))
}

/// The primary key.
fn columns(name: &UserName) -> (&str, &str) {
    (name.tenant().unwrap_or_default(), name.name())
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<User> {
    let tenant = Some(row.get_ref(0)?.as_str()?).filter(|tenant| !tenant.is_empty());
    let name = UserName::new(tenant, row.get_ref(1)?.as_str()?).map_err(|_| rusqlite::Error::InvalidQuery)?;
    Ok(User {
        name,
        role: Role::parse(row.get_ref(2)?.as_str()?).ok_or(rusqlite::Error::InvalidQuery)?,
        created_unix_s: row.get(3)?,
    })
}

fn absent(name: &UserName) -> RegistryError {
    RegistryError::NoUser(name.clone())
}
