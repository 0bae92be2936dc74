//! The machine, the seeds, and how to run it again (rule 14).

use super::page::{Cell, Page};
use super::words;
use crate::balancing::BalancingRun;
use crate::capacity::CapacityRun;
use crate::environment::Environment;
use crate::gateway::GatewayRun;
use crate::interference::InterferenceRun;
use crate::network::{Counters, NetworkRun, set_against_got};
use crate::processing::ProcessingRun;
use crate::report::{RunFacts, Summary};
use crate::simulation::SimulationRun;

pub(super) fn section(page: &mut Page, summary: &Summary) {
    page.heading("record", "Record and replay");
    page.paragraph("The raw file of each run holds every message. The same options and seed send the same schedule:");
    page.raw("<pre>selvedge evaluate replay RAW.json      # run it again\nselvedge evaluate report RAW.json …   # this report, from one or more raw files</pre>");
    for (number, run) in summary.runs.iter().enumerate() {
        let load = match (run.cells.as_slice(), &run.network) {
            ([one], Some(_)) => format!(": {}", words::cell(one)),
            _ => String::new(),
        };
        let title = format!("Run {} of {}, seed {}{load}", number + 1, summary.runs.len(), run.seed);
        page.folded(&title, number == 0, |page| run_table(page, run));
    }
    lines(page, summary);
    page.paragraph(&format!(
        "Bootstrap: seed {}, {} resamples.",
        summary.judging.seed, summary.judging.resamples
    ));
    if !summary.skipped.is_empty() {
        let rows: Vec<Vec<Cell>> = summary
            .skipped
            .iter()
            .map(|skip| vec![Cell::text(&skip.arm), Cell::text(&skip.reason)])
            .collect();
        page.table("Not measured", &["arm", "reason"], &rows);
    }
}

/// The emulated lines of the models: what was set, what probes got, what became of packets.
fn lines(page: &mut Page, summary: &Summary) {
    let row = |run: &RunFacts| {
        let network = run.network.as_ref()?;
        let carried = network.network.edge_cloud.counters.unwrap_or_default();
        let sum = |of: fn(&Counters) -> u64| words::count(carried.iter().map(of).sum());
        Some(vec![
            Cell::text(run.cells.first().map_or(String::new(), words::cell)),
            Cell::text(set_against_got(network)),
            Cell::number(sum(|way| way.delivered)),
            Cell::number(sum(|way| way.delivered_late)),
            Cell::number(sum(|way| way.dropped_at_queue + way.dropped_on_the_way)),
        ])
    };
    let rows: Vec<Vec<Cell>> = summary.runs.iter().filter_map(row).collect();
    if rows.is_empty() {
        return;
    }
    page.folded("The line between edge and cloud, set against got", false, |page| {
        page.paragraph(
            "Probes from device to cloud and back before each load: what was set, what the emulator added to it. Packets \
             of all arms of the run; late: delivered more than 100 µs after their time.",
        );
        let columns = ["load", "set and got", "packets", "late", "dropped"];
        page.table("", &columns, &rows);
    });
}

fn run_table(page: &mut Page, run: &RunFacts) {
    let rows = vec![
        ("seed of schedules and order", run.seed.to_string()),
        ("hash of the schedules", run.schedule_hash.clone()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

/// The record of a run of capacity.
pub(super) fn capacity(page: &mut Page, run: &CapacityRun) {
    let rows = vec![
        ("seed of the order", run.seed.to_string()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

/// The record of a run of a gateway.
pub(super) fn gateway(page: &mut Page, run: &GatewayRun) {
    let rows = vec![
        ("seed of the order", run.seed.to_string()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

/// The record of a run on which node answers.
pub(super) fn balancing(page: &mut Page, run: &BalancingRun) {
    let rows = vec![
        ("seed of the order", run.seed.to_string()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

/// The record of a run on which services may share a board.
pub(super) fn interference(page: &mut Page, run: &InterferenceRun) {
    let rows = vec![
        ("seed of the order", run.seed.to_string()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
        ("boards", serde_json::to_string(&run.boards).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

/// The record of a run on what models cost at the edge.
pub(super) fn processing(page: &mut Page, run: &ProcessingRun) {
    let rows = vec![
        ("seed of the order", run.seed.to_string()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
        ("board", serde_json::to_string(&run.board).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

/// The record of a simulation.
pub(super) fn simulation(page: &mut Page, run: &SimulationRun) {
    let rows = vec![
        ("seed of all chance", run.seed.to_string()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

/// The record of a run that measured the network.
pub(super) fn network(page: &mut Page, run: &NetworkRun) {
    let rows = vec![
        ("seed of jitter and loss", run.seed.to_string()),
        ("options", serde_json::to_string(&run.options).unwrap_or_default()),
    ];
    environment_table(page, rows, &run.environment);
}

fn environment_table(page: &mut Page, mut rows: Vec<(&'static str, String)>, environment: &Environment) {
    rows.insert(0, ("started", environment.started_at.clone()));
    rows.extend(machine(environment));
    let pairs = |pairs: &[(String, String)]| {
        pairs
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    rows.extend([
        ("versions", pairs(&environment.versions)),
        ("limits of the cgroup", pairs(&environment.cgroup_limits)),
        ("sockets and TCP", pairs(&environment.socket_options)),
        ("hashes of the data", pairs(&environment.data_hashes)),
    ]);
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| vec![Cell::text(name), Cell::text(value)])
        .collect();
    page.table("", &["", ""], &rows);
}

fn machine(environment: &Environment) -> Vec<(&'static str, String)> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (before, after) = (environment.before, environment.after);
    vec![
        (
            "program",
            format!(
                "{}, commit {}",
                environment.program_version,
                environment.program_commit.as_deref().unwrap_or("unknown")
            ),
        ),
        (
            "CPU",
            format!("{} × {}", environment.cpus, text(&environment.cpu_model)),
        ),
        (
            "CPU of the generator",
            environment
                .generator_cpu
                .map_or("not pinned".to_owned(), |cpu| cpu.to_string())
                + if environment.generator_runs_first {
                    ", before all ordinary threads"
                } else {
                    ""
                },
        ),
        (
            "governor, idle driver",
            format!("{} {}", text(&environment.governor), text(&environment.idle_driver)),
        ),
        ("clock", text(&environment.clock_source)),
        ("kernel", text(&environment.kernel)),
        (
            "memory",
            environment
                .memory_bytes
                .map_or(String::new(), |bytes| words::bytes(bytes as f64)),
        ),
        ("queueing on loopback", text(&environment.loopback_qdisc)),
        (
            "load average before, after",
            format!("{:.2}, {:.2}", before.average_1m, after.average_1m),
        ),
        (
            "stolen by the hypervisor",
            format!("{:.2} s", after.steal_s - before.steal_s),
        ),
    ]
}
