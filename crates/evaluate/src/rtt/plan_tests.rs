use super::*;
use std::time::Duration;

use crate::network::{Bandwidth, LinePlan, Means};
use crate::rtt::Preset;

fn plan(options: Options) -> Result<Plan, PlanError> {
    Plan::new(options, None)
}

#[test]
fn the_baseline_is_the_arm_asked_for_else_mosquitto_else_the_first() {
    let baseline = |arms: &[ArmKind], baseline: Option<ArmKind>| {
        let plan = plan(Options {
            arms: arms.to_vec(),
            baseline,
            ..Options::default()
        })
        .unwrap();
        plan.arms()[plan.baseline()].clone()
    };
    let brokers = [ArmKind::Selvedge, ArmKind::Mosquitto];
    assert_eq!(baseline(&brokers, None), ArmKind::Mosquitto);
    assert_eq!(baseline(&brokers, Some(ArmKind::Relay)), ArmKind::Relay);
    assert_eq!(baseline(&[ArmKind::TcpEcho], None), ArmKind::TcpEcho);
}

#[test]
fn the_demo_takes_about_ninety_seconds() {
    let plan = plan(Options {
        preset: Some(Preset::Demo),
        ..Options::default()
    })
    .unwrap();
    assert!((75..100).contains(&plan.estimate().as_secs()), "{:?}", plan.estimate());
}

#[test]
fn presets_take_the_time_that_their_help_says() {
    let cases = [
        (Preset::Closed, 5),
        (Preset::ClosedTls, 3),
        (Preset::Fleet, 4),
        (Preset::Crowd, 5),
        (Preset::Knee, 3),
        (Preset::Paper, 65),
        (Preset::Link, 13),
        (Preset::DemoModels, 2),
    ];
    for (preset, minutes) in cases {
        let plan = plan(Options {
            preset: Some(preset),
            ..Options::default()
        })
        .unwrap();
        let found = plan.estimate().as_secs_f64() * f64::from(plan.runs()) / 60.0;
        assert!(
            (found - f64::from(minutes)).abs() <= 1.5,
            "{preset:?} takes {found:.1} min"
        );
    }
}

#[test]
fn lists_are_swept_as_their_cross_product_and_no_cell_twice() {
    let options = Options {
        qos: vec![0, 1],
        payload_bytes: vec![64, 1_000],
        ..Options::default()
    };
    assert_eq!(plan(options).unwrap().cells().len(), 4);
    let one = Options {
        preset: Some(Preset::Paper),
        interval_us: vec![200_000],
        qos: vec![1],
        ..Options::default()
    };
    let (all, cells) = (plan(one.clone()).unwrap(), plan(one).unwrap());
    assert!(
        all.cells()
            .iter()
            .enumerate()
            .all(|(i, cell)| !cells.cells()[..i].contains(cell))
    );
}

#[test]
fn a_long_interval_lengthens_the_block_to_fifteen_messages() {
    let options = Options {
        interval_us: vec![5_000_000],
        devices: vec![1],
        ..Options::default()
    };
    assert_eq!(plan(options).unwrap().cells()[0].duration_us, 75_000_000);
}

