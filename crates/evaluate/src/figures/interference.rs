//! The interference paper's figures and claims beside ours, the claims tested for shape (rule 13).

use super::beside::{Beside, each_beside};
use super::claims::{ClaimVerdict, Finding, Shape, each_tested, less, not_measured, worst_of};
use super::{InterferenceCheck, LossOf, Paper};
use crate::gateway::Runtime;
use crate::interference::{Case, Figure, Group, Kind, Profile, Row, Summary, lost};
use crate::stats::{Estimate, Interval, Method};

/// What the paper calls limited: no more than this share is lost.
const LIMITED: f64 = 0.1;
const RUNTIMES: [Runtime; 2] = [Runtime::Oci, Runtime::Docker];
const TOGETHER: [Case; 3] = [Case::OneContainer, Case::Unlimited, Case::Limited];

/// All figures of a paper beside a run's.
pub fn beside_interference(paper: &Paper, found: &Summary) -> Vec<Beside> {
    each_beside(paper, |figure| {
        let ours = figure.interference.as_ref()?;
        let of_runtime = |runtime: &Runtime| {
            let rows = Rows {
                found,
                profile: ours.profile,
                runtime: *runtime,
            };
            let row = rows.of(ours.kind, ours.case, ours.group()).next()?;
            Some(format!("{} ({})", lost(row.slower.as_ref()?), runtime.name()))
        };
        let all: Vec<String> = RUNTIMES.iter().filter_map(of_runtime).collect();
        (!all.is_empty()).then(|| all.join(", "))
    })
}

/// All claims of a paper on services that share a board.
pub fn claims_of_interference(paper: &Paper, found: &Summary) -> Vec<ClaimVerdict> {
    each_tested(&paper.interference_claims, |check| {
        let of_runtime = |runtime: &Runtime| finding(check, found, *runtime);
        let all: Vec<Finding> = RUNTIMES.iter().filter_map(of_runtime).collect();
        match all.is_empty() {
            true => vec![not_measured("no cells that it takes")],
            false => all,
        }
    })
}

/// Rows of a board and a runtime.
struct Rows<'a> {
    found: &'a Summary,
    profile: Profile,
    runtime: Runtime,
}

/// What was found, and the figures that say so.
type Found = (Shape, String);

impl<'a> Rows<'a> {
    /// Of a service in a group, those that the paper shows.
    fn of(&self, kind: Kind, case: Case, group: Group) -> impl Iterator<Item = &'a Row> {
        let (profile, runtime) = (self.profile, self.runtime);
        self.found.rows.iter().filter(move |row| {
            let job = row.job;
            (job.profile, job.runtime, job.case, job.group) == (profile, runtime, case, group)
                && row.kind == kind
                && kind.shown().contains(&row.figure)
        })
    }

    /// Every case of every pair that has the service, with what it loses there most.
    fn all(&self, kind: Kind) -> Vec<(Case, Group, Estimate)> {
        let groups = Group::PAIRS.map(|(one, other)| Group::Pair(one, other));
        let groups = groups.into_iter().filter(|group| group.kinds().contains(&kind));
        let each = groups.flat_map(|group| TOGETHER.map(|case| (case, group)));
        each.filter_map(|(case, group)| Some((case, group, self.slower(kind, case, group)?)))
            .collect()
    }

    /// How many times slower, of the figure that is slowest.
    fn slower(&self, kind: Kind, case: Case, group: Group) -> Option<Estimate> {
        let ratios = self.of(kind, case, group).filter_map(|row| row.slower?.ratio);
        ratios.max_by(|one, other| one.value.total_cmp(&other.value))
    }
}

fn finding(check: &InterferenceCheck, found: &Summary, runtime: Runtime) -> Option<Finding> {
    let rows = |profile| Rows {
        found,
        profile,
        runtime,
    };
    let (shape, words) = match check {
        InterferenceCheck::LosesMost(of) => extreme(&rows(of.profile), of, |named, other| below(other, named))?,
        InterferenceCheck::LosesLeast(of) => extreme(&rows(of.profile), of, below)?,
        InterferenceCheck::BetterCase {
            profile,
            kind,
            better,
            than,
        } => better_case(&rows(*profile), *kind, *better, than)?,
        InterferenceCheck::OnlyLoser(of) => only_loser(&rows(of.profile), of)?,
        InterferenceCheck::FasterInput { profile } => faster_input(&rows(*profile))?,
    };
    Some(Finding {
        arm: Some(runtime.name().to_owned()),
        shape,
        words,
    })
}

/// Whether one lies below the other; a range carries no confidence.
fn below(one: &Estimate, other: &Estimate) -> Shape {
    match (one.interval.method, other.interval.method) {
        (Method::Range, _) | (_, Method::Range) => Shape::Undecided,
        _ => less(one, other),
    }
}

/// The one that is named beside all others of the service.
fn extreme(rows: &Rows<'_>, of: &LossOf, shape: impl Fn(&Estimate, &Estimate) -> Shape) -> Option<Found> {
    let all = rows.all(of.kind);
    let is_it = |(case, group, _): &&(Case, Group, Estimate)| *case == of.case && *group == of.group();
    let (_, _, named) = all.iter().find(is_it)?;
    let others: Vec<_> = all.iter().filter(|one| !is_it(one)).collect();
    let shape = worst_of(others.iter().map(|(_, _, other)| shape(named, other)))?;
    Some((shape, words(all.iter())))
}

