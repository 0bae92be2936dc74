//! One HTML file that needs nothing else: no script, no font, no network.

mod balancing;
mod boxes;
mod capacity;
mod distributions;
mod gateway;
mod interference;
mod models;
mod network;
mod page;
mod papers;
mod processing;
mod promises;
mod record;
mod results;
mod simulation;
mod verdicts;

use super::plot::escaped;
use super::sentences::sentences;
use super::{Findings, Summary, words};
use crate::environment::Environment;
use page::Page;

/// The whole page.
pub fn html(findings: &Findings) -> String {
    let mut page = Page::new();
    let title = title(findings);
    head(&mut page, findings, &title);
    promises::section(&mut page, &findings.promises);
    for (number, summary) in findings.experiments.iter().enumerate() {
        if findings.experiments.len() > 1 {
            page.part(number + 1, &words::experiment(summary));
        }
        experiment(&mut page, summary);
    }
    for (number, found) in findings.capacity.iter().enumerate() {
        page.number_ids(number);
        capacity::section(&mut page, found);
    }
    for (number, found) in findings.gateways.iter().enumerate() {
        page.number_ids(number);
        gateway::section(&mut page, found);
    }
    for (number, found) in findings.balancing.iter().enumerate() {
        page.number_ids(number);
        balancing::section(&mut page, found);
    }
    for (number, found) in findings.interference.iter().enumerate() {
        page.number_ids(number);
        interference::section(&mut page, found);
    }
    for (number, found) in findings.processing.iter().enumerate() {
        page.number_ids(number);
        processing::section(&mut page, found);
    }
    for (number, found) in findings.simulations.iter().enumerate() {
        page.number_ids(number);
        simulation::section(&mut page, found);
    }
    for (number, run) in findings.networks.iter().enumerate() {
        page.number_ids(number);
        network::section(&mut page, run);
    }
    page.finish(&format!("Selvedge: {title}"))
}

fn title(findings: &Findings) -> String {
    match (findings.experiments.as_slice(), findings.capacity.as_slice()) {
        ([only], []) => words::experiment(only),
        ([], []) if !findings.gateways.is_empty() => "What containers cost a gateway".to_owned(),
        ([], []) if !findings.balancing.is_empty() => "Which node answers".to_owned(),
        ([], []) if !findings.interference.is_empty() => "Which services may share a board".to_owned(),
        ([], []) if !findings.processing.is_empty() => "What models cost at the edge".to_owned(),
        ([], []) if !findings.simulations.is_empty() => "Which node would answer, simulated".to_owned(),
        ([], []) => "The emulated network".to_owned(),
        ([], _) => "What a broker takes and holds".to_owned(),
        _ => "Round trips and capacity".to_owned(),
    }
}

fn head(page: &mut Page, findings: &Findings, title: &str) {
    let round_trips = findings.experiments.iter().flat_map(|summary| &summary.runs);
    let environments: Vec<&Environment> = round_trips
        .map(|run| &run.environment)
        .chain(findings.capacity.iter().map(|capacity| &capacity.run.environment))
        .chain(findings.gateways.iter().map(|gateway| &gateway.run.environment))
        .chain(findings.balancing.iter().map(|balancing| &balancing.run.environment))
        .chain(
            findings
                .interference
                .iter()
                .map(|interference| &interference.run.environment),
        )
        .chain(findings.processing.iter().map(|processing| &processing.run.environment))
        .chain(
            findings
                .simulations
                .iter()
                .map(|simulation| &simulation.run.environment),
        )
        .chain(findings.networks.iter().map(|run| &run.environment))
        .collect();
    let Some(first) = environments.first() else { return };
    let machine = [first.cpu_model.as_deref(), first.kernel.as_deref()];
    let machine = machine.into_iter().flatten().collect::<Vec<_>>().join(", Linux ");
    let runs = match environments.len() {
        1 => "one run".to_owned(),
        several => format!("{several} runs"),
    };
    page.raw(&format!(
        "<h1>{}</h1><p class=\"soft\">{} on {} CPUs of {}; {runs}, {:.0} s.</p>",
        escaped(title),
        escaped(&first.started_at),
        first.cpus,
        escaped(&machine),
        environments.iter().map(|environment| environment.wall_s).sum::<f64>(),
    ));
    if !environments.iter().all(|environment| environment.optimised) {
        page.raw("<p class=\"alert\">Built without optimisation: these figures say nothing about the program.</p>");
    }
    contents(page, findings);
}

/// Links to what is on the page.
fn contents(page: &mut Page, findings: &Findings) {
    let mut links: Vec<(String, String)> = Vec::new();
    let mut link = |id: &str, name: &str| links.push((id.to_owned(), name.to_owned()));
    if !findings.promises.is_empty() {
        link("promises", "Promises");
    }
    match findings.experiments.as_slice() {
        [_] => page::CONTENTS.iter().for_each(|(id, name)| link(id, name)),
        several => {
            for (number, summary) in several.iter().enumerate() {
                link(&format!("part-{}", number + 1), &words::experiment(summary));
            }
        }
    }
    if !findings.capacity.is_empty() {
        link("capacity", "Capacity");
    }
    if !findings.gateways.is_empty() {
        link("gateway", "Gateway");
    }
    if !findings.balancing.is_empty() {
        link("balancing", "Balancing");
    }
    if !findings.interference.is_empty() {
        link("interference", "Interference");
    }
    if !findings.processing.is_empty() {
        link("processing", "Processing");
    }
    if !findings.simulations.is_empty() {
        link("simulation", "Simulation");
    }
    if !findings.networks.is_empty() {
        link("network", "Network");
    }
    let links = links
        .iter()
        .map(|(id, name)| format!("<a href=\"#{id}\">{}</a> ", escaped(name)));
    page.raw(&format!("<nav>{}</nav>", links.collect::<String>()));
}

fn experiment(page: &mut Page, summary: &Summary) {
    page.heading("short", "In short");
    let item = |line: &String| {
        let alert = if line.starts_with("Invalid") {
            " class=\"invalid\""
        } else {
            ""
        };
        format!("<li{alert}>{}</li>", escaped(line))
    };
    page.raw(&format!(
        "<ul>{}</ul>",
        sentences(summary).iter().map(item).collect::<String>()
    ));
    models::section(page, summary);
    results::sections(page, summary);
    distributions::sections(page, summary);
    verdicts::sections(page, summary);
    papers::section(page, summary);
    record::section(page, summary);
}
