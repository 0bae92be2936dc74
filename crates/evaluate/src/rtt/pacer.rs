//! Says when the next message is due. A pure function of the schedule (open loop) or of the answers (closed loop).

use std::collections::VecDeque;

use super::schedule::Due;

/// The source of due messages of one block.
pub(crate) enum Pacer {
    /// The schedule was fixed before: answers change nothing.
    Open(std::vec::IntoIter<Due>),
    /// A fixed number of messages out at once.
    Closed(ClosedLoop),
}

/// Slots that each have one message out, or think.
pub(crate) struct ClosedLoop {
    /// When slots are free to send. All think equally long, so that this is in the order of time.
    free_at_ns: VecDeque<u64>,
    think_ns: u64,
    end_ns: u64,
    messages_left: u64,
    devices: u32,
    next_device: u32,
}

impl ClosedLoop {
    /// `concurrency` messages out at once, by the devices in turn, until `end_ns` or `messages` were sent.
    pub(crate) fn new(concurrency: u32, think_ns: u64, devices: u32, end_ns: u64, messages: u64) -> ClosedLoop {
        let free_at_ns = std::iter::repeat_n(0, concurrency as usize).collect();
        ClosedLoop {
            free_at_ns,
            think_ns,
            end_ns,
            messages_left: messages,
            devices,
            next_device: 0,
        }
    }

    fn next(&self) -> Option<Due> {
        let at_ns = *self.free_at_ns.front()?;
        (at_ns < self.end_ns && self.messages_left > 0).then_some(Due {
            at_ns,
            device: self.next_device,
        })
    }

    fn take(&mut self) {
        self.free_at_ns.pop_front();
        self.messages_left -= 1;
        self.next_device = (self.next_device + 1) % self.devices;
    }
}

impl Pacer {
    pub(crate) fn open(schedule: Vec<Due>) -> Pacer {
        Pacer::Open(schedule.into_iter())
    }

    /// The next due message, if its time is known.
    pub(crate) fn next(&self) -> Option<Due> {
        match self {
            Pacer::Open(dues) => dues.as_slice().first().copied(),
            Pacer::Closed(slots) => slots.next(),
        }
    }

    /// Marks the message that [`Pacer::next`] named as sent.
    pub(crate) fn take(&mut self) {
        match self {
            Pacer::Open(dues) => drop(dues.next()),
            Pacer::Closed(slots) => slots.take(),
        }
    }

    /// A message was answered or lost, and what had to follow was done by `at_ns`.
    pub(crate) fn settled(&mut self, at_ns: u64) {
        if let Pacer::Closed(slots) = self {
            slots.free_at_ns.push_back(at_ns + slots.think_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_does_not_wait_for_answers() {
        let mut pacer = Pacer::open(vec![Due { at_ns: 1, device: 0 }, Due { at_ns: 2, device: 0 }]);
        pacer.take();
        assert_eq!(pacer.next(), Some(Due { at_ns: 2, device: 0 }));
        pacer.settled(9);
        pacer.take();
        assert_eq!(pacer.next(), None);
    }

    #[test]
    fn a_closed_loop_has_as_many_out_as_its_concurrency_and_thinks_after_each() {
        let mut pacer = Pacer::Closed(ClosedLoop::new(2, 10, 3, 100, u64::MAX));
        pacer.take();
        assert_eq!(pacer.next(), Some(Due { at_ns: 0, device: 1 }));
        pacer.take();
        assert_eq!(pacer.next(), None);
        pacer.settled(5);
        assert_eq!(pacer.next(), Some(Due { at_ns: 15, device: 2 }));
    }

    #[test]
    fn a_closed_loop_ends_with_its_time_or_its_messages() {
        let mut by_time = Pacer::Closed(ClosedLoop::new(1, 0, 1, 100, u64::MAX));
        by_time.take();
        by_time.settled(100);
        assert_eq!(by_time.next(), None);
        let mut by_count = Pacer::Closed(ClosedLoop::new(1, 0, 1, 100, 1));
        by_count.take();
        by_count.settled(1);
        assert_eq!(by_count.next(), None);
    }
}
