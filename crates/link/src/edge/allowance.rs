//! How much of what leaves the hub is here rather than in its log: as much as keeps the line busy, and no more. What is
//! here is past the bounds of its route, and its age is not looked at any more.

use hub::Allowance;

/// Bytes of the live lane and of the backlog, as multiples of what may be on the way.
const WINDOWS: (u64, u64) = (2, 4);
/// At least.
const LEAST_BYTES: (u64, u64) = (8 << 10, 16 << 10);
/// At most.
const MOST_BYTES: (u64, u64) = (8 << 20, 16 << 20);

/// What each of several shards may send where messages of so many bytes may be on the way, which are fewer on the line
/// where batches are made smaller. One shard alone can keep the line busy.
pub(super) fn of_window(window_bytes: u64, shards: usize) -> Allowance {
    let share = |windows: u64, least_bytes: u64, most_bytes: u64| {
        let all_bytes = windows.saturating_mul(window_bytes).clamp(least_bytes, most_bytes);
        (all_bytes / shards as u64).max(window_bytes.min(MOST_BYTES.0))
    };
    Allowance {
        live_bytes: share(WINDOWS.0, LEAST_BYTES.0, MOST_BYTES.0),
        backlog_bytes: share(WINDOWS.1, LEAST_BYTES.1, MOST_BYTES.1),
    }
}

/// Whether `new` is worth telling every shard, who know of `old`.
pub(super) fn differs(old: Allowance, new: Allowance) -> bool {
    let is_other = |old: u64, new: u64| old.abs_diff(new) * 4 > old;
    is_other(old.live_bytes, new.live_bytes) || is_other(old.backlog_bytes, new.backlog_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_line_has_more_here_than_a_thin_one_and_one_shard_alone_can_fill_it() {
        let allowed = |window_bytes, shards| {
            let Allowance {
                live_bytes,
                backlog_bytes,
            } = of_window(window_bytes, shards);
            (live_bytes, backlog_bytes)
        };
        assert_eq!(allowed(300, 2), (4 << 10, 8 << 10));
        assert_eq!(allowed(1 << 20, 2), (1 << 20, 2 << 20));
        assert_eq!(allowed(4 << 20, 16), (4 << 20, 4 << 20));
        assert_eq!(allowed(64 << 20, 2), (8 << 20, 8 << 20));
    }

    #[test]
    fn small_changes_are_told_nobody() {
        let of = |bytes| Allowance {
            live_bytes: 8_192,
            backlog_bytes: bytes,
        };
        assert!(!differs(of(10_000), of(12_000)));
        assert!(differs(of(10_000), of(13_000)) && differs(of(10_000), of(7_000)) && differs(of(0), of(1)));
    }
}
