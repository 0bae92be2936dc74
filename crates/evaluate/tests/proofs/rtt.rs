//! The round trip.

use std::sync::mpsc;
use std::time::Duration;

use super::bench::{Disturbance, Quiet, broker, measure, options};
use evaluate::raw::Raw;
use evaluate::report::{self, Findings};
use evaluate::rtt::{ArmKind, Options, Plan, Preset, Protocol};
use evaluate::run::{Counters, LoadModel, Run};
use rustix::process::Signal;

fn all_laws_hold(run: &Run) {
    for block in &run.blocks {
        let Counters {
            scheduled,
            sent,
            unsent,
            answered,
            lost,
            in_flight,
            ..
        } = block.counters;
        assert_eq!(scheduled, sent + unsent, "{:?}", block.counters);
        assert_eq!(sent, answered + lost + in_flight, "{:?}", block.counters);
        let samples = &block.samples;
        assert_eq!(samples.len() as u64, scheduled);
        assert_eq!(samples.received_ns.iter().flatten().count() as u64, answered);
        for message in 0..samples.len() {
            let in_order = samples.sent_ns[message].is_none_or(|sent| sent >= samples.intended_ns[message]);
            assert!(in_order, "message {message} left before its time");
            assert!(
                samples.service_ns(message).is_none_or(|ns| ns > 0),
                "message {message} came back before it left"
            );
        }
    }
}

fn everything_was_answered(run: &Run) {
    for block in &run.blocks {
        let counters = block.counters;
        assert!(counters.sent > 0, "{}: nothing was sent", run.arms[block.arm].name);
        assert_eq!(
            counters.answered, counters.scheduled,
            "{}: {counters:?}",
            run.arms[block.arm].name
        );
        assert_eq!((counters.duplicates, counters.reordered, counters.late), (0, 0, 0));
        assert_eq!(block.failure, None);
    }
}

#[test]
fn a_round_trip_is_measured_through_relay_and_echo() {
    let run = measure(
        Options {
            arms: vec![ArmKind::Relay, ArmKind::TcpEcho],
            ..options()
        },
        &mut Quiet,
    );
    assert_eq!(
        run.arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>(),
        ["relay", "tcp-echo", "relay-again"]
    );
    assert!(run.arms[0].baseline && run.arms[2].again_of == Some(0));
    all_laws_hold(&run);
    everything_was_answered(&run);
    for block in &run.blocks {
        let has_responder = run.arms[block.arm].name != "tcp-echo";
        assert_eq!(block.samples.server_ns.iter().all(Option::is_some), has_responder);
        assert!(block.usage.server_cpu_s.is_some_and(|cpu_s| cpu_s > 0.0) && block.usage.generator_cpu_s > 0.0);
        assert!((0..block.samples.len()).all(|i| block.samples.paper_ns(i) <= block.samples.service_ns(i)));
    }
}

/// Mosquitto 2.0 leaves messages unread under TLS where several arrive at once, as on a busy machine: what it did not
/// answer has to be told as lost.
#[test]
fn mosquitto_is_measured_at_every_qos_plain_and_under_tls_in_both_versions() {
    if broker::missing() {
        return;
    }
    let arms = vec![ArmKind::Mosquitto, ArmKind::MosquittoTls];
    for protocol in [Protocol::V311, Protocol::V5] {
        let options = Options {
            arms: arms.clone(),
            protocol,
            qos: vec![0, 1, 2],
            devices: vec![3],
            ..options()
        };
        let mut run = measure(options, &mut Quiet);
        assert_eq!((run.skipped.as_slice(), run.blocks.len()), (&[][..], 9));
        all_laws_hold(&run);
        assert!(run.blocks.iter().all(|block| block.counters.answered > 0));
        run.blocks.retain(|block| !run.arms[block.arm].name.ends_with("-tls"));
        everything_was_answered(&run);
        assert!(run.arms[0].version.contains("mosquitto"), "{}", run.arms[0].version);
    }
}

#[test]
fn payloads_of_the_papers_largest_size_come_through() {
    if broker::missing() {
        return;
    }
    let options = Options {
        payload_bytes: vec![250_000],
        interval_us: vec![50_000],
        qos: vec![2],
        ..options()
    };
    let run = measure(
        Options {
            arms: vec![ArmKind::Mosquitto],
            ..options
        },
        &mut Quiet,
    );
    all_laws_hold(&run);
    everything_was_answered(&run);
}

