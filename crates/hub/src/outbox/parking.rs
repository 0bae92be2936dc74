//! Messages that the other end could not take, so that one of them holds up no other.
//!
//! What comes back makes its queue pause; then single messages are tried, until one is taken. A message that came back
//! is set aside meanwhile and tried again by itself, so that a queue of which one message is never taken goes on. Where
//! order counts more, nothing is set aside.

use std::collections::BTreeMap;

use super::queue::Place;

/// The first pause, in milliseconds; each one that follows is twice as long.
const FIRST_PAUSE_MS: u64 = 500;
/// The longest pause, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 30_000;
/// Messages that are aside, at most; what comes back beyond them waits in its place in the queue.
const PARKED_MAX: usize = 64;

/// Which messages of a queue are aside, and whether others may go.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    parked: BTreeMap<Place, Parked>,
    /// The next pause of the queue; 0: what was sent last was taken.
    pause_ms: u64,
    paused_until_ms: u64,
    /// A message is on its way that shows whether more are taken.
    is_trying: bool,
}

/// A message that came back, until it is settled.
#[derive(Clone, Copy, Debug)]
struct Parked {
    pause_ms: u64,
    /// When it waits again; `None`: it does, or is on its way.
    due_ms: Option<u64>,
}

/// Where a message goes that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComesBack {
    /// To its place in the queue.
    Waits,
    /// Aside, until [`Parking::take_due`] has it.
    Parked,
}

impl Parking {
    /// A message came back.
    pub(crate) fn returned(&mut self, place: Place, now_ms: u64, may_park: bool) -> ComesBack {
        self.is_trying = false;
        if let Some(parked) = self.parked.get_mut(&place) {
            parked.due_ms = Some(now_ms + parked.pause_ms);
            parked.pause_ms = doubled(parked.pause_ms);
            return ComesBack::Parked;
        }
        // Those that were on their way together come back together: one pause.
        if now_ms >= self.paused_until_ms {
            self.pause_ms = doubled(self.pause_ms);
            self.paused_until_ms = now_ms + self.pause_ms;
        }
        if !may_park || self.parked.len() == PARKED_MAX {
            return ComesBack::Waits;
        }
        let parked = Parked {
            pause_ms: doubled(FIRST_PAUSE_MS),
            due_ms: Some(now_ms + FIRST_PAUSE_MS),
        };
        self.parked.insert(place, parked);
        ComesBack::Parked
    }

    /// The other end answered otherwise: more may go.
    pub(crate) fn answered(&mut self) {
        (self.is_trying, self.pause_ms, self.paused_until_ms) = (false, 0, 0);
    }

    /// What was on its way was not sent: nothing is known of what is taken.
    pub(crate) fn unsent(&mut self) {
        self.is_trying = false;
    }

    /// The message is not in the queue any more.
    pub(crate) fn forget(&mut self, place: Place) {
        self.parked.remove(&place);
    }

    /// Whether the next message may go.
    pub(crate) fn is_open(&self, now_ms: u64) -> bool {
        self.pause_ms == 0 || now_ms >= self.paused_until_ms && !self.is_trying
    }

    /// A message is on its way.
    pub(crate) fn sent(&mut self) {
        self.is_trying = self.pause_ms > 0;
    }

    /// The messages that wait again from now on.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Vec<Place> {
        let due = self.parked.iter_mut();
        let due = due.filter(|(_, parked)| parked.due_ms.is_some_and(|due_ms| due_ms <= now_ms));
        due.map(|(place, parked)| {
            parked.due_ms = None;
            *place
        })
        .collect()
    }

    /// When something may go that may not go now; `None`: not for a time.
    pub(crate) fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let parked = self.parked.values().filter_map(|parked| parked.due_ms);
        let pause = (self.paused_until_ms > now_ms).then_some(self.paused_until_ms);
        parked.chain(pause).min()
    }
}

fn doubled(pause_ms: u64) -> u64 {
    (pause_ms * 2).clamp(FIRST_PAUSE_MS, LONGEST_PAUSE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(sequence: u64) -> Place {
        Place { epoch: 2, sequence }
    }

    #[test]
    fn a_queue_of_which_one_message_is_never_taken_pauses_once_and_goes_on() {
        let mut parking = Parking::default();
        assert_eq!(parking.returned(place(1), 0, true), ComesBack::Parked);
        assert!(!parking.is_open(499) && parking.is_open(500));
        parking.sent();
        assert!(!parking.is_open(500), "one shows whether more are taken");
        parking.answered();
        assert!(parking.is_open(500));
        assert_eq!(parking.take_due(500), [place(1)]);
        assert!(parking.take_due(500).is_empty(), "it waits again already");
        assert_eq!(parking.returned(place(1), 600, true), ComesBack::Parked);
        assert!(parking.is_open(600), "known as one that is not taken");
        assert_eq!(parking.due_ms(600), Some(1_600));
    }

    #[test]
    fn pauses_double_up_to_their_limit_while_nothing_is_taken() {
        let (mut parking, mut now_ms) = (Parking::default(), 0);
        let mut pauses_ms = Vec::new();
        for sequence in 0..9 {
            parking.sent();
            parking.returned(place(sequence), now_ms, false);
            parking.returned(place(sequence + 100), now_ms, false);
            pauses_ms.push(parking.due_ms(now_ms).unwrap() - now_ms);
            now_ms += pauses_ms.last().unwrap();
        }
        assert_eq!(
            pauses_ms,
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
        );
        parking.answered();
        assert_eq!((parking.is_open(now_ms), parking.due_ms(now_ms)), (true, None));
    }

    #[test]
    fn as_many_are_aside_as_may_be_and_none_where_order_counts() {
        let mut parking = Parking::default();
        let mut parked = (0..PARKED_MAX as u64).map(|sequence| parking.returned(place(sequence), 0, true));
        assert!(parked.all(|back| back == ComesBack::Parked));
        assert_eq!(parking.returned(place(1_000), 0, true), ComesBack::Waits);
        assert_eq!(Parking::default().returned(place(0), 0, false), ComesBack::Waits);
    }
}
