//! Plots as inline SVG. Colours come from the page's style, so that they follow light, dark and print.

mod box_plot;
mod frame;
mod gaps;
mod lines;
mod ratios;
mod scale;
mod svg;

pub(crate) use box_plot::{Category, box_plot};
pub(crate) use frame::Upwards;
pub(crate) use gaps::{Gap, gaps};
pub(crate) use lines::{Line, Lines, Stroke, lines};
pub(crate) use ratios::{Bar, ratios};
pub(crate) use scale::Kind;
pub(crate) use svg::escaped;
