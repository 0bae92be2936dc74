//! What the hub says of twins, once the log has them: nobody acts on a version, or on an answer, that a crash takes
//! back.

use std::collections::VecDeque;

use broker::Position;
use mqtt::{Publish, QoS};

use crate::pipeline;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Bytes of a tenant's announcements that may wait for the disk; beyond it desired states are not changed, and no twin
/// is read.
const BYTES_MAX: usize = 16 << 20;
/// What one takes beside its topic and payload, about.
const FIXED_BYTES: usize = 128;

/// A message of the hub's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announcement<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) correlation_data: Option<&'a [u8]>,
    /// It stands for what is so until the next one: kept for whoever subscribes later.
    pub(crate) retain: bool,
}

/// One that waits.
#[derive(Debug)]
struct Waiting {
    topic: Box<str>,
    payload: Box<[u8]>,
    qos: QoS,
    correlation_data: Option<Box<[u8]>>,
    retain: bool,
}

/// A tenant's announcements that wait, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    waiting: VecDeque<(Position, Waiting)>,
    bytes: usize,
}

impl Announcements {
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < BYTES_MAX
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn push(&mut self, after: Position, announcement: &Announcement<'_>) {
        // None overtakes another: the newer state is the one that stays.
        let after = self.waiting.back().map_or(after, |(last, _)| after.max(*last));
        let waiting = Waiting {
            topic: announcement.topic.into(),
            payload: announcement.payload.into(),
            qos: announcement.qos,
            correlation_data: announcement.correlation_data.map(Into::into),
            retain: announcement.retain,
        };
        self.bytes += waiting.bytes();
        self.waiting.push_back((after, waiting));
    }

    fn pop(&mut self, durable: Position) -> Option<Waiting> {
        let (_, waiting) = self.waiting.pop_front_if(|(after, _)| *after <= durable)?;
        self.bytes -= waiting.bytes();
        Some(waiting)
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        let correlation_bytes = self.correlation_data.as_ref().map_or(0, |data| data.len());
        FIXED_BYTES + self.topic.len() + self.payload.len() + correlation_bytes
    }

    fn as_announcement(&self) -> Announcement<'_> {
        Announcement {
            topic: &self.topic,
            payload: &self.payload,
            qos: self.qos,
            correlation_data: self.correlation_data.as_deref(),
            retain: self.retain,
        }
    }
}

/// Sends an announcement once all up to `after` is durable: at once where it is.
pub(crate) fn send_after(tenant: &mut Tenant, turn: &mut Turn<'_>, after: Position, announcement: &Announcement<'_>) {
    if tenant.announcements.is_empty() && after <= turn.journal.durable() {
        send(tenant, turn, announcement);
    } else {
        tenant.announcements.push(after, announcement);
        turn.journal.await_commit(turn.tenant);
    }
}

/// Sends those that wait no longer.
pub(crate) fn go_on(tenant: &mut Tenant, turn: &mut Turn<'_>) {
    let durable = turn.journal.durable();
    while let Some(waiting) = tenant.announcements.pop(durable) {
        send(tenant, turn, &waiting.as_announcement());
    }
    if !tenant.announcements.is_empty() {
        turn.journal.await_commit(turn.tenant);
    }
}

fn send(tenant: &mut Tenant, turn: &mut Turn<'_>, announcement: &Announcement<'_>) {
    let Announcement {
        topic, payload, qos, ..
    } = *announcement;
    if announcement.retain {
        return pipeline::announce(tenant, turn, topic, payload, qos, true);
    }
    let mut publish: Publish<'_> = pipeline::plain(topic, payload, qos, false);
    publish.properties.correlation_data = announcement.correlation_data;
    pipeline::forward(tenant, turn, None, &publish);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(number: u8) -> [u8; 1] {
        [number]
    }

    fn push(announcements: &mut Announcements, after: u64, number: u8) {
        let announcement = Announcement {
            topic: "devices/p7/twin/desired",
            payload: &said(number),
            qos: QoS::AtLeastOnce,
            correlation_data: None,
            retain: true,
        };
        announcements.push(Position(after), &announcement);
    }

    #[test]
    fn none_comes_before_it_is_durable_and_none_overtakes_another() {
        let mut announcements = Announcements::default();
        push(&mut announcements, 20, 1);
        push(&mut announcements, 10, 2);
        push(&mut announcements, 30, 3);
        assert!(announcements.pop(Position(19)).is_none());
        let sent: Vec<_> = std::iter::from_fn(|| announcements.pop(Position(20))).collect();
        assert_eq!(sent.iter().map(|one| one.payload[0]).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(announcements.pop(Position(30)).map(|one| one.payload[0]), Some(3));
        assert_eq!(announcements.bytes, 0);
    }

    #[test]
    fn those_that_wait_are_bounded_in_bytes() {
        let mut announcements = Announcements::default();
        while announcements.has_room() {
            push(&mut announcements, 1, 0);
        }
        assert!((BYTES_MAX..BYTES_MAX + 1024).contains(&announcements.bytes));
        announcements.pop(Position(1)).unwrap();
        assert!(announcements.has_room());
    }
}
