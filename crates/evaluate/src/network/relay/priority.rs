//! A line waits for nobody.

use std::mem::size_of;

/// Puts the calling thread before all ordinary ones (`SCHED_FIFO`, its lowest priority); whether the kernel grants it.
/// Without, packets are late by the time slices of those who keep the cores busy, as no network is.
pub(super) fn run_first() -> bool {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_FIFO as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: 0,
        sched_priority: 1,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of a struct that outlives the call, and writes none.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}
