//! The nodes of a site: which of them are there, what each says of itself, and streams to them. It does not know what is
//! said, nor what a stream is for.
//!
//! What a node says is one [`Record`], which only it can sign. Nodes tell each other what they have of whom, and send what
//! the other lacks: see [`Gossip`], which is pure. A [`Site`] is a node that runs.

mod gossip;
mod line;
mod node;
mod record;

pub use self::gossip::{
    FORGOTTEN_AFTER, Gossip, MAX_NODES, Member, Message, RANDOM_BITS, ROUND, Received, SILENT_AFTER,
};
pub use self::line::{QUIET_AFTER, Stream};
pub use self::node::{Known, MAX_SAID_BYTES, NoRelay, Options, Relayed, Site};
pub use self::record::{Keys, MAX_CONTENT_BYTES, Number, Record, Refused, Unwanted};
