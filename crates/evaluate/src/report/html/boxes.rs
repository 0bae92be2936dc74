//! Box plots as in the papers' figures.

use super::page::{Page, class, legend_of, originals};
use super::words;
use crate::report::plot::{Category, box_plot};
use crate::report::{BoxStatistics, CellSummary, Summary, Swept, plain};

/// Boxes over each swept parameter, and of the loads that belong to no sweep.
pub(super) fn section(page: &mut Page, summary: &Summary) {
    page.heading("boxes", "Box plots");
    page.paragraph(
        "As in the paper's figures: the white circle is the average of the answered, the line in the notch the median, \
         the notch its interval; whiskers reach 1.5 times the box, dots are outliers (at most 40 a box drawn, evenly \
         by rank).",
    );
    for sweep in &summary.sweeps {
        let label = |cell: &CellSummary| words::swept_value(sweep.swept, &cell.cell);
        let cells: Vec<&CellSummary> = sweep.cells.iter().map(|cell| &summary.cells[*cell]).collect();
        page.subheading(&format!(
            "Over {}{}: {}",
            words::swept(sweep.swept),
            figure_of_paper(summary, sweep.swept),
            words::others(sweep.swept, &cells[0].cell)
        ));
        for group in beside(summary) {
            let measured = cells
                .iter()
                .filter(|cell| group.iter().any(|arm| cell.arm(*arm).is_some()));
            if measured.count() >= 2 {
                boxes_of(page, summary, (&cells, &group), label, words::swept(sweep.swept));
            }
        }
    }
    let alone = |number: &usize| !summary.sweeps.iter().any(|sweep| sweep.cells.contains(number));
    for number in (0..summary.cells.len()).filter(alone) {
        let cell = &summary.cells[number];
        for group in beside(summary) {
            boxes_of(
                page,
                summary,
                (&[cell], &group),
                |_| String::new(),
                &words::cell(&cell.cell),
            );
        }
    }
}

/// Over one load the arms stand apart, over several those of one load together.
fn boxes_of(
    page: &mut Page,
    summary: &Summary,
    (cells, arms): (&[&CellSummary], &[usize]),
    label: impl Fn(&CellSummary) -> String,
    axis: &str,
) {
    let categories: Vec<Category<'_>> = match cells {
        [cell] => boxes(summary, cell, arms)
            .map(|boxed| Category {
                label: boxed.1.to_owned(),
                boxes: vec![boxed],
            })
            .collect(),
        cells => {
            let together = |label, cell| Category {
                label,
                boxes: boxes(summary, cell, arms).collect(),
            };
            cells.iter().map(|cell| together(label(cell), cell)).collect()
        }
    };
    if let Some(svg) = box_plot(&categories, axis, "round trip") {
        page.figure(
            &svg,
            &legend_of(summary, arms),
            "Rest the pointer on a box for its figures.",
        );
    }
}

/// Which figure of the first paper has the models over this parameter.
fn figure_of_paper(summary: &Summary, swept: Swept) -> &'static str {
    if plain::models(summary).is_empty() {
        return "";
    }
    match swept {
        Swept::Interval => " (the paper's Fig. 4 a to e)",
        Swept::Payload => " (Fig. 5 a to d)",
        Swept::Bandwidth => " (Fig. 5 e, f)",
        Swept::Devices => " (Fig. 5 g to i)",
        Swept::Qos => " (Fig. 6)",
        Swept::Concurrency | Swept::Delay => "",
    }
}

/// Arms whose boxes share an axis: all of them, but a model by itself, as in the paper's figures: beside the way to the
/// cloud, that to the edge would be a line at the bottom.
fn beside(summary: &Summary) -> Vec<Vec<usize>> {
    let (models, others): (Vec<usize>, Vec<usize>) = originals(summary)
        .map(|(number, _)| number)
        .partition(|number| summary.arms[*number].is_model());
    let alone = models.into_iter().map(|model| vec![model]);
    alone.chain((!others.is_empty()).then_some(others)).collect()
}

/// Colour class, name and box of these arms.
fn boxes<'a>(
    summary: &'a Summary,
    cell: &'a CellSummary,
    arms: &[usize],
) -> impl Iterator<Item = (String, &'a str, &'a BoxStatistics)> {
    let drawn = cell.arms.iter().filter(|result| arms.contains(&result.arm));
    drawn.filter_map(|result| {
        Some((
            class(result.arm),
            summary.arms[result.arm].name.as_str(),
            result.shapes.boxed.as_ref()?,
        ))
    })
}
