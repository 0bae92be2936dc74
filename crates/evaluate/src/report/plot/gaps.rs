//! Systems against what is asked of them on a scale of powers of ten, as the first paper's Fig. 8.

use super::frame::WIDTH;
use super::scale::{Kind, Scale};
use super::svg::{Anchor, Svg};

/// One system's figure.
pub(crate) struct Gap {
    /// Whose.
    pub(crate) label: String,
    /// Colour class.
    pub(crate) class: String,
    /// The figure.
    pub(crate) value: f64,
    /// The figure in words.
    pub(crate) words: String,
}

const ROW: f64 = 22.0;
const TOP: f64 = 20.0;
const ACROSS: (f64, f64) = (230.0, WIDTH - 110.0);

/// Draws the figures, one a row, and a line at what is asked for; `None` without a positive figure.
pub(crate) fn gaps(rows: &[Gap], asked: f64, asked_words: &str) -> Option<String> {
    let rows: Vec<&Gap> = rows
        .iter()
        .filter(|row| row.value.is_finite() && row.value > 0.0)
        .collect();
    if rows.is_empty() {
        return None;
    }
    let values = rows.iter().map(|row| row.value);
    let (low, high) = values.fold((asked, asked), |(low, high), value| (low.min(value), high.max(value)));
    let x = Scale::new(Kind::Log, (low / 2.0, high * 1.5), ACROSS);
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 8.0);
    for (number, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (number as f64 + 0.5);
        let end = x.at(row.value);
        svg.text((ACROSS.0 - 12.0, y + 4.0), Anchor::End, "tick", &row.label);
        svg.rect(
            (ACROSS.0, y - 6.0),
            (end - ACROSS.0, 12.0),
            &format!("box {}", row.class),
        );
        svg.text((end + 8.0, y + 4.0), Anchor::Start, "tick", &row.words);
    }
    let at = x.at(asked);
    svg.line((at, TOP - 4.0), (at, bottom), "one");
    svg.text((at, TOP - 8.0), Anchor::Middle, "axis", asked_words);
    svg.line((ACROSS.0, TOP), (ACROSS.0, bottom), "rule");
    Some(svg.finish(asked_words))
}