#[test]
fn a_closed_loop_keeps_its_concurrency_and_obeys_littles_law() {
    let options = Options {
        load: Some(LoadModel::Closed),
        concurrency: vec![8],
        devices: vec![3],
        ..options()
    };
    let run = measure(
        Options {
            arms: vec![ArmKind::Relay],
            duration_us: Some(1_000_000),
            ..options
        },
        &mut Quiet,
    );
    all_laws_hold(&run);
    for block in &run.blocks {
        let spins = run.environment.generator_cpu.is_some();
        assert_eq!(block.usage.generator_spin_s > 0.0, spins, "where a core can be spared");
        let sum_ns: u64 = (0..block.samples.len())
            .filter_map(|i| block.samples.response_ns(i))
            .sum();
        let out_at_once = sum_ns as f64 / 1e9 / block.usage.wall_s;
        // What the client does between an answer and the next message is not in the round trip.
        assert!((4.0..=8.4).contains(&out_at_once), "{out_at_once} messages out at once");
    }
}

#[test]
fn a_server_that_stops_for_two_seconds_shows_in_two_hundred_messages_and_the_sender_never_waits() {
    let Some(broker) = broker::start() else { return };
    let target = broker.url();
    let (stopper, begun) = mpsc::sync_channel(1);
    let stopping = std::thread::spawn(move || {
        if begun.recv().is_ok() {
            broker.pause_between(Duration::from_millis(1_000), Duration::from_millis(3_000));
        }
        broker
    });
    let options = Options {
        interval_us: vec![10_000],
        duration_us: Some(4_000_000),
        qos: vec![1],
        ..options()
    };
    let options = Options {
        arms: vec![target.parse().unwrap()],
        timeout_us: Some(20_000_000),
        ..options
    };
    let run = measure(options, &mut Disturbance::at_first_block(stopper));
    drop(stopping.join());
    all_laws_hold(&run);
    let stalled = &run.blocks[0];
    assert_eq!(
        (stalled.counters.scheduled, stalled.counters.answered),
        (400, 400),
        "{:?}",
        stalled.counters
    );
    let slow = |least_ns: u64| {
        (0..stalled.samples.len())
            .filter(|i| stalled.samples.response_ns(*i).unwrap() >= least_ns)
            .count()
    };
    assert!(
        slow(20_000_000) >= 180,
        "{} of 400 messages show the stop",
        slow(20_000_000)
    );
    assert!(
        slow(1_000_000_000) >= 80,
        "{} of 400 messages waited for half of it",
        slow(1_000_000_000)
    );
}

#[test]
fn messages_to_a_killed_server_are_losses() {
    let Some(broker) = broker::start() else { return };
    let target = broker.url();
    let (killer, begun) = mpsc::sync_channel(1);
    let killing = std::thread::spawn(move || {
        if begun.recv().is_ok() {
            broker.signal_after(Duration::from_millis(1_000), Signal::KILL);
        }
        broker
    });
    let options = Options {
        duration_us: Some(3_000_000),
        timeout_us: Some(300_000),
        ..options()
    };
    let options = Options {
        arms: vec![target.parse().unwrap()],
        ..options
    };
    let run = measure(options, &mut Disturbance::at_first_block(killer));
    drop(killing.join());
    all_laws_hold(&run);
    let killed = &run.blocks[0];
    assert!(
        killed.counters.answered > 0 && killed.counters.unsent > 0,
        "{:?}",
        killed.counters
    );
    assert_eq!(killed.counters.in_flight, 0);
    assert!(killed.failure.is_some());
    assert!(!run.skipped.is_empty(), "the arm cannot be measured a second time");
}

#[test]
fn equal_seeds_make_equal_runs_and_the_raw_file_keeps_them() {
    let plan = || Options {
        arms: vec![ArmKind::TcpEcho],
        blocks: Some(2),
        seed: Some(42),
        ..options()
    };
    let (first, second) = (measure(plan(), &mut Quiet), measure(plan(), &mut Quiet));
    let other = measure(
        Options {
            seed: Some(43),
            ..plan()
        },
        &mut Quiet,
    );
    assert_eq!(first.schedule_hash, second.schedule_hash);
    assert_ne!(first.schedule_hash, other.schedule_hash);
    let order = |run: &Run| run.blocks.iter().map(|block| block.arm).collect::<Vec<_>>();
    assert_eq!(order(&first), order(&second));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("raw.json");
    first.write(&path).unwrap();
    assert_eq!(Run::read(&path).unwrap(), first);
}

