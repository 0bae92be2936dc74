//! Ratios with their intervals against 1 and the noise of the machine.

use super::frame::WIDTH;
use super::scale::{Kind, Scale};
use super::svg::{Anchor, Svg};
use crate::stats::{Estimate, Interval};

/// One ratio.
pub(crate) struct Bar {
    /// What is compared.
    pub(crate) label: String,
    /// Colour class.
    pub(crate) class: String,
    /// The ratio.
    pub(crate) ratio: Estimate,
    /// What follows, in words.
    pub(crate) verdict: String,
    /// The machine against itself under the same load.
    pub(crate) noise: Option<Interval>,
}

const ROW: f64 = 24.0;
const TOP: f64 = 22.0;
const ACROSS: (f64, f64) = (200.0, WIDTH - 120.0);
/// Ratios beyond this, either way, are drawn at the edge.
const FURTHEST: f64 = 200.0;
const FINE: [f64; 11] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0];
const COARSE: [f64; 13] = [0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 200.0];

/// Draws the ratios, one a row; `None` without a finite one.
pub(crate) fn ratios(bars: &[Bar]) -> Option<String> {
    let bars: Vec<&Bar> = bars
        .iter()
        .filter(|bar| bar.ratio.value.is_finite() && bar.ratio.value > 0.0)
        .collect();
    let ends = bars.iter().flat_map(|bar| {
        let Estimate { value, interval } = bar.ratio;
        let noise = bar.noise.map_or([1.0; 2], |noise| [noise.low, noise.high]);
        [value, interval.low, interval.high, noise[0], noise[1], 0.95, 1.05]
    });
    let ends = ends.filter(|end| end.is_finite() && *end > 0.0);
    let (low, high) = ends.fold((1.0f64, 1.0f64), |(low, high), end| (low.min(end), high.max(end)));
    if bars.is_empty() {
        return None;
    }
    let (low, high) = (low.max(FURTHEST.recip()) / 1.03, high.min(FURTHEST) * 1.03);
    let x = Scale::new(Kind::Log, (low, high), ACROSS);
    let bottom = TOP + ROW * bars.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 44.0);
    for (row, bar) in bars.iter().enumerate() {
        draw(&mut svg, &x, TOP + ROW * (row as f64 + 0.5), bar);
    }
    axis(&mut svg, &x, (low, high), bottom);
    Some(svg.finish("Ratios with 95 % intervals; left of 1 is faster"))
}

fn axis(svg: &mut Svg, x: &Scale, (low, high): (f64, f64), bottom: f64) {
    let marks = if high / low < 4.0 {
        FINE.as_slice()
    } else {
        COARSE.as_slice()
    };
    for mark in marks.iter().filter(|mark| **mark >= low && **mark <= high) {
        let at = x.at(*mark);
        svg.line((at, TOP), (at, bottom), if *mark == 1.0 { "one" } else { "grid" });
        svg.text((at, bottom + 17.0), Anchor::Middle, "tick", &format!("{mark} ×"));
    }
    svg.text((ACROSS.0, 13.0), Anchor::Start, "axis", "← faster");
    svg.text((ACROSS.1, 13.0), Anchor::End, "axis", "slower →");
    svg.text(
        (f64::midpoint(ACROSS.0, ACROSS.1), bottom + 37.0),
        Anchor::Middle,
        "axis",
        "ratio to the baseline (log); shaded: the machine against itself",
    );
}

fn draw(svg: &mut Svg, x: &Scale, y: f64, bar: &Bar) {
    let interval = bar.ratio.interval;
    if let Some(noise) = bar.noise {
        let (low, high) = (x.at(noise.low), x.at(noise.high));
        svg.rect((low, y - ROW / 2.0), ((high - low).max(1.0), ROW), "noise");
    }
    let (low, high) = (x.at(interval.low), x.at(interval.high));
    let stroke = format!("interval {}", bar.class);
    svg.line((low, y), (high, y), &stroke);
    for end in [low, high] {
        svg.line((end, y - 5.0), (end, y + 5.0), &stroke);
    }
    svg.circle(
        (x.at(bar.ratio.value), y),
        4.0,
        &format!("mark {}", bar.class),
        &format!("{:.3}", bar.ratio.value),
    );
    svg.text((ACROSS.0 - 12.0, y + 4.0), Anchor::End, "tick", &bar.label);
    svg.text((ACROSS.1 + 12.0, y + 4.0), Anchor::Start, "tick", &bar.verdict);
}
