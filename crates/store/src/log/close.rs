//! Ending: what was appended is made durable, or at least what was handed over.

use rustix::event::Timespec;

use super::Log;
use crate::Stopped;
use crate::keeper::Job;
use crate::segment;

/// How often [`Log::close`] looks whether the disk has space.
const CLOSE_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

impl Log {
    /// Makes all that was appended durable, writes the index of the last segment, and ends the threads. Waits for the
    /// disk. A log that is dropped instead keeps what was handed over, and opens a little slower.
    ///
    /// # Errors
    /// Why the log had stopped, or that there is no space for what waits.
    pub fn close(mut self) -> Result<(), Stopped> {
        self.collection.disable();
        self.flush()?;
        // On a full disk the next run goes on in the rest of the newest segment.
        let is_closed = self.newest_is_open && self.spares.has_next();
        if let Some(newest) = self.space.newest().filter(|_| is_closed) {
            self.jobs.push(Job::Seal {
                number: newest.number,
                end: newest.end,
            });
        }
        self.end_threads();
        let mut events = Vec::new();
        self.poll(&mut events);
        self.stopped.take().map_or(Ok(()), Err)
    }

    fn flush(&mut self) -> Result<(), Stopped> {
        let mut events = Vec::new();
        loop {
            self.poll(&mut events);
            self.changed = true;
            self.submit();
            if let Some(stopped) = self.stopped.take() {
                return Err(stopped);
            }
            if self.batch.is_idle() && self.removals.is_empty() && self.shared.is_idle() {
                return Ok(());
            }
            if self.spares.is_full && self.shared.is_idle() {
                let reason = format!("no space for {} bytes", self.batch.len());
                return Err(Stopped {
                    file: segment::name(self.next_number),
                    doing: "flush",
                    reason,
                });
            }
            self.shared.wait(&CLOSE_POLL);
        }
    }

    fn end_threads(&mut self) {
        self.shared.set_stopping();
        self.jobs.wake();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A thread that panicked has said so; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.jobs.clear();
        self.end_threads();
    }
}
