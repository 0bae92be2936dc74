//! What leaves the hub for another place: from an edge over its link to the cloud, in the cloud into the database.
//!
//! Each route with an `upstream` target has a [`Queue`](queue::Queue) of its own. Its messages are in the log of their
//! shard, so that the acknowledgement of one waits for one position whatever it is kept for. A message is known for
//! life by (epoch, sequence): each queue opens an epoch with the first message after a start, and numbers from 0. Who
//! carries messages away holds an [`Outbox`]: it says how many bytes of two lanes it will have, gets them, and says
//! what became of each.
//!
//! The two lanes of an epoch share one row of sequences, which says what came first, and have each a number of their
//! own, which differ in the lowest bit. What the other end has of a lane is a short thing to say, because a lane keeps
//! its order, and each message tells behind which one of its lane it comes.
//!
//! A message that comes while the **live** lane has room goes out at once, from memory. All others wait in
//! the log; they are the **backlog**, and go out as that lane has room, oldest first, queues in turns of bytes by
//! their priority. Where order is wanted whatever it costs ([`Order::Strict`]), nothing is live while anything waits.

mod ages;
mod epoch;
mod ledger;
mod parcel;
mod parking;
mod queue;
mod queues;
mod record;
mod track;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

pub use self::ledger::{Discarded, Ledger};
pub use self::parcel::{Origin, Parcel};
pub use self::queues::QueueFigures;
pub(crate) use self::queues::{EpochNumbers, Incoming, Queues, Restored, Taken};
use crate::shard::inbox::{Ended, Inbox};

/// Which of two messages of one device goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// One that comes now passes those that had to wait: what happens is seen at once.
    #[default]
    LiveFirst,
    /// None passes another.
    Strict,
}

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct OutboxOptions {
    /// Bytes of the log that all messages that wait may take; each shard has an equal part of them.
    pub bytes: u64,
    /// Which message goes first.
    pub ordering: Ordering,
}

impl Default for OutboxOptions {
    fn default() -> Self {
        Self {
            bytes: 512 << 20,
            ordering: Ordering::LiveFirst,
        }
    }
}

impl OutboxOptions {
    /// What each of several shards has of it.
    pub(crate) fn of_each(self, shards: usize) -> Self {
        Self {
            bytes: self.bytes / shards as u64,
            ..self
        }
    }
}

/// What a message takes beside itself, about: in the log, in memory, and of what the carrier allows.
const FIXED_BYTES: u64 = 96;

/// Messages that a shard is told of at once, at most: it settles them in a few tenths of a millisecond.
const SETTLED_MAX: usize = 128;

/// 2020, before which no message came anywhere: an earlier time is that of a clock that nobody has set.
pub(crate) const CLOCKS_BEGIN_UNIX_S: u64 = 1_577_836_800;

/// A lane of the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// It came just now.
    Live,
    /// It had to wait.
    Backlog,
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where it is to be settled.
    pub ticket: Ticket,
    /// Its tenant.
    pub tenant: Arc<str>,
    /// The route that sends it.
    pub route: Arc<str>,
    /// No lower sequence of its lane is to be expected any more.
    pub floor: u64,
    /// No sequence from this one up to its own is of its lane.
    pub after: u64,
    /// How it goes.
    pub lane: Lane,
    /// Of which [`Settler::allow`] it is.
    pub term: u32,
    /// The message, as [`Parcel::decode`] takes it apart.
    pub body: Vec<u8>,
}

impl Outgoing {
    /// Bytes that it takes of what the carrier allows.
    pub fn cost_bytes(&self) -> u64 {
        self.body.len() as u64 + FIXED_BYTES
    }

    /// What its hub is told of it.
    pub fn settled(&self, fate: Fate) -> Settled {
        Settled {
            ticket: self.ticket,
            fate,
            lane: self.lane,
            bytes: self.cost_bytes(),
        }
    }
}

/// Which message, to its outbox. Those of a queue are in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) shard: u16,
    pub(crate) queue: u32,
    /// When its queue began to number, and the lane in the lowest bit: greater for a later start of the hub, and never
    /// used again.
    pub epoch: u64,
    /// Its number in the epoch, from 0: of two messages with the same epoch but for that bit, the greater came later.
    pub sequence: u64,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The other end has it, and keeps it.
    Delivered,
    /// The other end will never take it.
    Refused,
    /// It could not be taken now: it is tried again after a pause, in which others of its queue are tried.
    Returned,
    /// It was not sent, or nobody knows whether it came: it waits again in its place.
    Unsent,
}

/// Bytes of messages that may be with the carrier, from each shard; a message may go while there is any room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Of those that go at once.
    pub live_bytes: u64,
    /// Of those that had to wait.
    pub backlog_bytes: u64,
}