#[test]
fn what_cannot_be_is_refused_with_its_value() {
    let cases = [
        (
            Options {
                payload_bytes: vec![4],
                ..Options::default()
            },
            "--payload 4",
        ),
        (
            Options {
                devices: vec![0],
                ..Options::default()
            },
            "--devices 0",
        ),
        (
            Options {
                qos: vec![3],
                ..Options::default()
            },
            "--qos 3",
        ),
        (
            Options {
                blocks: Some(0),
                ..Options::default()
            },
            "--blocks 0",
        ),
        (
            Options {
                load: Some(LoadModel::Trace),
                ..Options::default()
            },
            "--replay",
        ),
        (
            Options {
                bandwidth_bit_per_s: vec![Bandwidth::of(8_000)],
                ..Options::default()
            },
            "--bandwidth is about the network of the models: add --model",
        ),
        (
            Options {
                interval_us: vec![0],
                ..Options::default()
            },
            "--interval 0",
        ),
    ];
    for (options, words) in cases {
        let error = plan(options).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

fn of_models(options: Options) -> Plan {
    let model = vec![ArmKind::DeviceCloud, ArmKind::DeviceEdgeCloud, ArmKind::DeviceEdge];
    plan(Options { model, ..options }).unwrap()
}

fn quick() -> Plan {
    of_models(Options {
        quick: true,
        ..Options::default()
    })
}

#[test]
fn a_quick_run_of_the_models_has_the_points_that_were_asked_for_and_time_to_spare_in_fifteen_minutes() {
    let plan = quick();
    let intervals: Vec<u64> = plan.cells().iter().filter_map(|cell| cell.interval_us).collect();
    for ms in [1, 10, 100, 200] {
        assert!(intervals.contains(&(ms * 1_000)), "{ms} ms");
    }
    let has = |of: &dyn Fn(&Cell) -> bool| plan.cells().iter().any(of);
    assert!(
        [100, 10_000, 250_000]
            .iter()
            .all(|bytes| has(&|cell| cell.payload_bytes == *bytes))
    );
    assert!(
        [1, 20, 1_000]
            .iter()
            .all(|devices| has(&|cell| cell.devices == *devices))
    );
    for rate in [10_000_000, 128_000, 32_000] {
        assert!(
            has(&|cell| cell.wan.unwrap().bandwidth_bit_per_s == Bandwidth::of(rate)),
            "{rate}"
        );
    }
    assert!(plan.estimate() < Duration::from_secs(13 * 60), "{:?}", plan.estimate());
}

#[test]
fn loads_of_models_that_are_named_vary_alone_and_the_rest_is_as_in_the_paper() {
    let plan = of_models(Options {
        interval_us: vec![1_000, 10_000],
        ..Options::default()
    });
    assert_eq!((plan.cells().len(), plan.arms().len()), (2, 3));
    for cell in plan.cells() {
        assert_eq!((cell.payload_bytes, cell.devices, cell.qos), (64, 1, 1));
        assert_eq!(cell.wan.unwrap().round_trip_us, 30_000);
    }
}

#[test]
fn each_load_of_the_models_is_a_part_and_what_does_not_use_the_line_is_measured_over_one_line_alone() {
    let plan = quick();
    let parts = plan.parts();
    assert_eq!(parts.len(), plan.cells().len());
    for part in &parts {
        let [cell] = part.cells() else {
            panic!("one load a part")
        };
        let shaped = cell.wan.unwrap().bandwidth_bit_per_s.bit_per_s.is_some();
        assert_eq!(part.arms().contains(&ArmKind::DeviceEdge), !shaped);
        assert_eq!(part.arms()[part.baseline()], ArmKind::DeviceCloud);
        assert_eq!(
            part.network().unwrap().means,
            Some(Means::Relay),
            "one means for all lines"
        );
    }
    let seeds: Vec<u64> = parts.iter().map(Plan::seed).collect();
    assert!(seeds.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn a_line_without_delay_and_bandwidth_is_a_plain_one() {
    let plan = of_models(Options {
        wan_round_trip_us: vec![0, 5_000],
        ..Options::default()
    });
    let lines: Vec<LinePlan> = plan
        .parts()
        .iter()
        .map(|part| part.network().unwrap().edge_cloud)
        .collect();
    assert!(matches!(lines[..], [LinePlan::Plain, LinePlan::Emulated(settings)] if settings.round_trip_us == 5_000));
}

#[test]
fn where_no_line_can_be_varied_what_differs_in_it_alone_is_measured_once() {
    let plan = quick();
    let shaped = |cell: &&Cell| cell.wan.unwrap().bandwidth_bit_per_s.bit_per_s.is_some();
    let unshaped = plan.cells().len() - plan.cells().iter().filter(shaped).count();
    let without = plan.without_line();
    assert_eq!(without.cells().len(), unshaped);
    assert!(
        without
            .parts()
            .iter()
            .all(|part| part.arms().contains(&ArmKind::DeviceEdge))
    );
}
