//! Answers to first requests by runtime and state; what containers take over time.

use crate::gateway::{ANSWERING, Curve, GatewayRun, day_memory, first_requests, work_cpu, work_memory};
use crate::report::html::page::{Page, class, keyed};
use crate::report::html::words;
use crate::report::plot::{Category, Kind, Line, Lines, Stroke, Upwards, box_plot, lines};
use crate::report::{BoxStatistics, boxed};
use crate::stats::sorted;

/// Each plot for which there is something.
pub(super) fn section(page: &mut Page, run: &GatewayRun) {
    answers(page, run);
    let minutes = "minute of the paper's test";
    over_time(
        page,
        &work_cpu(run),
        (minutes, Upwards::amounts("of a core", percent)),
        "The gateway at work: processor time of each container over time, in the first block. All three sleep until the first \
         packet starts them.",
    );
    over_time(
        page,
        &work_memory(run),
        (minutes, Upwards::amounts("memory", words::bytes)),
        "The gateway at work: memory of each container over time, in the first block.",
    );
    over_time(
        page,
        &day_memory(run),
        ("hour of the day", Upwards::amounts("memory", words::bytes)),
        "A day of requests: memory of the edge with its applications, on demand and always on, in the first block.",
    );
}

fn answers(page: &mut Page, run: &GatewayRun) {
    let found = first_requests(run);
    let boxes: Vec<Vec<(usize, BoxStatistics)>> = found
        .iter()
        .map(|of_state| {
            let of_arm = of_state.arms.iter().filter_map(|(arm, answers_ms)| {
                let answers_us: Vec<f64> = answers_ms.iter().map(|ms| ms * 1e3).collect();
                let place = ANSWERING.iter().position(|other| other == arm)?;
                Some((place, boxed(&sorted(&answers_us), None)?))
            });
            of_arm.collect()
        })
        .collect();
    let categories: Vec<Category<'_>> = found
        .iter()
        .zip(&boxes)
        .map(|(of_state, boxes)| Category {
            label: of_state.state.to_owned(),
            boxes: boxes
                .iter()
                .map(|(place, boxed)| (class(*place), ANSWERING[*place].name(), boxed))
                .collect(),
        })
        .collect();
    let keys = ANSWERING.iter().enumerate();
    let drawn = keys.filter(|(place, _)| boxes.iter().flatten().any(|(other, _)| other == place));
    if let Some(svg) = box_plot(
        &categories,
        "what the application was before",
        "answer to the first request",
    ) {
        page.figure(
            &svg,
            &keyed(drawn.map(|(place, arm)| (place, arm.name().to_owned()))),
            "Answers to first requests, all blocks together: white circle the average, line the median, whiskers 1.5 times the \
             box, dots what lies beyond. Rest the pointer on a box for its figures.",
        );
    }
}

fn over_time(page: &mut Page, curves: &[Curve], (label, upwards): (&str, Upwards<'_>), caption: &str) {
    let line = |(place, curve): (usize, &Curve)| Line {
        class: class(place),
        stroke: Stroke::Solid,
        points: curve.points.clone(),
        marked: false,
        knee: None,
    };
    let plot = Lines {
        lines: curves.iter().enumerate().map(line).collect(),
        across: Kind::Linear,
        label,
        upwards,
        tick: words::number_set,
        height: 280.0,
    };
    let keys = curves.iter().map(|curve| curve.name.to_owned()).enumerate();
    if let Some(svg) = lines(&plot) {
        page.figure(&svg, &keyed(keys), caption);
    }
}

fn percent(share: f64) -> String {
    format!("{} %", words::round(share * 100.0))
}
