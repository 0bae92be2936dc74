//! The last lines of the program's log, for a bundle that somebody mails.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes kept; older ones go.
const KEPT_BYTES: usize = 256 * 1024;

/// The end of a log, kept in memory. What is written to one clone is read from all.
#[derive(Clone, Debug, Default)]
pub struct LogTail(Arc<Mutex<VecDeque<u8>>>);

impl LogTail {
    /// The whole lines that are kept.
    pub fn read(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        match text.split_once('\n') {
            Some((_, whole)) if bytes.len() >= KEPT_BYTES => whole.to_owned(),
            _ => text.into_owned(),
        }
    }
}

impl io::Write for LogTail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
        let surplus = (kept.len() + new.len()).saturating_sub(KEPT_BYTES);
        kept.drain(..surplus);
        kept.extend(new);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_oldest_lines_go_and_no_half_one_is_shown() {
        let mut tail = LogTail::default();
        for number in 0..20_000 {
            writeln!(tail, "line {number} of a log that goes on").unwrap();
        }
        let read = tail.read();
        assert!(
            read.len() <= KEPT_BYTES && read.starts_with("line "),
            "{:?}",
            &read[..40]
        );
        assert!(read.ends_with("line 19999 of a log that goes on\n"));
    }
}
