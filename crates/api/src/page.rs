//! The text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>).

use std::fmt::{Display, Write};

/// A page of metrics. All names begin with `selvedge_`.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage {
    text: String,
    name: &'static str,
}

impl MetricsPage {
    /// Begins a metric that can go up and down.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &str) -> &mut Self {
        self.begin(name, "gauge", help)
    }

    /// Begins a metric that only grows; its name ends in `_total`.
    pub(crate) fn counter(&mut self, name: &'static str, help: &str) -> &mut Self {
        self.begin(name, "counter", help)
    }

    /// Begins a histogram, of which there are [`MetricsPage::buckets`].
    pub(crate) fn histogram(&mut self, name: &'static str, help: &str) -> &mut Self {
        self.begin(name, "histogram", help)
    }

    /// Of the histogram that was begun last: how many were up to each bound and above the one before, and beyond the
    /// last, and their sum.
    pub(crate) fn buckets(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) {
        let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut all = 0;
        for (bound, count) in bounds.zip(counts) {
            all += count;
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.sample("_bucket", &labels, all);
        }
        self.sample("_sum", labels, sum);
        self.sample("_count", labels, all);
    }

    fn begin(&mut self, name: &'static str, kind: &str, help: &str) -> &mut Self {
        let _ = writeln!(
            self.text,
            "# HELP selvedge_{name} {help}\n# TYPE selvedge_{name} {kind}"
        );
        self.name = name;
        self
    }

    /// A value of the metric that was begun last.
    pub(crate) fn value(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.sample("", labels, value);
        self
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "selvedge_{}{suffix}", self.name);
        for (number, (name, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_help_type_labels_and_values() {
        let mut page = MetricsPage::default();
        page.gauge("connections", "Open connections.")
            .value(&[("shard", "0")], 3);
        page.counter("x_total", "X.")
            .value(&[], 1.5)
            .value(&[("a", "\"\\\n"), ("b", "c")], 2);
        page.histogram("took_seconds", "Took.");
        page.buckets(&[("a", "b")], &[0.5, 1.0], &[2, 0, 1], 4.5);
        let expected = "\
# HELP selvedge_connections Open connections.
# TYPE selvedge_connections gauge
selvedge_connections{shard=\"0\"} 3
# HELP selvedge_x_total X.
# TYPE selvedge_x_total counter
selvedge_x_total 1.5
selvedge_x_total{a=\"\\\"\\\\\\n\",b=\"c\"} 2
# HELP selvedge_took_seconds Took.
# TYPE selvedge_took_seconds histogram
selvedge_took_seconds_bucket{a=\"b\",le=\"0.5\"} 2
selvedge_took_seconds_bucket{a=\"b\",le=\"1\"} 2
selvedge_took_seconds_bucket{a=\"b\",le=\"+Inf\"} 3
selvedge_took_seconds_sum{a=\"b\"} 4.5
selvedge_took_seconds_count{a=\"b\"} 3
";
        assert_eq!(page.into_text(), expected);
    }
}
