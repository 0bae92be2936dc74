//! The paper's two machines, scaled to this one by a rule that is stated: a control group that stands round all that is
//! measured, as the board does in the paper.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::service::Sizes;
use crate::proc;

/// One of the paper's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// The desktop: 4 cores of 4.5 GHz, 4 GB
    Fog,
    /// The Raspberry Pi 4: 4 cores of 1.5 GHz, 4 GB
    Edge,
}

/// Cores of either.
const PAPER_CORES: u32 = 4;
/// Memory of either.
const PAPER_MEMORY_MIB: u32 = 4_096;
/// A core of the edge beside one of the fog, by their clocks: 1.5 and 4.5 GHz.
const EDGE_SHARE: (u32, u32) = (1, 3);
/// Where the machine does not say what it has, as much as most have.
const USUAL_CACHE_BYTES: u64 = 32 << 20;
/// STREAM's own rule: each array has at least so many times the last cache.
const CACHES: u64 = 4;
/// Of a service beside its arrays: its program and its libraries.
const ASIDE_MIB: u32 = 64;
const MIB: u64 = 1 << 20;
/// Linpack's matrix has so many times the last cache, or what of it the paper's would.
const MATRIX_CACHES: u64 = 2;
const PAPER_EQUATIONS: u32 = 15_000;
/// More a core than the paper's boards had per core is not needed.
const EQUATIONS_LEAST: u32 = 256;

/// A board as it is here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// Which.
    pub profile: Profile,
    /// Threads of a service: the board's cores.
    pub threads: u32,
    /// Processor of all that is measured, in thousandths of a core of this machine.
    pub cpu_millis: u32,
    /// Memory of all that is measured.
    pub memory_mib: u32,
    /// Bytes of the last cache of this machine, by which sizes are.
    pub cache_bytes: u64,
    /// Sizes of the work.
    pub sizes: Sizes,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 2] = [Profile::Fog, Profile::Edge];

    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Fog => "fog",
            Profile::Edge => "edge",
        }
    }
}

impl Board {
    /// On this machine.
    pub(super) fn here(profile: Profile, divisor: u32) -> Board {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Board::on(profile, divisor, (cores, cache_bytes().unwrap_or(USUAL_CACHE_BYTES)))
    }

    /// As many cores as there are, up to the paper's four, and a fourth of its memory for each; but no less memory than
    /// two STREAMs need whose arrays are four times the last cache.
    fn on(profile: Profile, divisor: u32, (cores, cache_bytes): (u32, u64)) -> Board {
        let threads = cores.min(PAPER_CORES);
        let cpu_millis = match profile {
            Profile::Fog => threads * 1_000,
            Profile::Edge => threads * 1_000 * EDGE_SHARE.0 / EDGE_SHARE.1,
        };
        let array_bytes = CACHES * cache_bytes / u64::from(divisor);
        let arrays_mib = (3 * array_bytes).div_ceil(MIB) as u32;
        let scaled_mib = PAPER_MEMORY_MIB * threads / PAPER_CORES / SCALE / divisor;
        let memory_mib = scaled_mib.max(2 * (arrays_mib + ASIDE_MIB));
        let matrix_bytes = MATRIX_CACHES * cache_bytes / u64::from(divisor).pow(2);
        let equations = ((matrix_bytes / 8) as f64).sqrt() as u32;
        Board {
            profile,
            threads,
            cpu_millis,
            memory_mib,
            cache_bytes,
            sizes: Sizes {
                equations: equations.clamp(EQUATIONS_LEAST, PAPER_EQUATIONS),
                elements: (array_bytes / 8) as u32,
                file_mib: 2 * memory_mib,
            },
        }
    }

    /// What a container may take where it has limits: half the board.
    pub(super) fn limits(&self) -> (u32, u32) {
        (self.cpu_millis / 2, self.memory_mib / 2)
    }

    /// In words, with the rule.
    pub(super) fn words(&self) -> String {
        let Board {
            profile,
            threads,
            cpu_millis,
            memory_mib,
            sizes,
            ..
        } = *self;
        format!(
            "{}: {threads} of the paper's {PAPER_CORES} cores, {:.2} cores of this machine in all, {memory_mib} MiB; Linpack {} \
             equations, STREAM 3 arrays of {} MiB, Bonnie++ a file of {} MiB",
            profile.name(),
            f64::from(cpu_millis) / 1e3,
            sizes.equations,
            u64::from(sizes.elements) * 8 / MIB,
            sizes.file_mib,
        )
    }
}

/// The paper's memory is this many times what a board has here, as a file of twice as much would take minutes.
const SCALE: u32 = 4;

/// The rule by which boards and sizes are scaled.
pub(super) fn rule() -> String {
    format!(
        "Boards: as many cores as this machine has, up to the paper's {PAPER_CORES}, those of the edge a third of those of the fog \
         by their clocks; memory a fourth of the paper's for each core, of that 1/{SCALE}, and no less than two STREAMs need. Sizes: \
         arrays of {CACHES} × the last cache, a matrix of {MATRIX_CACHES} × it, a file of twice the board's memory. Where containers \
         have limits, each has half of the board (the paper does not say what it gave)."
    )
}

/// Of the processor's last cache.
fn cache_bytes() -> Option<u64> {
    let all = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?.flatten();
    let sizes = all.filter_map(|entry| {
        let read = |name: &str| proc::line(Path::new(&entry.path()).join(name));
        let level: u32 = read("level")?.parse().ok()?;
        Some((level, bytes(&read("size")?)?))
    });
    sizes.max_by_key(|(level, _)| *level).map(|(_, bytes)| bytes)
}

/// Of `32768K`.
fn bytes(text: &str) -> Option<u64> {
    let number = |unit: char| text.strip_suffix(unit)?.parse::<u64>().ok();
    let kib = number('K').or_else(|| number('M').map(|mib| mib << 10))?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_are_half_a_board_and_an_edge_has_a_third_of_its_processor() {
        let fog = Board::on(Profile::Fog, 1, (2, 8 << 20));
        assert_eq!((fog.threads, fog.cpu_millis, fog.memory_mib), (2, 2_000, 512));
        assert_eq!(fog.sizes.file_mib, 1_024);
        assert_eq!(fog.sizes.elements, 4 << 20);
        let edge = Board::on(Profile::Edge, 1, (16, 8 << 20));
        assert_eq!((edge.threads, edge.cpu_millis, edge.memory_mib), (4, 1_333, 1_024));
    }

    #[test]
    fn a_large_cache_needs_more_memory_and_two_streams_fit_with_their_limits() {
        let board = Board::on(Profile::Fog, 1, (2, 260 << 20));
        let arrays_mib = u64::from(board.sizes.elements) * 8 * 3 / MIB;
        assert!(u64::from(board.limits().1) > arrays_mib, "{board:?}");
        assert!(board.sizes.equations <= PAPER_EQUATIONS);
    }

    #[test]
    fn the_kernel_names_sizes_of_caches_in_kibibytes_or_mebibytes() {
        assert_eq!(bytes("32768K"), Some(32 << 20));
        assert_eq!(bytes("8M"), Some(8 << 20));
        assert_eq!(bytes("many"), None);
    }
}
