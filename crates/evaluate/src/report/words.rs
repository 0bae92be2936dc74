//! Numbers and loads as a person reads them.

use std::time::Duration;

use clap::ValueEnum;

use super::{ArmFacts, ArmResult, Limit, Summary};
use crate::environment::Environment;
use crate::stats::{Comparison, Estimate, Knee, Method, Outcome, Trend, Undecided, Verdict};

pub(crate) use super::load_words::{cell, others, swept, swept_named, swept_value, unusual};

/// Digits in groups of three: `12,000`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|g| std::str::from_utf8(g).unwrap_or(""))
        .collect();
    groups.join(",")
}

/// A number with some three significant digits, never in exponents: `0.85`, `18.4`, `204.7`, `12,345`.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size.is_infinite() => "∞".to_owned(),
        size if size >= 1000.0 => format!("{}{}", if value < 0.0 { "−" } else { "" }, count(size.round() as u64)),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

/// A duration in its unit: `18.4 µs`, `1.23 ms`, `5 s`; `lost` where infinite.
pub(crate) fn duration(us: f64) -> String {
    let (scaled, unit) = match us.abs() {
        size if size.is_infinite() => return "lost".to_owned(),
        size if size >= 1e6 => (us / 1e6, "s"),
        size if size >= 1e3 => (us / 1e3, "ms"),
        size if size < 0.1 && size > 0.0 => (us * 1e3, "ns"),
        _ => (us, "µs"),
    };
    format!("{} {unit}", round(scaled))
}

/// `about 90 s`, `about 12 min`, `about 7 h 20 min`.
pub(crate) fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    let minutes = seconds.div_ceil(60);
    match minutes {
        _ if seconds < 180 => format!("about {seconds} s"),
        0..120 => format!("about {minutes} min"),
        _ => format!("about {} h {} min", minutes / 60, minutes % 60),
    }
}

/// At most three significant digits, no trailing zeros: for values that were set, not measured.
pub(crate) fn round(value: f64) -> String {
    round_to(
        value,
        if value.abs() >= 100.0 {
            0
        } else {
            2 - value.abs().max(1.0).log10().floor() as usize
        },
    )
}

/// At most so many digits behind the point, no trailing zeros.
pub(crate) fn round_to(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A value that was set, such as a tick: `0.5`, `200`, `10,000`.
pub(crate) fn number_set(value: f64) -> String {
    if value >= 1000.0 {
        count(value.round() as u64)
    } else {
        round(value)
    }
}

/// Bytes in decimal units, as the papers count them: `64 B`, `10 kB`.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        size if size >= 1e9 => format!("{} GB", round(size / 1e9)),
        size if size >= 1e6 => format!("{} MB", round(size / 1e6)),
        size if size >= 1e3 => format!("{} kB", round(size / 1e3)),
        _ => format!("{} B", round(bytes)),
    }
}

/// µs of an estimate, or why there is none.
pub(crate) fn micros(estimate: Option<&Estimate>) -> String {
    estimate.map_or_else(|| "too few".to_owned(), |estimate| micros_of(estimate.value))
}

/// µs without the unit; `lost` where infinite.
pub(crate) fn micros_of(us: f64) -> String {
    if us.is_infinite() {
        "lost".to_owned()
    } else {
        number(us)
    }
}

