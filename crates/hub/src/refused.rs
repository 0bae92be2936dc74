//! Why a client does not come in.

use std::sync::atomic::{AtomicU64, Ordering};

use mqtt::ReasonCode;

/// Why a connection was refused, at a door or by its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its CONNECT was not complete in time, or it was given up for newer ones.
    Unfinished,
    /// It went away, or broke TLS, WebSocket or the PROXY protocol.
    Broken,
    /// Its first packet was none that can be understood.
    Malformed,
    /// Its first packet was no CONNECT.
    NoConnect,
    /// It asked for enhanced authentication, which is not offered.
    AuthenticationMethod,
    /// What it presented was refused.
    Login,
    /// The TLS handshake refused its certificate.
    Certificate,
    /// Unseen, after too many failed logins.
    Throttled,
    /// As many logins of its address waited to be checked as may.
    LoginsWaiting,
    /// As many connections were open as may be.
    Connections,
    /// A quota of its tenant, or the log, had no room for its connection or session.
    Quota,
    /// It may not publish its will.
    Will,
    /// It has no client identifier where its version needs one.
    ClientId,
    /// Its credential was revoked while it was checked.
    Revoked,
    /// The hub was stopping.
    Stopping,
}

impl Refused {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Refused; 15] = [
        Refused::Unfinished,
        Refused::Broken,
        Refused::Malformed,
        Refused::NoConnect,
        Refused::AuthenticationMethod,
        Refused::Login,
        Refused::Certificate,
        Refused::Throttled,
        Refused::LoginsWaiting,
        Refused::Connections,
        Refused::Quota,
        Refused::Will,
        Refused::ClientId,
        Refused::Revoked,
        Refused::Stopping,
    ];

    /// The reason as a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Refused::Unfinished => "unfinished",
            Refused::Broken => "broken",
            Refused::Malformed => "malformed",
            Refused::NoConnect => "no_connect",
            Refused::AuthenticationMethod => "authentication_method",
            Refused::Login => "login_refused",
            Refused::Certificate => "certificate_refused",
            Refused::Throttled => "login_throttled",
            Refused::LoginsWaiting => "logins_waiting",
            Refused::Connections => "connections",
            Refused::Quota => "quota",
            Refused::Will => "will",
            Refused::ClientId => "client_id",
            Refused::Revoked => "revoked",
            Refused::Stopping => "stopping",
        }
    }

    /// Why a shard refused a client to which it answered this.
    pub(crate) fn by_answer(reason: ReasonCode) -> Self {
        match reason {
            ReasonCode::NotAuthorized => Refused::Will,
            ReasonCode::ClientIdentifierNotValid => Refused::ClientId,
            _ => Refused::Quota,
        }
    }
}

/// How often each reason was met; its place is the reason's discriminant.
pub type RefusedCounts = [u64; Refused::ALL.len()];

/// What all doors count together.
#[derive(Debug, Default)]
pub(crate) struct DoorCounters {
    accepted: AtomicU64,
    refused: [AtomicU64; Refused::ALL.len()],
}

/// What the doors have counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorFigures {
    /// Sockets accepted.
    pub accepted: u64,
    /// Clients turned away.
    pub refused: RefusedCounts,
}

impl DoorCounters {
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, why: Refused) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> DoorFigures {
        DoorFigures {
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: std::array::from_fn(|number| self.refused[number].load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place_and_a_label_of_its_own() {
        for (number, why) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
            let namesakes = Refused::ALL.into_iter().filter(|other| other.label() == why.label());
            assert_eq!(namesakes.count(), 1, "{why:?}");
        }
    }
}
