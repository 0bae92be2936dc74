//! The terminal table: within 100 columns (rule 15); and in words what follows.

use std::fmt::Write as _;

use super::board::{Profile, rule};
use super::cells::cells;
use super::options::Part;
use super::record::{Case, Figure, Group, InterferenceRun, Kind};
use super::summary::{Advice, Beside, HubRow, LOSS_MOST, Row, Sharing, Summary};
use crate::gateway::Runtime;
use crate::report::words;
use crate::stats::{Comparison, Estimate, Verdict};

/// Every figure, what follows, then what has to be known to read it.
pub fn table(run: &InterferenceRun, found: &Summary) -> String {
    let mut out = String::new();
    for (profile, runtime) in places(run) {
        for kind in Kind::ALL {
            for figure in kind.figures() {
                figures(&mut out, found, (profile, runtime), (kind, *figure));
            }
        }
        hub(&mut out, found, (profile, runtime));
        let matrix = sharing_words(found, (profile, runtime));
        if !matrix.is_empty() {
            let _ = writeln!(
                out,
                "  What may share the board ({}, {})",
                profile.name(),
                runtime.name()
            );
            matrix.iter().for_each(|line| out.push_str(&words::wrapped(line)));
            out.push('\n');
        }
    }
    for (question, answer) in questions(found) {
        out.push_str(&words::wrapped(&format!("{question} {answer}")));
    }
    out.push('\n');
    for note in notes(run) {
        out.push_str(&words::wrapped(&note));
    }
    let cells = cells(run);
    out.push_str(&words::wrapped(&cells.heading));
    for line in &cells.lines {
        out.push_str(&words::wrapped(&format!("  {line}")));
    }
    out
}

/// Boards and runtimes of a run.
pub(crate) fn places(run: &InterferenceRun) -> Vec<(Profile, Runtime)> {
    let profiles = run.options.profiles.iter();
    profiles
        .flat_map(|profile| run.options.runtimes.iter().map(|runtime| (*profile, *runtime)))
        .collect()
}

/// A line for each group that has the service, a column for each case.
fn figures(out: &mut String, found: &Summary, place: (Profile, Runtime), (kind, figure): (Kind, Figure)) {
    let rows: Vec<&Row> = rows_of(found, place, (kind, figure)).collect();
    let Some(alone) = rows.iter().find(|row| row.job.case == Case::Alone) else {
        return;
    };
    let again = rows.iter().find(|row| row.job.case == Case::AloneAgain);
    let again = again
        .and_then(|row| row.slower)
        .map_or(String::new(), |again| format!(", again {}", lost(&again)));
    let _ = writeln!(
        out,
        "  {}, {} ({}, {}): {} alone{again}",
        kind.name(),
        figure.name(),
        place.0.name(),
        place.1.name(),
        value(alone.value, figure),
    );
    let cases: Vec<Case> = Case::ALL
        .into_iter()
        .filter(|case| *case != Case::Alone && rows.iter().any(|row| row.job.case == *case))
        .collect();
    let columns = cases.iter().map(|case| format!("{:<27}", case.name()));
    let _ = writeln!(
        out,
        "  {}",
        format!("{:<6}{}", "", columns.collect::<String>()).trim_end()
    );
    for group in groups(&rows) {
        let cell = |case: &Case| {
            let row = rows.iter().find(|row| row.job.case == *case && row.job.group == group);
            let slower = row.and_then(|row| row.slower);
            format!("{:<27}", slower.map_or_else(|| "–".to_owned(), |slower| lost(&slower)))
        };
        let line = format!("{:<6}{}", group.name(), cases.iter().map(cell).collect::<String>());
        let _ = writeln!(out, "  {}", line.trim_end());
    }
    out.push('\n');
}

/// Rows of one figure.
pub(crate) fn rows_of(
    found: &Summary,
    (profile, runtime): (Profile, Runtime),
    (kind, figure): (Kind, Figure),
) -> impl Iterator<Item = &Row> {
    found.rows.iter().filter(move |row| {
        (row.job.profile, row.job.runtime) == (profile, runtime) && (row.kind, row.figure) == (kind, figure)
    })
}

fn groups(rows: &[&Row]) -> Vec<Group> {
    let mut all: Vec<Group> = Vec::new();
    for row in rows {
        if matches!(row.job.group, Group::Pair(..)) && !all.contains(&row.job.group) {
            all.push(row.job.group);
        }
    }
    all
}

