//! What is accounted for.

use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use serde::{Serialize, Serializer};

/// Longest text of one member, in characters before those that are escaped: what a client sent could be longer.
const MAX_TEXT_CHARS: usize = 200;

/// Something to be accounted for. Holds no secrets.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// Somebody did not get in.
    LoginRefused {
        /// From where; `None` on a local socket.
        address: Option<IpAddr>,
        /// As whom.
        #[serde(serialize_with = "shortened")]
        user_name: &'a str,
        /// Why, in words.
        #[serde(serialize_with = "shortened")]
        reason: &'a str,
    },
    /// What a client proves itself by was added, changed or removed; or the client was.
    Credential {
        /// What was done.
        action: Action,
        /// Tenant of the client.
        #[serde(serialize_with = "shortened")]
        tenant: &'a str,
        /// Its id.
        #[serde(serialize_with = "shortened")]
        id: &'a str,
        /// To what: `device`, `password`, `certificate 5f…`.
        #[serde(serialize_with = "shortened")]
        what: &'a str,
        /// Who did it.
        #[serde(serialize_with = "shortened")]
        by: &'a str,
    },
    /// A tenant was added or removed, or its quotas were changed.
    Tenant {
        /// What was done.
        action: Action,
        /// The tenant.
        #[serde(serialize_with = "shortened")]
        tenant: &'a str,
        /// To what: `tenant`, `quotas connections=100`.
        #[serde(serialize_with = "shortened")]
        what: &'a str,
        /// Who did it.
        #[serde(serialize_with = "shortened")]
        by: &'a str,
    },
    /// Tokens are signed with another key from now on.
    TokenKey {
        /// That key, as tokens call it.
        key: &'a str,
        /// Whether what the keys before have signed ended at once.
        ends_others: bool,
        /// Who had it so.
        #[serde(serialize_with = "shortened")]
        by: &'a str,
    },
    /// A method of a device was called.
    CallMade {
        /// Tenant of both.
        #[serde(serialize_with = "shortened")]
        tenant: &'a str,
        /// Who called.
        #[serde(serialize_with = "shortened")]
        caller: &'a str,
        /// The device.
        #[serde(serialize_with = "shortened")]
        device: &'a str,
        /// The method.
        #[serde(serialize_with = "shortened")]
        method: &'a str,
    },
}

/// What was done to a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Action {
    Added,
    Changed,
    Disabled,
    Enabled,
    Removed,
}

/// Events that are counted rather than written when they repeat, and apart from each other, so that calls cannot keep
/// refusals out of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Refusals,
    Calls,
}

impl Event<'_> {
    /// The group, and a digest of what makes two events of it the same; `None`: each is written.
    pub(super) fn repeats(&self, hasher: &RandomState) -> Option<(Group, u64)> {
        match self {
            Event::LoginRefused { address, reason, .. } => Some((Group::Refusals, hasher.hash_one((address, reason)))),
            Event::CallMade {
                tenant, caller, method, ..
            } => Some((Group::Calls, hasher.hash_one((tenant, caller, method)))),
            Event::Credential { .. } | Event::Tenant { .. } | Event::TokenKey { .. } => None,
        }
    }
}

fn shortened<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Shown(text))
}

/// A text cut to its length, with `\u{9b}` for a character that a terminal would act on, or not show. JSON alone
/// would leave those beyond ASCII as they are.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars().take(MAX_TEXT_CHARS) {
            match character {
                '"' | '\'' => f.write_char(character)?,
                other => other.escape_debug().try_for_each(|part| f.write_char(part))?,
            }
        }
        match self.0.chars().nth(MAX_TEXT_CHARS) {
            Some(_) => f.write_char('…'),
            None => Ok(()),
        }
    }
}
