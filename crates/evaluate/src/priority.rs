//! Threads that stand for other machines wait for nobody: a line, and the devices on it.

use std::mem::size_of;

/// Puts the calling thread before all ordinary ones (`SCHED_FIFO`, its lowest priority); whether the kernel grants it.
/// Without, packets are late by the time slices of those who keep the cores busy, as no network is.
pub(crate) fn run_first() -> bool {
    schedule(libc::SCHED_FIFO, 1)
}

/// The calling thread runs first while this lives.
pub(crate) struct First;

impl First {
    /// None where the kernel does not grant it.
    pub(crate) fn claim() -> Option<First> {
        run_first().then_some(First)
    }
}

impl Drop for First {
    fn drop(&mut self) {
        // Giving it up is always allowed.
        schedule(libc::SCHED_OTHER, 0);
    }
}

/// What the thread starts is scheduled as usual.
fn schedule(policy: libc::c_int, priority: u32) -> bool {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: 0,
        sched_priority: priority,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of a struct that outlives the call, and writes none.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}
