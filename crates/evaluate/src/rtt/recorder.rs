//! Keeps every message of a block and knows which still wait for their answer. Pure: times come in as arguments.

use crate::run::{Counters, Samples};

/// What the answer to a message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The first answer, in time.
    First,
    /// Another answer, a late one, or one to no message of this block.
    Ignored,
}

/// Columns and sums of one block.
pub(crate) struct Recorder {
    samples: Samples,
    counters: Counters,
    timeout_ns: u64,
    /// Every message before this one is answered, lost or unsent: they time out in the order of sending.
    oldest_waiting: usize,
    next_sequence: Vec<u32>,
    last_answered: Vec<Option<u32>>,
}

impl Recorder {
    pub(crate) fn new(devices: u32, timeout_ns: u64, expected_messages: usize) -> Recorder {
        let mut samples = Samples::default();
        samples.device.reserve(expected_messages);
        samples.sequence.reserve(expected_messages);
        samples.intended_ns.reserve(expected_messages);
        samples.sent_ns.reserve(expected_messages);
        samples.received_ns.reserve(expected_messages);
        samples.server_ns.reserve(expected_messages);
        let devices = devices as usize;
        let (next_sequence, last_answered) = (vec![0; devices], vec![None; devices]);
        Recorder {
            samples,
            counters: Counters::default(),
            timeout_ns,
            oldest_waiting: 0,
            next_sequence,
            last_answered,
        }
    }

    /// The number that the next message will have.
    pub(crate) fn next_message(&self) -> u32 {
        self.samples.len() as u32
    }

    /// Notes a message that was due at `intended_ns` and left at `sent_ns`, or could not leave.
    pub(crate) fn sent(&mut self, device: u32, intended_ns: u64, sent_ns: Option<u64>) {
        let sequence = &mut self.next_sequence[device as usize];
        self.samples.device.push(device);
        self.samples.sequence.push(*sequence);
        self.samples.intended_ns.push(intended_ns);
        self.samples.sent_ns.push(sent_ns);
        self.samples.received_ns.push(None);
        self.samples.server_ns.push(None);
        *sequence += 1;
        self.counters.scheduled += 1;
        match sent_ns {
            Some(_) => self.counters.sent += 1,
            None => self.counters.unsent += 1,
        }
    }

    /// Notes an answer that `device` got.
    pub(crate) fn answered(&mut self, message: u32, received_ns: u64, server_ns: Option<u64>) -> Answered {
        let index = message as usize;
        let Some(Some(sent_ns)) = self.samples.sent_ns.get(index).copied() else {
            return Answered::Ignored;
        };
        if self.samples.received_ns[index].is_some() {
            self.counters.duplicates += 1;
            return Answered::Ignored;
        }
        if index < self.oldest_waiting || received_ns > sent_ns + self.timeout_ns {
            self.counters.late += 1;
            return Answered::Ignored;
        }
        self.samples.received_ns[index] = Some(received_ns);
        self.samples.server_ns[index] = server_ns;
        self.counters.answered += 1;
        self.note_order(index);
        Answered::First
    }

    fn note_order(&mut self, index: usize) {
        let sequence = self.samples.sequence[index];
        let last = &mut self.last_answered[self.samples.device[index] as usize];
        match *last {
            Some(later) if later > sequence => self.counters.reordered += 1,
            _ => *last = Some(sequence),
        }
    }

    /// Counts as lost what has waited for its timeout; returns how many.
    pub(crate) fn expire(&mut self, now_ns: u64) -> u64 {
        let before = self.counters.lost;
        while self.deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            self.counters.lost += 1;
            self.oldest_waiting += 1;
        }
        self.counters.lost - before
    }

    /// When the oldest waiting message times out.
    pub(crate) fn deadline_ns(&mut self) -> Option<u64> {
        while self.oldest_waiting < self.samples.len() {
            let index = self.oldest_waiting;
            match self.samples.sent_ns[index] {
                Some(sent_ns) if self.samples.received_ns[index].is_none() => return Some(sent_ns + self.timeout_ns),
                _ => self.oldest_waiting += 1,
            }
        }
        None
    }

    /// Ends the block. What still waits is in flight.
    pub(crate) fn finish(mut self) -> (Samples, Counters) {
        let open = self.oldest_waiting..self.samples.len();
        let waiting = open.filter(|&i| self.samples.sent_ns[i].is_some() && self.samples.received_ns[i].is_none());
        self.counters.in_flight = waiting.count() as u64;
        (self.samples, self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT_NS: u64 = 1_000;

    fn recorder_with_sent(messages: u64) -> Recorder {
        let mut recorder = Recorder::new(1, TIMEOUT_NS, 8);
        for i in 0..messages {
            recorder.sent(0, i * 100, Some(i * 100 + 1));
        }
        recorder
    }

    #[test]
    fn sent_is_answered_and_lost_and_in_flight() {
        let mut recorder = recorder_with_sent(4);
        assert_eq!(recorder.answered(1, 150, Some(7)), Answered::First);
        assert_eq!(recorder.expire(TIMEOUT_NS + 1), 1);
        let (samples, counters) = recorder.finish();
        assert_eq!(
            (counters.sent, counters.answered, counters.lost, counters.in_flight),
            (4, 1, 1, 2)
        );
        assert_eq!(samples.received_ns, [None, Some(150), None, None]);
        assert_eq!(
            (samples.response_ns(1), samples.service_ns(1), samples.send_lag_ns(1)),
            (Some(50), Some(49), Some(1))
        );
        assert_eq!(samples.paper_ns(1), Some(42));
    }

    #[test]
    fn an_answer_after_the_timeout_is_late_and_its_message_stays_lost() {
        let mut recorder = recorder_with_sent(2);
        recorder.expire(TIMEOUT_NS + 50);
        assert_eq!(recorder.answered(0, TIMEOUT_NS + 60, None), Answered::Ignored);
        assert_eq!(recorder.answered(1, 101 + TIMEOUT_NS + 1, None), Answered::Ignored);
        recorder.expire(10 * TIMEOUT_NS);
        let (samples, counters) = recorder.finish();
        assert_eq!((counters.lost, counters.late, counters.answered), (2, 2, 0));
        assert_eq!(samples.received_ns, [None, None]);
    }

    #[test]
    fn duplicates_and_reorderings_are_counted() {
        let mut recorder = recorder_with_sent(3);
        recorder.answered(2, 300, None);
        recorder.answered(0, 310, None);
        recorder.answered(0, 320, None);
        recorder.answered(9, 330, None);
        let (samples, counters) = recorder.finish();
        assert_eq!((counters.answered, counters.duplicates, counters.reordered), (2, 1, 1));
        assert_eq!(samples.received_ns, [Some(310), None, Some(300)]);
    }

    #[test]
    fn what_could_not_be_sent_is_scheduled_and_never_waited_for() {
        let mut recorder = Recorder::new(2, TIMEOUT_NS, 8);
        recorder.sent(1, 5, None);
        assert_eq!(recorder.deadline_ns(), None);
        let (_, counters) = recorder.finish();
        assert_eq!(
            (counters.scheduled, counters.sent, counters.unsent, counters.in_flight),
            (1, 0, 1, 0)
        );
    }
}
