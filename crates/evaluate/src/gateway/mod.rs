//! What containers cost a gateway, and what it costs to run them only on demand: the gateway-as-a-service paper's two
//! evaluations, and the latency of activation that it does not give.
//!
//! What is measured is the program by its commands, its doors and what `/proc` says of its processes, beside the same
//! image run by `docker`, by bare `runc`, and as a program of the host. The arms of each task interleave in blocks of a
//! seeded random order (rule 9).

mod activation;
mod ask;
mod bare;
mod burst;
mod carrier;
mod cells;
mod cost;
mod curves;
mod day;
mod edge;
mod engine;
mod experiment;
mod footprint;
mod manifests;
mod options;
mod power;
mod record;
mod site;
mod summary;
mod table;
mod taken;
mod throughput;
mod work;

pub(crate) use carrier::{Carried, Carrier, Load};
pub(crate) use cells::cells;
pub(crate) use cost::{Native, add_file};
pub(crate) use curves::{ANSWERING, Curve, day_memory, first_requests, work_cpu, work_memory};
pub(crate) use day::day_by_steps;
pub(crate) use edge::Edge;
pub(crate) use experiment::left;
pub use experiment::{estimate, run};
pub use options::{Options, Part, Runtime};
pub(crate) use record::FORMAT;
pub use record::{About, Arm, Benchmark, DayTraffic, Figure, GatewayRun, Job, Mode, Sample, Task};
pub(crate) use site::{Site, found};
#[cfg(test)]
pub(crate) use summary::every_label;
pub use summary::{Aim, Row, Verdict, summarise};
pub use table::table;
pub(crate) use table::{aimed, notes, with_interval};

/// What [`GatewayRun::experiment`] says.
pub(crate) const EXPERIMENT: &str = "gateway";
