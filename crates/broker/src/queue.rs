//! What waits in one session, by seq. A message that only the log has takes 24 bytes here: a queue of a million has to
//! be back within milliseconds of a start, and most of it will not be needed for long.

use std::collections::VecDeque;

use mqtt::QoS;

use crate::Position;
use crate::held::{Held, HeldMessages, NEVER_MS};
use crate::outgoing::{Delivery, State};

/// One place in the queue.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its number in the session.
    pub(crate) seq: u64,
    pub(crate) what: What,
}

/// What waits in a place.
#[derive(Debug)]
pub(crate) enum What {
    /// A message that only the log has.
    Logged(Logged),
    /// Anything else.
    Delivery(Box<Delivery>),
}

/// A message of which only the log knows more: its record is for this session alone, it never expires, has no
/// Subscription Identifier, and goes to no other member of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) position: Position,
    /// Bytes of the message.
    pub(crate) len: u32,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
}

impl Logged {
    /// The delivery that it stands for, whose message is among the held ones from now on.
    fn unfold(self, seq: u64, state: State, held: &mut HeldMessages) -> Delivery {
        let message = Held {
            holders: 1,
            is_first_record: false,
            ..Held::logged(self.position, self.len as usize, None, NEVER_MS)
        };
        Delivery {
            held: Some(held.unfold(message)),
            qos: self.qos,
            retain: self.retain,
            state,
            ..Delivery::bare(seq)
        }
    }
}

impl Entry {
    pub(crate) fn of(delivery: Delivery) -> Entry {
        Entry {
            seq: delivery.seq,
            what: What::Delivery(Box::new(delivery)),
        }
    }

    /// Bytes of its message.
    pub(crate) fn len(&self, held: &HeldMessages) -> u32 {
        match &self.what {
            What::Logged(logged) => logged.len,
            What::Delivery(delivery) => crate::log::len_of(held, delivery),
        }
    }

    /// How far it has come, where none after `sent_seq` has ever been sent.
    pub(crate) fn state(&self, sent_seq: u64) -> State {
        match &self.what {
            What::Logged(_) => State::before(self.seq, sent_seq),
            What::Delivery(delivery) => delivery.state,
        }
    }

    fn is_folded(&self) -> bool {
        matches!(self.what, What::Logged(_))
    }

    fn delivery(&self) -> Option<&Delivery> {
        match &self.what {
            What::Logged(_) => None,
            What::Delivery(delivery) => Some(delivery),
        }
    }
}

/// All that waits in one session.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    bytes: u64,
    /// How many of them are folded.
    folded: usize,
}

impl Queue {
    /// What a restart left: `entries` by seq, of `bytes` together.
    pub(crate) fn restored(entries: Vec<Entry>, bytes: u64) -> Queue {
        Queue {
            folded: entries.iter().filter(|entry| entry.is_folded()).count(),
            entries: entries.into(),
            bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries that only the log knows more of.
    pub(crate) fn folded_len(&self) -> usize {
        self.folded
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all messages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts an entry of `len` bytes behind the others.
    pub(crate) fn push(&mut self, entry: Entry, len: u32) {
        self.bytes += u64::from(len);
        self.folded += usize::from(entry.is_folded());
        self.entries.push_back(entry);
    }

    /// Puts a delivery of `len` bytes before the others.
    pub(crate) fn push_front(&mut self, delivery: Delivery, len: u32) {
        self.bytes += u64::from(len);
        self.entries.push_front(Entry::of(delivery));
    }

    /// The first delivery, which must not be folded.
    pub(crate) fn front(&self) -> Option<&Delivery> {
        self.entries.front()?.delivery()
    }

    /// Takes the first delivery, of `len` bytes, out.
    pub(crate) fn pop(&mut self, len: u32) -> Option<Delivery> {
        let entry = self.entries.pop_front_if(|entry| entry.delivery().is_some())?;
        self.bytes -= u64::from(len);
        match entry.what {
            What::Delivery(delivery) => Some(*delivery),
            What::Logged(_) => None,
        }
    }

    /// Makes deliveries of the first `count` entries. Those up to `sent_seq` were sent on an earlier connection.
    pub(crate) fn unfold(&mut self, count: usize, sent_seq: u64, held: &mut HeldMessages) {
        for entry in self.entries.iter_mut().take(count) {
            if let What::Logged(logged) = entry.what {
                let delivery = logged.unfold(entry.seq, entry.state(sent_seq), held);
                entry.what = What::Delivery(Box::new(delivery));
                self.folded -= 1;
            }
        }
    }

    /// The deliveries among the first `count` entries.
    pub(crate) fn deliveries(&self, count: usize) -> impl Iterator<Item = &Delivery> {
        self.entries.iter().take(count).filter_map(Entry::delivery)
    }

    /// Takes all deliveries out that are `wanted`.
    pub(crate) fn extract(
        &mut self,
        wanted: impl Fn(&Delivery) -> bool,
        len: impl Fn(&Delivery) -> u32,
    ) -> Vec<Delivery> {
        if !self.entries.iter().filter_map(Entry::delivery).any(&wanted) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for entry in std::mem::take(&mut self.entries) {
            match entry.what {
                What::Delivery(delivery) if wanted(&delivery) => taken.push(*delivery),
                _ => self.entries.push_back(entry),
            }
        }
        self.bytes -= taken.iter().map(|delivery| u64::from(len(delivery))).sum::<u64>();
        taken
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry> {
        (self.bytes, self.folded) = (0, 0);
        std::mem::take(&mut self.entries).into_iter()
    }

    /// The entry with this seq.
    pub(crate) fn find(&mut self, seq: u64) -> Option<&mut Entry> {
        let at = self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        self.entries.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_only_the_log_has_takes_24_bytes_in_a_queue() {
        assert_eq!(size_of::<Entry>(), 24);
    }

    #[test]
    fn entries_unfold_from_the_front_and_know_whether_they_were_sent() {
        let mut held = HeldMessages::default();
        held.add_folded(40);
        let logged = |seq| {
            let (position, qos) = (Position(100 + seq), QoS::AtLeastOnce);
            let what = What::Logged(Logged {
                position,
                len: 10,
                qos,
                retain: false,
            });
            Entry { seq, what }
        };
        let mut queue = Queue::restored((1..=4).map(logged).collect(), 40);
        assert!(queue.front().is_none());
        queue.unfold(2, 1, &mut held);
        assert_eq!(queue.folded_len(), 2);
        let seen: Vec<_> = queue.deliveries(9).map(|one| (one.seq, one.state)).collect();
        assert_eq!(seen, [(1, State::Sent), (2, State::Waiting)]);
        let first = queue.pop(10).expect("it was unfolded");
        assert_eq!(held.get(first.held.expect("its message")).position, Position(101));
        assert!(queue.extract(|one| one.seq == 2, |_| 10).len() == 1 && queue.find(2).is_none());
        assert_eq!((queue.len(), queue.bytes()), (2, 20));
        assert!(queue.pop(10).is_none(), "what is folded is not taken");
        assert_eq!(queue.drain().map(|entry| entry.seq).collect::<Vec<_>>(), [3, 4]);
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }
}
