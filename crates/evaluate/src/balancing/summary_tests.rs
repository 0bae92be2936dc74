use super::*;
use crate::balancing::record::{FORMAT, Seen, Work};
use crate::balancing::{EXPERIMENT, Options};
use crate::environment;

/// A run of one cell with these answers of each arm at the first node, in every block the same, in microseconds.
fn run(cell: Cell, arms: &[(Arm, Vec<Option<u32>>)], blocks: u32) -> BalancingRun {
    let seen = |answers_us: &Vec<Option<u32>>| Seen {
        wall_s: 1.0,
        answered: answers_us.iter().flatten().count() as u64,
        here: 1,
        answers_us: answers_us.clone(),
        ..Seen::default()
    };
    let of_arm =
        |(arm, answers_us): &(Arm, Vec<Option<u32>>)| (*arm, [seen(answers_us), Seen::default(), Seen::default()]);
    run_of(cell, &arms.iter().map(of_arm).collect::<Vec<_>>(), blocks)
}

/// A run of one cell with what clients of each node saw, by arm, in every block the same.
pub(crate) fn run_of(cell: Cell, arms: &[(Arm, [Seen; NODES])], blocks: u32) -> BalancingRun {
    let done = |block: u32| {
        arms.iter().map(move |(arm, seen)| Done {
            block,
            job: Job { cell, arm: *arm },
            started_s: 0.0,
            seen: seen.clone(),
        })
    };
    BalancingRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        options: Options::default(),
        seed: 7,
        programs: Vec::new(),
        done: (0..blocks).flat_map(done).collect(),
        skipped: Vec::new(),
        environment: environment::program(),
    }
}

fn cell(clients: u32) -> Cell {
    Cell {
        part: Part::Delay,
        pods: [4, 4, 4],
        round_trip_ms: 30,
        load: Load::Closed([clients, 0, 0]),
        event: None,
        work: Work::Wait,
    }
}

/// As many answers a second as one client has that each take so long.
fn answers(us: u32) -> Vec<Option<u32>> {
    vec![Some(us); 1_000_000 / us as usize]
}

fn judged(arms: &[(Arm, Vec<Option<u32>>)], what: &str) -> Judged {
    let run = run(cell(1), arms, 5);
    let all = summarise(&run).remove(0).judged;
    all.into_iter().find(|judged| judged.what == what).unwrap()
}

#[test]
fn local_first_is_held_against_the_best_of_the_other_policies() {
    let arms = [
        (Arm::RoundRobin, answers(20_000)),
        (Arm::Local, answers(8_000)),
        (Arm::LocalFirst, answers(8_100)),
        (Arm::Haproxy, answers(1_000)),
    ];
    for what in ["throughput", "mean", "p99"] {
        let judged = judged(&arms, what);
        assert_eq!(
            (judged.against, judged.outcome),
            (Some("local"), Outcome::Pass),
            "{what}"
        );
    }
    let worse = [(Arm::Local, answers(8_000)), (Arm::LocalFirst, answers(9_000))];
    for what in ["throughput", "mean", "p99"] {
        assert_eq!(judged(&worse, what).outcome, Outcome::Fail, "{what}");
    }
}

#[test]
fn p99_is_not_compared_with_a_policy_that_answers_fewer() {
    let mut few = answers(8_000);
    few.truncate(60);
    let arms = [
        (Arm::Local, few),
        (Arm::LeastRequest, answers(10_000)),
        (Arm::LocalFirst, answers(10_000)),
    ];
    assert_eq!(judged(&arms, "p99").against, Some("least-request"));
    assert_eq!(judged(&arms, "mean").against, Some("local"));
}

#[test]
fn a_loop_that_breaks_littles_law_is_named() {
    let good = summarise(&run(cell(1), &[(Arm::Local, answers(8_000))], 2));
    assert!(good[0].rows[0].law.as_ref().unwrap().holds);
    let bad = summarise(&run(cell(2), &[(Arm::Local, answers(8_000))], 2));
    assert!(!bad[0].rows[0].law.as_ref().unwrap().holds);
}

#[test]
fn in_an_open_loop_nothing_may_be_lost_and_p99_has_a_bound() {
    let open = Cell {
        part: Part::Overload,
        load: Load::Open(1_000),
        round_trip_ms: 15,
        ..cell(0)
    };
    let outcomes = |answers_us| {
        let summary = summarise(&run(open, &[(Arm::LocalFirst, answers_us)], 5)).remove(0);
        summary.judged.iter().map(|judged| judged.outcome).collect::<Vec<_>>()
    };
    // Three services of 8 ms and the way.
    assert_eq!(outcomes(vec![Some(39_000); 500]), [Outcome::Pass, Outcome::Pass]);
    assert_eq!(outcomes(vec![Some(39_001); 500]), [Outcome::Pass, Outcome::Fail]);
    let lost = (0..500).map(|number| (number % 10 > 0).then_some(20_000)).collect();
    assert_eq!(outcomes(lost), [Outcome::Fail, Outcome::Fail]);
}
