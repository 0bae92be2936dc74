//! Telemetry as it comes in, for who looks on: copies of messages, of which some may be lost and none is waited for.
//!
//! What looks on takes them from time to time, by itself: a shard wakes nobody for a copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use device::topic::DeviceTopic;
use mqtt::Publish;
use tokio::sync::mpsc;

use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Bytes of copies that wait; what would be more is lost, and counted.
const BYTES_MAX: u64 = 8 << 20;
/// Turns of shards whose copies wait.
const TURNS_MAX: usize = 4_096;
/// What a copy takes beside its topic and payload, about.
const FIXED_BYTES: usize = 128;

/// A copy of a message that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overheard {
    /// Its tenant.
    pub tenant: Arc<str>,
    /// The device that it is of.
    pub device: String,
    /// Its topic behind `devices/{id}/telemetry/`; empty where there is nothing more.
    pub subtopic: String,
    /// What it says.
    pub payload: Vec<u8>,
    /// When it came, in milliseconds of Unix time.
    pub received_ms: u64,
}

impl Overheard {
    fn bytes(&self) -> u64 {
        (FIXED_BYTES + self.device.len() + self.subtopic.len() + self.payload.len()) as u64
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// Of all copies that wait.
    bytes: AtomicU64,
    lost: AtomicU64,
}

/// Takes what was overheard.
pub struct Overhearing {
    copies: mpsc::Receiver<Vec<Overheard>>,
    shared: Arc<Shared>,
}

impl Overhearing {
    /// What waits, those of a shard in their order.
    pub fn take(&mut self) -> Vec<Overheard> {
        let mut taken = Vec::new();
        while let Ok(copies) = self.copies.try_recv() {
            taken.extend(copies);
        }
        let bytes: u64 = taken.iter().map(Overheard::bytes).sum();
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken
    }

    /// Copies that found no room, since the start.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

/// A shard's end.
#[derive(Clone, Debug)]
pub(crate) struct Ear {
    is_open: Arc<AtomicBool>,
    shared: Arc<Shared>,
    copies: mpsc::Sender<Vec<Overheard>>,
    /// Copies of this turn.
    turn: Vec<Overheard>,
}

/// The ends of a way for copies, which are made while `is_open`.
pub(crate) fn channel(is_open: Arc<AtomicBool>) -> (Ear, Overhearing) {
    let (sender, copies) = mpsc::channel(TURNS_MAX);
    let shared = Arc::<Shared>::default();
    let ear = Ear {
        is_open,
        shared: Arc::clone(&shared),
        copies: sender,
        turn: Vec::new(),
    };
    (ear, Overhearing { copies, shared })
}

impl Ear {
    fn hear(&mut self, copy: Overheard) {
        let bytes = copy.bytes();
        if self.shared.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > BYTES_MAX {
            self.lose(&[copy]);
        } else {
            self.turn.push(copy);
        }
    }

    fn lose(&self, copies: &[Overheard]) {
        let bytes: u64 = copies.iter().map(Overheard::bytes).sum();
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.lost.fetch_add(copies.len() as u64, Ordering::Relaxed);
    }

    /// Passes the copies of the turn on.
    pub(crate) fn end_turn(&mut self) {
        if self.turn.is_empty() {
            return;
        }
        let passed = self.copies.try_send(std::mem::take(&mut self.turn));
        if let Err(mpsc::error::TrySendError::Full(copies) | mpsc::error::TrySendError::Closed(copies)) = passed {
            self.lose(&copies);
        }
    }
}

/// Copies a message of telemetry, if anybody looks on.
pub(crate) fn copy(tenant: &Tenant, turn: &mut Turn<'_>, topic: &DeviceTopic<'_>, publish: &Publish<'_>) {
    let Some(ear) = &mut turn.ear else { return };
    if !ear.is_open.load(Ordering::Relaxed) {
        return;
    }
    let behind = publish.topic.splitn(4, '/').nth(3);
    ear.hear(Overheard {
        tenant: Arc::clone(&tenant.name),
        device: topic.device.to_owned(),
        subtopic: behind.unwrap_or_default().to_owned(),
        payload: publish.payload.to_vec(),
        received_ms: turn.now.unix_ms,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(payload_bytes: usize) -> Overheard {
        Overheard {
            tenant: "acme".into(),
            device: "p7".to_owned(),
            subtopic: String::new(),
            payload: vec![0; payload_bytes],
            received_ms: 0,
        }
    }

    #[test]
    fn what_is_not_taken_is_lost_at_the_bound_and_counted_and_then_there_is_room_again() {
        let (mut ear, mut overhearing) = channel(Arc::default());
        for _ in 0..10 {
            (0..10).for_each(|_| ear.hear(said(100_000)));
            ear.end_turn();
        }
        let taken = overhearing.take().len() as u64;
        assert!((80..=84).contains(&taken), "{taken}");
        assert_eq!(overhearing.lost(), 100 - taken);
        ear.hear(said(100_000));
        ear.end_turn();
        assert_eq!(overhearing.take().len(), 1);
        assert_eq!(ear.shared.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn turns_that_nobody_takes_are_bounded_too() {
        let (mut ear, mut overhearing) = channel(Arc::default());
        for _ in 0..TURNS_MAX + 5 {
            ear.hear(said(1));
            ear.end_turn();
        }
        assert_eq!((overhearing.lost(), overhearing.take().len()), (5, TURNS_MAX));
        assert_eq!(ear.shared.bytes.load(Ordering::Relaxed), 0);
    }
}
