//! Batches: many messages in the payload of one PUBLISH.
//!
//! A batch is a row of sections, each of one epoch of one queue: the epoch's number in this connection, its floor, how
//! many messages follow, and those. What was said before in the connection is not said again: an epoch's tenant, route
//! and number are told once, a topic is told once and has a number from then on, and a message that has the topic and
//! the length of the one before it says so in a bit, as one does that comes right behind that in its lane. A message of
//! a device that always sends as much takes three bytes beside its payload.
//!
//! The first byte says whether the rest is the sections themselves or those deflated, which is done on lines where it
//! pays. What a batch may become is bounded, however it is written.

mod decoder;
mod deflate;
mod encoder;

pub use self::decoder::{Decoder, Section};
pub use self::encoder::Encoder;

use std::sync::Arc;

/// Topics with a number; of more, the one that was told longest ago gives its number away.
const TOPICS_MAX: usize = 1_024;
/// A longer topic gets no number, so that a table of them stays small.
const TOPIC_BYTES_MAX: usize = 256;
/// Epochs that a connection may speak of.
const EPOCHS_MAX: usize = 4_096;
/// Bytes of the name of a tenant or a route.
const NAME_BYTES_MAX: usize = 128;
/// Bytes that the messages of a batch may take once they are parcels again: a topic that is told once stands in each.
const PARCELS_BYTES_MAX: usize = 16 << 20;
/// Bytes that a parcel takes beside its payload, topic and properties and the name of its edge.
const PARCEL_BYTES: usize = 64;
/// Bytes that a parcel may take here beyond those that it had at the edge: its origin, and a section of its own.
const GROWTH_BYTES: usize = 512;

/// The first byte of a batch.
const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;

const QOS_BITS: u8 = 0b11;
const RETAIN: u8 = 1 << 2;
const SAME_TOPIC: u8 = 1 << 3;
const SAME_LEN: u8 = 1 << 4;
const SKIPS: u8 = 1 << 5;
const HAS_PROPERTIES: u8 = 1 << 6;
const TELLS_AFTER: u8 = 1 << 7;

/// What a number in front of a topic means: the topic follows and has no number, or follows and gets the next one.
const UNNUMBERED: u64 = 0;
const NEW: u64 = 1;
const FIRST_NUMBER: u64 = 2;

/// Which epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpochName {
    /// Its tenant.
    pub tenant: Arc<str>,
    /// The route that fills its queue.
    pub route: Arc<str>,
    /// Its number.
    pub epoch: u64,
}

/// Where a message has its place in its epoch, as [`hub::Outgoing`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub sequence: u64,
    /// No sequence from this one up to its own is of its lane.
    pub after: u64,
    /// No lower sequence is to be expected any more.
    pub floor: u64,
}

/// Gives a topic the next number; where all are given, the one who has it loses it.
fn number_next(numbered: &mut Vec<Box<str>>, next: &mut usize, topic: Box<str>, gone: impl FnOnce(&str)) -> usize {
    let at = *next;
    *next = (at + 1) % TOPICS_MAX;
    match numbered.get_mut(at) {
        Some(place) => gone(&std::mem::replace(place, topic)),
        None => numbered.push(topic),
    }
    at
}

#[cfg(test)]
mod tests;
