//! Names of tenants, devices and apps, and how a user name tells them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The tenant of a client that names none.
pub const DEFAULT_TENANT: &str = "default";

/// Longest tenant name or client id, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// What a registered client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// A machine that reports and is called.
    Device,
    /// A program that works with a tenant's devices.
    App,
    /// An edge that brings what its devices say, and takes what they are asked.
    Edge,
}

impl ClientKind {
    /// `device`, `app` or `edge`.
    pub fn as_str(self) -> &'static str {
        match self {
            ClientKind::Device => "device",
            ClientKind::App => "app",
            ClientKind::Edge => "edge",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [ClientKind::Device, ClientKind::App, ClientKind::Edge]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A client within its tenant. Devices and apps of a tenant share one space of ids, because a user name does not say
/// which of the two it means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientName {
    tenant: Arc<str>,
    id: Arc<str>,
}

impl ClientName {
    /// A client of a tenant.
    ///
    /// # Errors
    /// Either name breaks the rule that [`check_name`] states.
    pub fn new(tenant: &str, id: &str) -> Result<Self, NameError> {
        check_name("tenant", tenant)?;
        check_name("id", id)?;
        Ok(ClientName {
            tenant: tenant.into(),
            id: id.into(),
        })
    }

    /// Reads a user name: `{id}` in the default tenant, else `{tenant}/{id}`.
    ///
    /// # Errors
    /// As [`ClientName::new`].
    pub fn from_user_name(user_name: &str) -> Result<Self, NameError> {
        let (tenant, id) = user_name.split_once('/').unwrap_or((DEFAULT_TENANT, user_name));
        Self::new(tenant, id)
    }

    /// The tenant.
    pub fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }

    /// The id within the tenant.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// What the client gives as its user name; the inverse of [`ClientName::from_user_name`].
    pub fn user_name(&self) -> String {
        match &*self.tenant {
            DEFAULT_TENANT => self.id.to_string(),
            tenant => format!("{tenant}/{}", self.id),
        }
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user_name())
    }
}

/// Names of the tenants that an edge may speak for: its own, and those that its label `tenants` names, with commas
/// between them.
pub fn tenants_of_edge<'a>(own: &'a str, label: Option<&'a str>) -> impl Iterator<Item = &'a str> {
    let others = label.unwrap_or_default().split(',').map(str::trim);
    [own].into_iter().chain(others.filter(|name| !name.is_empty()))
}

/// A name that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {shown}: a name has 1 to {MAX_NAME_BYTES} of the characters A-Z a-z 0-9 . _ : - and is not . or ..")]
pub struct NameError {
    what: &'static str,
    shown: String,
}

/// Whether `name` can name a tenant or client: 1 to [`MAX_NAME_BYTES`] of `A-Z a-z 0-9 . _ : -`, not `.` or `..`.
/// Such names are whole topic levels, file names and certificate subjects without escaping, and no two look alike.
///
/// # Errors
/// Says which name (`what`), its value and the rule.
pub fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let long_enough = (1..=MAX_NAME_BYTES).contains(&name.len());
    if long_enough && name.bytes().all(allowed) && name != "." && name != ".." {
        return Ok(());
    }
    let start: String = name.chars().take(40).collect();
    let more = if start.len() < name.len() {
        format!(" … ({} bytes)", name.len())
    } else {
        String::new()
    };
    // Escaped, so that a look-alike letter shows what it is.
    Err(NameError {
        what,
        shown: format!("\"{}\"{more}", start.escape_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_name_without_a_slash_is_an_id_of_the_default_tenant() {
        let name = ClientName::from_user_name("pump-7").unwrap();
        assert_eq!((&**name.tenant(), &**name.id()), ("default", "pump-7"));
        assert_eq!(name.user_name(), "pump-7");
        let name = ClientName::from_user_name("acme/pump-7").unwrap();
        assert_eq!((&**name.tenant(), &**name.id()), ("acme", "pump-7"));
        assert_eq!(name.user_name(), "acme/pump-7");
    }

    #[test]
    fn names_that_mean_something_in_topics_paths_or_sql_are_refused() {
        for bad in [
            "",
            "a/b/c",
            "/a",
            "a/",
            "+",
            "#",
            "$SYS",
            "a b",
            "a\0",
            "'; DROP TABLE clients; --",
            ".",
            "..",
        ] {
            assert!(ClientName::from_user_name(bad).is_err(), "{bad:?}");
        }
        assert!(ClientName::new("t", &"x".repeat(128)).is_ok());
        assert!(ClientName::new("t", &"x".repeat(129)).is_err());
    }

    #[test]
    fn letters_that_look_like_ascii_are_refused_and_shown_as_what_they_are() {
        let cyrillic_a = check_name("id", "p\u{0430}ump").unwrap_err().to_string();
        assert!(cyrillic_a.contains("p\\u{430}ump"), "{cyrillic_a}");
        for bad in ["ｐump", "pump\u{200b}", "PUMP\u{0130}", "e\u{301}"] {
            assert!(check_name("id", bad).is_err(), "{bad:?}");
        }
    }
}
