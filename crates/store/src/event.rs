//! What the log tells its owner.

use crate::{Damage, Fault, Position, Stopped};

/// What the log tells its owner, from [`Log::poll`](crate::Log::poll).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The body asked for with [`Log::load`](crate::Log::load).
    Loaded {
        /// As it was asked for.
        position: Position,
        /// The record's body.
        body: Vec<u8>,
    },
    /// A record of the oldest segment, which is to be deleted. If the owner still needs what this very position
    /// holds, it appends the present value again as a [`Kind::Moved`](crate::Kind) and releases this one,
    /// before its next call of [`Log::submit`](crate::Log::submit). Otherwise it does nothing. A tombstone is never
    /// offered: all that it could undo is older, and gone.
    ///
    /// A body being loaded at this position comes with it; its [`Event::Loaded`] arrives as well.
    Relocate {
        /// Where the record stands now.
        position: Position,
        /// As it was appended.
        meta: Vec<u8>,
        /// As it was appended.
        body: Vec<u8>,
    },
    /// A record that was asked for, or that was to be relocated, is damaged, unreadable or gone. The owner forgets it.
    Lost {
        /// The record.
        position: Position,
        /// Where and what.
        damage: Damage,
    },
    /// What should not be, and does not stop the log.
    Fault(Fault),
    /// A full log takes values again.
    Room,
    /// The log has stopped: nothing after [`Log::durable`](crate::Log::durable) will become durable.
    Stopped(Stopped),
}
