//! What a subscription takes of memory, for the bound on all of them.

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
