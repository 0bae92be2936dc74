//! `selvedge evaluate gateway`, as one of the experiments that can be gone on with.

use std::time::Duration;

use super::resume::Resumable;
use crate::environment::Environment;
use crate::gateway::{self, GatewayRun, Options};
use crate::raw::Raw;
use crate::rtt::{Helper, Progress};

impl Resumable for GatewayRun {
    type Options = Options;

    const NAME: &'static str = gateway::EXPERIMENT;
    const MEASURES: &'static str = "what containers cost a gateway";

    fn of(raw: Raw) -> Option<GatewayRun> {
        match raw {
            Raw::Gateway(run) => Some(*run),
            _ => None,
        }
    }

    fn into_raw(self) -> Raw {
        Raw::Gateway(Box::new(self))
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn worked_in(options: &Options, seed: Option<u64>) -> Options {
        Options {
            seed,
            ..options.clone().effective()
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn jobs_done(&self) -> usize {
        self.done.len()
    }

    fn estimate(options: &Options) -> Duration {
        gateway::estimate(options)
    }

    fn measure(
        options: &Options,
        helper: &Helper,
        before: Option<GatewayRun>,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&GatewayRun) -> Result<(), String>,
    ) -> Result<GatewayRun, String> {
        gateway::run(options, helper, before, progress, keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::resume::{file, kept, write};
    use crate::environment;

    #[test]
    fn a_run_is_gone_on_with_where_options_and_program_are_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(file::<GatewayRun>());
        let options = Options {
            quick: true,
            ..Options::default()
        };
        let kept = |options: &Options| kept::<GatewayRun>(&path, options);
        assert!(kept(&options).unwrap().is_none());
        let run = GatewayRun {
            format: gateway::FORMAT,
            experiment: gateway::EXPERIMENT.to_owned(),
            options: options.clone().effective(),
            seed: 7,
            programs: Vec::new(),
            day: None,
            done: Vec::new(),
            skipped: Vec::new(),
            environment: environment::program(),
        };
        write(&run, &path).unwrap();
        assert_eq!(kept(&options).unwrap().map(|run| run.seed), Some(7));
        assert!(kept(&Options::default()).unwrap().is_none(), "others");
        let other = GatewayRun {
            environment: environment::Environment::default(),
            ..run
        };
        write(&other, &path).unwrap();
        assert!(kept(&options).unwrap().is_none(), "of another program");
    }
}
