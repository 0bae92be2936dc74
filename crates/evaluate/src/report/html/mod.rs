//! One HTML file that needs nothing else: no script, no font, no network.

mod distributions;
mod page;
mod papers;
mod record;
mod results;
mod verdicts;

use super::plot::escaped;
use super::sentences::sentences;
use super::{Summary, words};

/// The whole page.
pub fn html(summary: &Summary) -> String {
    let mut page = page::Page::new();
    page.raw(&head(summary));
    results::sections(&mut page, summary);
    distributions::sections(&mut page, summary);
    verdicts::sections(&mut page, summary);
    papers::section(&mut page, summary);
    record::section(&mut page, summary);
    page.finish(&format!("Selvedge: {}", title(summary)))
}

fn title(summary: &Summary) -> &str {
    match summary.experiment.as_str() {
        "rtt" => "Full-stack round trip, device → hub → application → hub → device",
        other => other,
    }
}

fn head(summary: &Summary) -> String {
    let environment = &summary.runs[0].environment;
    let machine = [environment.cpu_model.as_deref(), environment.kernel.as_deref()];
    let machine = machine.into_iter().flatten().collect::<Vec<_>>().join(", Linux ");
    let runs = if summary.runs.len() == 1 {
        "one run".to_owned()
    } else {
        format!("{} runs", summary.runs.len())
    };
    let mut out = format!(
        "<h1>{}</h1><p class=\"soft\">{} on {} CPUs of {}; {runs}, {:.0} s.</p>",
        escaped(title(summary)),
        escaped(&environment.started_at),
        environment.cpus,
        escaped(&machine),
        summary.runs.iter().map(|run| run.environment.wall_s).sum::<f64>(),
    );
    if !summary.runs.iter().all(|run| run.environment.optimised) {
        out.push_str("<p class=\"alert\">Built without optimisation: these figures say nothing about the program.</p>");
    }
    out.push_str("<nav>");
    for (id, name) in page::CONTENTS {
        out.push_str(&format!("<a href=\"#{id}\">{name}</a> "));
    }
    out.push_str("</nav><h2 id=\"short\">In short</h2><ul>");
    for line in sentences(summary) {
        let alert = if line.starts_with("Invalid") {
            " class=\"invalid\""
        } else {
            ""
        };
        out.push_str(&format!("<li{alert}>{}</li>", escaped(&line)));
    }
    out.push_str("</ul>");
    out
}