/// `0.85 (0.83…0.87)`.
pub(crate) fn ratio(estimate: &Estimate) -> String {
    let digits = |value: f64| match value {
        _ if value.is_infinite() => "∞".to_owned(),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    format!(
        "{} ({}…{})",
        digits(estimate.value),
        digits(estimate.interval.low),
        digits(estimate.interval.high)
    )
}

/// `+180 µs (150…210)`, all in the unit of the figure.
pub(crate) fn difference(us: &Estimate) -> String {
    let (scale, unit) = if us.value.abs() >= 1e3 {
        (1e3, "ms")
    } else {
        (1.0, "µs")
    };
    let digits = |us: f64| match us / scale {
        value if value.is_infinite() => "∞".to_owned(),
        value if value.abs() >= 100.0 => format!("{value:.0}").replace('-', "−"),
        value => format!("{value:.2}").replace('-', "−"),
    };
    let sign = if us.value >= 0.0 { "+" } else { "" };
    let (value, low, high) = (digits(us.value), digits(us.interval.low), digits(us.interval.high));
    format!("{sign}{value} {unit} ({low}…{high})")
}

/// A ratio and what follows: `0.85 (0.83…0.87) faster`.
pub(crate) fn comparison(comparison: &Comparison) -> String {
    match &comparison.ratio {
        Some(estimate) => format!("{} {}", ratio(estimate), verdict(&comparison.verdict)),
        None => verdict(&comparison.verdict),
    }
}

/// The same of a cost.
pub(crate) fn cost(comparison: &Comparison) -> String {
    let word = cost_verdict(&comparison.verdict);
    match &comparison.ratio {
        Some(estimate) => format!("{} {word}", ratio(estimate)),
        None => word,
    }
}

/// One word, or two, on a cost.
pub(crate) fn cost_verdict(judged: &Verdict) -> String {
    match judged {
        Verdict::Faster => "less".to_owned(),
        Verdict::Slower => "more".to_owned(),
        other => verdict(other),
    }
}

/// One word, or two.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Faster => "faster".to_owned(),
        Verdict::Slower => "slower".to_owned(),
        Verdict::Equivalent { within } => format!("same ±{} %", round(within * 100.0)),
        Verdict::Undecided(Undecided::Invalid) => "invalid".to_owned(),
        Verdict::Undecided(Undecided::TooFewMessages) => "too few messages".to_owned(),
        Verdict::Undecided(_) => "undecided".to_owned(),
    }
}

/// Why a verdict is none, as a clause.
pub(crate) fn why(undecided: Undecided) -> &'static str {
    match undecided {
        Undecided::Invalid => "a sanity law is broken, so there is no result",
        Undecided::TooFewMessages => "too few messages for a 95 % interval",
        Undecided::TooFewBlocks => "fewer than 5 blocks give a range, not a 95 % interval",
        Undecided::LostInBoth => "both lost more than the percentile leaves out",
        Undecided::SendLag => "the generator was late by more than a quarter of the difference",
        Undecided::Interval => "the interval holds 1",
        Undecided::Noise => "the machine differs from itself by as much",
    }
}

/// The same of an aim.
pub(crate) fn aim(undecided: Undecided) -> &'static str {
    match undecided {
        Undecided::Interval => "the interval holds the aim",
        Undecided::Noise => "the machine differs from itself by as much as the figure from the aim",
        Undecided::SendLag => "the generator was late by more than a quarter of the distance to the aim",
        other => why(other),
    }
}

/// What holds an arm up.
pub(crate) fn limit(limit: Limit) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    match limit {
        Limit::Instrument => "the instrument was late".to_owned(),
        Limit::Line(share) => format!("the line is full ({})", percent(share)),
        Limit::Cpu(share) => format!("the servers' CPU is full ({})", percent(share)),
        Limit::Buffering => "messages queue up".to_owned(),
    }
}

/// The first reason why a result is not deterministic, with what holds it up.
pub(crate) fn why_not_deterministic(result: &ArmResult) -> String {
    let judged = &result.determinism;
    let reason = if judged.no_buffering == Outcome::Fail {
        "the round trip rises".to_owned()
    } else if judged.narrow == Outcome::Fail {
        let spread = judged.spread.map_or_else(|| "lost".to_owned(), duration);
        format!("p99 − p50 {spread}")
    } else {
        format!(
            "{} of {} late",
            count(judged.missed as u64),
            count(judged.messages as u64)
        )
    };
    match result.limit() {
        Some(full @ (Limit::Line(_) | Limit::Cpu(_))) => format!("{reason}: {}", limit(full)),
        _ => reason,
    }
}

/// Milliseconds as a duration.
pub(crate) fn millis(ms: f64) -> String {
    duration(ms * 1e3)
}

/// `yes`, `no`, `undecided`.
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "yes",
        Outcome::Fail => "no",
        Outcome::Undecided => "undecided",
    }
}

/// Why a result is or is not deterministic: what fails, or is open, in figures.
pub(crate) fn determinism(result: &ArmResult) -> String {
    let judged = &result.determinism;
    let mut parts = Vec::new();
    match (judged.no_buffering, &result.trend) {
        (Outcome::Fail, Some(trend)) => parts.push(format!("buffers, {}", slope(trend))),
        (Outcome::Pass, _) => parts.push("no trend".to_owned()),
        _ => parts.push("trend unknown".to_owned()),
    }
    let spread = judged.spread.map_or_else(|| "too few messages".to_owned(), duration);
    parts.push(format!("p99 − p50 = {spread}"));
    let (missed, messages) = (count(judged.missed as u64), count(judged.messages as u64));
    parts.push(format!(
        "{missed} of {messages} later than {}",
        duration(result.deadline_us)
    ));
    parts.join("; ")
}

