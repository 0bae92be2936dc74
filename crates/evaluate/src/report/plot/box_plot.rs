//! Boxes as in the papers' figures: white circle the average, notch the median, dots the outliers.

use super::frame::{ACROSS, Frame, Upwards};
use super::svg::{Anchor, Svg};
use crate::report::{BoxStatistics, words};
use crate::stats::Interval;

/// Boxes that stand together over one value of the swept parameter.
pub(crate) struct Category<'a> {
    /// The value.
    pub(crate) label: String,
    /// Colour class, name and box.
    pub(crate) boxes: Vec<(String, &'a str, &'a BoxStatistics)>,
}

/// Boxes of all categories over one axis of durations, which are of `what`; `None` without a box.
pub(crate) fn box_plot(categories: &[Category<'_>], label: &str, what: &str) -> Option<String> {
    let boxes = || {
        categories
            .iter()
            .flat_map(|category| &category.boxes)
            .map(|(_, _, boxed)| *boxed)
    };
    let values = boxes().flat_map(|b| {
        [b.low_us, b.high_us, b.mean_us]
            .into_iter()
            .chain(b.dots_us.iter().copied())
    });
    let mut frame = Frame::new(360.0, values, &Upwards::durations(what))?;
    let room = (ACROSS.1 - ACROSS.0) / categories.len() as f64;
    for (number, category) in categories.iter().enumerate() {
        let left = ACROSS.0 + number as f64 * room;
        frame.svg.text(
            (left + room / 2.0, frame.bottom + 17.0),
            Anchor::Middle,
            "tick",
            &category.label,
        );
        let each = (room * 0.84 / category.boxes.len().max(1) as f64).min(64.0);
        let start = left + (room - each * category.boxes.len() as f64) / 2.0;
        for (place, (class, name, boxed)) in category.boxes.iter().enumerate() {
            let middle = start + (place as f64 + 0.5) * each;
            draw(&mut frame, middle, each * 0.36, class, boxed);
            let (low, high) = (frame.y.at(boxed.low_us), frame.y.at(boxed.high_us));
            tip(
                &mut frame.svg,
                middle,
                each * 0.4,
                (low, high),
                &category.label,
                name,
                boxed,
            );
        }
    }
    frame.under(label);
    Some(frame.svg.finish(&format!("Box plot of the {what} over {label}")))
}

/// `half` is half the box's width.
fn draw(frame: &mut Frame, x: f64, half: f64, class: &str, boxed: &BoxStatistics) {
    let y = |us: f64| frame.y.at(us);
    let (lower, median, upper) = (y(boxed.lower_us), y(boxed.median_us), y(boxed.upper_us));
    let stroke = format!("whisker {class}");
    frame.svg.line((x, lower), (x, y(boxed.low_us)), &stroke);
    frame.svg.line((x, upper), (x, y(boxed.high_us)), &stroke);
    for end in [boxed.low_us, boxed.high_us] {
        frame
            .svg
            .line((x - half / 2.0, y(end)), (x + half / 2.0, y(end)), &stroke);
    }
    for dot in &boxed.dots_us {
        frame.svg.circle((x, y(*dot)), 1.5, &format!("dot {class}"), "");
    }
    let notch = boxed
        .notch
        .map_or((median, median), |Interval { low, high, .. }| (y(low), y(high)));
    frame.svg.area(
        &outline(x, half, (lower, upper), median, notch),
        &format!("box {class}"),
    );
    frame
        .svg
        .line((x - half * 0.55, median), (x + half * 0.55, median), "median");
    frame
        .svg
        .circle((x, y(boxed.mean_us)), (half * 0.35).clamp(1.8, 4.0), "mean", "");
}

/// A box that narrows to its median between the ends of the notch.
fn outline(x: f64, half: f64, (lower, upper): (f64, f64), median: f64, notch: (f64, f64)) -> [(f64, f64); 10] {
    let (wide, narrow) = (half, half * 0.55);
    // Upwards is smaller: the notch stays within the box.
    let (low, high) = (notch.0.min(lower), notch.1.max(upper));
    [
        (x - wide, lower),
        (x - wide, low),
        (x - narrow, median),
        (x - wide, high),
        (x - wide, upper),
        (x + wide, upper),
        (x + wide, high),
        (x + narrow, median),
        (x + wide, low),
        (x + wide, lower),
    ]
}

fn tip(svg: &mut Svg, x: f64, half: f64, (low, high): (f64, f64), label: &str, name: &str, boxed: &BoxStatistics) {
    let words = format!(
        "{name}, {label}: median {}, quartiles {} … {}, mean {}, {} outliers",
        words::duration(boxed.median_us),
        words::duration(boxed.lower_us),
        words::duration(boxed.upper_us),
        words::duration(boxed.mean_us),
        words::count(boxed.outliers as u64)
    );
    svg.hover(
        (x - half, high.min(low)),
        (2.0 * half, (low - high).abs().max(4.0)),
        &words,
    );
}
