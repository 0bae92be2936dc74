//! Users log in with a password and get two tokens: one to show, for a quarter of an hour, and one to go on with.
//!
//! The first is a signed JWT of its own type (RFC 9068, RFC 8725 section 3.11), so that no device's token passes for
//! it. It names a login in the registry, which is looked up at each use: logging out, another password, another role
//! and a removed user take effect at once. The second is random, known here by its digest alone, and exchanged at each
//! use (RFC 9700, section 4.14.2).

use std::path::Path;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::authenticate::Refusal;
use crate::enrol::{Identity, IdentityError, Issued};
use crate::files;
use crate::password::{self, MAX_PASSWORD_BYTES};
use crate::registry::{LoginRow, RegistryError, User};
use crate::secret::{Secret, hex, random_bytes};
use crate::token::Signed;
use crate::user::{Role, UserName};

/// How long an access token is valid, in seconds.
pub const ACCESS_TOKEN_VALID_S: u32 = 15 * 60;

/// How long a login can be gone on with after its last use, in seconds.
pub const REFRESH_TOKEN_VALID_S: u32 = 7 * 24 * 3600;

/// File in the data directory with the password of the first user.
const ADMIN_PASSWORD_FILE: &str = "admin.password";
const ADMIN: &str = "admin";

const LOGIN_ID_BYTES: usize = 16;
const REFRESH_BYTES: usize = 32;

/// What a user is given for a login.
#[derive(Clone, Debug)]
pub struct UserTokens {
    /// Who it is.
    pub user: User,
    /// Shown with each request, for [`ACCESS_TOKEN_VALID_S`].
    pub access: Secret,
    /// Exchanged for two new ones, once, within [`REFRESH_TOKEN_VALID_S`].
    pub refresh: Secret,
}

/// A user that has shown an access token.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    /// Who it is, and what it may do now.
    pub user: User,
    /// Its login.
    login: String,
}

/// What an access token says. Who it is and may what is in the registry.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessClaims {
    sub: String,
    /// The login.
    sid: String,
    iat: i64,
    exp: i64,
}

impl Signed for AccessClaims {
    const TYPE: &'static str = "at+jwt";

    fn expires_unix_s(&self) -> i64 {
        self.exp
    }
}

impl Identity {
    /// Adds a user with a password that somebody chose, or that is made here.
    ///
    /// # Errors
    /// The name is taken, the tenant unknown, too many users, or a password that is not allowed.
    pub fn add_user(
        &self,
        name: &UserName,
        role: Role,
        chosen: Option<&Secret>,
        now_unix_s: i64,
    ) -> Result<Issued, IdentityError> {
        let user = User {
            name: name.clone(),
            role,
            created_unix_s: now_unix_s,
        };
        let (phc, issued) = hashed(chosen)?;
        self.registry().add_user(&user, &phc)?;
        Ok(issued)
    }

    /// Gives a user another password; its logins end.
    ///
    /// # Errors
    /// No such user, or a password that is not allowed.
    pub fn set_user_password(&self, name: &UserName, chosen: Option<&Secret>) -> Result<Issued, IdentityError> {
        let (phc, issued) = hashed(chosen)?;
        self.registry().set_user_password(name, &phc)?;
        Ok(issued)
    }

    /// Makes the user `admin` of the whole cloud unless the cloud has a user, and leaves its password in
    /// `admin.password` in `directory`, readable by its owner alone. Whether it did.
    ///
    /// # Errors
    /// The file or the registry cannot be written.
    pub fn make_first_admin(&self, directory: &Path, now_unix_s: i64) -> Result<bool, IdentityError> {
        if !self.registry().users(None)?.is_empty() {
            return Ok(false);
        }
        let password = password::generate();
        let path = directory.join(ADMIN_PASSWORD_FILE);
        // Before the user is there: a crash in between leaves a password that the next start replaces.
        files::replace(&path, format!("{}\n", password.expose()).as_bytes(), 0o600)
            .map_err(|source| IdentityError::File { path, source })?;
        let phc = password::hash_generated(&password).map_err(password::PasswordError::from)?;
        let admin = User {
            name: UserName::new(None, ADMIN).expect("a name that is allowed"),
            role: Role::Admin,
            created_unix_s: now_unix_s,
        };
        self.registry().add_user(&admin, &phc)?;
        Ok(true)
    }

