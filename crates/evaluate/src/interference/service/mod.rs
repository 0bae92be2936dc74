//! A service of a benchmark: what runs in the containers. It says that it is ready, waits until it is told to go, and does
//! its work again and again until it is ended, each time with what came of it.

mod bonnie;
mod linpack;
mod stream;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::record::{Kind, Turn};
use crate::capacity::pause;

/// Until it is told to go.
const STEP: Duration = Duration::from_millis(1);
/// Turns of STREAM that are one of ours: a turn of all four kernels over small arrays is over in a moment.
const STREAM_TURN_NS: u64 = 100_000_000;

/// What it is told.
#[derive(Debug, clap::Args)]
pub struct Service {
    /// What to do; several: each in a process of its own
    #[arg(long, value_enum, required = true)]
    kind: Vec<Kind>,
    /// Number of the first, by which its files are known
    #[arg(long, default_value_t = 0)]
    number: u32,
    /// Where it is told to go, and leaves what it has seen
    #[arg(long)]
    directory: PathBuf,
    /// Threads
    #[arg(long)]
    threads: usize,
    /// Sizes of the work
    #[command(flatten)]
    sizes: Sizes,
}

/// How large the work of each kind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Sizes {
    /// Equations of Linpack
    #[arg(long)]
    pub equations: u32,
    /// Elements of each of STREAM's arrays
    #[arg(long)]
    pub elements: u32,
    /// Mebibytes of Bonnie++'s file
    #[arg(long)]
    pub file_mib: u32,
}

/// Files by which a service and the experiment understand each other.
pub(crate) struct Files<'a>(pub(crate) &'a Path);

impl Files<'_> {
    pub(crate) fn ready(&self, number: u32) -> PathBuf {
        self.0.join(format!("ready-{number}"))
    }

    /// One line of JSON a turn.
    pub(crate) fn turns(&self, number: u32) -> PathBuf {
        self.0.join(format!("turns-{number}"))
    }

    /// Why it does nothing more.
    pub(crate) fn failed(&self, number: u32) -> PathBuf {
        self.0.join(format!("failed-{number}"))
    }

    pub(crate) fn go(&self) -> PathBuf {
        self.0.join("go")
    }
}

impl Service {
    /// Does it until it is ended.
    ///
    /// # Errors
    /// Its files cannot be written, or a process of its own cannot be started.
    pub fn serve(&self) -> io::Result<()> {
        if let [kind] = self.kind[..] {
            return self.serve_one(kind);
        }
        let mut all = Vec::new();
        for (kind, number) in self.kind.iter().zip(self.number..) {
            all.push(self.command(*kind, number)?.spawn()?);
        }
        let ends: io::Result<Vec<ExitStatus>> = all.iter_mut().map(|one| one.wait()).collect();
        ends.map(drop)
    }

    fn command(&self, kind: Kind, number: u32) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        // As this one was called: what stands before the first option is the way to this command.
        let way = std::env::args_os().skip(1);
        let way = way.take_while(|word| !word.to_string_lossy().starts_with('-'));
        command.args(way);
        command.args(words(&[kind], number, &self.directory, (self.threads, self.sizes)));
        Ok(command)
    }

    fn serve_one(&self, kind: Kind) -> io::Result<()> {
        let files = Files(&self.directory);
        let mut work = Work::prepare(kind, self);
        fs::write(files.ready(self.number), "")?;
        while !files.go().exists() {
            pause(STEP);
        }
        let mut turns = fs::File::create(files.turns(self.number))?;
        loop {
            match work.turn() {
                // In one write: half a line is none.
                Ok(turn) => turns.write_all(format!("{}\n", serde_json::to_string(&turn)?).as_bytes())?,
                Err(reason) => {
                    fs::write(files.failed(self.number), reason)?;
                    pause(Duration::MAX);
                }
            }
        }
    }
}

