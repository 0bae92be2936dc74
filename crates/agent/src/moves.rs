//! Keeps the kernel ready to move processes into control groups while something is started.
//!
//! A move waits until no processor is about to fork, by a grace period of RCU: 8 to 16 ms, the longest part of a start.
//! Who follows within a few milliseconds of another waits for nothing (`rcu_sync` of the kernel,
//! `cgroup_threadgroup_rwsem`). So this process moves itself to where it is, again and again, beside what else a start
//! takes. While a move waits, nobody makes a group (`cgroup_mutex`): groups are made before.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Between two moves; well below a grace period.
const PAUSE: Duration = Duration::from_millis(4);
/// Whoever is that long about it gains nothing by it any more.
const MOVES_MAX: u32 = 100;

/// Readiness for moves, shared by all starts that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves(Arc<Mutex<Weak<Ready>>>);

/// Moves are quick for as long as this is there.
#[derive(Debug)]
pub(crate) struct Ready(#[expect(dead_code, reason = "that it is gone is what is heard")] SyncSender<()>);

impl Moves {
    pub(crate) fn be_ready(&self) -> Arc<Ready> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            let ready = Arc::new(Ready::begin());
            *known = Arc::downgrade(&ready);
            ready
        })
    }
}

impl Ready {
    fn begin() -> Self {
        let (ready, over) = mpsc::sync_channel(0);
        let moving = move || {
            let Some(mut own) = own_group().and_then(|path| OpenOptions::new().write(true).open(path).ok()) else {
                return;
            };
            for _ in 0..MOVES_MAX {
                // 0 is who writes it. That it is there already changes nothing of the wait.
                let _ = own.write(b"0");
                if over.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        // Without it, starts take longer.
        let _ = thread::Builder::new()
            .name("moves".to_owned())
            .stack_size(64 << 10)
            .spawn(moving);
        Ready(ready)
    }
}

/// What lists the processes of this one's group, of any of version 1's trees or of version 2's (`cgroups(7)`).
fn own_group() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut places = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (tree, group) = (parts.next()?, parts.next()?);
        let place = PathBuf::from(format!("/sys/fs/cgroup/{tree}{group}/cgroup.procs"));
        place.is_file().then_some(place)
    });
    places.next()
}
