//! SIGINT and SIGTERM, where a run has started what would outlive it: containers, an engine, groups of processes. The
//! signal is only noted; whoever waits is told, so that the run ends what it has started on its way out.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use libc::{SIGINT, SIGTERM, c_int};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// The signal that came first; 0 = none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Readable from then on. Held for as long as this process lives, so that the handler's number of it stays good.
static BELL: OnceLock<OwnedFd> = OnceLock::new();
static BELL_NUMBER: AtomicI32 = AtomicI32::new(-1);

/// A run was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupted {
    signal: c_int,
}

impl Interrupted {
    /// What a shell says of a program that a signal has ended: 130 or 143.
    pub(crate) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.signal).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.signal == SIGINT { "SIGINT" } else { "SIGTERM" };
        write!(f, "ended by {name}")
    }
}

impl std::error::Error for Interrupted {}

impl From<Interrupted> for String {
    fn from(interrupted: Interrupted) -> String {
        interrupted.to_string()
    }
}

/// From here on the two signals are noted and end nothing by themselves; one that this process was started to ignore
/// stays ignored. Programs that it starts take them as ever.
///
/// # Errors
/// The kernel refuses the descriptor or the handler.
pub(crate) fn listen() -> io::Result<()> {
    if BELL.get().is_some() {
        return Ok(());
    }
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let bell = BELL.get_or_init(|| bell);
    BELL_NUMBER.store(bell.as_raw_fd(), Ordering::Relaxed);
    [SIGINT, SIGTERM].into_iter().try_for_each(handle)
}

fn handle(signal: c_int) -> io::Result<()> {
    // SAFETY: both structures are valid for the calls; the handler does nothing that a handler may not do
    // (signal-safety(7)).
    let result = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &raw mut before) == 0 && before.sa_sigaction == libc::SIG_IGN {
            return Ok(());
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn note(signal: c_int) {
    let _ = SIGNAL.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    let one = 1_u64;
    // SAFETY: eight bytes that live here are written to a descriptor that is never closed; what was interrupted finds
    // its errno as it was.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        libc::write(
            BELL_NUMBER.load(Ordering::Relaxed),
            (&raw const one).cast(),
            size_of::<u64>(),
        );
        *errno = kept;
    }
}

/// By which signal this process was told to end, if it was.
pub(crate) fn told() -> Option<Interrupted> {
    let signal = SIGNAL.load(Ordering::Relaxed);
    (signal != 0).then_some(Interrupted { signal })
}

/// Goes on where nobody has told this process to end.
///
/// # Errors
/// Somebody has.
pub(crate) fn check() -> Result<(), Interrupted> {
    told().map_or(Ok(()), Err)
}

/// Waits for a time.
///
/// # Errors
/// This process was told to end, before or meanwhile.
pub(crate) fn pause(time: Duration) -> Result<(), Interrupted> {
    let began = Instant::now();
    loop {
        check()?;
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut bell: Vec<PollFd<'_>> = BELL
            .get()
            .map(|bell| PollFd::new(bell, PollFlags::IN))
            .into_iter()
            .collect();
        match poll(&mut bell, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            // Of a descriptor and a time that are good, only memory can be refused: the time is waited for all the
            // same.
            Err(_) => crate::capacity::pause(left),
        }
    }
}
