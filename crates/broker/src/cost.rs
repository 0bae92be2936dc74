//! What subscriptions and sessions take of memory, for the bounds on all of them.

use crate::session::Session;

/// Bytes for its places in its session and in the tree, and for retained messages that it is still to be given.
const EACH_BYTES: u64 = 192;

/// Bytes for each level of its filter: a node of the tree that may be there for it alone. The two levels of
/// `$share/{group}/` have none; they stand for the group.
const LEVEL_BYTES: u64 = 192;

/// Copies of its filter that there are at most: in the session, the tree, and either what is still to be given or,
/// twice, the group.
const COPIES: u64 = 4;

/// Bytes that a subscription counts as, whatever it shares with others: at least what it takes.
pub(crate) fn subscription_bytes(filter: &str) -> u64 {
    let levels = filter.split('/').count() as u64;
    EACH_BYTES + LEVEL_BYTES * levels + COPIES * filter.len() as u64
}

/// Bytes of a session without anything, and of its connection.
const SESSION_BYTES: u64 = 1_024;

/// Bytes for a message that waits in a session or is in flight to it, beside the message itself.
pub(crate) const PLACE_BYTES: u64 = 320;

/// The same where only the log has the message.
const FOLDED_BYTES: u64 = 48;

/// Bytes for a packet identifier of QoS 2 that its sender has not released.
const RECEIVED_BYTES: u64 = 32;

/// Bytes that a session counts as, but for its subscriptions and the messages themselves: at least what it takes.
pub(crate) fn session_bytes(session: &Session) -> u64 {
    let folded = session.outgoing.folded_len();
    let places = session.outgoing.waiting_len() - folded + session.outgoing.in_flight_len();
    let will_bytes = session.will.as_ref().map_or(0, |will| will.bytes());
    new_session_bytes(&session.owner, &session.client_id)
        + will_bytes
        + PLACE_BYTES * places as u64
        + FOLDED_BYTES * folded as u64
        + RECEIVED_BYTES * session.incoming.len() as u64
}

/// Bytes that a session counts as when it begins, but for its will.
pub(crate) fn new_session_bytes(owner: &str, client_id: &str) -> u64 {
    SESSION_BYTES + (owner.len() + client_id.len()) as u64
}