/// What the carrier tells a shard.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    pub(crate) settled: Vec<Settled>,
    /// With the number of its term.
    pub(crate) allowed: Option<(u32, Allowance)>,
    /// Told once that is done, where the carrier has more to say.
    pub(crate) taken: Option<oneshot::Sender<()>>,
}

/// The carrier's end of a hub's queues.
pub struct Outbox {
    shards: Vec<Inbox<crate::shard::Order>>,
    outgoing: mpsc::UnboundedReceiver<Vec<Outgoing>>,
}

/// Tells the hub what became of messages; cheap to clone.
#[derive(Clone)]
pub struct Settler {
    shards: Vec<Inbox<crate::shard::Order>>,
}

impl Outbox {
    pub(crate) fn new(
        shards: Vec<Inbox<crate::shard::Order>>,
        outgoing: mpsc::UnboundedReceiver<Vec<Outgoing>>,
    ) -> Self {
        Self { shards, outgoing }
    }

    /// The next messages that there was room for, in the order of their lanes; `None` once the hub has ended. May be
    /// given up at any await.
    pub async fn next(&mut self) -> Option<Vec<Outgoing>> {
        self.outgoing.recv().await
    }

    /// More messages, if there are any now.
    pub fn try_next(&mut self) -> Option<Vec<Outgoing>> {
        self.outgoing.try_recv().ok()
    }

    /// What settles messages and says how many may come.
    pub fn settler(&self) -> Settler {
        Settler {
            shards: self.shards.clone(),
        }
    }
}

impl Settler {
    /// Threads that messages come from.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Says how much each shard may send from now on. A message tells of which `term` it is, the last that its shard
    /// had heard of when it left: one who carries messages over connections counts these, and so knows what left for
    /// one that is no more. That goes back as [`Fate::Unsent`].
    pub async fn allow(&self, term: u32, allowance: Allowance) {
        for shard in &self.shards {
            let feedback = Feedback {
                allowed: Some((term, allowance)),
                ..Feedback::default()
            };
            let _ = tell(shard, feedback).await;
        }
    }

    /// Says what became of messages, to the shards they came from. Of many, some at a time: whatever else a shard
    /// serves has its turn between them.
    pub async fn settle(&self, settled: impl IntoIterator<Item = Settled>) {
        let mut shares: Vec<Vec<Settled>> = Vec::new();
        shares.resize_with(self.shards.len(), Vec::new);
        for one in settled {
            shares[usize::from(one.ticket.shard)].push(one);
        }
        for (shard, share) in self.shards.iter().zip(shares) {
            let mut left = share.into_iter();
            while left.len() > 0 {
                let settled = Vec::from_iter(left.by_ref().take(SETTLED_MAX));
                let (taken, when_taken) = (left.len() > 0).then(oneshot::channel).unzip();
                let feedback = Feedback {
                    settled,
                    taken,
                    ..Feedback::default()
                };
                let _ = tell(shard, feedback).await;
                if let Some(when_taken) = when_taken {
                    // With the shard all ends.
                    let _ = when_taken.await;
                }
            }
        }
    }
}

/// A message that was settled.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// Which.
    pub ticket: Ticket,
    /// What became of it.
    pub fate: Fate,
    /// How it went.
    pub lane: Lane,
    /// As [`Outgoing::cost_bytes`].
    pub bytes: u64,
}

async fn tell(shard: &Inbox<crate::shard::Order>, feedback: Feedback) -> Result<(), Ended> {
    shard.send(crate::shard::Order::Outbox(feedback)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Order;
    use crate::shard::inbox::inbox;

    #[tokio::test]
    async fn a_shard_is_told_of_many_messages_some_at_a_time() {
        let (shard, mut orders) = inbox().unwrap();
        let settler = Settler { shards: vec![shard] };
        let settled = Settled {
            ticket: Ticket::default(),
            fate: Fate::Delivered,
            lane: Lane::Live,
            bytes: 1,
        };
        let settling = tokio::spawn(async move { settler.settle(vec![settled; 2 * SETTLED_MAX + 1]).await });
        for (messages, has_more) in [(SETTLED_MAX, true), (SETTLED_MAX, true), (1, false)] {
            tokio::task::yield_now().await;
            let Some(Order::Outbox(feedback)) = orders.next() else {
                panic!("nothing was told")
            };
            assert_eq!(feedback.settled.len(), messages);
            tokio::task::yield_now().await;
            assert!(orders.is_empty(), "more was told before that was taken");
            assert_eq!(feedback.taken.is_some(), has_more);
            feedback.taken.map(|taken| taken.send(()));
        }
        settling.await.unwrap();
    }
}
