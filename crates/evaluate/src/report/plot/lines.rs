//! Lines over a horizontal axis: percentile spectra, curves over the message index, load against latency.

use super::frame::{ACROSS, Frame, Upwards};
use super::scale::{Kind, Scale};

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// Full width.
    Solid,
    /// Thin and dashed: the second percentile of the same arm.
    Dashed,
}

/// A line of one arm.
pub(crate) struct Line {
    /// Colour class.
    pub(crate) class: String,
    /// How it is drawn.
    pub(crate) stroke: Stroke,
    /// Horizontal and vertical value.
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether each point is marked.
    pub(crate) marked: bool,
    /// Horizontal value to mark as a knee.
    pub(crate) knee: Option<f64>,
}

/// A plot of lines.
pub(crate) struct Lines<'a> {
    /// The lines.
    pub(crate) lines: Vec<Line>,
    /// Spread of the horizontal axis.
    pub(crate) across: Kind,
    /// Label of the horizontal axis.
    pub(crate) label: &'a str,
    /// The vertical axis.
    pub(crate) upwards: Upwards<'a>,
    /// Words of a horizontal tick.
    pub(crate) tick: fn(f64) -> String,
    /// Height in the drawing's units.
    pub(crate) height: f64,
}

/// Draws the lines; `None` without a point.
pub(crate) fn lines(plot: &Lines<'_>) -> Option<String> {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let mut frame = Frame::new(plot.height, points().map(|(_, value)| *value), &plot.upwards)?;
    let (low, high) = points().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (x, _)| {
        (low.min(*x), high.max(*x))
    });
    let domain = match plot.across {
        Kind::Linear => (0.0, high),
        Kind::Log => (low / 1.15, high * 1.15),
        Kind::Percentile => (0.0, high),
    };
    let x = Scale::new(plot.across, domain, ACROSS);
    frame.across(&x, plot.tick, plot.label);
    for line in &plot.lines {
        draw(&mut frame, &x, line, &plot.upwards);
    }
    Some(
        frame
            .svg
            .finish(&format!("{} over {}", plot.upwards.label(), plot.label)),
    )
}

fn draw(frame: &mut Frame, x: &Scale, line: &Line, upwards: &Upwards<'_>) {
    let placed: Vec<(f64, f64)> = line
        .points
        .iter()
        .map(|(value, us)| (x.at(*value), frame.y.at(*us)))
        .collect();
    let stroke = if line.stroke == Stroke::Solid {
        "line"
    } else {
        "line dashed"
    };
    frame.svg.path(&placed, &format!("{stroke} {}", line.class));
    if line.marked {
        for (place, (_, us)) in placed.iter().zip(&line.points) {
            frame
                .svg
                .circle(*place, 2.6, &format!("mark {}", line.class), &upwards.words(*us));
        }
    }
    if let Some((value, us)) = line
        .knee
        .and_then(|knee| line.points.iter().find(|(value, _)| *value == knee))
    {
        frame.svg.circle(
            (x.at(*value), frame.y.at(*us)),
            7.0,
            &format!("knee {}", line.class),
            "knee",
        );
    }
}