/// A slope with its interval and unit.
pub(crate) fn slope(trend: &Trend) -> String {
    format!("{} ms a message", slope_figures(trend))
}

/// A slope with its interval, in ms a message.
pub(crate) fn slope_figures(trend: &Trend) -> String {
    let ms = |us: f64| {
        if us.is_infinite() {
            "∞".to_owned()
        } else {
            format!("{:+.1e}", us / 1e3)
        }
    };
    let Estimate { value, interval } = trend.slope_per_message;
    format!("{} ({} … {})", ms(value), ms(interval.low), ms(interval.high))
}

/// What was measured, and by which preset.
pub(crate) fn experiment(summary: &Summary) -> String {
    match summary.experiment.as_str() {
        "rtt" => {
            let preset = summary
                .runs
                .first()
                .and_then(|run| run.options.preset().to_possible_value());
            let preset = preset.map_or(String::new(), |preset| format!(", preset {}", preset.get_name()));
            format!("Full-stack round trip{preset}")
        }
        "knee" => "Knee: the highest rate within bounds".to_owned(),
        other => other.to_owned(),
    }
}

/// A knee as the end of a sentence.
pub(crate) fn knee(knee: Option<&Knee>) -> String {
    match knee {
        Some(Knee::At { offered_per_s }) => format!("at {} messages/s", number(*offered_per_s)),
        Some(Knee::NotReached { highest_per_s }) => format!("not reached up to {} messages/s", number(*highest_per_s)),
        Some(Knee::BelowSweep { lowest_per_s }) => {
            format!("below the least load, {} messages/s", number(*lowest_per_s))
        }
        None => "one load only".to_owned(),
    }
}

/// What the interval of a result's figures is, in words.
pub(crate) fn method(summary: &Summary) -> &'static str {
    let results = summary.cells.iter().flat_map(|cell| &cell.arms);
    results
        .filter_map(|result| result.response.p50)
        .next()
        .map_or("", |p50| Method::words(p50.interval.method))
}

/// What of the machine and the program has to be known to read figures.
pub(crate) fn machine(environment: &Environment) -> Vec<String> {
    let (before, after) = (environment.before, environment.after);
    let load = format!(
        "Load of the machine {:.1} before, {:.1} after; {:.1} s stolen by its host.",
        before.average_1m,
        after.average_1m,
        after.steal_s - before.steal_s
    );
    let unoptimised = "This program was built without optimisation: the figures are no results.";
    let unoptimised = (!environment.optimised).then(|| unoptimised.to_owned());
    std::iter::once(load).chain(unoptimised).collect()
}

/// The arm that the others are compared with.
pub(crate) fn baseline(arms: &[ArmFacts]) -> Option<&ArmFacts> {
    arms.iter().find(|arm| arm.baseline)
}

/// `text` in at most `width` characters.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Lines of at most 98 characters after an indent of two, four from the second on.
pub(crate) fn wrapped(text: &str) -> String {
    let (mut out, mut line) = (String::new(), String::from(" "));
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > 100 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_three() {
        assert_eq!(
            [0, 999, 1000, 12_000, 1_204_118].map(count),
            ["0", "999", "1,000", "12,000", "1,204,118"]
        );
    }

    #[test]
    fn numbers_have_three_digits_that_matter() {
        let found = [0.851, 18.43, 204.71, 12_345.6, 0.000_31, 0.0, f64::INFINITY].map(number);
        assert_eq!(found, ["0.85", "18.4", "204.7", "12,346", "3.1e-4", "0.00", "∞"]);
    }

    #[test]
    fn durations_choose_their_unit() {
        let found = [0.02, 250.0, 1500.0, 10_000.0, 5_000_000.0, 204.71, f64::INFINITY].map(duration);
        assert_eq!(found, ["20 ns", "250 µs", "1.5 ms", "10 ms", "5 s", "205 µs", "lost"]);
    }

    #[test]
    fn bytes_are_decimal_as_in_the_papers() {
        assert_eq!(
            [64.0, 10_000.0, 250_000.0, 5e6].map(bytes),
            ["64 B", "10 kB", "250 kB", "5 MB"]
        );
    }

    #[test]
    fn long_labels_are_cut_with_an_ellipsis() {
        assert_eq!(shortened("mosquitto", 9), "mosquitto");
        assert_eq!(shortened("mosquitto", 5), "mosq…");
    }
}
