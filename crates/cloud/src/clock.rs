//! The wall clock, which rows are stored by.

/// Milliseconds since 1970 UTC.
pub(crate) fn unix_now_ms() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "retention goes by the date on which a row was stored"
    )]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}
