//! A line by the kernel's own emulator: a queueing discipline on both ends of a pair of virtual Ethernet devices.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::namespace::Namespace;
use super::plan::MTU_BYTES;
use super::{NetworkError, Settings};

/// Stands for unshaped. With any rate, netem keeps packets in order (`tc-netem(8)`), and this one is beyond the machine.
const UNSHAPED: &str = "32gbit";
/// Packets on the way where no bandwidth says how many there can be; as many as our relay holds.
const UNSHAPED_PACKETS: u64 = 65_536;
/// Ethernet's header, which is no part of the bandwidth.
const HEADER_BYTES: i32 = 14;

/// Both ends of a line.
pub(super) struct Netem {
    /// Where each end is, and the name of its device.
    ends: [(Arc<Namespace>, &'static str); 2],
    settings: Mutex<Settings>,
}

impl Netem {
    pub(super) fn start(ends: [(Arc<Namespace>, &'static str); 2], settings: Settings) -> Result<Netem, NetworkError> {
        let netem = Netem {
            ends,
            settings: Mutex::new(settings),
        };
        netem.set(settings)?;
        Ok(netem)
    }

    pub(super) fn set(&self, settings: Settings) -> Result<(), NetworkError> {
        let mut current = self.current();
        self.apply(&settings)?;
        *current = settings;
        Ok(())
    }

    pub(super) fn cut(&self) -> Result<(), NetworkError> {
        let current = self.current();
        self.apply(&Settings { loss: 1.0, ..*current })
    }

    pub(super) fn mend(&self) -> Result<(), NetworkError> {
        let current = self.current();
        self.apply(&current)
    }

    fn current(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, settings: &Settings) -> Result<(), NetworkError> {
        let wanted = discipline(settings);
        self.ends
            .iter()
            .try_for_each(|(namespace, device)| namespace.tc(&format!("qdisc replace dev {device} root {wanted}\n")))
    }
}

/// As `tc` takes it. Its limit counts packets, those on the way among them: as many full ones as the queue and the way
/// hold at this bandwidth.
fn discipline(settings: &Settings) -> String {
    let rate = settings.bandwidth_bit_per_s.bit_per_s;
    let (half_us, half_jitter_us) = (settings.round_trip_us as f64 / 2.0, settings.jitter_us as f64 / 2.0);
    let limit = rate.map_or(UNSHAPED_PACKETS, |rate| {
        let way_bytes = (half_us + half_jitter_us) * rate as f64 / 8e6;
        let bytes = settings.queue_bytes().unwrap_or_default() + way_bytes as u64;
        bytes.div_ceil(MTU_BYTES as u64)
    });
    let rate = rate.map_or(UNSHAPED.to_owned(), |rate| format!("{rate}bit"));
    let loss = settings.loss * 100.0;
    format!("netem limit {limit} delay {half_us}us {half_jitter_us}us loss {loss}% rate {rate} -{HEADER_BYTES}")
}
