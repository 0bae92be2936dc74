//! Which cells a run has measured, and how many the full run has. A cell is a task with the arm that does it.

use super::experiment::{estimate, jobs, task_name};
use super::options::Options;
use super::record::{Arm, GatewayRun, Job, Task};
use crate::report::words;

/// The cells of a run.
pub(crate) struct Cells {
    /// How many of how many, and how long all of them take.
    pub(crate) heading: String,
    /// Those that were measured: tasks with the same arms in one line.
    pub(crate) lines: Vec<String>,
}

/// Of what a run has measured.
pub(crate) fn cells(run: &GatewayRun) -> Cells {
    let full = Options::default();
    let all = jobs(&full, |_| true);
    let is_measured = |job: &Job| run.done.iter().any(|done| done.job == *job);
    let ours = jobs(&run.options, |_| true);
    let measured: Vec<Job> = ours.into_iter().filter(is_measured).collect();
    let of_full = measured.iter().filter(|job| all.contains(job)).count();
    Cells {
        heading: format!(
            "Measured {of_full} of the {} cells of a full run, {} of its {} blocks of each; a full run takes {}, and --resume goes \
             on with one that was ended.",
            all.len(),
            run.options.blocks,
            full.blocks,
            words::about(estimate(&full)),
        ),
        lines: lines(&measured),
    }
}

fn lines(measured: &[Job]) -> Vec<String> {
    let mut groups: Vec<(Vec<Task>, Vec<Arm>)> = Vec::new();
    let mut tasks: Vec<Task> = Vec::new();
    for job in measured {
        if tasks.contains(&job.task) {
            continue;
        }
        tasks.push(job.task);
        let of_task = measured.iter().filter(|other| other.task == job.task);
        let arms: Vec<Arm> = of_task.map(|job| job.arm).collect();
        match groups.iter_mut().find(|(_, same)| *same == arms) {
            Some((tasks, _)) => tasks.push(job.task),
            None => groups.push((vec![job.task], arms)),
        }
    }
    let line = |(tasks, arms): &(Vec<Task>, Vec<Arm>)| {
        let tasks: Vec<String> = tasks.iter().map(|task| task_name(*task)).collect();
        let arms: Vec<&str> = arms.iter().map(|arm| arm.name()).collect();
        format!("{}: {}", tasks.join("; "), arms.join("; "))
    };
    groups.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::record::{Benchmark, Done};
    use crate::gateway::summary::tests::run;

    #[test]
    fn tasks_with_the_same_arms_share_a_line_and_what_was_not_measured_has_none() {
        let done = |task, arm| Done {
            block: 0,
            job: Job { task, arm },
            started_s: 0.0,
            samples: Vec::new(),
        };
        let [cpu, memory] = [Benchmark::Cpu, Benchmark::Memory].map(|benchmark| Task::Cost(benchmark, 1));
        let found = cells(&run(vec![
            done(memory, Arm::Oci),
            done(cpu, Arm::Native),
            done(cpu, Arm::Oci),
            done(memory, Arm::Native),
            done(Task::Work, Arm::Oci),
        ]));
        assert_eq!(
            found.lines,
            ["cpu × 1; memory × 1: native; oci", "the gateway at work: oci"]
        );
        let all = jobs(&Options::default(), |_| true).len();
        assert!(
            found.heading.starts_with(&format!("Measured 5 of the {all} cells")),
            "{}",
            found.heading
        );
    }
}
