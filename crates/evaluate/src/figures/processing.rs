//! The first paper's claims on what models cost, tested for shape (rule 13).

use super::claims::{ClaimVerdict, Finding, Shape, each_tested, not_measured, worst_of};
use super::{Paper, ProcessingCheck};
use crate::processing::{Job, Model, Place, Row, Task};
use crate::report::words;
use crate::stats::{Estimate, Method, equivalent};

/// All claims of a paper on what models cost.
pub fn claims_of_processing(paper: &Paper, rows: &[Row]) -> Vec<ClaimVerdict> {
    each_tested(&paper.processing_claims, |check| {
        let found = findings(check, rows);
        match found.is_empty() {
            true => vec![not_measured("no cells that it takes")],
            false => found,
        }
    })
}

fn findings(check: &ProcessingCheck, rows: &[Row]) -> Vec<Finding> {
    match check {
        ProcessingCheck::Same {
            models,
            task,
            places,
            within,
        } => each(places, |place| {
            let ratios = of(rows, models, *task, place);
            tested(&ratios, |ratio| match equivalent(ratio, *within) {
                Ok(true) => Shape::Agrees,
                Ok(false) => Shape::Differs,
                Err(_) => Shape::Undecided,
            })
        }),
        ProcessingCheck::Longer {
            models,
            task,
            places,
            times,
        } => each(places, |place| {
            tested(&of(rows, models, *task, place), |ratio| beyond(ratio, *times))
        }),
        ProcessingCheck::Faster { task } => each(&[Place::Cloud], |place| {
            tested(&of(rows, &Model::ALL, *task, place), |ratio| {
                beyond(&inverse(ratio), 1.0)
            })
        }),
    }
}

fn each(places: &[Place], test: impl Fn(Place) -> Option<(Shape, String)>) -> Vec<Finding> {
    let of_place = |place: &Place| {
        let (shape, words) = test(*place)?;
        Some(Finding {
            arm: Some(place.name().to_owned()),
            shape,
            words,
        })
    };
    places.iter().filter_map(of_place).collect()
}

/// How many times as long as on the host, model by model.
fn of(rows: &[Row], models: &[Model], task: Task, place: Place) -> Vec<(Model, Estimate)> {
    let ratio = |model: &Model| {
        let job = Job {
            model: *model,
            task,
            place,
        };
        let row = rows.iter().find(|row| row.job == job)?;
        Some((*model, row.against_host?.ratio?))
    };
    models.iter().filter_map(ratio).collect()
}

/// All models together: one of another shape makes all of another.
fn tested(ratios: &[(Model, Estimate)], shape: impl Fn(&Estimate) -> Shape) -> Option<(Shape, String)> {
    let shapes = ratios.iter().map(|(_, ratio)| shape(ratio));
    let shown = ratios
        .iter()
        .map(|(model, ratio)| format!("{}: {} × host", model.name(), words::ratio(ratio)));
    Some((worst_of(shapes)?, shown.collect::<Vec<_>>().join(", ")))
}

/// Whether all of an interval is above a bound; a range carries no confidence.
fn beyond(ratio: &Estimate, bound: f64) -> Shape {
    let interval = ratio.interval;
    match interval.method {
        Method::Range => Shape::Undecided,
        _ if interval.low > bound => Shape::Agrees,
        _ if interval.high <= bound => Shape::Differs,
        _ => Shape::Undecided,
    }
}

fn inverse(ratio: &Estimate) -> Estimate {
    let mut inverse = *ratio;
    inverse.value = ratio.value.recip();
    (inverse.interval.low, inverse.interval.high) = (ratio.interval.high.recip(), ratio.interval.low.recip());
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::client_perspective;
    use crate::processing::{summarise, trainings};

    fn shapes(places: &[(Place, f64)], id: &str) -> Vec<(String, Shape)> {
        let all = claims_of_processing(&client_perspective(), &summarise(&trainings(places)));
        let claim = all.into_iter().find(|claim| claim.id == id).unwrap();
        let named = claim.findings.into_iter();
        named
            .map(|finding| (finding.arm.unwrap_or_default(), finding.shape))
            .collect()
    }

    #[test]
    fn a_container_that_takes_as_long_agrees_and_a_slower_one_differs() {
        let places = [(Place::Host, 2.0), (Place::Oci, 2.02), (Place::Docker, 2.8)];
        assert_eq!(
            shapes(&places, "c0.e2.training.same"),
            [("oci".to_owned(), Shape::Agrees), ("docker".to_owned(), Shape::Differs)]
        );
        assert_eq!(
            shapes(&places, "c0.e2.lstm.prediction"),
            [(String::new(), Shape::NotMeasured)]
        );
    }

    #[test]
    fn a_cloud_side_is_to_be_faster_by_the_whole_interval() {
        let of = |cloud_s| shapes(&[(Place::Host, 2.0), (Place::Cloud, cloud_s)], "c0.e2.cloud.training")[0].1;
        assert_eq!(of(0.4), Shape::Agrees);
        assert_eq!(of(2.5), Shape::Differs);
    }
}
