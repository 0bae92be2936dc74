//! People and programs that use the HTTP API: their names and what they may do.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::{NameError, check_name};

/// What a user may do; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees devices, twins and telemetry.
    Viewer,
    /// Adds and removes devices and apps, sets twins, calls methods.
    Operator,
    /// Adds and removes users; of the whole cloud also tenants and edges, and sets quotas.
    Admin,
}

impl Role {
    /// `viewer`, `operator` or `admin`.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Role::Viewer, Role::Operator, Role::Admin]
            .into_iter()
            .find(|role| role.as_str() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A user of one tenant, or of the whole cloud. Unlike a device's, its name always says which.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName {
    tenant: Option<Arc<str>>,
    name: Arc<str>,
}

impl UserName {
    /// A user of `tenant`; `None`: of the whole cloud.
    ///
    /// # Errors
    /// A name breaks the rule that [`check_name`] states.
    pub fn new(tenant: Option<&str>, name: &str) -> Result<Self, NameError> {
        if let Some(tenant) = tenant {
            check_name("tenant", tenant)?;
        }
        check_name("user", name)?;
        Ok(UserName {
            tenant: tenant.map(Into::into),
            name: name.into(),
        })
    }

    /// Reads what a user logs in as: `{name}` of the whole cloud, `{tenant}/{name}` of a tenant.
    ///
    /// # Errors
    /// As [`UserName::new`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        match text.split_once('/') {
            Some((tenant, name)) => Self::new(Some(tenant), name),
            None => Self::new(None, text),
        }
    }

    /// Its tenant; `None`: the whole cloud.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Its name there.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tenant() {
            Some(tenant) => write!(f, "{tenant}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_slash_is_of_the_whole_cloud_and_each_is_read_as_it_is_shown() {
        for (text, tenant) in [
            ("anna", None),
            ("acme/anna", Some("acme")),
            ("default/anna", Some("default")),
        ] {
            let name = UserName::parse(text).unwrap();
            assert_eq!((name.tenant(), name.name(), &*name.to_string()), (tenant, "anna", text));
        }
        for bad in ["", "/anna", "acme/", "a/b/c", "' OR 1=1"] {
            assert!(UserName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn each_role_may_what_those_before_it_may() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
        for role in [Role::Viewer, Role::Operator, Role::Admin] {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
    }
}
