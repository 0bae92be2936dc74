//! How soon a thread gets a core that others keep busy.

use std::mem::size_of;

use rustix::process::getpriority_process;

/// Nanoseconds that a thread asks to run at a time.
const SLICE_NS: u64 = 100_000;

/// Asks the scheduler for short slices (Linux 6.12 and later: `sched_setattr` with a runtime and the ordinary policy;
/// no privilege needed). A thread that asks for less than those that keep the cores busy runs at once when what it
/// waits for is there, not only at the end of their slice, 3 to 8 ms later: the commit thread, for which all
/// acknowledgements wait, and the log's owner, for whom all clients do. Takes no CPU time from anybody, and changes
/// nothing on other kernels.
pub fn run_soon() {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        // The call sets it as well: as it is.
        sched_nice: getpriority_process(None).unwrap_or(0),
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of a struct that outlives the call, and writes none. Refused, the thread
    // runs as before.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
