//! `selvedge evaluate rtt`: from options to raw files.

use std::io::IsTerminal;
use std::path::PathBuf;

use super::Failure;
use crate::rtt::{Bar, Helper, Lines, Options, Plan, Progress, run};

/// Measure the full-stack round trip
#[derive(Debug, clap::Args)]
pub struct Rtt {
    #[command(flatten)]
    options: Options,
    /// Whole runs, each with its servers started anew and the next seed; five or more give an interval
    #[arg(long, default_value_t = 1, value_name = "N")]
    runs: u64,
    /// Directory for the raw files
    #[arg(long, default_value = "target/evaluate", value_name = "DIR")]
    out: PathBuf,
}

impl Rtt {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let plan = Plan::new(self.options, None)?;
        let helper = Helper::this_program(prefix)?;
        let mut progress = progress();
        std::fs::create_dir_all(&self.out)?;
        for number in 0..self.runs {
            let plan = plan.clone().with_seed(plan.seed().wrapping_add(number));
            progress.say(&announcement(&plan));
            let run = run(&plan, &helper, progress.as_mut())?;
            let stamp = run.environment.started_at.replace([':', '-'], "");
            let path = self.out.join(format!("rtt-{stamp}-{:016x}.json", run.seed));
            run.write(&path)?;
            progress.say(&format!("  raw file {}", path.display()));
        }
        Ok(())
    }
}

fn progress() -> Box<dyn Progress> {
    let terminal = std::io::stderr();
    if terminal.is_terminal() {
        Box::new(Bar::new(terminal))
    } else {
        Box::new(Lines::new(terminal))
    }
}

fn announcement(plan: &Plan) -> String {
    let (cells, arms, blocks) = (plan.cells().len(), plan.arms().len() + 1, plan.blocks());
    let seconds = plan.estimate().as_secs();
    format!("Measuring the full-stack round trip: {cells} cells, {arms} arms, {blocks} blocks, about {seconds} s")
}
