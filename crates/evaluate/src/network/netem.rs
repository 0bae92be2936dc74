//! A line by the kernel's own emulator: a queueing discipline on both ends of a pair of virtual Ethernet devices.

use std::sync::{Arc, Mutex, PoisonError};

use super::namespace::Namespace;
use super::{Bandwidth, NetworkError, Settings};

/// With any rate, netem keeps packets in order (`tc-netem(8)`); this one is beyond the machine.
const IN_ORDER: &str = "32gbit";
/// Packets on the way in each direction, as many as our relay holds.
const MOST_PACKETS: u32 = 65_536;

/// Both ends of a line.
pub(super) struct Netem {
    /// Where each end is, and the name of its device.
    ends: [(Arc<Namespace>, String); 2],
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    settings: Settings,
    is_cut: bool,
}

impl Netem {
    pub(super) fn start(ends: [(Arc<Namespace>, String); 2], settings: Settings) -> Result<Netem, NetworkError> {
        let state = Mutex::new(State {
            settings,
            is_cut: false,
        });
        let netem = Netem { ends, state };
        netem.set(settings)?;
        Ok(netem)
    }

    /// Takes no bandwidth: netem bounds its queue in packets, those on the way among them, so that small ones would be
    /// dropped long before the line is full.
    pub(super) fn set(&self, settings: Settings) -> Result<(), NetworkError> {
        if settings.bandwidth_bit_per_s != Bandwidth::UNSHAPED {
            let reason = "netem has no queue that is bounded in bytes; plan the line with the relay as its means";
            return Err(NetworkError::Fixed {
                wish: "shaped",
                reason: reason.to_owned(),
            });
        }
        self.change(|state| state.settings = settings)
    }

    /// What is on its way arrives; what comes is dropped.
    pub(super) fn cut(&self) -> Result<(), NetworkError> {
        self.change(|state| state.is_cut = true)
    }

    pub(super) fn mend(&self) -> Result<(), NetworkError> {
        self.change(|state| state.is_cut = false)
    }

    fn change(&self, how: impl FnOnce(&mut State)) -> Result<(), NetworkError> {
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = *current;
        how(&mut wanted);
        let discipline = discipline(&wanted);
        for (namespace, device) in &self.ends {
            namespace.tc(&format!("qdisc replace dev {device} root {discipline}\n"))?;
        }
        *current = wanted;
        Ok(())
    }
}

/// As `tc` takes it.
fn discipline(State { settings, is_cut }: &State) -> String {
    let (half_us, half_jitter_us) = (settings.round_trip_us as f64 / 2.0, settings.jitter_us as f64 / 2.0);
    let loss = if *is_cut { 100.0 } else { settings.loss * 100.0 };
    format!("netem limit {MOST_PACKETS} delay {half_us}us {half_jitter_us}us loss {loss}% rate {IN_ORDER}")
}
