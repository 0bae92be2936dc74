//! The frame around a plot: axes, grid and their labels.

use super::scale::{Kind, Scale, range};
use super::svg::{Anchor, Svg};
use crate::report::words;

/// Width of every plot, in the drawing's units.
pub(super) const WIDTH: f64 = 860.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// Left and right edge of what is drawn in a frame.
pub(super) const ACROSS: (f64, f64) = (LEFT, WIDTH - RIGHT);

/// A frame with a vertical axis of durations.
pub(super) struct Frame {
    pub(super) svg: Svg,
    pub(super) y: Scale,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// With durations in µs upwards; `None` where no value is positive and finite.
    pub(super) fn durations(height: f64, values: impl Iterator<Item = f64>, label: &str) -> Option<Frame> {
        let (kind, domain) = range(values)?;
        let (top, bottom) = (TOP, height - BOTTOM);
        let y = Scale::new(kind, domain, (bottom, top));
        let mut svg = Svg::new(WIDTH, height);
        for tick in y.ticks() {
            let at = y.at(tick);
            svg.line((ACROSS.0, at), (ACROSS.1, at), "grid");
            svg.text((ACROSS.0 - 8.0, at + 4.0), Anchor::End, "tick", &words::duration(tick));
        }
        let log = if kind == Kind::Log { " (log)" } else { "" };
        svg.upright((16.0, f64::midpoint(top, bottom)), "axis", &format!("{label}{log}"));
        svg.line((ACROSS.0, bottom), (ACROSS.1, bottom), "rule");
        Some(Frame { svg, y, top, bottom })
    }

    /// Marks the horizontal axis at the ticks of `x`.
    pub(super) fn across(&mut self, x: &Scale, text: impl Fn(f64) -> String, label: &str) {
        for tick in x.ticks() {
            let at = x.at(tick);
            self.svg.line((at, self.top), (at, self.bottom), "grid");
            self.svg
                .text((at, self.bottom + 17.0), Anchor::Middle, "tick", &text(tick));
        }
        self.under(label);
    }

    /// The horizontal axis' label.
    pub(super) fn under(&mut self, label: &str) {
        self.svg.text(
            (f64::midpoint(ACROSS.0, ACROSS.1), self.bottom + 38.0),
            Anchor::Middle,
            "axis",
            label,
        );
    }
}
