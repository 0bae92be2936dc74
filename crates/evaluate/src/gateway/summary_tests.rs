use super::*;
use crate::environment::Environment;
use crate::gateway::options::Options;
use crate::gateway::record::{Done, FORMAT, Figure, Mode, Sample, Task};

pub(in crate::gateway) fn run(done: Vec<Done>) -> GatewayRun {
    GatewayRun {
        format: FORMAT,
        experiment: "gateway".to_owned(),
        options: Options::default(),
        seed: 1,
        programs: Vec::new(),
        day: None,
        done,
        skipped: Vec::new(),
        environment: Environment::default(),
    }
}

/// Ten blocks of forty answers of about so many milliseconds.
fn answers(arm: Arm, ms: f64) -> Vec<Done> {
    let values = |block: u32| (0..40).map(move |number| Some(ms + 0.01 * f64::from((block * 7 + number) % 11)));
    let done = |block| Done {
        block,
        job: Job {
            task: Task::Activation(Mode::Cold),
            arm,
        },
        started_s: 0.0,
        samples: vec![Sample {
            figure: Figure::AnswerMs,
            values: values(block).collect(),
        }],
    };
    (0..10).map(done).collect()
}

fn outcome_of(run: &GatewayRun, label: &str) -> Outcome {
    let rows = summarise(run);
    let row = rows
        .iter()
        .find(|row| row.label == label)
        .unwrap_or_else(|| panic!("no {label}"));
    row.verdict.unwrap().outcome
}

#[test]
fn an_aim_is_kept_where_the_whole_interval_keeps_it_and_undecided_where_nothing_was_measured() {
    let fast = run(answers(Arm::Oci, 30.0));
    assert_eq!(outcome_of(&fast, "oci, cold, p50"), Outcome::Pass);
    assert_eq!(outcome_of(&fast, "oci, paused, p50"), Outcome::Undecided);
    let slow = run(answers(Arm::Oci, 41.0));
    assert_eq!(outcome_of(&slow, "oci, cold, p50"), Outcome::Fail);
    assert_eq!(outcome_of(&slow, "oci, cold, p99"), Outcome::Pass);
}

#[test]
fn docker_is_judged_by_its_ratio_to_docker_start_beyond_the_noise_of_that() {
    let of = |docker: f64, again: f64| {
        let mut done = answers(Arm::Docker, docker);
        done.extend(answers(Arm::DockerStart, 300.0));
        done.extend(answers(Arm::DockerStartAgain, again));
        outcome_of(&run(done), "docker, cold, p50")
    };
    assert_eq!(of(310.0, 301.0), Outcome::Pass);
    assert_eq!(of(390.0, 301.0), Outcome::Fail);
    assert_eq!(
        of(325.0, 330.0),
        Outcome::Undecided,
        "the machine differs from itself by more"
    );
}

#[test]
fn a_request_that_was_lost_is_no_fast_answer() {
    let mut done = answers(Arm::Oci, 30.0);
    for one in &mut done {
        one.samples[0].values[0] = None;
    }
    let lossy = run(done);
    assert_eq!(outcome_of(&lossy, "oci, cold, p50"), Outcome::Pass);
    assert_ne!(outcome_of(&lossy, "oci, cold, p99"), Outcome::Pass);
}
