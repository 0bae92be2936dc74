//! What changed, in order, so that whoever holds sessions can act on it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{HeldCredential, Registry, lock};

/// Changes remembered; whoever is further behind looks at everything.
const REMEMBERED: usize = 4_096;

/// One change, safe on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Counts from 1 at each opening of the registry.
    pub number: u64,
    /// The tenant it concerns.
    pub tenant: Arc<str>,
    /// The client it concerns; `None` where it is the tenant itself, or several clients.
    pub id: Option<Arc<str>>,
    /// What happened.
    pub what: What,
}

/// Kinds of change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A tenant or clients were added, or a client enabled again.
    Added,
    /// A client was removed: its sessions end and are forgotten.
    Removed,
    /// A client was disabled: its connections end.
    Disabled,
    /// This credential was replaced or revoked, or all that the client had: connections made with it end.
    CredentialRevoked(Option<HeldCredential>),
    /// A credential was added; the others stay valid.
    CredentialAdded,
    /// Labels were set or removed.
    Labels,
    /// A tenant's quotas were set.
    Quotas,
}

impl What {
    /// Whether a connection of the client must be closed that was made with these credentials.
    pub fn ends_connection_by(&self, proofs: &[HeldCredential]) -> bool {
        match self {
            What::Removed | What::Disabled | What::CredentialRevoked(None) => true,
            What::CredentialRevoked(Some(revoked)) => proofs.contains(revoked),
            What::Added | What::CredentialAdded | What::Labels | What::Quotas => false,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// Equals the number of the last entry of `recent`, and can be read without its lock.
    last: AtomicU64,
    recent: Mutex<VecDeque<Change>>,
}

impl ChangeLog {
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    pub(super) fn push(&self, tenant: &str, id: Option<&str>, what: What) {
        let mut recent = lock(&self.recent);
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        let number = self.last() + 1;
        recent.push_back(Change {
            number,
            tenant: tenant.into(),
            id: id.map(Into::into),
            what,
        });
        self.last.store(number, Ordering::Release);
    }

    fn since(&self, number: u64) -> Option<Vec<Change>> {
        let recent = lock(&self.recent);
        let wanted = usize::try_from(self.last().saturating_sub(number)).ok()?;
        let known = recent.len().checked_sub(wanted)?;
        Some(recent.iter().skip(known).cloned().collect())
    }
}

impl Registry {
    /// Number of the last change; one atomic read, for a loop to watch.
    ///
    /// A door reads it *before* it authenticates, and whoever then holds the session asks for the changes since: so a
    /// client that is removed in between does not slip through.
    pub fn last_change(&self) -> u64 {
        self.changes.last()
    }

    /// The changes after change `number`, oldest first; `None` if that is so long ago that they are forgotten, and
    /// every session has to be checked with [`Registry::client`].
    pub fn changes_since(&self, number: u64) -> Option<Vec<Change>> {
        self.changes.since(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_in_order_until_they_are_forgotten() {
        let log = ChangeLog::default();
        assert_eq!(log.since(0), Some(vec![]));
        for i in 0..REMEMBERED {
            log.push("t", Some(&i.to_string()), What::Labels);
        }
        assert_eq!(log.since(0).unwrap().len(), REMEMBERED);
        log.push("t", None, What::Quotas);
        assert_eq!(log.since(0), None);
        let last = log.since(REMEMBERED as u64).unwrap();
        assert_eq!(
            (last.len(), last[0].number, &last[0].what),
            (1, REMEMBERED as u64 + 1, &What::Quotas)
        );
        assert_eq!(log.since(log.last()), Some(vec![]));
    }
}