    /// Begins a login. Blocks as [`Identity::authenticate`] does, and like it takes as long for a name that is not
    /// there.
    ///
    /// # Errors
    /// Why not, for the log alone.
    pub fn log_in(&self, name: &str, password: &[u8], now_unix_s: i64) -> Result<UserTokens, Refusal> {
        if password.len() > MAX_PASSWORD_BYTES {
            return Err(Refusal::PasswordTooLong(password.len()));
        }
        let found = self.registry().user_with_hash(&UserName::parse(name)?)?;
        let is_right = self.is_password(password, found.as_ref().map(|(_, phc)| &**phc))?;
        let (user, phc) = found.ok_or(Refusal::UnknownUser)?;
        if !is_right {
            return Err(Refusal::WrongPassword);
        }
        let (id, secret) = (hex(&random_bytes::<LOGIN_ID_BYTES>()), new_refresh_secret());
        let row = LoginRow {
            id: &id,
            refresh_sha256: &sha256(secret.expose()),
            until_unix_s: now_unix_s.saturating_add(REFRESH_TOKEN_VALID_S.into()),
        };
        match self.registry().begin_login(&user.name, &phc, &row, now_unix_s) {
            // Removed, or its password changed, since it was looked up.
            Err(RegistryError::NoUser(_)) => Err(Refusal::WrongPassword),
            begun => Ok(begun.map(|()| self.tokens_of(user, &id, &secret, now_unix_s))?),
        }
    }

    /// Goes on with a login: two new tokens for the refresh token. One that was used before ends the login.
    ///
    /// # Errors
    /// Why not, for the log alone.
    pub fn refresh(&self, refresh: &str, now_unix_s: i64) -> Result<UserTokens, Refusal> {
        let (id, old) = parts(refresh).ok_or(Refusal::TokenRevoked)?;
        let secret = new_refresh_secret();
        let row = LoginRow {
            id,
            refresh_sha256: &sha256(secret.expose()),
            until_unix_s: now_unix_s.saturating_add(REFRESH_TOKEN_VALID_S.into()),
        };
        let user = self.registry().go_on_with_login(&row, &sha256(old), now_unix_s)?;
        let user = user.ok_or(Refusal::TokenRevoked)?;
        Ok(self.tokens_of(user, id, &secret, now_unix_s))
    }

    /// Who shows this access token. Blocks: it reads the registry.
    ///
    /// # Errors
    /// Why it is worth nothing.
    pub fn user_of(&self, access: &[u8], now_unix_s: i64) -> Result<LoggedIn, Refusal> {
        let claims: AccessClaims = self.tokens.verify(access, now_unix_s)?;
        let user = self.registry().login(&claims.sid, now_unix_s)?;
        let user = user.filter(|user| user.name.to_string() == claims.sub);
        Ok(LoggedIn {
            user: user.ok_or(Refusal::TokenRevoked)?,
            login: claims.sid,
        })
    }

    /// Ends a login: both its tokens are worthless.
    ///
    /// # Errors
    /// The registry failed.
    pub fn log_out(&self, user: &LoggedIn) -> Result<(), RegistryError> {
        self.registry().end_login(&user.login)
    }

    fn tokens_of(&self, user: User, id: &str, refresh: &Secret, now_unix_s: i64) -> UserTokens {
        let access = self.tokens.sign(&AccessClaims {
            sub: user.name.to_string(),
            sid: id.to_owned(),
            iat: now_unix_s,
            exp: now_unix_s.saturating_add(ACCESS_TOKEN_VALID_S.into()),
        });
        UserTokens {
            user,
            access,
            refresh: Secret::new(format!("{id}.{}", refresh.expose())),
        }
    }
}

fn hashed(chosen: Option<&Secret>) -> Result<(String, Issued), password::PasswordError> {
    match chosen {
        Some(chosen) => Ok((password::hash_chosen(chosen)?, Issued::Nothing)),
        None => {
            let made = password::generate();
            Ok((password::hash_generated(&made)?, Issued::Password(made)))
        }
    }
}

fn new_refresh_secret() -> Secret {
    Secret::new(hex(&random_bytes::<REFRESH_BYTES>()))
}

/// The login's id and the secret.
fn parts(refresh: &str) -> Option<(&str, &str)> {
    let (id, secret) = refresh.split_once('.')?;
    let is_whole = id.len() == 2 * LOGIN_ID_BYTES && secret.len() == 2 * REFRESH_BYTES;
    is_whole.then_some((id, secret))
}

/// Enough for 256 random bits: nobody guesses those, however fast a guess is.
fn sha256(secret: &str) -> Vec<u8> {
    digest(&SHA256, secret.as_bytes()).as_ref().to_vec()
}
