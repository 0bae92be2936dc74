//! What this process takes, as the kernel counts it (`proc_pid_stat(5)`).

/// Memory, processor time and file descriptors of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessFigures {
    pub(crate) resident_bytes: u64,
    pub(crate) cpu_s: f64,
    pub(crate) open_descriptors: u64,
}

/// Reads `/proc/self`; what cannot be read is 0.
pub(crate) fn figures() -> ProcessFigures {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let (ticks, pages) = parse(&stat).unwrap_or_default();
    ProcessFigures {
        resident_bytes: pages * rustix::param::page_size() as u64,
        cpu_s: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
        open_descriptors: descriptors,
    }
}

/// Ticks of processor time in user and system mode, and resident pages. The name of the program, in parentheses, may
/// have anything in it.
fn parse(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let field = |number: usize| rest.split_ascii_whitespace().nth(number)?.parse::<u64>().ok();
    Some((field(11)? + field(12)?, field(21)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_program_name() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 5 0 99 1000000 2048 18446744073709551615";
        assert_eq!(parse(stat), Some((200, 2048)));
        assert_eq!(parse("no stat"), None);
    }

    #[test]
    fn this_process_takes_memory() {
        assert!(figures().resident_bytes > 100_000 && figures().open_descriptors > 2);
    }
}
