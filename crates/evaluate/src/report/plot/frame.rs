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

/// What a vertical axis shows.
#[derive(Clone, Copy)]
pub(crate) struct Upwards<'a> {
    label: &'a str,
    words: fn(f64) -> String,
    /// Whether it begins at zero, however far apart the values are.
    is_from_zero: bool,
}

impl<'a> Upwards<'a> {
    /// Durations in µs, by their logarithm where they are far apart.
    pub(crate) const fn durations(label: &'a str) -> Upwards<'a> {
        Upwards {
            label,
            words: words::duration,
            is_from_zero: false,
        }
    }

    /// Amounts of something, from zero, each tick in `words`.
    pub(crate) const fn amounts(label: &'a str, words: fn(f64) -> String) -> Upwards<'a> {
        Upwards {
            label,
            words,
            is_from_zero: true,
        }
    }

    pub(super) fn label(&self) -> &'a str {
        self.label
    }

    pub(super) fn words(&self, value: f64) -> String {
        (self.words)(value)
    }
}

/// A frame with a vertical axis.
pub(super) struct Frame {
    pub(super) svg: Svg,
    pub(super) y: Scale,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// `None` where no value is positive and finite.
    pub(super) fn new(height: f64, values: impl Iterator<Item = f64>, upwards: &Upwards<'_>) -> Option<Frame> {
        let (kind, domain) = match range(values)? {
            (_, (_, high)) if upwards.is_from_zero => (Kind::Linear, (0.0, high)),
            found => found,
        };
        let (top, bottom) = (TOP, height - BOTTOM);
        let y = Scale::new(kind, domain, (bottom, top));
        let mut svg = Svg::new(WIDTH, height);
        for tick in y.ticks() {
            let at = y.at(tick);
            svg.line((ACROSS.0, at), (ACROSS.1, at), "grid");
            svg.text((ACROSS.0 - 8.0, at + 4.0), Anchor::End, "tick", &upwards.words(tick));
        }
        let log = if kind == Kind::Log { " (log)" } else { "" };
        svg.upright(
            (16.0, f64::midpoint(top, bottom)),
            "axis",
            &format!("{}{log}", upwards.label),
        );
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
