//! What an earlier run of several parts left behind, for one that goes on with it.

use std::path::Path;

use super::Failure;
use crate::raw::Raw;
use crate::rtt::{Options, Plan};
use crate::run::Run;

/// Parts that need not be measured again.
#[derive(Debug, Default)]
pub(super) struct Kept {
    runs: Vec<Run>,
}

impl Kept {
    /// Reads the raw files of a directory and keeps those of the same options, whatever their seed, and of this very
    /// program. Other files say nothing; a directory that is not there holds none.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(super) fn read(directory: &Path, options: &Options) -> Result<Kept, Failure> {
        if !directory.exists() {
            return Ok(Kept::default());
        }
        let named = |error: std::io::Error| format!("{}: {error}", directory.display());
        let entries: Vec<_> = std::fs::read_dir(directory)
            .map_err(named)?
            .collect::<Result<_, _>>()
            .map_err(named)?;
        let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
        paths.sort();
        let runs = paths.iter().filter_map(|path| match Raw::read(path) {
            Ok(Raw::RoundTrip(run)) => Some(*run),
            _ => None,
        });
        Ok(Kept {
            runs: runs.filter(|run| is_of_now(run, options)).collect(),
        })
    }

    /// The run of a part, once.
    pub(super) fn take(&mut self, part: &Plan) -> Option<Run> {
        let place = self.runs.iter().position(|run| run.cells == part.cells())?;
        Some(self.runs.remove(place))
    }
}

fn is_of_now(run: &Run, options: &Options) -> bool {
    let without_seed = |options: &Options| Options {
        seed: None,
        ..options.clone()
    };
    without_seed(&run.options) == without_seed(options) && run.environment.is_of_this_program()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment;
    use crate::report::synthetic;

    fn plan(options: &Options) -> Plan {
        Plan::new(options.clone(), None).unwrap()
    }

    /// The first part of a run of the models, as the program would have left it.
    fn left(options: &Options) -> Run {
        let mut run = synthetic::run(
            7,
            plan(options).parts()[0].cells().to_vec(),
            &synthetic::behaviours(),
            1,
        );
        run.options = Options {
            seed: Some(1),
            ..options.clone()
        };
        run.environment = environment::program();
        run
    }

    fn options() -> Options {
        Options {
            quick: true,
            ..Options::default()
        }
    }

    #[test]
    fn what_was_measured_with_the_same_options_and_program_is_taken_once_and_else_nothing() {
        let directory = tempfile::tempdir().unwrap();
        left(&options()).write(&directory.path().join("rtt-001.json")).unwrap();
        std::fs::write(directory.path().join("report.json"), "{}").unwrap();
        let mut kept = Kept::read(directory.path(), &options()).unwrap();
        let parts = plan(&options()).parts();
        assert!(kept.take(&parts[1]).is_none(), "another load");
        assert!(kept.take(&parts[0]).is_some());
        assert!(kept.take(&parts[0]).is_none(), "each once");
        let others = Options {
            qos: vec![0],
            ..options()
        };
        assert!(Kept::read(directory.path(), &others).unwrap().runs.is_empty());
    }

    #[test]
    fn what_another_program_measured_is_measured_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut run = left(&options());
        run.environment.program_version = "0.0.0".to_owned();
        run.write(&directory.path().join("rtt-001.json")).unwrap();
        assert!(Kept::read(directory.path(), &options()).unwrap().runs.is_empty());
    }
}