#[test]
fn an_arm_that_is_not_installed_is_left_out_with_its_reason() {
    let missing = Some("/nonexistent/mosquitto".into());
    let options = Options {
        mosquitto_program: missing,
        arms: vec![ArmKind::Mosquitto, ArmKind::TcpEcho],
        ..options()
    };
    let run = measure(options.clone(), &mut Quiet);
    assert_eq!(
        (run.skipped[0].arm.as_str(), run.arms[0].name.as_str()),
        ("mosquitto", "tcp-echo")
    );
    assert!(
        run.skipped[0].reason.starts_with("--mosquitto mosquitto: no such file"),
        "{}",
        run.skipped[0].reason
    );
    let wanted = Plan::new(
        Options {
            baseline: Some(ArmKind::Mosquitto),
            ..options
        },
        None,
    )
    .unwrap();
    let error = evaluate::rtt::run(&wanted, &super::bench::helper(), &mut Quiet).unwrap_err();
    assert!(error.to_string().contains("mosquitto"), "{error}");
}

#[test]
fn a_target_is_reached_with_its_password_under_tls_and_in_version_5_and_the_password_is_written_nowhere() {
    let Some(broker) = broker::start_secure("ann", "p@ss:word") else {
        return;
    };
    let options = Options {
        arms: vec![
            format!("mqtts://ann:p@ss:word@localhost:{}", broker.port())
                .parse()
                .unwrap(),
        ],
        ca: Some(broker.authority()),
        protocol: Protocol::V5,
        qos: vec![1, 2],
        devices: vec![3],
        ..options()
    };
    let run = measure(options.clone(), &mut Quiet);
    all_laws_hold(&run);
    everything_was_answered(&run);
    assert!(run.arms[0].settings.ends_with("MQTT 5.0"), "{}", run.arms[0].settings);
    let text = serde_json::to_string(&run).unwrap();
    assert!(text.contains("mqtts://ann@localhost") && !text.contains("p@ss"));
    let wrong = Options {
        arms: vec![
            format!("mqtts://ann:wrong@localhost:{}", broker.port())
                .parse()
                .unwrap(),
        ],
        ..options
    };
    let run = measure(wrong, &mut Quiet);
    assert!(
        run.blocks.is_empty() && run.skipped[0].reason.contains("refused"),
        "{:?}",
        run.skipped
    );
}

#[test]
fn the_knee_of_a_relay_is_searched_for_and_the_rates_tried_are_kept() {
    let options = Options {
        preset: Some(Preset::Knee),
        arms: vec![ArmKind::Relay],
        blocks: Some(1),
        duration_us: Some(100_000),
        // Whatever this machine does meanwhile, from some rate on the tenth part of a millisecond is not kept.
        knee_p99_us: Some(100),
        seed: Some(1),
        ..Options::default()
    };
    let run = measure(options, &mut Quiet);
    assert_eq!(run.experiment, "knee");
    for arm in 0..run.arms.len() {
        let steps: Vec<_> = run.search.iter().filter(|step| step.arm == arm).collect();
        let last = steps.last().unwrap();
        let confirmed = last.confirming && last.held == Some(true);
        let failed = steps.iter().filter(|step| step.confirming && step.held != Some(true));
        let at_the_lowest = run.cells[last.cell].interval_us == Some(800_000);
        assert!(confirmed || at_the_lowest || failed.count() == 3, "{steps:?}");
        assert!(
            steps
                .iter()
                .flat_map(|step| &step.blocks)
                .all(|block| run.blocks[*block].arm == arm)
        );
    }
    let findings = Findings::of(vec![Raw::RoundTrip(Box::new(run))]);
    assert_eq!(findings.experiments[0].knees.len(), 2, "the relay and the relay again");
    let table = report::table(&findings);
    assert!(table.contains("highest rate with p99 ≤ 100 µs"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
}
