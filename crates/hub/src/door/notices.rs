//! How much the log says of clients that are turned away: strangers decide how many there are, so its lines are
//! bounded.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a second. The clients beyond them are counted, and the next line says how many they were.
const LINES_PER_S: u32 = 10;

/// Characters of a user name that a line quotes; a CONNECT may bring 65,535 bytes.
const QUOTED_CHARS: usize = 200;

/// Whose turn it is to be told of.
#[derive(Debug, Default)]
pub(super) struct Notices(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    began: Option<Instant>,
    lines: u32,
    untold: u64,
}

impl Notices {
    /// Whether a line may be written now, and how many clients went without one before it.
    pub(super) fn next(&self, now: Instant) -> Option<u64> {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if second.began.is_none_or(|began| now - began >= Duration::from_secs(1)) {
            second.began = Some(now);
            second.lines = 0;
        }
        if second.lines == LINES_PER_S {
            second.untold += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.untold))
    }
}

/// As much of a user name as a line quotes.
pub(super) fn quoted(user_name: &str) -> String {
    user_name.chars().take(QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_clients_in_a_second_a_few_are_told_of_and_the_others_counted() {
        let (notices, start) = (Notices::default(), Instant::now());
        let told = (0..25).filter(|_| notices.next(start).is_some()).count();
        assert_eq!(told, 10);
        let later = start + Duration::from_secs(1);
        assert_eq!((notices.next(later), notices.next(later)), (Some(15), Some(0)));
    }

    #[test]
    fn a_user_name_is_cut_between_characters() {
        assert_eq!(quoted("pump-7"), "pump-7");
        assert_eq!(quoted(&"ü".repeat(20_000)), "ü".repeat(200));
    }
}