/// `3.42 GFLOPS (3.40…3.45)`.
pub(crate) fn value(value: Option<Estimate>, figure: Figure) -> String {
    let Some(Estimate { value, interval }) = value else {
        return "too short to be timed".to_owned();
    };
    let (unit, scale) = match figure {
        Figure::Flops => ("GFLOPS", 1e9),
        Figure::Seeks => ("places/s", 1.0),
        _ if value >= 1e9 => ("GB/s", 1e9),
        _ => ("MB/s", 1e6),
    };
    let [value, low, high] = [value, interval.low, interval.high].map(|one| words::number_set(one / scale));
    if low == high {
        return format!("{value} {unit}");
    }
    format!("{value} {unit} ({low}…{high})")
}

/// What is lost beside case 1: `−41 % (−44…−38)`.
pub(crate) fn lost(slower: &Comparison) -> String {
    let Some(Estimate { value, interval }) = slower.ratio else {
        return "–".to_owned();
    };
    let percent = |slower: f64| {
        let percent = ((slower.recip() - 1.0) * 100.0).round();
        match percent {
            _ if percent == 0.0 => "0".to_owned(),
            _ if percent < 0.0 => format!("−{}", -percent),
            _ => format!("+{percent}"),
        }
    };
    // What is slowest has lost most.
    let [value, low, high] = [value, interval.high, interval.low].map(percent);
    if low == high {
        return format!("{value} %");
    }
    format!("{value} % ({low}…{high})")
}

fn hub(out: &mut String, found: &Summary, (profile, runtime): (Profile, Runtime)) {
    let mut rows = found
        .hub
        .iter()
        .filter(|row| (row.job.profile, row.job.runtime) == (profile, runtime))
        .peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = writeln!(
        out,
        "  The hub, round trip of a device every 10 ms ({}, {})\n  {:<22}{:>12}{:>12}  {:<25}{:>10}",
        profile.name(),
        runtime.name(),
        "",
        "p50 µs",
        "p99 µs",
        "p99 × alone",
        "lost"
    );
    for row in rows {
        let [label, p50, p99, times, lost] = hub_cells(row);
        let _ = writeln!(out, "  {label:<22}{p50:>12}{p99:>12}  {times:<25}{lost:>10}");
    }
    out.push('\n');
}

/// Label, p50, p99, how many times p99 is that alone, and what was lost.
pub(crate) fn hub_cells(row: &HubRow) -> [String; 5] {
    let label = match row.job.group {
        Group::HubBeside(kind) if row.job.case == Case::Limited => format!("{}, with limits", kind.name()),
        Group::HubBeside(kind) => kind.name().to_owned(),
        _ if row.job.case == Case::AloneAgain => "alone, again".to_owned(),
        _ => "alone".to_owned(),
    };
    let times = row.slower.and_then(|slower| slower.ratio);
    [
        label,
        words::micros(row.p50_us.as_ref()),
        words::micros(row.p99_us.as_ref()),
        times.as_ref().map_or(String::new(), words::ratio),
        format!(
            "{} of {}",
            words::count(row.lost as u64),
            words::count(row.messages as u64)
        ),
    ]
}

/// A line for each pair of a board and a runtime.
pub(crate) fn sharing_words(found: &Summary, (profile, runtime): (Profile, Runtime)) -> Vec<String> {
    let all = found.sharing.iter();
    let ours = all.filter(|one| (one.profile, one.runtime) == (profile, runtime));
    ours.map(one_sharing).collect()
}

fn one_sharing(sharing: &Sharing) -> String {
    let loses = |worst: Option<(Kind, Figure, Estimate)>, how: &str| {
        worst.map(|(kind, figure, ratio)| {
            format!(
                "{how} {} ({}) {}",
                kind.name(),
                figure.name(),
                lost(&Comparison {
                    ratio: Some(ratio),
                    verdict: Verdict::Slower,
                })
            )
        })
    };
    let worst = [
        loses(sharing.unlimited, "without limits"),
        loses(sharing.limited, "with limits"),
    ];
    let worst: Vec<String> = worst.into_iter().flatten().collect();
    format!(
        "  {}: {}{}; at worst {}.",
        sharing.group.name(),
        advice(sharing.advice),
        if sharing.is_sure { "" } else { ", by the medians alone" },
        worst.join(", ")
    )
}