/// Of each pair, one case loses less than each of the others.
fn better_case(rows: &Rows<'_>, kind: Kind, better: Case, than: &[Case]) -> Option<Found> {
    let all = rows.all(kind);
    let of = |case: Case| all.iter().filter(move |(other, ..)| *other == case);
    let shapes = of(better).flat_map(|(_, group, best)| {
        let others = than
            .iter()
            .flat_map(|case| of(*case))
            .filter(move |(_, other, _)| other == group);
        others.map(move |(_, _, other)| below(best, other))
    });
    let shape = worst_of(shapes)?;
    let shown = all.iter().filter(|(case, ..)| *case == better || than.contains(case));
    Some((shape, words(shown)))
}

/// The one that is named loses more than a little; all others do not.
fn only_loser(rows: &Rows<'_>, of: &LossOf) -> Option<Found> {
    let all = rows.all(of.kind);
    let named = |case: Case, group: Group| group == of.group() && (of.any_case || case == of.case);
    if !all.iter().any(|(case, group, _)| named(*case, *group)) {
        return None;
    }
    let most = (1.0 - LIMITED).recip();
    let shape = |(case, group, ratio): &(Case, Group, Estimate)| {
        let Interval { low, high, method } = ratio.interval;
        let is_loser = match method {
            Method::Range => return Shape::Undecided,
            _ if low > most => true,
            _ if high <= most => false,
            _ => return Shape::Undecided,
        };
        match is_loser == named(*case, *group) {
            true => Shape::Agrees,
            false => Shape::Differs,
        }
    };
    Some((worst_of(all.iter().map(shape))?, words(all.iter())))
}

fn faster_input(rows: &Rows<'_>) -> Option<Found> {
    let alone = |figure| {
        let mut rows = rows.of(Kind::Bonnie, Case::Alone, Group::One(Kind::Bonnie));
        rows.find(|row| row.figure == figure)?.value
    };
    let (input, output) = (alone(Figure::Input)?, alone(Figure::Output)?);
    let shown = |value: Estimate, figure| crate::interference::value(Some(value), figure);
    let words = format!(
        "input {}, output {}",
        shown(input, Figure::Input),
        shown(output, Figure::Output)
    );
    Some((below(&output, &input), words))
}

fn words<'a>(all: impl Iterator<Item = &'a (Case, Group, Estimate)>) -> String {
    let shown = all.map(|(case, group, ratio)| {
        let loss = (ratio.value.recip() - 1.0) * 100.0;
        format!("{} {}: {loss:+.0} %", group.name(), case.name())
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::microservice_interference;
    use crate::interference::{Job, summarise, tests_of};

    /// Linpack in each case of its pairs, how many times as slow as alone, in five blocks.
    fn shapes(profile: Profile, slower: impl Fn(Case, Group) -> f64, id: &str) -> Vec<Shape> {
        let job = |case, group| Job {
            profile,
            runtime: Runtime::Oci,
            case,
            group,
        };
        let of_block = |block: u32| {
            let rate = 1e9 * (1.0 + f64::from(block) / 1e3);
            let alone = tests_of::done(block, job(Case::Alone, Group::One(Kind::Linpack)), &[rate]);
            let groups = [Kind::Linpack, Kind::Stream, Kind::Bonnie].map(|other| Group::Pair(Kind::Linpack, other));
            let pairs = groups.into_iter().flat_map(|group| TOGETHER.map(|case| (case, group)));
            let slower = &slower;
            let pairs = pairs.map(move |(case, group)| {
                let rate = rate / slower(case, group);
                tests_of::done(block, job(case, group), &[rate, rate])
            });
            std::iter::once(alone).chain(pairs).collect::<Vec<_>>()
        };
        let run = tests_of::run((0..5).flat_map(of_block).collect());
        let all = claims_of_interference(&microservice_interference(), &summarise(&run));
        let claim = all.into_iter().find(|claim| claim.id == id).unwrap();
        claim.findings.into_iter().map(|finding| finding.shape).collect()
    }

    #[test]
    fn the_worst_case_is_the_one_that_loses_most_and_another_one_differs() {
        let worst = |case, group| match (case, group) {
            (Case::Unlimited, Group::Pair(_, Kind::Linpack)) => 2.7,
            _ => 1.2,
        };
        assert_eq!(shapes(Profile::Fog, worst, "c1.fog.cpu.worst"), [Shape::Agrees]);
        let other = |case, group| match (case, group) {
            (Case::OneContainer, Group::Pair(_, Kind::Stream)) => 2.7,
            _ => 1.2,
        };
        assert_eq!(shapes(Profile::Fog, other, "c1.fog.cpu.worst"), [Shape::Differs]);
        assert_eq!(shapes(Profile::Edge, other, "c1.edge.cpu.worst"), [Shape::Agrees]);
        assert_eq!(shapes(Profile::Fog, other, "c1.edge.cpu.worst"), [Shape::NotMeasured]);
    }

    #[test]
    fn limits_help_where_each_pair_loses_less_with_them() {
        let helps = |case, _| if case == Case::Limited { 1.1 } else { 1.5 };
        assert_eq!(shapes(Profile::Fog, helps, "c1.fog.cpu.limits"), [Shape::Agrees]);
        let not_all = |case, group| match (case, group) {
            (Case::Limited, Group::Pair(_, Kind::Bonnie)) => 2.0,
            (Case::Limited, _) => 1.1,
            _ => 1.5,
        };
        assert_eq!(shapes(Profile::Fog, not_all, "c1.fog.cpu.limits"), [Shape::Differs]);
    }
}
