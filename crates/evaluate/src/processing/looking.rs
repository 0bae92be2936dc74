//! What a work takes while it goes on, looked at from outside: of its processes and of the whole machine.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::record::Look;
use crate::capacity::pause;
use crate::interference::now_ns;
use crate::proc;

/// Twenty looks a second.
const STEP: Duration = Duration::from_millis(50);

/// A thread that looks.
pub(super) struct Looking {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<Look>, f64)>,
}

impl Looking {
    /// At these processes.
    pub(super) fn at(pids: Vec<u32>) -> Looking {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || look(&pids, &over));
        Looking { is_over, thread }
    }

    /// All looks, and what they took of a core.
    pub(super) fn end(self) -> (Vec<Look>, f64) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// What is counted on and on.
#[derive(Clone, Copy)]
struct Counts {
    at_ns: u64,
    cpu_s: f64,
    system_busy_s: f64,
    system_all_s: f64,
}

fn counts(pids: &[u32]) -> Counts {
    let (system_busy_s, system_all_s) = proc::busy_and_all_s().unwrap_or_default();
    Counts {
        at_ns: now_ns(),
        cpu_s: pids.iter().filter_map(|pid| proc::cpu_s(*pid)).sum(),
        system_busy_s,
        system_all_s,
    }
}

fn look(pids: &[u32], is_over: &AtomicBool) -> (Vec<Look>, f64) {
    let began_ns = now_ns();
    let (mut before, mut looks) = (counts(pids), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        pause(STEP);
        let now = counts(pids);
        let of = |after: f64, before: f64, of: f64| if of > 0.0 { (after - before).max(0.0) / of } else { 0.0 };
        looks.push(Look {
            at_ns: now.at_ns,
            cpu_share: of(now.cpu_s, before.cpu_s, (now.at_ns - before.at_ns) as f64 / 1e9),
            memory_bytes: pids.iter().filter_map(|pid| resident_bytes(*pid)).sum(),
            system_cpu_share: of(
                now.system_busy_s,
                before.system_busy_s,
                now.system_all_s - before.system_all_s,
            ),
            system_memory_bytes: proc::memory_bytes()
                .zip(proc::available_memory_bytes())
                .map_or(0, |(all, free)| all.saturating_sub(free)),
        });
        before = now;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let cpu_s = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    (looks, cpu_s / ((now_ns() - began_ns) as f64 / 1e9))
}

/// By `statm`, which costs less than the sum over all mappings.
fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_computes_is_seen_to_take_the_processor_and_memory() {
        let looking = Looking::at(vec![std::process::id()]);
        let until_ns = now_ns() + 300_000_000;
        while now_ns() < until_ns {
            std::hint::spin_loop();
        }
        let (looks, share) = looking.end();
        assert!(looks.iter().any(|look| look.cpu_share > 0.2), "{looks:?}");
        assert!(
            looks
                .iter()
                .all(|look| look.memory_bytes > 100_000 && look.system_memory_bytes > look.memory_bytes)
        );
        assert!(share < 0.5, "{share}");
    }
}