/// In words.
pub(crate) fn advice(advice: Advice) -> &'static str {
    match advice {
        Advice::Together => "go together",
        Advice::WithLimits => "go together with limits",
        Advice::Apart => "are better apart",
    }
}

/// The paper's three questions, each with what this run says to it.
pub(crate) fn questions(found: &Summary) -> Vec<(&'static str, String)> {
    vec![
        (
            "Several services in one container, as far as performance goes, and which?",
            one_container(found),
        ),
        (
            "Is interference at the edge another than in the fog?",
            edge_and_fog(found),
        ),
        (
            "What does one service a container, with limits, gain or cost where resources are short?",
            counted(
                &found.limits,
                "with limits, each in its own container, beside one container without",
            ),
        ),
    ]
}

const NOT_MEASURED: &str = "Not measured in this run.";

fn one_container(found: &Summary) -> String {
    let together: Vec<String> = found
        .sharing
        .iter()
        .filter(|one| one.advice == Advice::Together)
        .map(|one| format!("{} ({}, {})", one.group.name(), one.profile.name(), one.runtime.name()))
        .collect();
    let beside = counted(&found.one_container, "in one container beside containers of their own");
    let together = match (&found.sharing[..], &together[..]) {
        ([], _) => return beside,
        (_, []) => "no pair".to_owned(),
        (_, all) => all.join(", "),
    };
    format!(
        "{beside} Together without limits, losing no more than {:.0} % each, by the medians: {together}.",
        LOSS_MOST * 100.0
    )
}

/// How many figures are the same, slower, faster.
fn counted(all: &[Beside], what: &str) -> String {
    if all.is_empty() {
        return NOT_MEASURED.to_owned();
    }
    let of = |is: fn(&Verdict) -> bool| -> Vec<String> {
        let those = all.iter().filter(|one| is(&one.slower.verdict));
        those.map(named).collect()
    };
    let same = of(|verdict| matches!(verdict, Verdict::Equivalent { .. })).len();
    let (slower, faster) = (
        of(|verdict| *verdict == Verdict::Slower),
        of(|verdict| *verdict == Verdict::Faster),
    );
    let undecided = of(|verdict| matches!(verdict, Verdict::Undecided(_))).len();
    let listed = |names: Vec<String>| match names.is_empty() {
        true => String::new(),
        false => format!(" ({})", names.join(", ")),
    };
    format!(
        "Of {} figures of services {what}: {same} the same within 5 %, {} slower{}, {} faster{}, {undecided} undecided.",
        all.len(),
        slower.len(),
        listed(slower),
        faster.len(),
        listed(faster),
    )
}

fn named(beside: &Beside) -> String {
    format!(
        "{} of {} {}/{} {}",
        beside.figure.name(),
        beside.job.group.name(),
        beside.job.profile.name(),
        beside.job.runtime.name(),
        lost(&beside.slower)
    )
}

fn edge_and_fog(found: &Summary) -> String {
    let (mut alike, mut apart) = (0, Vec::new());
    for fog in found.rows.iter().filter(|row| row.job.profile == Profile::Fog) {
        let of_edge = |row: &&Row| {
            let same_job = super::Job {
                profile: Profile::Edge,
                ..fog.job
            };
            row.job == same_job && (row.kind, row.figure) == (fog.kind, fog.figure)
        };
        let is_pair = matches!(fog.job.group, Group::Pair(..)) && fog.kind.shown().contains(&fog.figure);
        let Some(edge) = found.rows.iter().find(of_edge).filter(|_| is_pair) else {
            continue;
        };
        let (Some(here), Some(there)) = (
            fog.slower.and_then(|one| one.ratio),
            edge.slower.and_then(|one| one.ratio),
        ) else {
            continue;
        };
        if here.interval.low <= there.interval.high && there.interval.low <= here.interval.high {
            alike += 1;
            continue;
        }
        apart.push(format!(
            "{} of {}, {}, {}: fog {}, edge {}",
            fog.figure.name(),
            fog.job.group.name(),
            fog.job.case.name(),
            fog.job.runtime.name(),
            fog.slower.as_ref().map(lost).unwrap_or_default(),
            edge.slower.as_ref().map(lost).unwrap_or_default()
        ));
    }
    match (alike, apart.len()) {
        (0, 0) => NOT_MEASURED.to_owned(),
        (alike, 0) => format!("All {alike} figures lose alike on both boards, as far as their intervals tell."),
        (alike, count) => format!(
            "In {count} figures the intervals of what is lost lie apart, in {alike} they do not: {}.",
            apart.join("; ")
        ),
    }
}

