use super::*;
use crate::environment::Environment;
use crate::interference::record::{Done, FORMAT, Turn};
use crate::interference::{EXPERIMENT, Options};
use crate::stats::Verdict;

const JOB: Job = Job {
    profile: Profile::Fog,
    runtime: Runtime::Oci,
    case: Case::Alone,
    group: Group::One(Kind::Linpack),
};
const BOTH: Group = Group::Pair(Kind::Linpack, Kind::Linpack);

pub(crate) fn run(done: Vec<Done>) -> InterferenceRun {
    InterferenceRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        options: Options::default(),
        seed: 7,
        programs: Vec::new(),
        boards: Vec::new(),
        done,
        skipped: Vec::new(),
        environment: Environment::default(),
    }
}

/// A job whose services do what they do at these rates, the same in each turn.
pub(crate) fn done(block: u32, job: Job, rates: &[f64]) -> Done {
    let turns = |(kind, rate): (&Kind, &f64)| {
        let turn = Turn {
            began_ns: 0,
            ended_ns: 1,
            values: vec![Some(*rate); kind.figures().len()],
        };
        vec![turn; 2]
    };
    Done {
        block,
        job,
        started_s: 0.0,
        seen: Seen {
            services: job.group.kinds().iter().zip(rates).map(turns).collect(),
            hub: None,
        },
    }
}

/// Five blocks: alone at 100, again at 101, two without limits at `unlimited`, with limits at `limited`, each a little
/// different from block to block.
fn pair(unlimited: f64, limited: f64) -> InterferenceRun {
    let of_block = |block: u32| {
        let off = 1.0 + f64::from(block) / 1e3;
        let at = |case, group, rate: f64, count| done(block, Job { case, group, ..JOB }, &vec![rate * off; count]);
        [
            at(Case::Alone, JOB.group, 100.0, 1),
            at(Case::AloneAgain, JOB.group, 101.0, 1),
            at(Case::Unlimited, BOTH, unlimited, 2),
            at(Case::Limited, BOTH, limited, 2),
        ]
    };
    run((0..5).flat_map(of_block).collect())
}

fn advice(unlimited: f64, limited: f64) -> (Advice, bool) {
    let found = summarise(&pair(unlimited, limited)).sharing;
    assert_eq!(found.len(), 1);
    (found[0].advice, found[0].is_sure)
}

#[test]
fn services_go_together_where_each_loses_a_tenth_at_most_need_limits_where_only_those_see_to_it_and_else_go_apart() {
    assert_eq!(advice(95.0, 60.0), (Advice::Together, true));
    assert_eq!(advice(50.0, 97.0), (Advice::WithLimits, true));
    assert_eq!(advice(50.0, 60.0), (Advice::Apart, true));
}

#[test]
fn two_blocks_say_what_may_be_and_are_not_sure() {
    let mut two = pair(50.0, 97.0);
    two.done.retain(|done| done.block < 2);
    let found = summarise(&two).sharing;
    assert_eq!((found[0].advice, found[0].is_sure), (Advice::WithLimits, false));
}

#[test]
fn a_service_at_half_its_rate_is_twice_as_slow_within_blocks_and_one_as_fast_as_itself_is_equivalent() {
    let found = summarise(&pair(50.0, 100.5));
    let slower = |case| {
        let row = found.rows.iter().find(|row| row.job.case == case);
        row.unwrap().slower.unwrap()
    };
    let unlimited = slower(Case::Unlimited);
    assert!((unlimited.ratio.unwrap().value - 2.0).abs() < 1e-9);
    assert_eq!(unlimited.verdict, Verdict::Slower);
    assert!(matches!(slower(Case::Limited).verdict, Verdict::Equivalent { .. }));
    let alone = found.rows.iter().find(|row| row.job.case == Case::Alone).unwrap();
    assert_eq!((alone.turns, alone.slower), (10, None));
}

#[test]
fn the_rate_of_a_block_is_all_work_in_all_time() {
    let mut one = done(0, JOB, &[100.0]);
    one.seen.services[0][0].values = vec![Some(50.0)];
    let found = blocks(&run(vec![one]), JOB, Kind::Linpack, Figure::Flops);
    assert!((found[0].1 - 200.0 / 3.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn the_hub_beside_a_service_is_held_against_the_hub_beside_nobody_and_what_is_lost_is_counted() {
    let trips = |us: f64, lost: usize| {
        let mut responses_us = vec![Some(us); 400];
        responses_us[..lost].fill(None);
        Seen {
            services: Vec::new(),
            hub: Some(RoundTrips {
                responses_us,
                send_lag_p99_us: Some(1.0),
            }),
        }
    };
    let of_block = |block: u32| {
        let at = |case, group, seen| Done {
            block,
            job: Job { case, group, ..JOB },
            started_s: 0.0,
            seen,
        };
        let us = 300.0 + f64::from(block);
        [
            at(Case::Alone, Group::Hub, trips(us, 0)),
            at(Case::AloneAgain, Group::Hub, trips(us * 1.01, 0)),
            at(Case::Unlimited, Group::HubBeside(Kind::Stream), trips(us * 10.0, 1)),
        ]
    };
    let found = summarise(&run((0..5).flat_map(of_block).collect())).hub;
    let beside = found.iter().find(|row| row.job.case == Case::Unlimited).unwrap();
    assert_eq!((beside.messages, beside.lost), (2_000, 5));
    let slower = beside.slower.unwrap();
    assert_eq!(slower.verdict, Verdict::Slower);
    assert!((slower.ratio.unwrap().value - 10.0).abs() < 0.1);
}