/// The options by which a service is called.
pub(super) fn words(kinds: &[Kind], number: u32, directory: &Path, (threads, sizes): (usize, Sizes)) -> Vec<String> {
    let kinds = kinds.iter().map(|kind| format!("--kind={}", kind.word()));
    let more = [
        format!("--number={number}"),
        format!("--directory={}", directory.display()),
        format!("--threads={threads}"),
        format!("--equations={}", sizes.equations),
        format!("--elements={}", sizes.elements),
        format!("--file-mib={}", sizes.file_mib),
    ];
    kinds.chain(more).collect()
}

enum Work {
    Linpack { system: linpack::System, threads: usize },
    Stream { arrays: stream::Arrays, threads: usize },
    Bonnie { directory: PathBuf, file_mib: u32 },
}

impl Work {
    fn prepare(kind: Kind, service: &Service) -> Work {
        let (threads, sizes) = (service.threads.max(1), service.sizes);
        match kind {
            Kind::Linpack => Work::Linpack {
                system: linpack::System::new(sizes.equations as usize, u64::from(service.number)),
                threads,
            },
            Kind::Stream => Work::Stream {
                arrays: stream::Arrays::new(sizes.elements as usize),
                threads,
            },
            Kind::Bonnie => Work::Bonnie {
                directory: service.directory.clone(),
                file_mib: sizes.file_mib,
            },
        }
    }

    /// # Errors
    /// What came of it is wrong, or nothing came of it, in words.
    fn turn(&mut self) -> Result<Turn, String> {
        match self {
            Work::Linpack { system, threads } => {
                system.make();
                let began_ns = now_ns();
                system.solve(*threads);
                let ended_ns = now_ns();
                let solved = system.judge();
                if solved.residual.is_nan() || solved.residual >= linpack::RESIDUAL_MOST {
                    return Err(format!("the solution is wrong: its residual is {}", solved.residual));
                }
                Ok(Turn {
                    began_ns,
                    ended_ns,
                    values: vec![Some(solved.operations * 1e9 / (ended_ns - began_ns) as f64)],
                })
            }
            Work::Stream { arrays, threads } => {
                let began_ns = now_ns();
                let (mut seconds, mut turns) = ([0.0; 4], 0.0);
                while turns == 0.0 || now_ns() - began_ns < STREAM_TURN_NS {
                    for (sum, bytes_per_s) in seconds.iter_mut().zip(arrays.turn(*threads)) {
                        *sum += bytes_per_s.recip();
                    }
                    turns += 1.0;
                }
                let ended_ns = now_ns();
                if !arrays.are_right() {
                    return Err("the arrays of STREAM do not hold what they should".to_owned());
                }
                Ok(Turn {
                    began_ns,
                    ended_ns,
                    values: seconds.map(|sum| Some(turns / sum)).to_vec(),
                })
            }
            Work::Bonnie { directory, file_mib } => {
                let began_ns = now_ns();
                let values = bonnie::turn(directory, *file_mib)?.to_vec();
                Ok(Turn {
                    began_ns,
                    ended_ns: now_ns(),
                    values,
                })
            }
        }
    }
}

/// Turns of a service that ended before a time.
///
/// # Errors
/// It has written something else than turns.
pub(crate) fn turns(files: &Files<'_>, number: u32, stop_ns: u64) -> Result<Vec<Turn>, String> {
    let file = files.turns(number);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let all: Result<Vec<Turn>, _> = lines.map(serde_json::from_str).collect();
    let all = all.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(all.into_iter().filter(|turn| turn.ended_ns <= stop_ns).collect())
}

/// Of the machine's clock, which all containers share.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_ended_later_or_is_half_written_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files(directory.path());
        let line = |ended_ns: u64| format!(r#"{{"began_ns":1,"ended_ns":{ended_ns},"values":[1.5,null]}}"#);
        let text = format!("{}\n{}\n{}", line(10), line(30), &line(12)[..20]);
        fs::write(files.turns(0), text).unwrap();
        let found = turns(&files, 0, 20).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].values, [Some(1.5), None]);
    }
}