/// What has to be known to read the figures.
pub(crate) fn notes(run: &InterferenceRun) -> Vec<String> {
    let options = &run.options;
    let about = |program: &crate::gateway::About| format!("{}: {}.", program.version, program.settings);
    let mut notes: Vec<String> = run.programs.iter().map(about).collect();
    notes.push(format!(
        "{} blocks in random order, seed {}; per cent: less or more than in case 1 of the same block. Closed loop: each service does \
         its work again and again for {} s at least, while the other does. Case 1: alone, with limits; 2: both in one container \
         without limits; 3: each in its own without; 4: each in its own with limits.",
        options.blocks, run.seed, options.measure_s
    ));
    notes.push(rule());
    notes.extend(run.boards.iter().map(|board| format!("{}.", board.words())));
    if options.divisor > 1 {
        notes.push(format!(
            "Sizes are 1/{} of what the rule asks for: to see that it works, not to be compared.",
            options.divisor
        ));
    }
    notes.push(
        "Linpack is of our own, blocked LU with partial pivoting, each solution checked by its residual as HPL has it; STREAM's four \
         kernels, checked by what the arrays hold; Bonnie++ of Debian, a phase of less than half a second is no figure."
            .to_owned(),
    );
    if options.parts.contains(&Part::Hub) {
        notes.push(
            "The hub: open loop, a device's message every 10 ms (64 bytes, QoS 1) to an application and back, as it was due \
             (response time); device and application run before all others, as elsewhere they would not wait for this machine. \
             No answer in 2 s is lost. The hub itself is not in the board's control group."
                .to_owned(),
        );
    }
    notes.extend(words::machine(&run.environment));
    notes.extend(run.skipped.iter().map(|skipped| format!("Not measured: {skipped}")));
    notes
}

#[cfg(test)]
mod tests {
    use super::super::summary::summarise;
    use super::super::summary::tests::{done, run};
    use super::*;
    use crate::interference::Job;

    fn two_blocks() -> InterferenceRun {
        let job = |case, group| Job {
            profile: Profile::Fog,
            runtime: Runtime::Oci,
            case,
            group,
        };
        let both = Group::Pair(Kind::Linpack, Kind::Bonnie);
        let of_block = |block: u32| {
            [
                done(block, job(Case::Alone, Group::One(Kind::Linpack)), &[2e9]),
                done(block, job(Case::Alone, Group::One(Kind::Bonnie)), &[1e8]),
                done(block, job(Case::Unlimited, both), &[1e9, 1.1e8]),
                done(block, job(Case::Limited, both), &[1.96e9, 0.99e8]),
            ]
        };
        run((0..2).flat_map(of_block).collect())
    }

    #[test]
    fn the_table_fits_a_terminal_and_says_what_is_lost_and_which_pair_needs_limits() {
        let run = two_blocks();
        let text = table(&run, &summarise(&run));
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{text}");
        assert!(text.contains("Linpack, solving (fog, oci): 2 GFLOPS alone"), "{text}");
        assert!(text.contains("L+B   −50 %"), "{text}");
        assert!(
            text.contains("L+B: go together with limits, by the medians alone"),
            "{text}"
        );
    }

    #[test]
    fn more_and_less_have_their_signs_and_a_range_goes_from_the_most_that_is_lost() {
        let slower = |value, low, high| Comparison {
            ratio: Some(Estimate {
                value,
                interval: crate::stats::Interval {
                    low,
                    high,
                    method: crate::stats::Method::Range,
                },
            }),
            verdict: Verdict::Slower,
        };
        assert_eq!(lost(&slower(2.0, 1.6, 2.5)), "−50 % (−60…−38)");
        assert_eq!(lost(&slower(0.5, 0.5, 0.5)), "+100 %");
        assert_eq!(lost(&slower(1.001, 1.001, 1.001)), "0 %");
    }
}
