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
        let _ = write!(self.text, "selvedge_{}", self.name);
        for (number, (name, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
        self
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
        let expected = "\
# HELP selvedge_connections Open connections.
# TYPE selvedge_connections gauge
selvedge_connections{shard=\"0\"} 3
# HELP selvedge_x_total X.
# TYPE selvedge_x_total counter
selvedge_x_total 1.5
selvedge_x_total{a=\"\\\"\\\\\\n\",b=\"c\"} 2
";
        assert_eq!(page.into_text(), expected);
    }
}
